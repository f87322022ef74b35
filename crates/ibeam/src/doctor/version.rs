//! Versions of other programs: where one stands in a text, and which is older.

/// The first thing in a text that looks like a version: `1.18.33` in `opencode v1.18.33 (linux)`.
#[must_use]
pub(super) fn in_text(text: &str) -> Option<&str> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'));
    text.split(word).find_map(|word| {
        let word = word.trim_start_matches(['v', 'V']).trim_end_matches('.');
        let numbers = word.split(['-', '+']).next().unwrap_or_default();
        let version = numbers.contains('.')
            && numbers.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        version.then_some(word)
    })
}

/// Whether `one` is certainly older than `other`. What is not a version is not older.
#[must_use]
pub(super) fn older(one: &str, other: &str) -> bool {
    match (numbers(one), numbers(other)) {
        (Some(one), Some(other)) => one < other,
        _ => false,
    }
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    let text = text.strip_prefix("cli-").unwrap_or(text);
    let plain = text.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = plain.split('.').map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
    while numbers.len() > 1 && numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_output() {
        for (text, want) in [
            ("1.18.33", Some("1.18.33")),
            ("2.1.325 (Claude Code)", Some("2.1.325")),
            ("codex-cli 0.166.0", Some("0.166.0")),
            ("aider 0.86.2\n", Some("0.86.2")),
            ("llm, version 0.36", Some("0.36")),
            ("opencode v1.0.0-beta.2", Some("1.0.0-beta.2")),
            ("no version. at all", None),
            ("", None),
        ] {
            assert_eq!(in_text(text), want, "{text}");
        }
    }

    #[test]
    fn only_certainly_older_versions_count_as_older() {
        for (one, other, want) in [
            ("1.18.9", "1.18.18", true),
            ("1.18.18", "1.18.18", false),
            ("0.36", "0.36.0", false),
            ("2", "1.99.99", false),
            ("cli-2025.01.01-abc", "cli-2026.08.11-e8db854", true),
            ("cli-2027.01.01-abc", "cli-2026.08.11-e8db854", false),
            ("nightly", "1.0", false),
        ] {
            assert_eq!(older(one, other), want, "{one} {other}");
        }
    }
}
