//! What real clients need from a server, measured on eleven of them: one test for each of the
//! rules that came of it, through the gateway's HTTP face. Each test is named after its rule;
//! `docs/conformance.md` lists them, and is held against this folder.

mod chat;
mod document;
mod every_api;
mod messages;
mod responses;

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::lab::{Lab, Reply};

/// The three APIs that stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    Chat,
    Responses,
    Messages,
}

const APIS: [Api; 3] = [Api::Chat, Api::Responses, Api::Messages];

/// One event of a stream: its name, if it has one, and its data.
#[derive(Debug)]
struct Event {
    name: Option<String>,
    data: Value,
}

// === impl Api ===

impl Api {
    fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// A question in this API's words.
    fn ask(self, text: &str, stream: bool) -> Value {
        let messages = json!([{ "role": "user", "content": text }]);
        match self {
            Self::Chat => json!({ "model": "auto", "messages": messages, "stream": stream }),
            Self::Responses => json!({ "model": "auto", "input": text, "stream": stream }),
            Self::Messages => {
                json!({ "model": "auto", "messages": messages, "stream": stream, "max_tokens": 1000 })
            }
        }
    }

    /// The same with the tool `bash`.
    fn ask_with_tool(self, text: &str, stream: bool) -> Value {
        let mut body = self.ask(text, stream);
        body["tools"] = json!([self.tool("bash")]);
        body
    }

    /// A tool that takes a command.
    fn tool(self, name: &str) -> Value {
        let schema = json!({
            "type": "object",
            "properties": { "command": { "type": "string" } },
            "required": ["command"],
        });
        match self {
            Self::Chat => {
                json!({ "type": "function", "function": { "name": name, "parameters": schema } })
            }
            Self::Responses => json!({ "type": "function", "name": name, "parameters": schema }),
            Self::Messages => json!({ "name": name, "input_schema": schema }),
        }
    }

    /// Every word that a whole answer says.
    fn text(self, whole: &Value) -> String {
        let join = |blocks: &Value| -> String {
            blocks
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|block| block["text"].as_str())
                .collect()
        };
        match self {
            Self::Chat => {
                whole["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
            }
            Self::Responses => whole["output"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|item| join(&item["content"]))
                .collect(),
            Self::Messages => join(&whole["content"]),
        }
    }

    /// The code or the type that identifies an error.
    fn error(self, body: &Value) -> &str {
        let name = if self == Self::Messages { "type" } else { "code" };
        body["error"][name].as_str().unwrap_or_default()
    }
}

// === helpers ===

async fn post(lab: &Lab, path: &str, body: &Value) -> Reply {
    post_with(lab, path, body, &[]).await
}

async fn post_with(lab: &Lab, path: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    send(lab, Method::POST, path, Body::from(body.to_string()), &all).await
}

async fn send(
    lab: &Lab,
    method: Method,
    path: &str,
    body: Body,
    headers: &[(&str, &str)],
) -> Reply {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Reply::read(lab.send(request.body(body).unwrap()).await).await
}

/// A whole answer that must be good.
async fn whole(lab: &Lab, api: Api, body: &Value) -> Value {
    let reply = post(lab, api.path(), body).await;
    assert_eq!(reply.status, 200, "{api:?}: {}", reply.body);
    reply.json()
}

/// The events of a stream that must have begun, without chat's `[DONE]`.
async fn events(lab: &Lab, api: Api, body: &Value) -> Vec<Event> {
    let reply = post(lab, api.path(), body).await;
    assert_eq!(reply.status, 200, "{api:?}: {}", reply.body);
    parse(&reply)
}

fn parse(reply: &Reply) -> Vec<Event> {
    let mut events = Vec::new();
    for block in reply.body.split("\n\n") {
        let mut name = None;
        for line in block.lines() {
            if let Some(value) = line.strip_prefix("event: ") {
                name = Some(value.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ")
                && data != "[DONE]"
            {
                let data = serde_json::from_str(data).unwrap_or_else(|_| panic!("no JSON: {data}"));
                events.push(Event { name: name.take(), data });
            }
        }
    }
    events
}

/// The types of events, in order.
fn kinds(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.data["type"].as_str().unwrap_or_default()).collect()
}

/// The events of one type.
fn of<'a>(events: &'a [Event], kind: &str) -> Vec<&'a Value> {
    events.iter().map(|event| &event.data).filter(|data| data["type"] == kind).collect()
}
