//! What a client would get: the list of models, one streamed answer, one round trip of a
//! tool. All of it goes through the API of a gateway in this process, as the requests of
//! clients do; only authentication is left out.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    models::ModelList,
};
use ibeam_sim::Sim;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::ServiceExt as _;

use super::DoctorSubject;
use crate::doctor::{
    findings::{AnswerTimes, BackendFailure, BackendFindings},
    report::Check,
};
use ibeam_server::{
    api,
    app::App,
    config::{Backend, Config, Transport},
    tasks::Tasks,
};

/// For a token to be renewed, and for a list.
const LIST: Duration = Duration::from_secs(30);
/// For one answer. Some models think for a while.
const TURN: Duration = Duration::from_secs(90);
/// An answer of a few words is far shorter.
const LONGEST: usize = 1 << 20;

const TOOL: &str = "ibeam_check";
const WORD: &str = "beam";

pub(super) async fn ask(subject: &DoctorSubject<'_>, tasks: &Tasks) -> BackendFindings {
    let mut asked = BackendFindings::default();
    let app = match app(subject.config, tasks) {
        Ok(app) => Arc::new(app),
        Err(failure) => {
            asked.models = Some(Err(failure));
            return asked;
        }
    };
    let list = match list(&app, &mut asked, subject).await {
        Some(list) => list,
        None => return asked,
    };
    (subject.progress)(Check::Model);
    let unknown = subject.config.models.unknown;
    match list.resolve_with(subject.model, None, unknown) {
        Ok(resolved) => {
            let name = resolved.info.as_ref().map(|info| info.public_id().to_owned());
            asked.model = Some(Ok(name.unwrap_or(resolved.wire_id)));
        }
        Err(error) => {
            asked.model = Some(Err(failure(error)));
            return asked;
        }
    }
    let probe = TurnProbe { router: api::router(Arc::clone(&app)), model: subject.model };
    (subject.progress)(Check::Answer);
    asked.requests += 1;
    let answer = probe.answer().await;
    let answered = answer.is_ok();
    asked.answer = Some(answer);
    if answered {
        (subject.progress)(Check::Tools);
        asked.requests += 1;
        asked.tools = Some(probe.tool().await);
    }
    let stats = app.driver().stats();
    asked.fell_back = stats.fallen_back && subject.config.transport == Transport::Auto;
    asked.http2_forbidden = stats.http2_forbidden;
    app.stop_turns();
    asked.drift = app.sessions().drift;
    asked
}

/// A gateway with these settings that stores nothing and requires no key.
fn app(config: &Config, tasks: &Tasks) -> Result<App, BackendFailure> {
    let mut config = config.clone();
    config.store.enabled = false;
    config.api_key = None;
    config.keys_file = None;
    let internal = |what: String| BackendFailure { code: ErrorCode::Internal, what };
    let sim = match &config.backend {
        Backend::Cursor => None,
        Backend::Sim { scenario } => {
            let simulated = config.simulator.config(scenario.as_deref());
            Some(Sim::new(simulated.map_err(|error| internal(error.to_string()))?))
        }
    };
    App::new(config, sim.as_ref(), tasks).map_err(|error| internal(error.to_string()))
}

fn failure(error: TurnError) -> BackendFailure {
    BackendFailure { code: error.code, what: error.message.into_owned() }
}

fn late(limit: Duration) -> BackendFailure {
    let what = format!("no answer within {} seconds", limit.as_secs());
    BackendFailure { code: ErrorCode::Timeout, what }
}

/// The live list, never one from disk. A token that is refused is renewed once, as always.
async fn list(
    app: &App,
    asked: &mut BackendFindings,
    subject: &DoctorSubject<'_>,
) -> Option<ModelList> {
    let own = app.tokens().are_delegated();
    let token = match own {
        true => SecretString::default(),
        false => {
            (subject.progress)(Check::Token);
            let token = timeout(LIST, app.tokens().current()).await;
            match token.map_err(|_| late(LIST)).and_then(|token| token.map_err(failure)) {
                Ok(token) => token,
                Err(failure) => {
                    asked.token = Some(Err(failure));
                    return None;
                }
            }
        }
    };
    (subject.progress)(Check::Models);
    let fetch = async {
        match app.driver().models(token.clone()).await {
            Err(error) if error.code == ErrorCode::NotAuthenticated && !own => {
                let fresh = app.tokens().renew(&token).await?;
                app.driver().models(fresh).await
            }
            models => models,
        }
    };
    let models = timeout(LIST, fetch).await.map_err(|_| late(LIST));
    match models.and_then(|models| models.map_err(failure)) {
        Ok(models) if models.is_empty() => {
            let what = "the backend lists no models".to_owned();
            asked.models = Some(Err(BackendFailure { code: ErrorCode::UpstreamError, what }));
            None
        }
        Ok(models) => {
            let list = ModelList::new(models);
            asked.token = (!own).then_some(Ok(()));
            asked.models = Some(Ok(list.visible().count()));
            Some(list)
        }
        Err(failure) => {
            asked.models = Some(Err(failure));
            None
        }
    }
}

struct TurnProbe<'a> {
    router: Router,
    model: &'a str,
}

/// A streamed answer, put together.
#[derive(Default)]
struct ProbeReply {
    text: String,
    call: Option<ProbeCall>,
    finish: Option<String>,
    first: u64,
    whole: u64,
}

#[derive(Clone, Default)]
struct ProbeCall {
    id: String,
    name: String,
    arguments: String,
}

impl TurnProbe<'_> {
    async fn answer(&self) -> Result<AnswerTimes, BackendFailure> {
        let messages = json!([{ "role": "user", "content": "Say hello in one short sentence." }]);
        let said = self.post(&json!({ "messages": messages })).await?;
        match said.text.trim().is_empty() {
            true => Err(unexpected("the answer has no text")),
            false => Ok(AnswerTimes { first: said.first, whole: said.whole }),
        }
    }

    /// The model calls a tool, and answers once more when it has the result.
    async fn tool(&self) -> Result<AnswerTimes, BackendFailure> {
        let question = format!(
            "Call the tool {TOOL} with the word {WORD}, then say in one short sentence what it \
             answered."
        );
        let tools = json!([{ "type": "function", "function": {
            "name": TOOL,
            "description": "Checks that tools can be called. Takes a word and gives one back.",
            "parameters": {
                "type": "object",
                "properties": { "word": { "type": "string" } },
                "required": ["word"],
            },
        }}]);
        let user = json!({ "role": "user", "content": question });
        let choice = json!({ "type": "function", "function": { "name": TOOL } });
        let asked = json!({ "messages": [user], "tools": tools, "tool_choice": choice });
        let first = self.post(&asked).await?;
        let call = match first.call {
            Some(call) if call.name == TOOL => call,
            Some(_) | None => return Err(unexpected("the tool was not called")),
        };
        if !serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object()) {
            return Err(unexpected("the arguments of the call are not a JSON object"));
        }
        let ProbeCall { id, name, arguments } = call;
        let calls = json!([{ "id": id, "type": "function",
            "function": { "name": name, "arguments": arguments } }]);
        let messages = json!([
            user,
            { "role": "assistant", "content": null, "tool_calls": calls },
            { "role": "tool", "tool_call_id": id, "content": "The tool works." },
        ]);
        let second = self.post(&json!({ "messages": messages, "tools": tools })).await?;
        match second.text.trim().is_empty() {
            true => Err(unexpected("the model did not answer the tool result")),
            false => Ok(AnswerTimes { first: first.first, whole: first.whole + second.whole }),
        }
    }

    async fn post(&self, body: &Value) -> Result<ProbeReply, BackendFailure> {
        timeout(TURN, self.exchange(body)).await.unwrap_or_else(|_| Err(late(TURN)))
    }

    async fn exchange(&self, body: &Value) -> Result<ProbeReply, BackendFailure> {
        let begun = Instant::now();
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut() {
            fields.insert("model".to_owned(), self.model.into());
            fields.insert("stream".to_owned(), true.into());
        }
        let request = Request::post("/v1/chat/completions")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .map_err(|error| unexpected(&error.to_string()))?;
        let answer = match self.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let streamed = answer.status() == StatusCode::OK;
        let mut body = answer.into_body();
        let (mut said, mut read, mut rest) = (ProbeReply::default(), 0, Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| unexpected(&error.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            read += data.len();
            if read > LONGEST {
                return Err(unexpected("the answer did not end"));
            }
            rest.extend_from_slice(&data);
            while streamed && let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let Some(data) = line.strip_prefix(b"data: ") else { continue };
                if let Ok(chunk) = serde_json::from_slice::<Value>(data) {
                    said.hear(&chunk, begun)?;
                }
            }
        }
        if !streamed {
            return Err(refusal(&serde_json::from_slice(&rest).unwrap_or_default()));
        }
        said.whole = millis(begun);
        match said.finish {
            Some(_) => Ok(said),
            None => Err(BackendFailure {
                code: ErrorCode::UpstreamClosed,
                what: "the stream ended before the answer was complete".to_owned(),
            }),
        }
    }
}

impl ProbeReply {
    fn hear(&mut self, chunk: &Value, begun: Instant) -> Result<(), BackendFailure> {
        if chunk.get("error").is_some() {
            return Err(refusal(chunk));
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        if self.first == 0 {
            self.first = millis(begun).max(1);
        }
        let text = |value: &Value, at: &str| {
            value.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        self.text.push_str(&text(choice, "/delta/content"));
        if let Some(part) = choice.pointer("/delta/tool_calls/0") {
            let call = self.call.get_or_insert_default();
            call.id.push_str(&text(part, "/id"));
            call.name.push_str(&text(part, "/function/name"));
            call.arguments.push_str(&text(part, "/function/arguments"));
        }
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        Ok(())
    }
}

/// An error as clients get it.
fn refusal(body: &Value) -> BackendFailure {
    let text = |at: &str| body.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let code = ErrorCode::ALL.into_iter().find(|code| code.row().code == text("/error/code"));
    BackendFailure {
        code: code.unwrap_or(ErrorCode::UpstreamError),
        what: match text("/error/message") {
            "" => "the gateway's own answer cannot be read".to_owned(),
            message => message.to_owned(),
        },
    }
}

fn unexpected(what: &str) -> BackendFailure {
    BackendFailure { code: ErrorCode::UpstreamError, what: what.to_owned() }
}

fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
