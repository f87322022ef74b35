//! The result of a tool, in the parts that models can be given.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    codec::jsonrpc,
    model::{Image, ImageSource, ToolContent},
};

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    pub content: Vec<ToolContent>,
    pub is_error: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: Option<bool>,
}

impl CallOutcome {
    /// # Errors
    /// It is not the result of a call.
    pub fn read(result: &RawValue) -> Result<Self, &'static str> {
        let members: Option<Members<'_>> = Some(result)
            .filter(|raw| raw.get().starts_with('{'))
            .and_then(|raw| jsonrpc::read(Some(raw)));
        let members = members.ok_or("its result cannot be read")?;
        let mut content: Vec<ToolContent> = members.content.into_iter().map(part).collect();
        // Structured content comes with the same as text, unless a server forgot.
        if content.is_empty()
            && let Some(value) = members.structured_content
        {
            content.push(ToolContent::Text(value.to_string()));
        }
        Ok(Self { content, is_error: members.is_error == Some(true) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(borrow, default)]
    resource: Option<&'a RawValue>,
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

fn part(block: &RawValue) -> ToolContent {
    let Some(block) = jsonrpc::read::<Block<'_>>(Some(block)) else {
        return unknown();
    };
    let mime = block.mime_type.unwrap_or_default();
    let text = match (&*block.kind, block.text) {
        ("text", Some(text)) => text,
        ("image", _) => match STANDARD.decode(block.data.unwrap_or_default().as_bytes()) {
            Ok(data) => {
                let source = ImageSource::Inline { mime, data: data.into() };
                return ToolContent::Image(Image { source });
            }
            Err(_) => "[an image that cannot be read]".to_owned(),
        },
        ("audio", _) => format!("[audio, {mime}, which is not passed on]"),
        ("resource", _) => match jsonrpc::read::<Resource>(block.resource) {
            Some(Resource { text: Some(text), .. }) => text,
            Some(Resource { uri: Some(uri), .. }) => {
                format!("[the resource {uri}, which is not text]")
            }
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        ("resource_link", _) => {
            let (name, uri) = (block.name.unwrap_or_default(), block.uri.unwrap_or_default());
            format!("[{name}: {uri}]")
        }
        _ => return unknown(),
    };
    ToolContent::Text(text)
}

fn unknown() -> ToolContent {
    ToolContent::Text("[content of an unknown kind]".to_owned())
}
