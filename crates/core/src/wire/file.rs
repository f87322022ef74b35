//! Files inside messages: the text of a text file, the image of an image file. The gateway
//! has no store of files, fetches none, and reads no PDF.

use base64::Engine as _;

use crate::{
    error::TurnError,
    model::Part,
    wire::{
        image::{BASE64, from_data_url},
        json::{brief, invalid, unsupported},
    },
};

/// Types outside of `text/` that are text all the same.
const TEXTUAL: [&str; 12] = [
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/typescript",
    "application/x-sh",
    "application/sql",
    "application/graphql",
];

/// A file as a request names or holds it.
#[derive(Debug, Default)]
pub(in crate::wire) struct InlineFile<'a> {
    pub(in crate::wire) data: Option<&'a str>,
    pub(in crate::wire) name: Option<&'a str>,
    pub(in crate::wire) has_id: bool,
    pub(in crate::wire) has_url: bool,
}

/// Reads a file; `path` is that of the object with its fields.
pub(in crate::wire) fn read(file: &InlineFile<'_>, path: &str) -> Result<Part, TurnError> {
    let Some(data) = file.data.filter(|data| !data.is_empty()) else {
        let (field, why) = if file.has_id {
            ("file_id", "uploaded files are not supported: the gateway stores no files")
        } else if file.has_url {
            ("file_url", "file URLs are not supported: the gateway does not fetch URLs")
        } else {
            let text = "a file part needs its `file_data`";
            return Err(invalid(format!("{path}.file_data"), text));
        };
        let text = format!("{why}; send the file itself in `file_data`");
        return Err(unsupported(format!("{path}.{field}"), text));
    };
    let param = format!("{path}.file_data");
    let name = file.name.unwrap_or_default();
    let (mime, payload) = split(data);
    let mime = if mime.is_empty() { by_name(name) } else { mime.to_ascii_lowercase() };
    if mime.starts_with("image/") {
        return from_data_url(data, &param).map(Part::Image);
    }
    if mime == "application/pdf" {
        let text = "PDF files are not supported; send their text, or pages as images";
        return Err(unsupported(param, text));
    }
    if !(mime.starts_with("text/") || TEXTUAL.contains(&mime.as_str())) {
        return Err(unsupported(
            param,
            format!("files of type `{}` are not supported; send text or images", brief(&mime)),
        ));
    }
    let clean: Vec<u8> = payload.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let Ok(bytes) = BASE64.decode(clean) else {
        return Err(invalid(param, "the data of the file is not valid base64"));
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(invalid(param, "the file is declared as text but is not valid UTF-8"));
    };
    Ok(Part::Text(if name.is_empty() { text } else { format!("File `{name}`:\n{text}") }))
}

/// The type and the payload of a `data:` URL. Bare base64 has no type.
fn split(data: &str) -> (&str, &str) {
    let data = data.trim();
    let scheme = data.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("data:"));
    match scheme.and_then(|_| data.get(5..)).and_then(|rest| rest.split_once(',')) {
        Some((head, payload)) => (head.split(';').next().unwrap_or_default().trim(), payload),
        None => ("", data),
    }
}

/// The type that a file's name speaks for.
fn by_name(name: &str) -> String {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    match ending.as_str() {
        "pdf" => "application/pdf".to_owned(),
        "txt" | "md" | "csv" | "json" | "xml" | "yaml" | "yml" | "toml" | "html" | "css" | "js"
        | "ts" | "py" | "rs" | "go" | "java" | "c" | "h" | "cpp" | "sh" | "sql" | "log" => {
            "text/plain".to_owned()
        }
        _ => "application/octet-stream".to_owned(),
    }
}
