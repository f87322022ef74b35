//! Chat Completions, read as strictly as the public SDKs' types are.

use ibeam_core::{
    error::TurnError,
    wire::chat::{ChatCollector, ChatEncoder, OpenAiErrorBody},
};
use serde_json::{Value, json};

use super::{CREATED, Dialect, Ending, has_only, json, number, rule, text};
use crate::{
    events::{Call, Gist},
    sse::Frame,
};

const ID: &str = "chatcmpl-xxx";

pub(super) const CHAT: Dialect = Dialect {
    name: "chat",
    encoder: || Box::new(ChatEncoder::new(ID, CREATED, "auto", true)),
    collector: || {
        Box::new(ChatCollector::new(ID.to_owned(), CREATED, "auto".to_owned(), Vec::new()))
    },
    reader: read,
    gist,
    can_tell: |gist| gist,
    tells: is_error,
};

/// OpenAI's errors are the same in both of its older dialects.
pub(super) fn is_error(told: &Value, error: &TurnError) -> bool {
    serde_json::to_value(OpenAiErrorBody::from(error)).is_ok_and(|body| body["error"] == *told)
}

fn gist(reply: &Value) -> Gist {
    let message = &reply["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    Gist {
        text: message["content"].as_str().unwrap_or_default().to_owned(),
        reasoning: message["reasoning_content"].as_str().unwrap_or_default().to_owned(),
        calls: calls
            .map(|call| {
                Call::new(&call["id"], &call["function"]["name"], &call["function"]["arguments"])
            })
            .collect(),
    }
}

/// The chunks of a stream, put together.
#[derive(Default)]
struct Draft {
    has_role: bool,
    content: String,
    reasoning: String,
    calls: Vec<(Value, Value, String)>,
    finish: Option<Value>,
    usage: Option<Value>,
}

fn read(frames: &[Frame]) -> Result<Ending, String> {
    let mut draft = Draft::default();
    let mut frames = frames.iter();
    while let Some(frame) = frames.next() {
        rule!(frame.event.is_none(), "chunks have no names");
        if frame.data == "[DONE]" {
            rule!(frames.next().is_none(), "something follows [DONE]");
            return draft.finish();
        }
        let chunk = json(frame)?;
        if let Some(error) = chunk.get("error") {
            rule!(draft.finish.is_none(), "an error after `finish_reason`");
            rule!(frames.next().is_none(), "something follows the error");
            return Ok(Ending::Failed(error.clone()));
        }
        rule!(chunk["object"] == "chat.completion.chunk", "not a chunk: {chunk}");
        rule!(chunk["id"] == ID && chunk["created"] == CREATED, "another completion: {chunk}");
        draft.take(&chunk)?;
    }
    Err("no ending".to_owned())
}

impl Draft {
    fn take(&mut self, chunk: &Value) -> Result<(), String> {
        rule!(self.usage.is_none(), "a chunk after the usage");
        if let Some(usage) = chunk.get("usage") {
            rule!(chunk["choices"] == json!([]), "usage beside a choice");
            rule!(self.finish.is_some(), "usage before `finish_reason`");
            self.usage = Some(usage.clone());
            return Ok(());
        }
        let choice = &chunk["choices"][0];
        rule!(has_only(choice, &["index", "delta", "finish_reason"]), "odd choice: {choice}");
        rule!(self.finish.is_none(), "a delta after `finish_reason`");
        let delta = choice["delta"].as_object().ok_or("no delta")?;
        if !choice["finish_reason"].is_null() {
            rule!(delta.is_empty(), "a delta beside `finish_reason`");
            rule!(self.has_role, "an end before the role");
            self.finish = Some(choice["finish_reason"].clone());
            return Ok(());
        }
        if let Some(role) = delta.get("role") {
            rule!(*role == "assistant" && !self.has_role, "a second role, or an odd one");
            self.has_role = true;
        }
        rule!(self.has_role, "a delta before the role");
        for (name, value) in delta {
            match name.as_str() {
                "role" => {}
                "content" => self.content.push_str(value.as_str().ok_or("odd content")?),
                "reasoning_content" => {
                    self.reasoning.push_str(value.as_str().ok_or("odd reasoning")?);
                }
                "tool_calls" => {
                    for call in value.as_array().ok_or("odd calls")? {
                        self.call(call)?;
                    }
                }
                _ => return Err(format!("an unknown delta: {name}")),
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Value) -> Result<(), String> {
        let index = number(call, "index")?;
        let function = &call["function"];
        rule!(index <= self.calls.len(), "a call is left out before {index}");
        if index == self.calls.len() {
            rule!(call["type"] == "function", "a call without its type");
            rule!(call["id"].is_string() && function["name"].is_string(), "a nameless call");
            self.calls.push((call["id"].clone(), function["name"].clone(), String::new()));
        } else {
            rule!(has_only(call, &["index", "function"]), "a call begins twice");
            rule!(has_only(function, &["arguments"]), "a call is named twice");
        }
        self.calls[index].2.push_str(text(function, "arguments")?);
        Ok(())
    }

    fn finish(self) -> Result<Ending, String> {
        let finish = self.finish.ok_or("[DONE] without `finish_reason`")?;
        let only_calls = self.content.is_empty() && !self.calls.is_empty();
        let content = if only_calls { Value::Null } else { self.content.into() };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = self.reasoning.into();
        }
        if !self.calls.is_empty() {
            let calls = self.calls.into_iter().map(|(id, name, arguments)| {
                json!({"id": id, "type": "function",
                    "function": {"name": name, "arguments": arguments}})
            });
            message["tool_calls"] = calls.collect();
        }
        let mut reply = json!({
            "id": ID,
            "object": "chat.completion",
            "created": CREATED,
            "model": "auto",
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        });
        if let Some(usage) = self.usage {
            reply["usage"] = usage;
        }
        Ok(Ending::Whole(reply))
    }
}
