//! The entries of a prompt, as JSON blobs: what the model reads of a rebuilt conversation.
//!
//! *Invariant:* the same history gives the same bytes and the same ids, so that
//! caches on the other side stay warm.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use base64::Engine as _;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    blobs::{Blobs, for_each_part},
    meta,
    reasoning::TurnSignatures,
    service_facts::ImageShape,
    tool_names::ToolNames,
    tools::Toolbox,
};
use crate::{
    model::{
        Image, ImageSource, Item, Message, Part, Role, ToolCall, ToolResult,
        ids::{CallId, hex, uuid_from_content},
    },
    peer::blocks::{BlockLimits, BlockWriter},
};

/// How entries are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryStyle {
    /// The user's texts get the markers that the service writes itself.
    pub(super) tagged: bool,
    /// A call is one of the function that calls tools, as newer builds offer them.
    pub(super) wrapped: bool,
    /// How images are written.
    pub(super) image: ImageShape,
    /// Under which names the model knows the client's tools.
    pub(super) names: Arc<ToolNames>,
}

/// The entries of a history. No more than `most`: the oldest become one text.
pub(super) fn put(
    items: &[Item],
    style: &EntryStyle,
    most: usize,
    signatures: &TurnSignatures,
    blobs: &mut Blobs,
) -> Vec<Bytes> {
    let items = paired(items, signatures);
    let mut entries = entries(&items, style, signatures);
    shorten(&mut entries, most);
    let json = entries.iter().filter_map(|entry| serde_json::to_vec(entry).ok());
    json.map(|json| blobs.put(json)).collect()
}

/// The system prompt as the first entry.
pub(super) fn put_system(text: &str, blobs: &mut Blobs) -> Bytes {
    #[derive(Serialize)]
    struct SystemEntry<'a> {
        role: &'static str,
        content: &'a str,
    }
    blobs.put(marked(&SystemEntry { role: "system", content: text }))
}

/// The system prompt as an entry of the user, where the first entry is the service's own.
pub(super) fn put_rules(text: &str, blobs: &mut Blobs) -> Bytes {
    let text = format!("<rules>\n{text}\n</rules>");
    let entry = PromptEntry::user(vec![PromptPart::Text { text: text.into() }]);
    blobs.put(marked(&entry))
}

/// An entry with a space that no serialiser writes, which marks it as ours.
fn marked(entry: &impl Serialize) -> Vec<u8> {
    let mut json = serde_json::to_vec(entry).unwrap_or_default();
    if !json.is_empty() {
        json.insert(1, b' ');
    }
    json
}

/// Whether an entry is the system prompt as we write it, and not the service's.
pub(super) fn is_our_system(blob: &[u8]) -> bool {
    blob.starts_with(br#"{ "role":"system","#)
}

/// Whether an entry is the system prompt as we write it for the user.
pub(super) fn is_our_rules(blob: &[u8]) -> bool {
    blob.starts_with(br#"{ "role":"user","#)
}

/// The system prompt of the client, and the tools that it offers.
pub(super) fn system_text(system: &str, toolbox: &Toolbox) -> String {
    let catalogue = meta::catalogue_text(toolbox);
    match (system.is_empty(), catalogue) {
        (true, None) => "Answer the user.".to_owned(),
        (false, None) => system.to_owned(),
        (true, Some(catalogue)) => catalogue,
        (false, Some(catalogue)) => format!("{system}\n\n{catalogue}"),
    }
}

/// A history as one text, and its images.
pub(super) fn transcript(items: &[Item]) -> (String, Vec<Image>) {
    let mut writer = BlockWriter::new(BlockLimits { result_bytes: usize::MAX, images: true });
    paired(items, &TurnSignatures::default()).iter().for_each(|item| writer.item(item));
    let (conversation, images) = writer.finish();
    (conversation.unwrap_or_default(), images)
}

/// Model providers refuse a call without a result, and a result without its call. A client may have
/// dropped either: the first is answered with that, the second sent as a text. What a model thought
/// is left out unless its signature is known: without it it is refused or ignored.
fn paired<'a>(items: &'a [Item], signatures: &TurnSignatures) -> Cow<'a, [Item]> {
    let calls: HashSet<&str> = items.iter().filter_map(called).collect();
    let results: HashSet<&str> = items.iter().filter_map(answered).collect();
    let has_thoughts = items.iter().any(|item| matches!(item, Item::Reasoning(_)));
    if calls == results && !has_thoughts {
        return Cow::Borrowed(items);
    }
    let mut out = Vec::with_capacity(items.len() + 1);
    let mut open: Vec<Item> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match item {
            Item::Reasoning(thought) => {
                let rest = items.get(at..).unwrap_or_default();
                if signatures.of(&thought.text).is_none() || !leads_to_answer(rest) {
                    continue;
                }
                out.append(&mut open);
            }
            Item::ToolCall(call) if !results.contains(call.id.as_str()) => {
                open.push(Item::ToolResult(ToolResult {
                    call_id: call.id.clone(),
                    content: vec![Part::Text("There was no result.".to_owned())],
                    is_error: true,
                }));
            }
            Item::ToolResult(result) if !calls.contains(result.call_id.as_str()) => {
                let text = format!("[Tool Result]\n{}", result_text(result));
                let mut parts = vec![Part::Text(text)];
                parts.extend(result_images(result).cloned().map(Part::Image));
                out.push(Item::Message(Message { role: Role::User, parts }));
                continue;
            }
            Item::Message(_) => out.append(&mut open),
            Item::ToolCall(_) | Item::ToolResult(_) => {}
        }
        out.push(item.clone());
    }
    out.append(&mut open);
    Cow::Owned(out)
}

/// Whether the assistant says something after it has thought. An entry with reasoning alone is
/// refused.
fn leads_to_answer(items: &[Item]) -> bool {
    let next = items.iter().find(|item| !matches!(item, Item::Reasoning(_)));
    match next {
        Some(Item::Message(message)) => message.role == Role::Assistant,
        Some(Item::ToolCall(_)) => true,
        Some(Item::ToolResult(_) | Item::Reasoning(_)) | None => false,
    }
}

fn called(item: &Item) -> Option<&str> {
    match item {
        Item::ToolCall(call) => Some(&call.id),
        Item::Message(_) | Item::ToolResult(_) | Item::Reasoning(_) => None,
    }
}

fn answered(item: &Item) -> Option<&str> {
    match item {
        Item::ToolResult(result) => Some(&result.call_id),
        Item::Message(_) | Item::ToolCall(_) | Item::Reasoning(_) => None,
    }
}

/// One entry of a prompt.
#[derive(Serialize)]
struct PromptEntry<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    content: Vec<PromptPart<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum PromptPart<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        mime_type: &'a str,
        image: ImageBytes,
    },
    #[serde(rename = "image")]
    ImageUrl {
        image: String,
        media_type: &'a str,
    },
    Reasoning {
        text: &'a str,
        signature: &'a str,
        provider_options: &'a RawValue,
    },
    ToolCall {
        tool_call_id: String,
        tool_name: String,
        args: serde_json::Value,
    },
    ToolResult {
        tool_call_id: String,
        tool_name: String,
        result: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// The bytes of an image, as the service stores them itself.
#[derive(Serialize)]
struct ImageBytes {
    #[serde(rename = "__type")]
    kind: &'static str,
    hex: String,
}

fn entries<'a>(
    history: &'a [Item],
    style: &EntryStyle,
    signatures: &'a TurnSignatures,
) -> Vec<PromptEntry<'a>> {
    let calls = calls_by_id(history);
    let mut out: Vec<PromptEntry<'_>> = Vec::new();
    let mut images: Vec<&Image> = Vec::new();
    for (at, item) in history.iter().enumerate() {
        // Adjacent results stay together.
        match item {
            Item::ToolResult(result) => images.extend(result_images(result)),
            Item::Message(_) | Item::Reasoning(_) | Item::ToolCall(_) => {
                out.extend(images_of_results(&mut images, style));
            }
        }
        let (role, parts) = match item {
            Item::Message(message) => match message.role {
                Role::User => ("user", user_parts(message, style)),
                Role::Assistant => (
                    "assistant",
                    message.parts.iter().map(|part| prompt_part(part, style)).collect(),
                ),
            },
            Item::Reasoning(thought) => {
                let Some(signed) = signatures.of(&thought.text) else { continue };
                let part = PromptPart::Reasoning {
                    text: &thought.text,
                    signature: &signed.signature,
                    provider_options: &signed.options,
                };
                ("assistant", vec![part])
            }
            Item::ToolCall(call) => ("assistant", vec![prompt_call(call, style)]),
            Item::ToolResult(result) => {
                let call = calls.get(result.call_id.as_str()).copied();
                ("tool", vec![prompt_result(result, call, style)])
            }
        };
        // One assistant message holds its reasoning, text and calls; results of parallel calls share one
        // tool message. User messages stay apart.
        match out.last_mut() {
            Some(last) if last.role == role && role != "user" => last.content.extend(parts),
            _ => {
                let id = (role != "user")
                    .then(|| uuid_from_content([role.as_bytes(), &at.to_be_bytes()]));
                out.push(PromptEntry { role, id, content: parts });
            }
        }
    }
    out.extend(images_of_results(&mut images, style));
    out.retain(|entry| !entry.content.is_empty());
    out
}

fn user_parts<'a>(message: &'a Message, style: &EntryStyle) -> Vec<PromptPart<'a>> {
    let tagged = |part| match part {
        PromptPart::Text { text } if style.tagged => {
            PromptPart::Text { text: format!("<user_query>\n{text}\n</user_query>").into() }
        }
        other => other,
    };
    message.parts.iter().map(|part| prompt_part(part, style)).map(tagged).collect()
}

/// How many entries are left of more than `most`. The next turns need room, too: a conversation that
/// is shortened in each of them is never continued, and never cached.
pub(super) fn shortened(most: usize) -> usize {
    (most * 2 / 3).max(1)
}

/// Merges the oldest entries into one text if there are more than `most`. A result is never parted
/// from its call.
fn shorten(entries: &mut Vec<PromptEntry<'_>>, most: usize) {
    if entries.len() <= most {
        return;
    }
    let mut count = (entries.len() + 1).saturating_sub(shortened(most)).min(entries.len());
    while entries.get(count).is_some_and(|entry| entry.role == "tool") {
        count += 1;
    }
    let oldest: Vec<String> = entries.drain(..count).map(|entry| entry.as_text()).collect();
    entries.insert(0, PromptEntry::earlier(&oldest));
}

/// How many entries these items become.
pub(super) fn count(items: &[Item], style: &EntryStyle, signatures: &TurnSignatures) -> usize {
    entries(&paired(items, signatures), style, signatures).len()
}

/// Stored entries as one text.
pub(super) fn put_earlier<'a>(
    stored: impl Iterator<Item = &'a Bytes>,
    blobs: &mut Blobs,
) -> Option<Bytes> {
    let oldest: Vec<String> = stored.map(|blob| stored_text(blob)).collect();
    let json = serde_json::to_vec(&PromptEntry::earlier(&oldest)).ok()?;
    Some(blobs.put(json))
}

#[derive(Deserialize)]
struct StoredEntry<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// Whether a stored entry is made of results.
pub(super) fn has_results(blob: &[u8]) -> bool {
    serde_json::from_slice(blob).is_ok_and(|entry: StoredEntry<'_>| entry.role == "tool")
}

fn stored_text(blob: &[u8]) -> String {
    let Ok(entry) = serde_json::from_slice::<StoredEntry<'_>>(blob) else { return String::new() };
    let mut out = format!("<{}>\n", entry.role);
    // Of content that breaks off, what came before counts. Writing to a string cannot fail.
    let _ = for_each_part(entry.content, |part| {
        let _ = match (&*part.kind, part.text.or(part.result), part.args) {
            ("text", Some(text), _) => writeln!(out, "{text}"),
            ("tool-result", Some(result), _) => writeln!(out, "[result]\n{result}"),
            ("tool-call", _, Some(args)) => writeln!(out, "[called: {args}]"),
            ("image", ..) => writeln!(out, "[image]"),
            _ => Ok(()),
        };
    });
    let _ = write!(out, "</{}>", entry.role);
    out
}

impl<'a> PromptEntry<'a> {
    fn user(content: Vec<PromptPart<'a>>) -> Self {
        Self { role: "user", id: None, content }
    }

    /// Entries that were merged, as texts.
    fn earlier(texts: &[String]) -> Self {
        let texts = texts.join("\n");
        let text = format!("<earlier_conversation>\n{texts}\n</earlier_conversation>");
        Self::user(vec![PromptPart::Text { text: text.into() }])
    }

    /// As text, for where there is no room for entries.
    fn as_text(&self) -> String {
        let mut out = format!("<{}>\n", self.role);
        for part in &self.content {
            // Writing to a string cannot fail.
            let _ = match part {
                PromptPart::Text { text } => writeln!(out, "{text}"),
                PromptPart::Image { mime_type: mime, .. }
                | PromptPart::ImageUrl { media_type: mime, .. } => {
                    writeln!(out, "[image, {mime}]")
                }
                // Only its maker can read it as what it is.
                PromptPart::Reasoning { .. } => Ok(()),
                PromptPart::ToolCall { args, tool_call_id, .. } => {
                    writeln!(out, "[called {tool_call_id}: {args}]")
                }
                PromptPart::ToolResult { tool_call_id, result, .. } => {
                    writeln!(out, "[result of {tool_call_id}]\n{result}")
                }
            };
        }
        let _ = write!(out, "</{}>", self.role);
        out
    }
}

/// The images of the results before it. A tool message has no place for them, and a model
/// looks only at those of the user.
fn images_of_results<'a>(
    images: &mut Vec<&'a Image>,
    style: &EntryStyle,
) -> Option<PromptEntry<'a>> {
    const ABOVE: &str = "[Tool Result]\nThe images in the results above:";
    if images.is_empty() {
        return None;
    }
    let mut content = vec![PromptPart::Text { text: ABOVE.into() }];
    content.extend(images.drain(..).map(|image| prompt_image(image, style)));
    Some(PromptEntry::user(content))
}

/// Adds the texts of a stored entry and gives the number of its images.
pub(super) fn prompt_texts(blob: &[u8], texts: &mut Vec<String>) -> usize {
    #[derive(Deserialize)]
    struct Stored<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let Ok(stored) = serde_json::from_slice::<Stored<'_>>(blob) else { return 0 };
    let mut images = 0;
    // Of content that breaks off, what came before counts.
    let _ = for_each_part(stored.content, |part| {
        images += usize::from(part.kind == "image");
        texts.extend(part.text.or(part.result));
        texts.extend(part.args.map(|args| args.get().to_owned()));
    });
    images
}

fn prompt_part<'a>(part: &'a Part, style: &EntryStyle) -> PromptPart<'a> {
    match part {
        Part::Text(text) => PromptPart::Text { text: text.into() },
        Part::Image(image) => prompt_image(image, style),
    }
}

fn prompt_image<'a>(image: &'a Image, style: &EntryStyle) -> PromptPart<'a> {
    let ImageSource::Inline { mime, data } = &image.source;
    if style.image == ImageShape::DataUrl {
        let base64 = base64::engine::general_purpose::STANDARD.encode(data);
        let image = format!("data:{mime};base64,{base64}");
        return PromptPart::ImageUrl { image, media_type: mime };
    }
    let image = ImageBytes { kind: "Uint8Array", hex: hex(data) };
    PromptPart::Image { mime_type: mime, image }
}

fn prompt_call<'a>(call: &ToolCall, style: &EntryStyle) -> PromptPart<'a> {
    PromptPart::ToolCall {
        tool_call_id: CallId::sanitised(&call.id).as_str().to_owned(),
        tool_name: tool_name(Some(call), style),
        args: if style.wrapped {
            meta::wrapped(&style.names.offered(&call.name), &call.arguments)
        } else {
            meta::object(&call.arguments)
        },
    }
}

fn prompt_result<'a>(
    result: &ToolResult,
    call: Option<&ToolCall>,
    style: &EntryStyle,
) -> PromptPart<'a> {
    PromptPart::ToolResult {
        tool_call_id: CallId::sanitised(&result.call_id).as_str().to_owned(),
        tool_name: tool_name(call, style),
        result: result_text(result),
        is_error: result.is_error,
    }
}

fn tool_name(call: Option<&ToolCall>, style: &EntryStyle) -> String {
    match call {
        None => "unknown".to_owned(),
        Some(_) if style.wrapped => meta::CALL[0].to_owned(),
        Some(call) => style.names.wire(&call.name),
    }
}

/// The images in a result.
fn result_images(result: &ToolResult) -> impl Iterator<Item = &Image> {
    result.content.iter().filter_map(|content| match content {
        Part::Image(image) => Some(image),
        Part::Text(_) => None,
    })
}

/// A result as text; images can only be named here. A model does not see the mark of a failure,
/// so the text says it, too.
fn result_text(result: &ToolResult) -> String {
    let pieces: Vec<String> = result
        .content
        .iter()
        .map(|content| match content {
            Part::Text(text) => text.clone(),
            Part::Image(Image { source: ImageSource::Inline { mime, data } }) => {
                format!("[image, {mime}, {} bytes]", data.len())
            }
        })
        .collect();
    let text = pieces.join("\n");
    if result.is_error { format!("[error] The tool failed.\n{text}") } else { text }
}

/// The calls of a history. Of two with one id the first counts.
fn calls_by_id(history: &[Item]) -> HashMap<&str, &ToolCall> {
    let calls = history.iter().rev().filter_map(|item| match item {
        Item::ToolCall(call) => Some((call.id.as_str(), call)),
        Item::Message(_) | Item::ToolResult(_) | Item::Reasoning(_) => None,
    });
    calls.collect()
}

#[cfg(test)]
#[path = "roots_tests.rs"]
mod tests;
