//! Anthropic's Messages. Blocks come one after the other, each whole before the next.

use ibeam_core::{
    error::TurnError,
    wire::messages::{AnthropicErrorBody, MessagesCollector, MessagesEncoder, Thinking},
};
use serde_json::{Value, json};

use super::{Dialect, Ending, STOPS, has_only, named, number, rule, text};
use crate::{
    events::{Call, Gist, arguments},
    sse::Frame,
};

const ID: &str = "msg_xxx";

/// With everything that the model thinks.
pub(super) const MESSAGES: Dialect = Dialect {
    name: "messages",
    encoder: || Box::new(encoder(Thinking::Shown)),
    collector: || Box::new(collector(Thinking::Shown)),
    reader: read,
    gist,
    can_tell: |gist| gist,
    tells: is_error,
};

/// With the signatures of thoughts and not their text.
pub(super) const OMITTED: Dialect = Dialect {
    name: "messages-omitted",
    encoder: || Box::new(encoder(Thinking::Omitted)),
    collector: || Box::new(collector(Thinking::Omitted)),
    can_tell: |gist| Gist { reasoning: String::new(), ..gist },
    ..MESSAGES
};

/// As clients get it that did not ask for thinking.
pub(super) const SILENT: Dialect = Dialect {
    name: "messages-silent",
    encoder: || Box::new(encoder(Thinking::Off)),
    collector: || Box::new(collector(Thinking::Off)),
    can_tell: |gist| Gist { reasoning: String::new(), ..gist },
    ..MESSAGES
};

fn encoder(thinking: Thinking) -> MessagesEncoder {
    MessagesEncoder::new(
        ID.to_owned(),
        "auto".to_owned(),
        thinking,
        STOPS.map(str::to_owned).to_vec(),
    )
}

fn collector(thinking: Thinking) -> MessagesCollector {
    MessagesCollector::new(
        ID.to_owned(),
        "auto".to_owned(),
        thinking,
        STOPS.map(str::to_owned).to_vec(),
    )
}

fn is_error(told: &Value, error: &TurnError) -> bool {
    serde_json::to_value(AnthropicErrorBody::new(error, None))
        .is_ok_and(|body| body["error"] == *told)
}

fn gist(reply: &Value) -> Gist {
    let mut gist = Gist::default();
    for block in reply["content"].as_array().into_iter().flatten() {
        let said = |field: &str| block[field].as_str().unwrap_or_default();
        match said("type") {
            "text" => gist.text.push_str(said("text")),
            "thinking" => gist.reasoning.push_str(said("thinking")),
            _ => gist.calls.push(Call::new(&block["id"], &block["name"], &block["input"])),
        }
    }
    gist
}

/// The block that is open.
enum Open {
    Text(String),
    Thinking { text: String, signature: Option<String> },
    ToolUse { id: Value, name: Value, input: String },
}

struct Draft {
    message: Value,
    open: Option<Open>,
    content: Vec<Value>,
    ended: bool,
}

fn read(frames: &[Frame]) -> Result<Ending, String> {
    let mut frames = frames.iter();
    let mut draft: Option<Draft> = None;
    while let Some(frame) = frames.next() {
        let (name, data) = named(frame)?;
        match (name, &mut draft) {
            ("error", draft) => {
                rule!(!draft.as_ref().is_some_and(|draft| draft.ended), "an error after the end");
                rule!(frames.next().is_none(), "something follows the error");
                rule!(has_only(&data, &["type", "error"]), "odd error: {data}");
                return Ok(Ending::Failed(data["error"].clone()));
            }
            ("message_start", draft @ None) => *draft = Some(start(&data["message"])?),
            (_, None) => return Err(format!("{name} before message_start")),
            ("ping", Some(_)) => {}
            ("message_stop", Some(draft)) => {
                rule!(draft.ended, "message_stop without message_delta");
                rule!(frames.next().is_none(), "something follows message_stop");
                let mut message = draft.message.clone();
                message["content"] = draft.content.clone().into();
                return Ok(Ending::Whole(message));
            }
            (_, Some(draft)) => draft.take(name, &data)?,
        }
    }
    Err("no ending".to_owned())
}

fn start(message: &Value) -> Result<Draft, String> {
    let expected = json!({"id": ID, "type": "message", "role": "assistant", "model": "auto",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": message["usage"]});
    rule!(*message == expected, "odd message: {message}");
    rule!(message["usage"]["output_tokens"].is_u64(), "no usage: {message}");
    Ok(Draft { message: message.clone(), open: None, content: Vec::new(), ended: false })
}

impl Draft {
    fn take(&mut self, name: &str, data: &Value) -> Result<(), String> {
        rule!(!self.ended, "{name} after message_delta");
        match name {
            "content_block_start" => {
                rule!(self.open.is_none(), "a block inside a block");
                rule!(number(data, "index")? == self.content.len(), "blocks are not counted");
                self.open = Some(Open::new(&data["content_block"])?);
                Ok(())
            }
            "content_block_delta" => {
                rule!(number(data, "index")? == self.content.len(), "a delta of another block");
                self.open.as_mut().ok_or("a delta outside of blocks")?.grow(&data["delta"])
            }
            "content_block_stop" => {
                rule!(number(data, "index")? == self.content.len(), "another block stops");
                let open = self.open.take().ok_or("nothing to stop")?;
                self.content.push(open.close()?);
                Ok(())
            }
            "message_delta" => {
                rule!(self.open.is_none(), "message_delta inside a block");
                let delta = &data["delta"];
                rule!(has_only(delta, &["stop_reason", "stop_sequence"]), "odd delta: {delta}");
                rule!(delta["stop_reason"].is_string(), "no reason");
                let by_word = delta["stop_reason"] == "stop_sequence";
                rule!(by_word == delta["stop_sequence"].is_string(), "odd sequence: {delta}");
                for (field, value) in [
                    ("stop_reason", &delta["stop_reason"]),
                    ("stop_sequence", &delta["stop_sequence"]),
                    ("usage", &data["usage"]),
                ] {
                    self.message[field] = value.clone();
                }
                self.ended = true;
                Ok(())
            }
            _ => Err(format!("{name} is out of place")),
        }
    }
}

impl Open {
    fn new(block: &Value) -> Result<Self, String> {
        match text(block, "type")? {
            "text" => {
                rule!(*block == json!({"type": "text", "text": ""}), "odd start: {block}");
                Ok(Self::Text(String::new()))
            }
            "thinking" => {
                let fresh = json!({"type": "thinking", "thinking": "", "signature": ""});
                rule!(*block == fresh, "odd start: {block}");
                Ok(Self::Thinking { text: String::new(), signature: None })
            }
            "tool_use" => {
                rule!(has_only(block, &["type", "id", "name", "input"]), "odd start: {block}");
                rule!(block["input"] == json!({}), "input before its deltas: {block}");
                Ok(Self::ToolUse {
                    id: block["id"].clone(),
                    name: block["name"].clone(),
                    input: String::new(),
                })
            }
            other => Err(format!("an unknown block: {other}")),
        }
    }

    fn grow(&mut self, delta: &Value) -> Result<(), String> {
        match (self, text(delta, "type")?) {
            (Self::Text(all), "text_delta") => all.push_str(text(delta, "text")?),
            (Self::Thinking { text: all, signature: None }, "thinking_delta") => {
                all.push_str(text(delta, "thinking")?);
            }
            (Self::Thinking { signature: signature @ None, .. }, "signature_delta") => {
                *signature = Some(text(delta, "signature")?.to_owned());
            }
            (Self::ToolUse { input, .. }, "input_json_delta") => {
                input.push_str(text(delta, "partial_json")?);
            }
            (_, other) => return Err(format!("{other} does not belong here")),
        }
        Ok(())
    }

    fn close(self) -> Result<Value, String> {
        match self {
            Self::Text(text) => {
                rule!(!text.is_empty(), "a block of nothing, which the API refuses later");
                Ok(json!({"type": "text", "text": text}))
            }
            Self::Thinking { text, signature } => {
                let signature = signature.filter(|signature| !signature.is_empty());
                let signature = signature.ok_or("thinking without its signature")?;
                Ok(json!({"type": "thinking", "thinking": text, "signature": signature}))
            }
            Self::ToolUse { id, name, input } => {
                rule!(!input.is_empty(), "no input at all, which is no JSON");
                Ok(json!({"type": "tool_use", "id": id, "name": name, "input": arguments(&input)}))
            }
        }
    }
}
