//! Families of models: their makers, their limits, which of two is newer.

/// What kind of model an id names. Decides how efforts are spelled on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Claude,
    Gpt,
    Gemini,
    Grok,
    Kimi,
    Glm,
    Composer,
    /// The backend chooses.
    Auto,
    Other,
}

/// Tokens of the input, tokens of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenLimits {
    pub(super) context: u32,
    pub(super) output: u32,
}

const DEFAULT_CONTEXT: u32 = 200_000;
const DEFAULT_OUTPUT: u32 = 32_000;
const LARGE_OUTPUT: u32 = 64_000;

/// Context without max mode. The longest matching prefix wins.
const CONTEXT: &[(&str, u32)] = &[
    ("claude-", 200_000),
    ("claude-fable-5", 300_000),
    ("claude-opus-4-7", 300_000),
    ("claude-opus-4-8", 300_000),
    ("claude-opus-5", 300_000),
    ("composer-", 200_000),
    ("default", 200_000),
    ("auto", 200_000),
    ("gpt-5-mini", 272_000),
    ("gpt-5.", 272_000),
    ("grok-4.5", 256_000),
    ("grok-code-fast-1", 128_000),
    ("gemini-", 200_000),
    ("glm-5.2", 200_000),
];

/// Models that write longer answers than the default.
const OUTPUT: &[(&str, u32)] = &[
    ("claude-fable-5", LARGE_OUTPUT),
    ("claude-opus-4-7", LARGE_OUTPUT),
    ("claude-opus-4-8", LARGE_OUTPUT),
    ("claude-opus-5", LARGE_OUTPUT),
    ("gpt-5.5", LARGE_OUTPUT),
    ("gpt-5.6-sol", LARGE_OUTPUT),
];

impl Family {
    #[must_use]
    pub fn of(id: &str) -> Self {
        let id = id.strip_prefix("cursor-").unwrap_or(id);
        let starts = |words: &[&str]| words.iter().any(|word| id.starts_with(word));
        if starts(&["claude", "sonnet", "opus", "haiku", "fable"]) {
            Self::Claude
        } else if starts(&["gpt", "chatgpt", "codex"]) || is_o_series(id) {
            Self::Gpt
        } else if starts(&["gemini"]) {
            Self::Gemini
        } else if starts(&["grok"]) {
            Self::Grok
        } else if starts(&["kimi"]) {
            Self::Kimi
        } else if starts(&["glm"]) {
            Self::Glm
        } else if starts(&["composer"]) {
            Self::Composer
        } else if id == "default" || starts(&["auto"]) {
            Self::Auto
        } else {
            Self::Other
        }
    }

    /// The `owned_by` of a model list.
    #[must_use]
    pub fn owner(self) -> &'static str {
        match self {
            Self::Claude => "anthropic",
            Self::Gpt => "openai",
            Self::Gemini => "google",
            Self::Grok => "xai",
            Self::Kimi => "moonshotai",
            Self::Glm => "zai",
            Self::Composer | Self::Auto | Self::Other => "cursor",
        }
    }

    /// What this family calls the effort when the list does not say.
    pub(super) fn effort_parameter(self) -> &'static str {
        match self {
            Self::Gpt | Self::Grok => "reasoning",
            Self::Claude
            | Self::Gemini
            | Self::Kimi
            | Self::Glm
            | Self::Composer
            | Self::Auto
            | Self::Other => "effort",
        }
    }
}

/// `o1`, `o3-mini` and the like.
fn is_o_series(id: &str) -> bool {
    let mut chars = id.chars();
    chars.next() == Some('o')
        && chars.next().is_some_and(|c| c.is_ascii_digit())
        && chars.next().is_none_or(|c| c == '-')
}

pub(super) fn limits(id: &str) -> TokenLimits {
    TokenLimits {
        context: longest_prefix(CONTEXT, id).unwrap_or(DEFAULT_CONTEXT),
        output: longest_prefix(OUTPUT, id).unwrap_or(DEFAULT_OUTPUT),
    }
}

fn longest_prefix(table: &[(&str, u32)], id: &str) -> Option<u32> {
    table
        .iter()
        .filter(|(prefix, _)| id.starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len())
        .map(|(_, value)| *value)
}

/// The version inside an id: `claude-opus-4-8` and `claude-4.8-opus` are both 4.8.
/// Dates such as `20250929` are not versions.
pub(super) fn version(id: &str) -> Vec<u32> {
    id.split(['-', '.'])
        .filter_map(|word| {
            let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let digits = digits.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            digits.parse().ok().filter(|number| *number < 1000)
        })
        .collect()
}
