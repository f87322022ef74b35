//! The parts of a message's content and of a tool's output.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    error::TurnError,
    model::Part,
    wire::{
        file::{self, InlineFile},
        image::from_data_url,
        json::{brief, invalid, parse_at, unsupported},
        lenient::{MaybeText, Object, TextOr, WordOr},
    },
};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesPart {
    r#type: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<WordOr<ResponsesImageUrl>>,
    file_id: Option<MaybeText>,
    file_url: Option<MaybeText>,
    file_data: Option<String>,
    filename: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponsesImageUrl {
    url: Option<String>,
}

/// Reads a string or a list of parts; `path` is where it stands.
pub(super) fn read(content: &RawValue, path: &str) -> Result<Vec<Part>, TurnError> {
    match parse_at::<TextOr<Object<ResponsesPart>>>(content, path)? {
        TextOr::Text(text) => Ok(vec![Part::Text(text)]),
        TextOr::List(parts) => parts
            .into_iter()
            .enumerate()
            .map(|(place, Object(part))| piece(part, &format!("{path}[{place}]")))
            .collect(),
    }
}

fn piece(part: ResponsesPart, path: &str) -> Result<Part, TurnError> {
    match part.r#type.as_deref() {
        Some("input_text" | "output_text" | "text" | "summary_text" | "reasoning_text") => {
            let missing = || invalid(format!("{path}.text"), "a text part needs `text`");
            part.text.map(Part::Text).ok_or_else(missing)
        }
        Some("refusal") => Ok(Part::Text(part.refusal.unwrap_or_default())),
        Some("input_image" | "image_url") => {
            let param = format!("{path}.image_url");
            let url = match part.image_url {
                Some(WordOr::Word(url)) => Some(url),
                Some(WordOr::Object(image)) => image.url,
                None => None,
            };
            match url {
                Some(url) => from_data_url(&url, &param).map(Part::Image),
                None if part.file_id.is_some() => Err(unsupported(
                    format!("{path}.file_id"),
                    "uploaded files are not supported: the gateway stores no files; \
                     send the image itself in `image_url`",
                )),
                None => Err(invalid(param, "an image part needs its `image_url`")),
            }
        }
        Some("input_file") => {
            let file = InlineFile {
                data: part.file_data.as_deref(),
                name: part.filename.as_deref(),
                has_id: part.file_id.is_some(),
                has_url: part.file_url.is_some(),
            };
            file::read(&file, path)
        }
        Some(kind @ ("input_audio" | "audio" | "input_video")) => Err(unsupported(
            format!("{path}.type"),
            format!("content of type `{kind}` is not supported; send text, images or files"),
        )),
        Some(other) => Err(invalid(
            format!("{path}.type"),
            format!(
                "unknown content type `{}`; use input_text, input_image or input_file",
                brief(other)
            ),
        )),
        None => Err(invalid(format!("{path}.type"), "every content part needs a `type`")),
    }
}
