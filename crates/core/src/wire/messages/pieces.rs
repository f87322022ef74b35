//! What people and tools bring: text, images, and what becomes one of the two.

use serde_json::value::RawValue;

use super::{
    content::{BlockContent, MessagesConversation, text, untyped},
    types::{BlockSource, Citations, ContentBlock},
};
use crate::{
    error::TurnError,
    model::{Image, Part},
    wire::{
        image,
        json::{brief, invalid, unsupported},
        lenient::{Object, TextOr, WordOr},
    },
};

impl MessagesConversation {
    /// What a block of a user or of a tool says.
    pub(super) fn pieces(
        &mut self,
        path: &str,
        block: ContentBlock<'_>,
    ) -> Result<Vec<Part>, TurnError> {
        if matches!(block.r#type.as_deref(), Some("document" | "search_result"))
            && wants_citations(block.citations)
        {
            self.ignore("citations");
        }
        match block.r#type.as_deref() {
            Some("text") => Ok(vec![Part::Text(text(path, "text", block.text)?)]),
            Some("image") => picture(path, block.source).map(|image| vec![Part::Image(image)]),
            Some("document") => self.document(path, block),
            Some("search_result") => self.search_result(path, block),
            Some("tool_addition" | "tool_removal") => {
                self.tool_change(path, block);
                Ok(Vec::new())
            }
            // A tool that was found. All of them were offered from the start.
            Some("tool_reference") => {
                let name = block.tool_name.unwrap_or_default();
                Ok(vec![Part::Text(format!("The tool `{name}` can be called."))])
            }
            Some("container_upload") => Err(unsupported(
                format!("{path}.type"),
                "files in containers are not supported; send their text",
            )),
            Some(other) => Err(invalid(
                format!("{path}.type"),
                format!(
                    "unknown content type `{}`; use text, image, document or tool_result",
                    brief(other)
                ),
            )),
            None => Err(untyped(path)),
        }
    }

    fn document(&mut self, path: &str, block: ContentBlock<'_>) -> Result<Vec<Part>, TurnError> {
        let source = match block.source {
            Some(WordOr::Object(source)) => source,
            Some(WordOr::Word(_)) | None => {
                return Err(invalid(format!("{path}.source"), "a document needs its `source`"));
            }
        };
        let at = format!("{path}.source");
        let inner = match source.r#type.as_deref() {
            Some("text") => vec![Part::Text(text(&at, "data", source.data)?)],
            Some("content") => self.inner(&format!("{at}.content"), source.content)?,
            Some("base64") => {
                return Err(unsupported(
                    format!("{at}.media_type"),
                    format!(
                        "documents of type `{}` are not supported; send their text",
                        brief(&source.media_type.unwrap_or_default())
                    ),
                ));
            }
            other => return Err(elsewhere(&at, "document", other)),
        };
        let facts = [("title", block.title), ("context", block.context)];
        Ok(wrapped("document", &facts, inner))
    }

    fn search_result(
        &mut self,
        path: &str,
        block: ContentBlock<'_>,
    ) -> Result<Vec<Part>, TurnError> {
        let source = match block.source {
            Some(WordOr::Word(source)) => Some(source),
            Some(WordOr::Object(_)) | None => None,
        };
        let inner = self.inner(&format!("{path}.content"), block.content)?;
        Ok(wrapped("search_result", &[("source", source), ("title", block.title)], inner))
    }

    /// Text and images inside another block.
    fn inner(
        &mut self,
        path: &str,
        content: Option<BlockContent<'_>>,
    ) -> Result<Vec<Part>, TurnError> {
        match content {
            None => Ok(Vec::new()),
            Some(TextOr::Text(text)) => Ok(vec![Part::Text(text)]),
            Some(TextOr::List(blocks)) => {
                let mut all = Vec::with_capacity(blocks.len());
                for (place, Object(block)) in blocks.into_iter().enumerate() {
                    let path = format!("{path}[{place}]");
                    match block.r#type.as_deref() {
                        Some("text" | "image") => all.append(&mut self.pieces(&path, block)?),
                        _ => {
                            return Err(invalid(
                                format!("{path}.type"),
                                "only text and images can be inside a document",
                            ));
                        }
                    }
                }
                Ok(all)
            }
        }
    }
}

fn picture(path: &str, source: Option<WordOr<BlockSource<'_>>>) -> Result<Image, TurnError> {
    let path = format!("{path}.source");
    let source = match source {
        Some(WordOr::Object(source)) => source,
        Some(WordOr::Word(_)) | None => {
            return Err(invalid(path, "an image needs its `source`"));
        }
    };
    match source.r#type.as_deref() {
        Some("base64") => {
            let (mime, data) = (source.media_type.unwrap_or_default(), source.data);
            image::from_base64(&mime, &data.unwrap_or_default(), &path)
        }
        other => Err(elsewhere(&path, "image", other)),
    }
}

/// For sources that are not in the request itself.
fn elsewhere(path: &str, what: &str, kind: Option<&str>) -> TurnError {
    let param = format!("{path}.type");
    match kind {
        Some("url") => unsupported(
            param,
            format!(
                "a {what} by its URL is not supported, because the gateway does not fetch URLs; \
                 send the {what} itself"
            ),
        ),
        Some("file") => {
            unsupported(param, format!("uploaded files are not supported; send the {what} itself"))
        }
        _ => invalid(param, format!("the source of a {what} has an unknown `type`")),
    }
}

/// Puts pieces into a frame that describes them to the model. Images follow it.
fn wrapped(tag: &str, facts: &[(&str, Option<String>)], inner: Vec<Part>) -> Vec<Part> {
    let mut all = format!("<{tag}>\n");
    for (name, fact) in facts {
        if let Some(fact) = fact.as_deref().filter(|fact| !fact.is_empty()) {
            all.push_str(&format!("<{name}>{fact}</{name}>\n"));
        }
    }
    let mut images = Vec::new();
    for piece in inner {
        match piece {
            Part::Text(text) => {
                all.push_str(&text);
                all.push('\n');
            }
            Part::Image(_) => images.push(piece),
        }
    }
    all.push_str(&format!("</{tag}>"));
    std::iter::once(Part::Text(all)).chain(images).collect()
}

fn wants_citations(citations: Option<&RawValue>) -> bool {
    let asked = citations.map(|citations| serde_json::from_str::<Citations>(citations.get()));
    asked.is_some_and(|asked| asked.is_ok_and(|asked| asked.enabled == Some(true)))
}
