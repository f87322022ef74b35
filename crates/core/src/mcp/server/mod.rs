//! The MCP server that offers a client's tools: what it says to each message.
//!
//! It has tools and nothing else. Lists of other things are empty; every other method is
//! unknown to it.

mod call;
mod log;
mod message;
mod rules;
mod tools;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

pub use self::{
    call::HostedToolCall,
    log::{EventId, EventLog, LogRead},
    message::{Inbound, InboundRequest, RequestMeta},
    rules::{Lifecycle, McpHeaders, McpRefusal, has_sessions, lifecycle, no_answers},
};
use super::version;
use crate::{
    codec::jsonrpc::{self, EmptyObject, INVALID_PARAMS, METHOD_NOT_FOUND, Members},
    model::Tool,
};

/// The version that a request asks for is not spoken here.
const UNSUPPORTED_VERSION: i64 = -32022;
/// A header says something else than the message.
const HEADER_MISMATCH: i64 = -32020;

/// A server with a fixed list of tools.
#[derive(Debug)]
pub struct ToolServer {
    name: &'static str,
    version: &'static str,
    tools: Vec<Box<RawValue>>,
    names: Vec<String>,
}

/// What a request gets.
#[derive(Debug)]
pub enum ToolServerAnswer {
    /// This message. `status` is for HTTP without a session; in a session it is always 200.
    Message { message: Bytes, status: u16 },
    /// The same with the list of tools: the client is really there.
    Tools(Bytes),
    /// A tool has to be called first.
    Call(HostedToolCall),
}

#[derive(Serialize)]
struct ToolCapabilities {
    tools: EmptyObject,
}

#[derive(Serialize)]
struct ServerInfo {
    name: &'static str,
    version: &'static str,
}

impl ToolServer {
    #[must_use]
    pub fn new(name: &'static str, version: &'static str, tools: &[Tool]) -> Self {
        Self {
            name,
            version,
            tools: tools.iter().filter_map(tools::listed).collect(),
            names: tools.iter().map(|tool| tool.name.clone()).collect(),
        }
    }

    #[must_use]
    pub fn answer(&self, request: &InboundRequest<'_>) -> ToolServerAnswer {
        match self.known(request) {
            Ok(answer) => answer,
            Err((code, text)) => {
                let data = (code == UNSUPPORTED_VERSION).then(|| supported(&request.meta));
                let message =
                    jsonrpc::failure(Some(&request.id), code, &text, data.flatten().as_deref());
                ToolServerAnswer::Message { message, status: status(request, code) }
            }
        }
    }

    fn known(&self, request: &InboundRequest<'_>) -> Result<ToolServerAnswer, (i64, String)> {
        let meta = &request.meta;
        let greets = request.method == "initialize";
        if let Some(asked) = meta.version.as_deref()
            && !greets
            && !version::is_known(asked)
        {
            return Err((UNSUPPORTED_VERSION, "Unsupported protocol version".to_owned()));
        }
        let modern = meta.is_stateless();
        if (modern || request.method == "server/discover") && !greets {
            meta.complete().map_err(|text| (INVALID_PARAMS, text))?;
        }
        let message = match request.method.as_str() {
            "initialize" => self.hello(request)?,
            "server/discover" => self.discovered(request),
            "ping" if !modern => jsonrpc::result(&request.id, &EmptyObject {}),
            "tools/list" => {
                return Ok(ToolServerAnswer::Tools(self.list(request, "tools", &self.tools)));
            }
            "tools/call" => return self.call(request).map(ToolServerAnswer::Call),
            "resources/list" => self.list(request, "resources", &[]),
            "resources/templates/list" => self.list(request, "resourceTemplates", &[]),
            "prompts/list" => self.list(request, "prompts", &[]),
            "completion/complete" => completed(request),
            other => return Err((METHOD_NOT_FOUND, other.to_owned())),
        };
        Ok(ToolServerAnswer::Message { message, status: 200 })
    }

    fn info(&self) -> ServerInfo {
        ServerInfo { name: self.name, version: self.version }
    }

    fn hello(&self, request: &InboundRequest<'_>) -> Result<Bytes, (i64, String)> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct InitializeResult {
            protocol_version: &'static str,
            capabilities: ToolCapabilities,
            server_info: ServerInfo,
        }
        let Some(asked) = request.greeted_version() else {
            return Err((INVALID_PARAMS, "`protocolVersion` is missing".to_owned()));
        };
        let hello = InitializeResult {
            protocol_version: version::negotiated(&asked),
            capabilities: ToolCapabilities { tools: EmptyObject {} },
            server_info: self.info(),
        };
        Ok(jsonrpc::result(&request.id, &hello))
    }

    fn discovered(&self, request: &InboundRequest<'_>) -> Bytes {
        #[derive(Serialize)]
        struct AboutServer {
            #[serde(rename = "io.modelcontextprotocol/serverInfo")]
            server_info: ServerInfo,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Discovered {
            result_type: &'static str,
            supported_versions: [&'static str; 5],
            capabilities: ToolCapabilities,
            ttl_ms: u64,
            cache_scope: &'static str,
            #[serde(rename = "_meta")]
            meta: AboutServer,
        }
        let discovered = Discovered {
            result_type: "complete",
            supported_versions: version::KNOWN,
            capabilities: ToolCapabilities { tools: EmptyObject {} },
            ttl_ms: 0,
            cache_scope: "private",
            meta: AboutServer { server_info: self.info() },
        };
        jsonrpc::result(&request.id, &discovered)
    }

    /// A list in one page, under its name.
    fn list(
        &self,
        request: &InboundRequest<'_>,
        name: &'static str,
        items: &[Box<RawValue>],
    ) -> Bytes {
        let mut result = String::from("{\"");
        result.push_str(name);
        result.push_str("\":[");
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                result.push(',');
            }
            result.push_str(item.get());
        }
        result.push(']');
        if request.meta.is_stateless() {
            result.push_str(r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#);
        }
        result.push('}');
        let result = RawValue::from_string(result).unwrap_or_default();
        jsonrpc::result(&request.id, &result)
    }

    fn call(&self, request: &InboundRequest<'_>) -> Result<HostedToolCall, (i64, String)> {
        let wrong = |text: &str| (INVALID_PARAMS, text.to_owned());
        let params = Members::of(request.params).unwrap_or_default();
        let name = params.text("name").ok_or_else(|| wrong("`name` is missing"))?;
        if !self.names.contains(&name) {
            return Err((INVALID_PARAMS, format!("unknown tool: {name}")));
        }
        let arguments = tools::arguments(params.get("arguments"))
            .ok_or_else(|| wrong("`arguments` must be an object"))?;
        Ok(HostedToolCall::new(request, name, arguments))
    }
}

fn completed(request: &InboundRequest<'_>) -> Bytes {
    #[derive(Serialize)]
    struct CompletionValues {
        values: [u8; 0],
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Completed {
        completion: CompletionValues,
        #[serde(skip_serializing_if = "Option::is_none")]
        result_type: Option<&'static str>,
    }
    let completion = CompletionValues { values: [] };
    let result_type = request.meta.result_type();
    jsonrpc::result(&request.id, &Completed { completion, result_type })
}

/// What goes with the refusal of a version.
fn supported(meta: &RequestMeta) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct Versions<'a> {
        requested: Option<&'a str>,
        supported: [&'static str; 5],
    }
    let versions = Versions { requested: meta.version.as_deref(), supported: version::KNOWN };
    serde_json::value::to_raw_value(&versions).ok()
}

/// Requests that name their version get the status of their error, too.
fn status(request: &InboundRequest<'_>, code: i64) -> u16 {
    let meta = &request.meta;
    if meta.version.is_none() && request.method != "server/discover" {
        return 200;
    }
    match code {
        UNSUPPORTED_VERSION | HEADER_MISMATCH => 400,
        INVALID_PARAMS if meta.complete().is_err() => 400,
        METHOD_NOT_FOUND => 404,
        _ => 200,
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
