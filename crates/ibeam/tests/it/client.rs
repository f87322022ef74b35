//! A client at its plainest, over a real socket: one request, and its answer as text.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};

/// An answer that takes longer is a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// An answer that is being read.
pub(crate) struct Incoming(BufReader<TcpStream>);

/// What a chat completion said, streamed or not.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) finish: String,
    pub(crate) calls: Vec<Call>,
}

/// A tool call, its arguments put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Sends a chat request.
pub(crate) fn send(url: &str, headers: &[(&str, &str)], body: &Value) -> Incoming {
    send_to(url, "/v1/chat/completions", headers, body)
}

/// Sends a request. HTTP/1.0, so that the body is not cut into chunks.
pub(crate) fn send_to(url: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Incoming {
    let body = body.to_string();
    request(url, &format!("POST {path}"), headers, &body)
}

/// Asks for what is there.
pub(crate) fn get(url: &str, path: &str) -> String {
    request(url, &format!("GET {path}"), &[], "").rest()
}

fn request(url: &str, head: &str, headers: &[(&str, &str)], body: &str) -> Incoming {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(
        stream,
        "{head} HTTP/1.0\r\nhost: {address}\r\n{more}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    Incoming(BufReader::new(stream))
}

pub(crate) fn ask(url: &str, headers: &[(&str, &str)], body: &Value) -> Said {
    let text = send(url, headers, body).rest();
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    Said::read(&text)
}

impl Incoming {
    /// Reads on to the line that holds this, and leaves the rest unread.
    pub(crate) fn until(&mut self, part: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(part) {
            let read = self.0.read_line(&mut seen).unwrap();
            assert!(read > 0, "no {part} in {seen}");
        }
        crate::watch::heard(&seen);
        seen
    }

    /// The next line, if there is one.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap();
        crate::watch::heard(&line);
        (read > 0).then_some(line)
    }

    pub(crate) fn rest(mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        crate::watch::heard(&text);
        text
    }
}

impl Said {
    /// Puts the answer together; a stream may end early.
    pub(crate) fn read(text: &str) -> Self {
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let mut said = Self::default();
        match serde_json::from_str::<Value>(body) {
            Ok(whole) => said.add(&whole, "message"),
            Err(_) => {
                let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
                for chunk in data.filter(|data| *data != "[DONE]") {
                    said.add(&serde_json::from_str(chunk).unwrap(), "delta");
                }
            }
        }
        said
    }

    fn add(&mut self, object: &Value, part: &str) {
        assert!(object.get("error").is_none(), "{object}");
        let choice = &object["choices"][0];
        self.text.push_str(choice[part]["content"].as_str().unwrap_or_default());
        self.finish.push_str(choice["finish_reason"].as_str().unwrap_or_default());
        for (at, call) in choice[part]["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let at = call["index"].as_u64().map_or(at, |index| usize::try_from(index).unwrap());
            if self.calls.len() <= at {
                self.calls.resize(at + 1, Call::default());
            }
            let known = &mut self.calls[at];
            known.id.push_str(call["id"].as_str().unwrap_or_default());
            let text = |name: &str| call["function"][name].as_str().unwrap_or_default();
            known.name.push_str(text("name"));
            known.arguments.push_str(text("arguments"));
        }
    }

    /// The message as a client sends it back.
    pub(crate) fn message(&self) -> Value {
        let calls: Vec<Value> = self
            .calls
            .iter()
            .map(|call| {
                json!({ "id": call.id, "type": "function",
                        "function": { "name": call.name, "arguments": call.arguments } })
            })
            .collect();
        json!({ "role": "assistant", "content": self.text, "tool_calls": calls })
    }
}

impl Call {
    pub(crate) fn result(&self, content: &str) -> Value {
        json!({ "role": "tool", "tool_call_id": self.id, "content": content })
    }
}

/// A tool that takes these texts, all of them required but the last when it is marked `?`.
pub(crate) fn tool(name: &str, properties: &[&str]) -> Value {
    let table: serde_json::Map<String, Value> = properties
        .iter()
        .map(|property| (property.trim_end_matches('?').to_owned(), json!({ "type": "string" })))
        .collect();
    let required: Vec<_> = properties.iter().filter(|name| !name.ends_with('?')).collect();
    json!({ "type": "function", "function": {
        "name": name, "description": format!("The tool {name}"),
        "parameters": { "type": "object", "properties": table, "required": required },
    } })
}
