//! The client's history as the backend's conversation state: prompt messages as
//! JSON blobs (that is what the model reads) and turns as protobuf blobs.
//!
//! *Invariant:* the same history gives the same bytes and the same ids, so that
//! caches on the other side stay warm.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use base64::Engine as _;
use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentConversationTurnStructure, AssistantMessage, ConversationStateStructure, ConversationStep,
    ConversationTurnStructure, McpArgs, McpSuccess, McpTextContent, McpToolCall, McpToolResult,
    McpToolResultContentItem, SelectedContext, SelectedImage, SelectedImageDimension,
    ThinkingMessage, ToolCall as WireToolCall, UserMessage, conversation_step,
    conversation_turn_structure, mcp_tool_result, mcp_tool_result_content_item,
    selected_image::DataOrBlobId, tool_call,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    blobs::Blobs,
    tools::{PROVIDER, arguments_map, wire_name},
};
use crate::model::{
    Image, ImageSource, Item, Message, Part, Role, ToolCall, ToolResult,
    ids::{CallId, uuid_from_content},
};

/// `AgentMode` 1. Mode 2 ("ask") makes models refuse to use tools.
pub(super) const MODE_AGENT: i32 = 1;

/// Builds the state for `history`, putting every blob it names into `blobs`.
pub(super) fn build(history: &[Item], blobs: &mut Blobs) -> ConversationStateStructure {
    ConversationStateStructure {
        root_prompt_messages_json: put_prompt(history, blobs),
        turns: turns(history, blobs),
        mode: Some(MODE_AGENT),
        ..ConversationStateStructure::default()
    }
}

/// The kept state with further messages behind it. Fields of one protobuf message may
/// be written in several runs, so that nothing of the state has to be understood.
pub(super) fn append(checkpoint: &Bytes, items: &[Item], blobs: &mut Blobs) -> Bytes {
    if items.is_empty() {
        return checkpoint.clone();
    }
    let more = ConversationStateStructure {
        root_prompt_messages_json: put_prompt(items, blobs),
        ..ConversationStateStructure::default()
    };
    let mut state = checkpoint.to_vec();
    state.extend_from_slice(&more.to_wire());
    state.into()
}

fn put_prompt(items: &[Item], blobs: &mut Blobs) -> Vec<Bytes> {
    prompt_messages(&paired(items))
        .iter()
        .filter_map(|message| serde_json::to_vec(message).ok())
        .map(|json| blobs.put(json))
        .collect()
}

/// Model providers refuse a call without a result, and a result without its call. A
/// client may have dropped either: the first is answered with that, the second told as
/// a text.
fn paired(items: &[Item]) -> Cow<'_, [Item]> {
    let calls: HashSet<&str> = items.iter().filter_map(called).collect();
    let results: HashSet<&str> = items.iter().filter_map(answered).collect();
    if calls == results {
        return Cow::Borrowed(items);
    }
    let mut out = Vec::with_capacity(items.len() + 1);
    let mut open: Vec<Item> = Vec::new();
    for item in items {
        match item {
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
            Item::Message(_) | Item::Reasoning(_) => out.append(&mut open),
            Item::ToolCall(_) | Item::ToolResult(_) => {}
        }
        out.push(item.clone());
    }
    out.append(&mut open);
    Cow::Owned(out)
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

/// A user message with its images. `inline` sends their bytes along; otherwise
/// they become blobs, as history is kept.
pub(super) fn user_message(message: &Message, at: usize, blobs: Option<&mut Blobs>) -> UserMessage {
    let text = texts(message);
    let images = images(message, blobs);
    let selected_context = (!images.is_empty())
        .then(|| SelectedContext { selected_images: images, ..SelectedContext::default() });
    UserMessage {
        message_id: uuid_from_content([b"user".as_slice(), &at.to_be_bytes(), text.as_bytes()]),
        text,
        selected_context,
        mode: MODE_AGENT,
        ..UserMessage::default()
    }
}

fn texts(message: &Message) -> String {
    message.parts.iter().filter_map(Part::text).collect::<Vec<_>>().join("\n")
}

fn images(message: &Message, mut blobs: Option<&mut Blobs>) -> Vec<SelectedImage> {
    let pictures = message.parts.iter().filter_map(|part| match part {
        Part::Image(image) => Some(image),
        Part::Text(_) => None,
    });
    pictures.map(|image| selected_image(image, blobs.as_deref_mut())).collect()
}

/// The images that a message carries itself.
pub(super) fn inline_images(message: &UserMessage) -> impl Iterator<Item = Image> {
    let selected = message.selected_context.iter().flat_map(|context| &context.selected_images);
    selected.filter_map(|image| match &image.data_or_blob_id {
        Some(DataOrBlobId::Data(data)) => {
            let (mime, data) = (image.mime_type.clone(), data.clone());
            Some(Image { source: ImageSource::Inline { mime, data } })
        }
        _ => None,
    })
}

fn selected_image(image: &Image, blobs: Option<&mut Blobs>) -> SelectedImage {
    let ImageSource::Inline { mime, data } = &image.source;
    let dimension = imagesize::blob_size(data).ok().map(|size| SelectedImageDimension {
        width: i32::try_from(size.width).unwrap_or(i32::MAX),
        height: i32::try_from(size.height).unwrap_or(i32::MAX),
    });
    SelectedImage {
        // Made from the content: an old image under a new id is refused.
        uuid: uuid_from_content([b"image".as_slice(), data]),
        path: String::new(),
        dimension,
        mime_type: mime.clone(),
        data_or_blob_id: Some(match blobs {
            Some(blobs) => DataOrBlobId::BlobId(blobs.put(data.clone())),
            None => DataOrBlobId::Data(data.clone()),
        }),
    }
}

// === prompt messages ===

/// The message form of the prompt blobs.
#[derive(Serialize)]
struct PromptMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    content: Vec<PromptPart<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum PromptPart<'a> {
    Text { text: &'a str },
    Reasoning { text: &'a str },
    Image { image: String, mime_type: &'a str },
    ToolCall { tool_call_id: String, tool_name: String, args: serde_json::Value },
    ToolResult { tool_call_id: String, tool_name: String, result: String },
}

fn prompt_messages(history: &[Item]) -> Vec<PromptMessage<'_>> {
    let calls = calls_by_id(history);
    let mut out: Vec<PromptMessage<'_>> = Vec::new();
    let mut images: Vec<&Image> = Vec::new();
    for (at, item) in history.iter().enumerate() {
        // Adjacent results stay together.
        match item {
            Item::ToolResult(result) => images.extend(result_images(result)),
            Item::Message(_) | Item::Reasoning(_) | Item::ToolCall(_) => {
                out.extend(images_of_results(&mut images));
            }
        }
        let (role, parts) = match item {
            Item::Message(message) => {
                let role = match message.role {
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                (role, message.parts.iter().map(prompt_part).collect())
            }
            Item::Reasoning(reasoning) => {
                ("assistant", vec![PromptPart::Reasoning { text: &reasoning.text }])
            }
            Item::ToolCall(call) => ("assistant", vec![prompt_call(call)]),
            Item::ToolResult(result) => {
                ("tool", vec![prompt_result(result, calls.get(result.call_id.as_str()).copied())])
            }
        };
        // One assistant message holds its reasoning, text and calls; results of
        // parallel calls share one tool message. User messages stay apart.
        match out.last_mut() {
            Some(last) if last.role == role && role != "user" => last.content.extend(parts),
            _ => {
                let id = (role != "user")
                    .then(|| uuid_from_content([role.as_bytes(), &at.to_be_bytes()]));
                out.push(PromptMessage { role, id, content: parts });
            }
        }
    }
    out.extend(images_of_results(&mut images));
    out.retain(|message| !message.content.is_empty());
    out
}

/// The images of the results before it. A tool message has no place for them, and a model
/// looks only at those of the user.
fn images_of_results<'a>(images: &mut Vec<&'a Image>) -> Option<PromptMessage<'a>> {
    const ABOVE: &str = "[Tool Result]\nThe images in the results above:";
    if images.is_empty() {
        return None;
    }
    let mut content = vec![PromptPart::Text { text: ABOVE }];
    content.extend(images.drain(..).map(prompt_image));
    Some(PromptMessage { role: "user", id: None, content })
}

/// Adds the texts of a stored prompt message and gives the number of its images.
pub(super) fn prompt_texts(blob: &[u8], texts: &mut Vec<String>) -> usize {
    #[derive(Deserialize)]
    struct Stored {
        content: Vec<StoredPart>,
    }
    #[derive(Deserialize)]
    struct StoredPart {
        #[serde(rename = "type")]
        kind: String,
        text: Option<String>,
        result: Option<String>,
        args: Option<Box<RawValue>>,
    }
    let Ok(stored) = serde_json::from_slice::<Stored>(blob) else { return 0 };
    let mut images = 0;
    for part in stored.content {
        images += usize::from(part.kind == "image");
        texts.extend(part.text.or(part.result));
        texts.extend(part.args.map(|args| args.get().to_owned()));
    }
    images
}

fn prompt_part(part: &Part) -> PromptPart<'_> {
    match part {
        Part::Text(text) => PromptPart::Text { text },
        Part::Image(image) => prompt_image(image),
    }
}

fn prompt_image(image: &Image) -> PromptPart<'_> {
    let ImageSource::Inline { mime, data } = &image.source;
    let image = base64::engine::general_purpose::STANDARD.encode(data);
    PromptPart::Image { image, mime_type: mime }
}

fn prompt_call(call: &ToolCall) -> PromptPart<'_> {
    PromptPart::ToolCall {
        tool_call_id: CallId::sanitised(&call.id).as_str().to_owned(),
        tool_name: wire_name(&call.name),
        args: serde_json::from_str(&call.arguments)
            .unwrap_or_else(|_| serde_json::Value::String(call.arguments.clone())),
    }
}

fn prompt_result<'a>(result: &ToolResult, call: Option<&ToolCall>) -> PromptPart<'a> {
    PromptPart::ToolResult {
        tool_call_id: CallId::sanitised(&result.call_id).as_str().to_owned(),
        tool_name: call.map_or_else(|| "unknown".to_owned(), |call| wire_name(&call.name)),
        result: result_text(result),
    }
}

/// The images in a result.
fn result_images(result: &ToolResult) -> impl Iterator<Item = &Image> {
    result.content.iter().filter_map(|content| match content {
        Part::Image(image) => Some(image),
        Part::Text(_) => None,
    })
}

/// A result as text; images can only be named here.
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
    if result.is_error { format!("[tool error]\n{text}") } else { text }
}

/// The calls of a history. Of two with one id the first counts.
fn calls_by_id(history: &[Item]) -> HashMap<&str, &ToolCall> {
    let calls = history.iter().rev().filter_map(|item| match item {
        Item::ToolCall(call) => Some((call.id.as_str(), call)),
        Item::Message(_) | Item::ToolResult(_) | Item::Reasoning(_) => None,
    });
    calls.collect()
}

/// The results of a history. Of two for one call the first counts.
fn results_by_id(history: &[Item]) -> HashMap<&str, &ToolResult> {
    let results = history.iter().rev().filter_map(|item| match item {
        Item::ToolResult(result) => Some((result.call_id.as_str(), result)),
        Item::Message(_) | Item::ToolCall(_) | Item::Reasoning(_) => None,
    });
    results.collect()
}

// === turns ===

/// The same history as structured turns: a user message and the steps after it.
fn turns(history: &[Item], blobs: &mut Blobs) -> Vec<Bytes> {
    let results = results_by_id(history);
    let mut out = Vec::new();
    let mut current: Option<AgentConversationTurnStructure> = None;
    for (at, item) in history.iter().enumerate() {
        match item {
            Item::Message(message) if message.role == Role::User => {
                out.extend(current.take().map(|turn| put_turn(turn, blobs)));
                let user = user_message(message, at, Some(blobs));
                current = Some(AgentConversationTurnStructure {
                    user_message: blobs.put(user.to_wire()),
                    ..AgentConversationTurnStructure::default()
                });
            }
            item => {
                // What comes before the first user message has no turn to be in.
                let Some(turn) = current.as_mut() else { continue };
                if let Some(step) = step(item, &results) {
                    turn.steps.push(blobs.put(step.to_wire()));
                }
            }
        }
    }
    out.extend(current.map(|turn| put_turn(turn, blobs)));
    out
}

fn put_turn(turn: AgentConversationTurnStructure, blobs: &mut Blobs) -> Bytes {
    let turn = conversation_turn_structure::Turn::AgentConversationTurn(turn);
    blobs.put(ConversationTurnStructure { turn: Some(turn) }.to_wire())
}

fn step(item: &Item, results: &HashMap<&str, &ToolResult>) -> Option<ConversationStep> {
    use conversation_step::Message as Step;
    let message = match item {
        Item::Message(message) => Step::AssistantMessage(AssistantMessage { text: texts(message) }),
        Item::Reasoning(reasoning) => {
            Step::ThinkingMessage(ThinkingMessage { text: reasoning.text.clone(), duration_ms: 0 })
        }
        Item::ToolCall(call) => {
            Step::ToolCall(mcp_step(call, results.get(call.id.as_str()).copied()))
        }
        // Told with its call.
        Item::ToolResult(_) => return None,
    };
    Some(ConversationStep { message: Some(message) })
}

fn mcp_step(call: &ToolCall, result: Option<&ToolResult>) -> WireToolCall {
    let id = CallId::sanitised(&call.id);
    let mcp = McpToolCall {
        args: Some(McpArgs {
            name: wire_name(&call.name),
            args: arguments_map(&call.arguments),
            tool_call_id: id.as_str().to_owned(),
            provider_identifier: PROVIDER.to_owned(),
            tool_name: call.name.clone(),
            ..McpArgs::default()
        }),
        result: result.map(|result| McpToolResult {
            result: Some(mcp_tool_result::Result::Success(McpSuccess {
                content: vec![text_content(result_text(result))],
                is_error: result.is_error,
            })),
        }),
    };
    WireToolCall {
        tool: Some(tool_call::Tool::McpToolCall(mcp)),
        tool_call_id: Some(id.as_str().to_owned()),
        ..WireToolCall::default()
    }
}

fn text_content(text: String) -> McpToolResultContentItem {
    McpToolResultContentItem {
        content: Some(mcp_tool_result_content_item::Content::Text(McpTextContent {
            text,
            output_location: None,
        })),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
