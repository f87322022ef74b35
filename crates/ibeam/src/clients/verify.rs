//! Whether a client would get what it needs: one streamed answer, and one round trip of a
//! tool, at the gateway's own address, in the format of the client's API.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ClientApi, Offered};
use ibeam_server::{
    net::{
        connect::{Connector, Host},
        hosts::Reach,
        http::{Bounds, HttpClient, HttpError},
        proxy::Proxy,
        tls::{Alpn, Tls},
    },
    tasks::Tasks,
};

/// For one answer of a few words; some models think first.
const ANSWER: Bounds = Bounds { timeout: Duration::from_secs(90), max_body: 1 << 20 };
/// A list may have to be fetched.
const LIST: Bounds = Bounds { timeout: Duration::from_secs(30), max_body: 4 << 20 };

const CONNECT: Duration = Duration::from_secs(5);

const TOOL: &str = "ibeam_check";
const WORD: &str = "beam";

/// A gateway, and a key that it takes.
pub(crate) struct GatewayClient {
    host: Host,
    key: SecretString,
    http: HttpClient,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VerifyError {
    #[error("no answer from {0}: {1}")]
    Unreachable(Host, HttpError),
    /// With the message of the gateway.
    #[error("{1} ({0})")]
    Status(StatusCode, String),
    #[error("{0}")]
    Unexpected(String),
}

/// What came of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct VerifyReply {
    text: String,
    call: Option<VerifyCall>,
    /// The stream was ended as the API has it.
    ended: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct VerifyCall {
    id: String,
    name: String,
    arguments: String,
}

impl GatewayClient {
    pub(crate) fn new(host: Host, key: SecretString, tls: Tls, tasks: &Tasks) -> Self {
        let proxy = if host.is_loopback() { Proxy::none() } else { Proxy::from_env() };
        let connector = Connector::Tcp {
            tls: Arc::new(tls),
            proxy,
            connect_timeout: CONNECT,
            reach: Reach::only(host.clone()),
        };
        Self { http: HttpClient::new(connector, Alpn::Http1, tasks), host, key }
    }

    /// The models that it offers.
    pub(crate) async fn models(&self) -> Result<Vec<Offered>, VerifyError> {
        let request = self.request("GET", "/v1/models").body(Bytes::new());
        let body = self.call(request, LIST).await?;
        let list: OfferedList = serde_json::from_slice(&body)
            .map_err(|_| VerifyError::Unexpected("its list of models cannot be read".to_owned()))?;
        Ok(list.data.into_iter().map(Offered::from).collect())
    }

    /// The model of any of its names, which are more than the list has: `gpt-5.5:high`. `None`:
    /// there is none.
    pub(crate) async fn model(&self, name: &str) -> Result<Option<Offered>, VerifyError> {
        let request = self.request("GET", &format!("/v1/models/{name}")).body(Bytes::new());
        let body = match self.call(request, LIST).await {
            Ok(body) => body,
            Err(VerifyError::Status(StatusCode::NOT_FOUND, _)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let card: OfferedCard = serde_json::from_slice(&body)
            .map_err(|_| VerifyError::Unexpected("its model cannot be read".to_owned()))?;
        Ok(Some(card.into()))
    }

    /// Streams an answer, and has a tool called.
    pub(crate) async fn verify(&self, dialect: ClientApi, model: &str) -> Result<(), VerifyError> {
        let question = "Say hello in one short sentence.";
        let said = self.ask(dialect, &first(dialect, model, question, false)).await?;
        if said.text.trim().is_empty() {
            return Err(unexpected("the answer has no text"));
        }
        let question = format!(
            "Call the tool {TOOL} with the word {WORD}, then say in one short sentence what it \
             answered."
        );
        let asked = first(dialect, model, &question, true);
        let said = self.ask(dialect, &asked).await?;
        let call = said.call.ok_or_else(|| unexpected("the model did not call the tool"))?;
        let given: Value = serde_json::from_str(&call.arguments)
            .map_err(|_| unexpected("the arguments of the call are not JSON"))?;
        if call.name != TOOL || !given.is_object() {
            return Err(unexpected("the model made another call than the requested one"));
        }
        let said = self.ask(dialect, &second(dialect, asked, &call, &given)).await?;
        if said.text.trim().is_empty() {
            return Err(unexpected("the model did not answer the tool result"));
        }
        Ok(())
    }

    async fn ask(&self, dialect: ClientApi, body: &Value) -> Result<VerifyReply, VerifyError> {
        let path = match dialect {
            ClientApi::Chat => "/v1/chat/completions",
            ClientApi::Responses => "/v1/responses",
            ClientApi::Messages => "/v1/messages",
        };
        let request = self.request("POST", path).body(Bytes::from(body.to_string()));
        let body = self.call(request, ANSWER).await?;
        let said = heard(dialect, &String::from_utf8_lossy(&body))?;
        if said.ended { Ok(said) } else { Err(unexpected("the stream ended too early")) }
    }

    fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let bearer = format!("Bearer {}", self.key.expose_secret());
        Request::builder()
            .method(method)
            .uri(self.host.uri(path))
            .header(header::HOST, self.host.authority.as_str())
            .header(header::AUTHORIZATION, bearer)
            .header(header::CONTENT_TYPE, "application/json")
    }

    async fn call(
        &self,
        request: Result<Request<Bytes>, http::Error>,
        bounds: Bounds,
    ) -> Result<Bytes, VerifyError> {
        let request = request.map_err(|error| VerifyError::Unexpected(error.to_string()))?;
        let answer = self
            .http
            .call(request, bounds)
            .await
            .map_err(|error| VerifyError::Unreachable(self.host.clone(), error))?;
        let (status, body) = (answer.status(), answer.into_body());
        if status == StatusCode::OK {
            return Ok(body);
        }
        let message = serde_json::from_slice(&body).ok().as_ref().and_then(message);
        Err(VerifyError::Status(
            status,
            message.unwrap_or_else(|| "it refused the request".to_owned()),
        ))
    }
}

fn unexpected(what: &str) -> VerifyError {
    VerifyError::Unexpected(what.to_owned())
}

/// Of an error, in any of the three shapes.
fn message(body: &Value) -> Option<String> {
    let at = ["/error/message", "/response/error/message", "/message"];
    at.iter().find_map(|at| body.pointer(at)).and_then(Value::as_str).map(str::to_owned)
}

fn first(dialect: ClientApi, model: &str, question: &str, tool: bool) -> Value {
    let user = json!([{ "role": "user", "content": question }]);
    let schema = json!({
        "type": "object",
        "properties": { "word": { "type": "string" } },
        "required": ["word"],
    });
    let about = "Checks that tools can be called. Takes a word and gives one back.";
    let (mut body, tools, choice) = match dialect {
        ClientApi::Chat => (
            json!({ "messages": user }),
            json!([{ "type": "function", "function":
                { "name": TOOL, "description": about, "parameters": schema } }]),
            json!({ "type": "function", "function": { "name": TOOL } }),
        ),
        ClientApi::Responses => (
            json!({ "input": user, "store": false }),
            json!([{ "type": "function", "name": TOOL, "description": about,
                "parameters": schema, "strict": false }]),
            json!({ "type": "function", "name": TOOL }),
        ),
        ClientApi::Messages => (
            json!({ "messages": user, "max_tokens": 1024 }),
            json!([{ "name": TOOL, "description": about, "input_schema": schema }]),
            json!({ "type": "tool", "name": TOOL }),
        ),
    };
    put(&mut body, "model", json!(model));
    put(&mut body, "stream", json!(true));
    if tool {
        put(&mut body, "tools", tools);
        put(&mut body, "tool_choice", choice);
    }
    body
}

/// The same with the call and its result behind it. The model may say what it likes then.
fn second(dialect: ClientApi, mut body: Value, call: &VerifyCall, given: &Value) -> Value {
    let VerifyCall { id, name, arguments } = call;
    let result = "The tool works.";
    let (at, more) = match dialect {
        ClientApi::Chat => (
            "messages",
            json!([
                { "role": "assistant", "content": null, "tool_calls": [{ "id": id,
                    "type": "function", "function": { "name": name, "arguments": arguments } }] },
                { "role": "tool", "tool_call_id": id, "content": result },
            ]),
        ),
        ClientApi::Responses => (
            "input",
            json!([
                { "type": "function_call", "call_id": id, "name": name, "arguments": arguments },
                { "type": "function_call_output", "call_id": id, "output": result },
            ]),
        ),
        ClientApi::Messages => (
            "messages",
            json!([
                { "role": "assistant", "content":
                    [{ "type": "tool_use", "id": id, "name": name, "input": given }] },
                { "role": "user", "content":
                    [{ "type": "tool_result", "tool_use_id": id, "content": result }] },
            ]),
        ),
    };
    if let (Some(Value::Array(sent)), Value::Array(more)) = (body.get_mut(at), more) {
        sent.extend(more);
    }
    if let Some(fields) = body.as_object_mut() {
        fields.remove("tool_choice");
    }
    body
}

fn put(body: &mut Value, name: &str, value: Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// What a stream says.
fn heard(dialect: ClientApi, stream: &str) -> Result<VerifyReply, VerifyError> {
    let mut said = VerifyReply::default();
    for data in stream.lines().filter_map(|line| line.strip_prefix("data:")) {
        let data = data.trim();
        if data == "[DONE]" {
            continue;
        }
        let event: Value = serde_json::from_str(data)
            .map_err(|_| unexpected("an event of the stream is not JSON"))?;
        let failed = event.get("error").is_some_and(|error| !error.is_null())
            || event.get("type").is_some_and(|kind| kind == "error" || kind == "response.failed");
        if failed {
            let why = message(&event).unwrap_or_else(|| "the stream failed".to_owned());
            return Err(VerifyError::Unexpected(why));
        }
        match dialect {
            ClientApi::Chat => said.chat(&event),
            ClientApi::Responses => said.responses(&event),
            ClientApi::Messages => said.messages(&event),
        }
    }
    Ok(said)
}

fn text<'a>(value: &'a Value, at: &str) -> &'a str {
    value.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

impl VerifyReply {
    fn chat(&mut self, event: &Value) {
        let Some(choice) = event.pointer("/choices/0") else { return };
        self.text.push_str(text(choice, "/delta/content"));
        if let Some(part) = choice.pointer("/delta/tool_calls/0") {
            let call = self.call.get_or_insert_default();
            call.id.push_str(text(part, "/id"));
            call.name.push_str(text(part, "/function/name"));
            call.arguments.push_str(text(part, "/function/arguments"));
        }
        self.ended |= choice.get("finish_reason").is_some_and(Value::is_string);
    }

    fn responses(&mut self, event: &Value) {
        match text(event, "/type") {
            "response.output_text.delta" => self.text.push_str(text(event, "/delta")),
            "response.output_item.done" if text(event, "/item/type") == "function_call" => {
                self.call = Some(VerifyCall {
                    id: text(event, "/item/call_id").to_owned(),
                    name: text(event, "/item/name").to_owned(),
                    arguments: text(event, "/item/arguments").to_owned(),
                });
            }
            "response.completed" => self.ended = true,
            _ => {}
        }
    }

    fn messages(&mut self, event: &Value) {
        match text(event, "/type") {
            "content_block_start" if text(event, "/content_block/type") == "tool_use" => {
                self.call = Some(VerifyCall {
                    id: text(event, "/content_block/id").to_owned(),
                    name: text(event, "/content_block/name").to_owned(),
                    arguments: String::new(),
                });
            }
            "content_block_delta" => {
                self.text.push_str(text(event, "/delta/text"));
                if let Some(call) = &mut self.call {
                    call.arguments.push_str(text(event, "/delta/partial_json"));
                }
            }
            "message_stop" => self.ended = true,
            _ => {}
        }
    }
}

#[derive(Deserialize)]
struct OfferedList {
    data: Vec<OfferedCard>,
}

/// As `GET /v1/models` gives it; other gateways may say less.
#[derive(Deserialize)]
struct OfferedCard {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    context_window: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    capabilities: OfferedCapabilities,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OfferedCapabilities {
    tools: bool,
    images: bool,
    reasoning: bool,
    efforts: Vec<String>,
}

/// For models whose limits are unknown.
const CONTEXT: u64 = 128_000;
const OUTPUT: u64 = 32_000;

impl From<OfferedCard> for Offered {
    fn from(card: OfferedCard) -> Self {
        Self {
            name: if card.name.is_empty() { card.id.clone() } else { card.name },
            id: card.id,
            context: card.context_window.unwrap_or(CONTEXT),
            output: card.max_output_tokens.unwrap_or(OUTPUT),
            reasoning: card.capabilities.reasoning,
            images: card.capabilities.images,
            tools: card.capabilities.tools,
            efforts: card.capabilities.efforts,
        }
    }
}

impl Offered {
    /// One of which only the name is known.
    pub(crate) fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: id.to_owned(),
            context: CONTEXT,
            output: OUTPUT,
            reasoning: true,
            images: true,
            tools: true,
            efforts: Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
