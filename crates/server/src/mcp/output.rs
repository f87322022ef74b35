//! What a tool gave back, as models are told it.

use ibeam_core::{
    mcp::client::CallOutcome,
    model::{Image, ImageSource, Part},
};

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub content: Vec<Part>,
    pub is_error: bool,
}

impl Output {
    /// For a call that did not come to anything.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![Part::Text(text.into())], is_error: true }
    }

    pub(super) fn of(outcome: CallOutcome, limit: usize) -> Self {
        Self { content: cap(outcome.content, limit), is_error: outcome.is_error }
    }

    /// Its texts, one below the other.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Image(Image { source: ImageSource::Inline { mime, data } }) => {
                format!("[{mime}, {} bytes]", data.len())
            }
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Keeps the first `limit` bytes, and says so.
fn cap(content: Vec<Part>, limit: usize) -> Vec<Part> {
    let whole: usize = content.iter().map(Part::bytes).sum();
    if whole <= limit {
        return content;
    }
    let mut left = limit;
    let mut kept = Vec::new();
    for part in content {
        let bytes = part.bytes();
        match part {
            part if bytes <= left => kept.push(part),
            Part::Text(text) => {
                let head = text.get(..text.floor_char_boundary(left)).unwrap_or_default();
                kept.push(Part::Text(head.to_owned()));
            }
            // Half an image is none.
            Part::Image(_) => {}
        }
        left = left.saturating_sub(bytes);
    }
    let note = format!("[ibeam cut this output: it had {whole} bytes, and {limit} are passed on]");
    // In the text that was cut, so that the two are never apart.
    match kept.last_mut() {
        Some(Part::Text(text)) => {
            text.push('\n');
            text.push_str(&note);
        }
        _ => kept.push(Part::Text(note)),
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    #[test]
    fn what_fits_is_left_alone() {
        let content = vec![text("abc"), text("de")];
        assert_eq!(cap(content.clone(), 5), content);
    }

    #[test]
    fn what_does_not_is_cut_with_a_note() {
        let image = ImageSource::Inline { mime: "image/png".to_owned(), data: vec![0; 9].into() };
        let content = vec![text("äöü"), Part::Image(Image { source: image }), text("xyz")];
        let kept = cap(content, 5);
        let note = "\n[ibeam cut this output: it had 18 bytes, and 5 are passed on]";
        assert_eq!(kept, [text("äö"), text(note)]);
    }
}
