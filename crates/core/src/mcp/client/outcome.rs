//! The result of a tool, in the parts that models can be given.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, value::RawValue};

use crate::{
    codec::jsonrpc::{self, Members},
    model::{Image, ImageSource, Part},
};

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    pub content: Vec<Part>,
    pub is_error: bool,
}

impl CallOutcome {
    /// # Errors
    /// It is not the result of a call.
    pub fn read(result: &RawValue) -> Result<Self, &'static str> {
        let members = Members::of(Some(result)).ok_or("its result cannot be read")?;
        let mut content = Vec::new();
        if let Some(parts) = members.get("content") {
            let parts: Vec<&RawValue> =
                jsonrpc::read(Some(parts)).ok_or("its result cannot be read")?;
            content = parts.into_iter().map(part).collect();
        }
        // Structured content comes with the same as text, unless a server forgot.
        if content.is_empty()
            && let Some(value) = members.read::<Value>("structuredContent")
        {
            content.push(Part::Text(value.to_string()));
        }
        Ok(Self { content, is_error: members.read("isError") == Some(true) })
    }
}

fn part(block: &RawValue) -> Part {
    let Some(block) = Members::of(Some(block)) else { return unknown() };
    let word = |name: &str| block.text(name).unwrap_or_default();
    let mime = word("mimeType");
    let text = match (word("type").as_str(), block.text("text")) {
        ("text", Some(text)) => text,
        ("image", _) => match STANDARD.decode(word("data")) {
            Ok(data) => {
                let source = ImageSource::Inline { mime, data: data.into() };
                return Part::Image(Image { source });
            }
            Err(_) => "[an image that cannot be read]".to_owned(),
        },
        ("audio", _) => format!("[audio, {mime}, which is not passed on]"),
        ("resource", _) => {
            let resource = block.object("resource");
            match (resource.text("text"), resource.text("uri")) {
                (Some(text), _) => text,
                (None, Some(uri)) => format!("[the resource {uri}, which is not text]"),
                (None, None) => "[a resource of an unknown kind]".to_owned(),
            }
        }
        ("resource_link", _) => format!("[{}: {}]", word("name"), word("uri")),
        _ => return unknown(),
    };
    Part::Text(text)
}

fn unknown() -> Part {
    Part::Text("[content of an unknown kind]".to_owned())
}
