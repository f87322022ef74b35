//! What a change looks like on a screen: a unified diff without anyone's keys.

use diffy::Line as Change;
use ibeam_core::redact;
use secrecy::{ExposeSecret as _, SecretString};

use super::engine::Edit;

/// A new file with more lines than this is a program, and is not shown.
const LONGEST: usize = 100;

/// Of a value that is shown in a sentence.
const WIDEST: usize = 60;

/// One line of a diff, by what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiffLine {
    Head(String),
    Added(String),
    Removed(String),
    Same(String),
}

impl DiffLine {
    pub(crate) fn text(&self) -> &str {
        let (Self::Head(text) | Self::Added(text) | Self::Removed(text) | Self::Same(text)) = self;
        text
    }
}

/// The lines in which a file changes.
pub(crate) fn diff(edit: &Edit, key: Option<&SecretString>) -> Vec<DiffLine> {
    let (old, new) = (edit.now.as_deref().unwrap_or_default(), edit.after.as_deref());
    let name = edit.path.display().to_string();
    let nothing = "/dev/null";
    let mut lines = vec![
        DiffLine::Head(format!("--- {}", edit.now.as_ref().map_or(nothing, |_| &name))),
        DiffLine::Head(format!("+++ {}", new.map_or(nothing, |_| &name))),
    ];
    if let (None, Some(new)) = (&edit.now, new)
        && new.lines().count() > LONGEST
    {
        lines.push(DiffLine::Added(format!("+(a new file of {} lines)", new.lines().count())));
        return lines;
    }
    // Line ends are not a visible difference.
    let (old, new) = (old.replace("\r\n", "\n"), new.unwrap_or_default().replace("\r\n", "\n"));
    let (old_shown, new_shown) = (masked(&old, key), masked(&new, key));
    let patch = diffy::create_patch(&old, &new);
    for hunk in patch.hunks() {
        lines.push(DiffLine::Head(format!("@@ -{} +{} @@", hunk.old_range(), hunk.new_range())));
        // What is secret is known only with what stands around it, so that lines are shown as
        // they are in the masked texts.
        let from = |shown: &[String], start: usize| {
            shown.iter().skip(start.saturating_sub(1)).cloned().collect::<Vec<_>>().into_iter()
        };
        let mut old = from(&old_shown, hunk.old_range().start());
        let mut new = from(&new_shown, hunk.new_range().start());
        for line in hunk.lines() {
            lines.push(match line {
                Change::Context(_) => {
                    let text = new.next().unwrap_or_default();
                    // A line may be within a secret in one of them only.
                    let shown =
                        if old.next().as_ref() == Some(&text) { &*text } else { redact::MASK };
                    DiffLine::Same(format!(" {shown}"))
                }
                Change::Delete(_) => {
                    DiffLine::Removed(format!("-{}", old.next().unwrap_or_default()))
                }
                Change::Insert(_) => {
                    DiffLine::Added(format!("+{}", new.next().unwrap_or_default()))
                }
            });
        }
    }
    lines
}

/// A value of a setting, as long as a line has room for it.
pub(crate) fn value(name: &str, value: &serde_json::Value) -> String {
    let shown = redact::settings::value(name, value);
    if shown.chars().count() > WIDEST { "something longer".to_owned() } else { shown }
}

/// The lines of a text without secrets: ours, and those of the user.
fn masked(text: &str, key: Option<&SecretString>) -> Vec<String> {
    let shown = match key {
        Some(key) => redact::settings::text(&text.replace(key.expose_secret(), redact::MASK)),
        None => redact::settings::text(text),
    };
    shown.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(now: Option<&str>, after: Option<&str>) -> String {
        let edit = Edit::sample("x.json", now, after);
        let key = SecretString::from("ibk_verySecretIndeed");
        let lines: Vec<_> = diff(&edit, Some(&key)).iter().map(|l| l.text().to_owned()).collect();
        lines.join("\n")
    }

    #[test]
    fn keys_are_masked_in_diffs() {
        let now = "{\n  \"url\": \"http://x\",\n  \"apiKey\":\n    \"hunter2\"\n}\n";
        let after = now.replace("\n}", ",\n  \"a\": \"ibk_verySecretIndeed\"\n}");
        let text = shown(Some(now), Some(&after));
        assert!(text.contains("+  \"a\": \"***\"\n"), "{text}");
        assert!(text.contains(" \"url\": \"http://x\",\n"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("Indeed"), "{text}");
        // A secret that changes is seen to.
        let text = shown(Some(now), Some(&now.replace("hunter2", "hunter3")));
        assert!(text.contains("-    \"***\"\n+    \"***\""), "{text}");
    }

    #[test]
    fn keys_in_a_single_line_file_are_masked() {
        let now = r#"{"provider":{"x":{"apiKey":"hunter2"}},"token":"hunter2","n":1}"#;
        let after = r#"{"provider":{"x":{"apiKey":"hunter2"}},"token":"hunter2","n":2}"#;
        let text = shown(Some(now), Some(after));
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("\"n\":2"), "{text}");
    }
}
