//! Changes written into the answer itself, for clients that offer no tools and explain in
//! their instructions how a change has to look.

use super::intent::Intent;

/// How changes are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditFormat {
    /// The lines before and after, between marks.
    Blocks,
    /// Each file with its complete new contents.
    Listings,
}

impl EditFormat {
    /// The format that instructions explain, if any.
    pub(crate) fn of<'a>(instructions: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        instructions.into_iter().find_map(|text| {
            if text.contains("<<<<<<< SEARCH") && text.contains(">>>>>>> REPLACE") {
                return Some(Self::Blocks);
            }
            text.contains("*file listing* format").then_some(Self::Listings)
        })
    }

    /// The answer that carries out the intents. `said` are the messages that may show files.
    pub(crate) fn answer(self, intents: &[Intent], said: &[String]) -> String {
        let mut files = MentionedFiles { said, changed: Vec::new() };
        let parts: Vec<_> = intents.iter().map(|intent| self.part(intent, &mut files)).collect();
        let mut parts = parts.concat();
        if self == Self::Listings {
            // Once for each file, with all changes in it.
            let listed = files.changed.iter().map(|(path, text)| fenced(path, text));
            parts.extend(listed);
        }
        parts.join("\n\n")
    }

    fn part(self, intent: &Intent, files: &mut MentionedFiles<'_>) -> Vec<String> {
        match intent {
            Intent::Read(path) => match files.text(path) {
                // The client would read a fence as a change.
                Some(text) => {
                    let lines: Vec<_> = text.lines().map(|line| format!("> {line}")).collect();
                    vec![format!("{path} holds:\n{}", lines.join("\n"))]
                }
                None => vec![unseen(path)],
            },
            Intent::Write { path, text } => {
                let before = files.text(path).unwrap_or_default();
                let block = block(path, &before, text);
                files.change(path, format!("{}\n", text.trim_end_matches('\n')));
                self.only_block(vec![block])
            }
            Intent::Edit { path, old, new } => {
                let Some(before) = files.text(path) else { return vec![unseen(path)] };
                let lines = before.lines().filter(|line| line.contains(old));
                let blocks = lines.map(|line| block(path, line, &line.replace(old, new))).collect();
                files.change(path, before.replace(old, new));
                self.only_block(blocks)
            }
            _ => vec![format!("I was not offered a tool for that ({}).", intent.name())],
        }
    }

    fn only_block(self, blocks: Vec<String>) -> Vec<String> {
        if self == Self::Blocks { blocks } else { Vec::new() }
    }
}

/// The files that the conversation mentions.
struct MentionedFiles<'a> {
    said: &'a [String],
    changed: Vec<(String, String)>,
}

impl MentionedFiles<'_> {
    /// The present contents of a file, if a message showed it.
    fn text(&self, path: &str) -> Option<String> {
        let changed = self.changed.iter().find(|(name, _)| name == path);
        if let Some((_, text)) = changed {
            return Some(text.clone());
        }
        self.said.iter().rev().find_map(|text| shown(text, path))
    }

    fn change(&mut self, path: &str, text: String) {
        match self.changed.iter_mut().find(|(name, _)| name == path) {
            Some((_, now)) => *now = text,
            None => self.changed.push((path.to_owned(), text)),
        }
    }
}

/// A file in a message: its path on a line, then its text between fences.
fn shown(message: &str, path: &str) -> Option<String> {
    let mut lines = message.lines();
    while lines.by_ref().any(|line| line.trim() == path) {
        let mut rest = lines.clone();
        if rest.next().is_some_and(|line| line.starts_with("```")) {
            let text = rest.take_while(|line| *line != "```");
            return Some(text.map(|line| format!("{line}\n")).collect());
        }
    }
    None
}

fn block(path: &str, before: &str, after: &str) -> String {
    let lines = |text: &str| -> String { text.lines().map(|line| format!("{line}\n")).collect() };
    let (before, after) = (lines(before), lines(after));
    fenced(path, &format!("<<<<<<< SEARCH\n{before}=======\n{after}>>>>>>> REPLACE\n"))
}

fn fenced(path: &str, text: &str) -> String {
    format!("{path}\n```\n{text}```")
}

fn unseen(path: &str) -> String {
    format!("I was not shown {path}.")
}

#[cfg(test)]
#[path = "edit_format_tests.rs"]
mod tests;
