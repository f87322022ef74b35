//! JSON-RPC 2.0, one message to a line. Read leniently: the version is not looked at, a
//! number may come back as a string, a result that is null counts as one. Written strictly.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Number, value::RawValue};

pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL_ERROR: i64 = -32603;

/// The longest piece of a foreign error that is kept.
const WORDS_CAP: usize = 2000;

/// What an answer is matched with its request by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RpcId {
    Number(Number),
    Text(String),
}

/// A message of the peer's.
#[derive(Debug)]
pub enum RpcMessage<'a> {
    Request {
        id: RpcId,
        method: String,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: String,
        params: Option<&'a RawValue>,
    },
    /// The answer to a request of ours. Without an id, the peer could not read which one.
    Response {
        id: Option<RpcId>,
        outcome: Result<Option<&'a RawValue>, RpcError>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcError {
    /// 0: there was none that could be read.
    pub code: i64,
    /// What it says, its details included.
    pub words: String,
}

// === reading ===

/// The members of an object, none of them read: one of a wrong type costs no other. A null counts
/// as missing.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Members<'a>(#[serde(borrow)] BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    /// `None`: it is not an object.
    pub(crate) fn of(raw: Option<&'a RawValue>) -> Option<Self> {
        read(raw)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    /// A member, if it is what it should be.
    pub(crate) fn read<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        read(self.get(name))
    }

    /// A member that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.read(name)
    }

    /// The members of a member; none if that is not an object.
    pub(crate) fn object(&self, name: &str) -> Self {
        Self::of(self.get(name)).unwrap_or_default()
    }

    /// The elements of a member that are objects.
    pub(crate) fn objects(&self, name: &str) -> impl Iterator<Item = Self> + use<'a> {
        let elements: Vec<&RawValue> = self.read(name).unwrap_or_default();
        elements.into_iter().filter_map(|raw| Self::of(Some(raw)))
    }
}

/// Reads one line. `None`: it is not a message.
#[must_use]
pub fn parse(line: &[u8]) -> Option<RpcMessage<'_>> {
    let members: Members<'_> = serde_json::from_slice(line).ok()?;
    let id = members.get("id").and_then(RpcId::read);
    if let Some(method) = members.text("method") {
        let params = members.get("params");
        return Some(match id {
            Some(id) => RpcMessage::Request { id, method, params },
            None => RpcMessage::Notification { method, params },
        });
    }
    match members.get("error") {
        Some(error) => Some(RpcMessage::Response { id, outcome: Err(RpcError::read(error)) }),
        None if id.is_some() => {
            Some(RpcMessage::Response { id, outcome: Ok(members.get("result")) })
        }
        None => None,
    }
}

/// A member that is a string.
pub(crate) fn text(raw: Option<&RawValue>) -> Option<String> {
    read(raw)
}

/// A member, if it is what it should be.
pub(crate) fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

impl RpcId {
    pub(crate) fn read(raw: &RawValue) -> Option<Self> {
        read(Some(raw)).map(Self::Number).or_else(|| text(Some(raw)).map(Self::Text))
    }

    /// Whether this is our number, in whatever form it came back.
    #[must_use]
    pub fn is(&self, number: u64) -> bool {
        self.number() == Some(number)
    }

    /// The number, in whatever form it came back.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Number(own) => own.as_u64(),
            Self::Text(own) => own.parse().ok(),
        }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words.as_str() {
            "" => write!(f, "it answered with error {}", self.code),
            words => f.write_str(words),
        }
    }
}

impl RpcError {
    fn read(raw: &RawValue) -> Self {
        let Some(members) = Members::of(Some(raw)) else {
            let words = text(Some(raw)).unwrap_or_else(|| raw.get().to_owned());
            return Self { code: 0, words: capped(words) };
        };
        let mut words = members.text("message").unwrap_or_default();
        let data = members.get("data").and_then(details);
        let details = data.filter(|more| !words.contains(more.as_str()));
        if let Some(details) = details {
            if !words.is_empty() {
                words.push_str(": ");
            }
            words.push_str(&details);
        }
        Self { code: members.read("code").unwrap_or(0), words: capped(words) }
    }
}

/// What `data` says in words, where it does.
fn details(data: &RawValue) -> Option<String> {
    let Some(members) = Members::of(Some(data)) else { return text(Some(data)) };
    members.text("details").or_else(|| members.text("message"))
}

fn capped(mut words: String) -> String {
    words.truncate(words.floor_char_boundary(WORDS_CAP));
    words
}

// === writing ===

const VERSION: &str = "2.0";

/// Parameters, or a result, without anything in them.
#[derive(Debug, Serialize)]
pub struct EmptyObject {}

#[must_use]
pub fn request(id: u64, method: &str, params: &impl Serialize) -> Bytes {
    call(Some(id), method, params)
}

#[must_use]
pub fn notification(method: &str, params: &impl Serialize) -> Bytes {
    call(None, method, params)
}

fn call(id: Option<u64>, method: &str, params: &impl Serialize) -> Bytes {
    #[derive(Serialize)]
    struct RpcCall<'a, P> {
        jsonrpc: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        method: &'a str,
        params: &'a P,
    }
    line(&RpcCall { jsonrpc: VERSION, id, method, params })
}

#[must_use]
pub fn result(id: &RpcId, result: &impl Serialize) -> Bytes {
    #[derive(Serialize)]
    struct RpcResultReply<'a, R> {
        jsonrpc: &'a str,
        id: &'a RpcId,
        result: &'a R,
    }
    line(&RpcResultReply { jsonrpc: VERSION, id, result })
}

#[must_use]
pub fn error(id: &RpcId, code: i64, message: &str) -> Bytes {
    failure(Some(id), code, message, None)
}

/// An error that may have details, and no id when the request could not be read.
#[must_use]
pub fn failure(id: Option<&RpcId>, code: i64, message: &str, data: Option<&RawValue>) -> Bytes {
    #[derive(Serialize)]
    struct Error<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a RawValue>,
    }
    #[derive(Serialize)]
    struct RpcErrorReply<'a> {
        jsonrpc: &'a str,
        id: Option<&'a RpcId>,
        error: Error<'a>,
    }
    line(&RpcErrorReply { jsonrpc: VERSION, id, error: Error { code, message, data } })
}

/// Our types cannot fail to be written; if one ever does, the line is `null`.
fn line(message: &impl Serialize) -> Bytes {
    let mut line = serde_json::to_vec(message).unwrap_or_else(|_| b"null".to_vec());
    line.push(b'\n');
    line.into()
}

#[cfg(test)]
#[path = "jsonrpc_tests.rs"]
mod tests;
