//! Thinking that leaks into the answer as tags. Some models write
//! `<think>…</think>` into their text; clients want that as reasoning.
//!
//! A tag only counts where an answer or a line begins: an answer that talks
//! *about* such tags keeps them.

/// The tags seen in the wild.
pub(crate) const TAGS: [&str; 5] = ["think", "thinking", "reasoning", "thought", "think_intent"];

/// A piece of the answer, on the right side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThinkPiece {
    Text(String),
    Reasoning(String),
}

/// Splits streamed text. What might be the start of a tag waits for the rest.
#[derive(Debug)]
pub(crate) struct ThinkTags {
    /// The tag we are inside of.
    inside: Option<&'static str>,
    /// Whether the next character is the first of the answer or of a line.
    line_start: bool,
    held: String,
}

impl Default for ThinkTags {
    fn default() -> Self {
        Self { inside: None, line_start: true, held: String::new() }
    }
}

impl ThinkTags {
    /// Takes a delta and gives what is certain. The common case, text without a
    /// `<`, passes through without a copy.
    pub(crate) fn push(&mut self, delta: String, out: &mut Vec<ThinkPiece>) {
        if self.held.is_empty() && !delta.contains('<') {
            self.emit(delta, out);
            return;
        }
        self.held.push_str(&delta);
        self.advance(out);
    }

    /// The stream is over: what is held was no tag.
    pub(crate) fn finish(&mut self, out: &mut Vec<ThinkPiece>) {
        let rest = std::mem::take(&mut self.held);
        self.emit(rest, out);
    }

    fn advance(&mut self, out: &mut Vec<ThinkPiece>) {
        loop {
            let Some(at) = self.held.find('<') else {
                let rest = std::mem::take(&mut self.held);
                self.emit(rest, out);
                return;
            };
            let tail = self.held.split_off(at);
            let before = std::mem::replace(&mut self.held, tail);
            self.emit(before, out);
            match self.read_tag() {
                TagMatch::Whole(len, inside) => {
                    self.held.drain(..len);
                    self.inside = inside;
                    // Text right after a closing tag is the start of the answer.
                    self.line_start = true;
                }
                TagMatch::Maybe => return,
                TagMatch::No => {
                    let rest = self.held.split_off(1);
                    let bracket = std::mem::replace(&mut self.held, rest);
                    self.emit(bracket, out);
                }
            }
        }
    }

    /// Looks at `held`, which starts with `<`.
    fn read_tag(&self) -> TagMatch {
        let (opens, tags) = match &self.inside {
            Some(tag) => ("</", std::slice::from_ref(tag)),
            None if self.line_start => ("<", &TAGS[..]),
            None => return TagMatch::No,
        };
        let mut found = TagMatch::No;
        for tag in tags {
            match begins(&self.held, [opens, tag, ">"]) {
                Begins::With(len) => {
                    return TagMatch::Whole(len, self.inside.is_none().then_some(*tag));
                }
                Begins::SoFar => found = TagMatch::Maybe,
                Begins::Not => {}
            }
        }
        found
    }

    fn emit(&mut self, text: String, out: &mut Vec<ThinkPiece>) {
        if text.is_empty() {
            return;
        }
        if self.inside.is_some() {
            out.push(ThinkPiece::Reasoning(text));
            return;
        }
        // White space after a line break does not end the beginning of the line.
        let (fresh, line) = match text.rsplit_once('\n') {
            Some((_, line)) => (true, line),
            None => (self.line_start, text.as_str()),
        };
        self.line_start = fresh && line.trim().is_empty();
        out.push(ThinkPiece::Text(text));
    }
}

/// How a text begins with others.
enum Begins {
    /// With all of them, which are that long.
    With(usize),
    /// It is too short to decide.
    SoFar,
    Not,
}

/// Whether a text begins with these, one behind the other.
fn begins(text: &str, pieces: [&str; 3]) -> Begins {
    let mut rest = text;
    for piece in pieces {
        match rest.strip_prefix(piece) {
            Some(after) => rest = after,
            None if piece.starts_with(rest) => return Begins::SoFar,
            None => return Begins::Not,
        }
    }
    Begins::With(text.len() - rest.len())
}

enum TagMatch {
    /// A whole tag of this length; what we are inside of after it.
    Whole(usize, Option<&'static str>),
    Maybe,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text and reasoning of an answer that came in these deltas.
    fn split(deltas: &[&str]) -> (String, String) {
        let (mut tags, mut out) = (ThinkTags::default(), Vec::new());
        for delta in deltas {
            tags.push((*delta).to_owned(), &mut out);
        }
        tags.finish(&mut out);
        let (mut text, mut reasoning) = (String::new(), String::new());
        for piece in out {
            match piece {
                ThinkPiece::Text(piece) => text.push_str(&piece),
                ThinkPiece::Reasoning(piece) => reasoning.push_str(&piece),
            }
        }
        (text, reasoning)
    }

    #[test]
    fn leaked_thinking_is_separated_from_text_about_tags() {
        for (answer, text, reasoning) in [
            ("plain", "plain", ""),
            ("<think>hm</think>yes", "yes", "hm"),
            ("\n <thinking>a < b</thinking>\nyes", "\n \nyes", "a < b"),
            ("yes\n<reasoning>no</reasoning>", "yes\n", "no"),
            ("the tag <think> opens it", "the tag <think> opens it", ""),
            ("`<think>`", "`<think>`", ""),
            ("<thinker>x", "<thinker>x", ""),
            ("<think>never closed", "", "never closed"),
            ("<think>a</think><think>b</think>c", "c", "ab"),
            ("1 < 2\n<", "1 < 2\n<", ""),
            ("<think_intent>x</think_intent>é", "é", "x"),
        ] {
            assert_eq!(split(&[answer]), (text.to_owned(), reasoning.to_owned()), "{answer}");
        }
    }

    #[test]
    fn text_is_held_back_only_while_a_tag_is_possible() {
        let (mut tags, mut out) = (ThinkTags::default(), Vec::new());
        tags.push("<thi".to_owned(), &mut out);
        assert_eq!(out, []);
        tags.push("s is".to_owned(), &mut out);
        assert_eq!(out, [ThinkPiece::Text("<".into()), ThinkPiece::Text("this is".into())]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_answer(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "<think>", "</think>", "<thinking>", "</thinking>", "<", "a", "\n", " ", "é", ">",
                ]), 0..24),
            size in 1_usize..5,
        ) {
            let answer: String = words.concat();
            let chars: Vec<char> = answer.chars().collect();
            let deltas: Vec<String> = chars.chunks(size).map(|c| c.iter().collect()).collect();
            let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
            prop_assert_eq!(split(&deltas), split(&[&answer]));
        }
    }
}
