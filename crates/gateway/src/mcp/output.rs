//! What a tool gave back, as models are told it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ibeam_core::model::{Image, ImageSource, ToolContent};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub content: Vec<ToolContent>,
    pub is_error: bool,
}

impl Output {
    /// For a call that did not come to anything.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![ToolContent::Text(text.into())], is_error: true }
    }

    pub(super) fn of(result: CallToolResult, limit: usize) -> Self {
        let is_error = result.is_error == Some(true);
        let mut content: Vec<ToolContent> = result.content.into_iter().map(part).collect();
        // Structured content comes with the same as text, unless a server forgot.
        if content.is_empty()
            && let Some(value) = result.structured_content
        {
            content.push(ToolContent::Text(value.to_string()));
        }
        Self { content: cap(content, limit), is_error }
    }

    /// Its texts, one below the other.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().map(|part| match part {
            ToolContent::Text(text) => text.clone(),
            ToolContent::Image(Image { source: ImageSource::Inline { mime, data } }) => {
                format!("[{mime}, {} bytes]", data.len())
            }
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

fn part(block: ContentBlock) -> ToolContent {
    let text = match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => match STANDARD.decode(&image.data) {
            Ok(data) => {
                let source = ImageSource::Inline { mime: image.mime_type, data: data.into() };
                return ToolContent::Image(Image { source });
            }
            Err(_) => "[an image that cannot be read]".to_owned(),
        },
        ContentBlock::Audio(audio) => {
            format!("[audio, {}, which is not passed on]", audio.mime_type)
        }
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { uri, .. } => {
                format!("[the resource {uri}, which is no text]")
            }
            _ => "[a resource of a kind that is not known]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[{}: {}]", link.name, link.uri),
        _ => "[content of a kind that is not known]".to_owned(),
    };
    ToolContent::Text(text)
}

/// Keeps the first `limit` bytes, and says so.
fn cap(content: Vec<ToolContent>, limit: usize) -> Vec<ToolContent> {
    let whole: usize = content.iter().map(ToolContent::bytes).sum();
    if whole <= limit {
        return content;
    }
    let mut left = limit;
    let mut kept = Vec::new();
    for part in content {
        let bytes = part.bytes();
        match part {
            part if bytes <= left => kept.push(part),
            ToolContent::Text(text) => {
                let head = text.get(..text.floor_char_boundary(left)).unwrap_or_default();
                kept.push(ToolContent::Text(head.to_owned()));
            }
            // Half an image is none.
            ToolContent::Image(_) => {}
        }
        left = left.saturating_sub(bytes);
    }
    let note = format!("[ibeam cut this output: it had {whole} bytes, and {limit} are passed on]");
    // In the text that was cut, so that the two are never apart.
    match kept.last_mut() {
        Some(ToolContent::Text(text)) => {
            text.push('\n');
            text.push_str(&note);
        }
        _ => kept.push(ToolContent::Text(note)),
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ToolContent {
        ToolContent::Text(text.to_owned())
    }

    #[test]
    fn what_fits_is_left_alone() {
        let content = vec![text("abc"), text("de")];
        assert_eq!(cap(content.clone(), 5), content);
    }

    #[test]
    fn what_does_not_is_cut_with_a_note() {
        let image = ImageSource::Inline { mime: "image/png".to_owned(), data: vec![0; 9].into() };
        let content = vec![text("äöü"), ToolContent::Image(Image { source: image }), text("xyz")];
        let kept = cap(content, 5);
        let note = "\n[ibeam cut this output: it had 18 bytes, and 5 are passed on]";
        assert_eq!(kept, [text("äö"), text(note)]);
    }

    #[test]
    fn every_kind_of_content_is_something() {
        let result: CallToolResult = serde_json::from_value(serde_json::json!({
            "content": [
                { "type": "text", "text": "t" },
                { "type": "image", "data": "AAEC", "mimeType": "image/png" },
                { "type": "image", "data": "?", "mimeType": "image/png" },
                { "type": "audio", "data": "AAEC", "mimeType": "audio/wav" },
                { "type": "resource", "resource": { "uri": "a:b", "text": "r" } },
                { "type": "resource_link", "uri": "a:c", "name": "n" },
            ],
            "isError": true,
        }))
        .unwrap();
        let output = Output::of(result, 1000);
        assert!(output.is_error);
        assert_eq!(
            output.text(),
            "t\n[image/png, 3 bytes]\n[an image that cannot be read]\n\
             [audio, audio/wav, which is not passed on]\nr\n[n: a:c]"
        );
    }

    #[test]
    fn structured_content_alone_is_told_as_text() {
        let result = serde_json::json!({ "structuredContent": { "a": 1 } });
        let output = Output::of(serde_json::from_value(result).unwrap(), 1000);
        assert_eq!(output.text(), "{\"a\":1}");
    }
}
