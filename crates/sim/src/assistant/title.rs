//! Titles of conversations.

/// A short title, made of the first words of a text.
pub(crate) fn title_of(text: &str) -> String {
    let words: Vec<_> = text
        .split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '-')
        .filter(|word| !word.is_empty())
        .take(5)
        .collect();
    let mut title = words.join(" ");
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    if title.is_empty() { "New chat".to_owned() } else { title }
}

#[cfg(test)]
mod tests {
    use super::title_of;

    #[test]
    fn titles_are_short() {
        assert_eq!(title_of("please fix the bug in main.rs now"), "Please fix the bug in");
        assert_eq!(title_of("  "), "New chat");
    }
}
