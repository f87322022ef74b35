//! The mode in which a model works, as clients ask for it.

use crate::error::{ErrorCode, TurnError};

/// What the model may do about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentMode {
    /// Anything that its tools can do.
    #[default]
    Agent,
    /// Answer, and change nothing.
    Ask,
    /// Look around, and present a plan.
    Plan,
}

/// What a request asks for beside its mode of thinking: each part only where the client said it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunModes {
    pub mode: Option<AgentMode>,
    /// The model's maximum mode: a longer context, at a higher price.
    pub max: Option<bool>,
}

/// What [`RunModes::parse`] accepts, for messages.
pub const MODE_WORDS: &str = "`agent`, `ask` or `plan`, and `max`, separated by commas";

impl AgentMode {
    pub const ALL: [Self; 3] = [Self::Agent, Self::Ask, Self::Plan];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Ask => "ask",
            Self::Plan => "plan",
        }
    }

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }

    /// What the model is told about it; `None` for the usual mode.
    #[must_use]
    pub const fn instructions(self) -> Option<&'static str> {
        match self {
            Self::Agent => None,
            Self::Ask => Some(
                "This conversation is in ask mode: answer the user's questions. You may read, but \
                 you must not change files, run commands that change something, or start work \
                 that was not asked for.",
            ),
            Self::Plan => Some(
                "This conversation is in plan mode: find out what you need with tools that only \
                 read, and then present a plan as text. Change nothing until the user leaves plan \
                 mode.",
            ),
        }
    }
}

impl RunModes {
    /// Reads words such as `plan`, `max` or `max=false`, separated by commas. `None` if one of
    /// them is unknown, or if two contradict each other.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut modes = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if !modes.set(name.trim(), value.trim())? {
                let mode = AgentMode::from_name(word)?;
                modes.set_mode(mode)?;
            }
        }
        Some(modes)
    }

    /// What the brackets behind a model's name ask for: `gpt-5.5[mode=plan,max=true]`.
    ///
    /// # Errors
    /// `InvalidValue`: a value is unknown.
    pub fn of_model_name(name: &str) -> Result<Self, TurnError> {
        let mut modes = Self::default();
        let inside = name.trim().strip_suffix(']').and_then(|rest| rest.split_once('['));
        for word in inside.map_or("", |(_, inside)| inside).split(',') {
            let Some((id, value)) = word.split_once('=') else { continue };
            if modes.set(id.trim(), value.trim()).is_none() {
                let text = format!(
                    "`{}` in the model name is not valid: `mode` is `agent`, `ask` or `plan`, and \
                     `max` is `true` or `false`",
                    word.trim()
                );
                return Err(TurnError::new(ErrorCode::InvalidValue, text).param("model"));
            }
        }
        Ok(modes)
    }

    /// Whether brackets behind a model's name use this word for a mode, not for a parameter.
    #[must_use]
    pub fn is_name(id: &str) -> bool {
        matches!(id, "mode" | "max")
    }

    /// `self` where it says something, `weaker` elsewhere.
    #[must_use]
    pub fn or(self, weaker: Self) -> Self {
        Self { mode: self.mode.or(weaker.mode), max: self.max.or(weaker.max) }
    }

    /// The names of what is asked for and is not the usual way, as `x-ibeam-controls` lists them.
    pub fn named(self) -> impl Iterator<Item = &'static str> {
        let mode = self.mode.filter(|mode| *mode != AgentMode::default()).map(|_| "mode");
        let max = self.max.filter(|max| *max).map(|_| "max");
        mode.into_iter().chain(max)
    }

    /// Gives whether the word is one of these; `None` if its value is not.
    fn set(&mut self, name: &str, value: &str) -> Option<bool> {
        match name {
            "mode" => self.set_mode(AgentMode::from_name(value)?)?,
            "max" => {
                let max = match value {
                    "" | "true" | "on" | "1" => true,
                    "false" | "off" | "0" => false,
                    _ => return None,
                };
                if self.max.is_some_and(|other| other != max) {
                    return None;
                }
                self.max = Some(max);
            }
            _ => return Some(false),
        }
        Some(true)
    }

    fn set_mode(&mut self, mode: AgentMode) -> Option<()> {
        let fits = self.mode.is_none_or(|other| other == mode);
        self.mode = Some(mode);
        fits.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(mode: Option<AgentMode>, max: Option<bool>) -> RunModes {
        RunModes { mode, max }
    }

    #[test]
    fn modes_are_read_from_words() {
        use AgentMode::{Agent, Ask, Plan};
        for (text, want) in [
            ("", Some(modes(None, None))),
            ("plan", Some(modes(Some(Plan), None))),
            (" Ask ", Some(modes(Some(Ask), None))),
            ("mode=agent", Some(modes(Some(Agent), None))),
            ("plan, max", Some(modes(Some(Plan), Some(true)))),
            ("max=false", Some(modes(None, Some(false)))),
            ("plan,plan", Some(modes(Some(Plan), None))),
            ("plan,ask", None),
            ("max,max=off", None),
            ("max=maybe", None),
            ("debug", None),
            ("mode=", None),
        ] {
            assert_eq!(RunModes::parse(text), want, "{text}");
        }
    }

    #[test]
    fn modes_are_read_from_the_brackets_of_a_model_name() {
        let of = |name| RunModes::of_model_name(name).ok();
        assert_eq!(of("gpt-5.5"), Some(RunModes::default()));
        assert_eq!(of("gpt-5.5[fast=true]"), Some(RunModes::default()));
        let both = modes(Some(AgentMode::Plan), Some(true));
        assert_eq!(of("gpt-5.5[fast=true, mode=plan,max=true]"), Some(both));
        for wrong in ["auto[mode=debug]", "auto[max=2]", "auto[mode=ask,mode=plan]"] {
            let error = RunModes::of_model_name(wrong).unwrap_err();
            assert_eq!(
                (error.code, error.param.as_deref()),
                (ErrorCode::InvalidValue, Some("model"))
            );
        }
    }

    #[test]
    fn only_what_differs_from_the_usual_way_is_named() {
        let named = |modes: RunModes| modes.named().collect::<Vec<_>>();
        assert_eq!(named(modes(Some(AgentMode::Agent), Some(false))), [] as [&str; 0]);
        assert_eq!(named(modes(Some(AgentMode::Ask), Some(true))), ["mode", "max"]);
        let stronger = modes(None, Some(false)).or(modes(Some(AgentMode::Ask), Some(true)));
        assert_eq!(stronger, modes(Some(AgentMode::Ask), Some(false)));
    }
}
