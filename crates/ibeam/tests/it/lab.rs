//! A gateway and a simulator in one process, and a client that reads them.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use ibeam_server::{
    api,
    app::App,
    auth::Tokens,
    config::{Config, Transport},
    driver::in_memory,
    mcp::{bridge::Bridge, config::ServerSpec},
    net::connect::Connector,
    session::Fates,
    tasks::Tasks,
};
use ibeam_sim::{Scenario, Sim, SimConfig};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::watch;

pub(crate) struct Lab {
    pub(crate) sim: Sim,
    pub(crate) app: Arc<App>,
    router: axum::Router,
    tasks: Tasks,
    limit: usize,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(SimConfig::default(), |_| {})
    }

    /// A simulator that plays this scenario (TOML).
    pub(crate) fn scenario(toml: &str) -> Self {
        Self::with(SimConfig::scenario(Scenario::from_toml(toml).unwrap()), |_| {})
    }

    pub(crate) fn with(sim: SimConfig, change: impl FnOnce(&mut Config)) -> Self {
        Self::before(Sim::new(sim), change)
    }

    fn before(sim: Sim, change: impl FnOnce(&mut Config)) -> Self {
        Self::bridged(sim, change, Vec::new())
    }

    /// A gateway whose user has these MCP servers.
    pub(crate) fn bridged(
        sim: Sim,
        change: impl FnOnce(&mut Config),
        servers: Vec<ServerSpec>,
    ) -> Self {
        watch::logs();
        let mut config = Config::default();
        change(&mut config);
        let limit = config.limits.turns;
        let tasks = Tasks::new();
        let bridge = Bridge::started(servers, &config, &tasks);
        let mut app = App::new(config, Some(&sim), &tasks).unwrap();
        if !bridge.servers().is_empty() {
            app = app.with_bridge(bridge);
        }
        let app = Arc::new(app);
        let router = api::router(Arc::clone(&app));
        Self { sim, app, router, tasks, limit }
    }

    /// A gateway with tokens of its own, over one transport.
    pub(crate) fn signed_in(
        sim: Sim,
        transport: Transport,
        tokens: impl FnOnce(&Connector, &Tasks) -> Tokens,
    ) -> Self {
        watch::logs();
        let config = Config { transport, ..Config::default() };
        let (limit, tasks, connector) = (config.limits.turns, Tasks::new(), in_memory(&sim));
        let tokens = tokens(&connector, &tasks);
        let app = App::with_tokens(config, &connector, tokens, &tasks).unwrap();
        let app = Arc::new(app);
        let router = api::router(Arc::clone(&app));
        Self { sim, app, router, tasks, limit }
    }

    /// The same simulator behind a new gateway, as after a restart.
    pub(crate) async fn restarted(self, change: impl FnOnce(&mut Config)) -> Self {
        let sim = self.sim.clone();
        self.assert_gone().await;
        Self::before(sim, change)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> http::Response<Body> {
        watch::hearing(self.router.clone().oneshot(request).await.unwrap())
    }

    pub(crate) async fn post(&self, body: impl Into<Body>) -> Reply {
        Reply::read(self.open(body).await).await
    }

    /// The response with its body unread.
    pub(crate) async fn open(&self, body: impl Into<Body>) -> http::Response<Body> {
        self.open_with(body, &[]).await
    }

    pub(crate) async fn open_with(
        &self,
        body: impl Into<Body>,
        headers: &[(&str, &str)],
    ) -> http::Response<Body> {
        let mut request = Request::post("/v1/chat/completions")
            .header("host", "127.0.0.1:18741")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(crate) async fn post_with(&self, body: &Value, headers: &[(&str, &str)]) -> Reply {
        Reply::read(self.open_with(body.to_string(), headers).await).await
    }

    /// What became of requests and parked turns.
    pub(crate) fn fates(&self) -> Fates {
        self.app.sessions().fates
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        Reply::read(self.send(request).await).await
    }

    /// One user message, not streamed: the text of the answer.
    pub(crate) async fn ask(&self, text: &str) -> String {
        let reply = self.post(chat(text, false).to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let message = reply.json()["choices"][0]["message"].clone();
        message["content"].as_str().unwrap_or_default().to_owned()
    }

    /// One user message, streamed.
    pub(crate) async fn stream(&self, text: &str) -> Reply {
        self.post(chat(text, true).to_string()).await
    }

    /// Waits for everything to wind down, ends what is parked, and checks that nothing
    /// was left behind.
    pub(crate) async fn assert_clean(&self) {
        for _ in 0..2000 {
            let (sessions, upstream) = (self.app.sessions(), self.app.driver().stats());
            if sessions.active == 0 {
                self.app.drain_turns();
            }
            if sessions.active == 0
                && sessions.parked == 0
                && self.app.free_turns() == self.limit
                && upstream.http2.streams == 0
                && upstream.http1_streams == 0
                && self.sim.stats().open_streams == 0
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "left behind: {:?}, {} of {} permits, {:?}, sim streams {}",
            self.app.sessions(),
            self.app.free_turns(),
            self.limit,
            self.app.driver().stats(),
            self.sim.stats().open_streams
        );
    }
}

impl Lab {
    /// Takes the gateway down and checks that every task went with it.
    pub(crate) async fn assert_gone(self) {
        self.assert_clean().await;
        let Self { sim, app, router, tasks, .. } = self;
        drop((app, router));
        for _ in 0..2000 {
            if tasks.is_empty() && sim.stats().open_connections == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} tasks, {} connections", tasks.len(), sim.stats().open_connections);
    }
}

impl Reply {
    pub(crate) async fn read(response: http::Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The objects of a stream, without its `[DONE]`.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    pub(crate) fn done(&self) -> bool {
        self.body.trim_end().ends_with("data: [DONE]")
    }

    /// The text of a stream.
    pub(crate) fn text(&self) -> String {
        self.joined("content")
    }

    pub(crate) fn reasoning(&self) -> String {
        self.joined("reasoning_content")
    }

    fn joined(&self, field: &str) -> String {
        let chunks = self.chunks();
        let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str());
        deltas.collect()
    }

    pub(crate) fn finish_reason(&self) -> Option<String> {
        let chunks = self.chunks();
        let reasons: Vec<_> = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str())
            .collect();
        assert!(reasons.len() <= 1, "more than one ending: {reasons:?}");
        reasons.first().map(|reason| (*reason).to_owned())
    }

    /// The code of the error, be it the body or the last event of a stream.
    pub(crate) fn error(&self) -> Option<String> {
        let object = if self.status.is_success() {
            self.chunks().into_iter().find(|chunk| chunk.get("error").is_some())?
        } else {
            self.json()
        };
        object["error"]["code"].as_str().map(ToOwned::to_owned)
    }
}

/// A client that keeps its conversation and sends all of it each time, as most do.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) body: Value,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// A call as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl Talk {
    /// Begins with this question, and offers the tool `bash`.
    pub(crate) fn new(text: &str) -> Self {
        let mut body = chat(text, true);
        body["tools"] = tools(&["bash"]);
        Self { body, headers: Vec::new() }
    }

    /// Sends what there is, and takes the answer into the conversation.
    pub(crate) async fn ask(&mut self, lab: &Lab) -> Reply {
        let reply = self.send(lab).await;
        assert_eq!(reply.error(), None, "{}", reply.body);
        self.hear(&reply);
        reply
    }

    /// Sends what there is.
    pub(crate) async fn send(&self, lab: &Lab) -> Reply {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        lab.post_with(&self.body, &headers).await
    }

    pub(crate) fn hear(&mut self, reply: &Reply) {
        let calls: Vec<Value> = reply.calls().iter().map(Call::to_json).collect();
        let mut message = json!({ "role": "assistant", "content": reply.text() });
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        self.push(message);
    }

    pub(crate) fn push(&mut self, message: Value) {
        self.body["messages"].as_array_mut().unwrap().push(message);
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.push(json!({ "role": "user", "content": text }));
    }

    pub(crate) fn result(&mut self, call: &Call, content: impl Into<Value>) {
        let content: Value = content.into();
        self.push(json!({ "role": "tool", "tool_call_id": call.id, "content": content }));
    }

    /// Sends only what came after the last answer, as a client that names its
    /// conversation may.
    pub(crate) fn forget_past(&mut self) {
        let messages = self.body["messages"].as_array_mut().unwrap();
        let last = messages.iter().rposition(|message| message["role"] == "assistant");
        messages.drain(..last.map_or(0, |last| last + 1));
    }
}

impl Call {
    fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "type": "function",
            "function": { "name": self.name, "arguments": self.arguments },
        })
    }
}

impl Reply {
    /// The calls of a stream.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        for chunk in self.chunks() {
            for delta in chunk["choices"][0]["delta"]["tool_calls"].as_array().into_iter().flatten()
            {
                if let Some(id) = delta["id"].as_str() {
                    let name = delta["function"]["name"].as_str().unwrap();
                    let (id, name) = (id.to_owned(), name.to_owned());
                    calls.push(Call { id, name, arguments: String::new() });
                }
                if let Some(piece) = delta["function"]["arguments"].as_str() {
                    let at = delta["index"].as_u64().unwrap() as usize;
                    calls[at].arguments.push_str(piece);
                }
            }
        }
        calls
    }

    /// The one call of a stream.
    pub(crate) fn call(&self) -> Call {
        let calls = self.calls();
        assert_eq!(calls.len(), 1, "{}", self.body);
        calls.into_iter().next().unwrap()
    }
}

pub(crate) fn tools(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({ "type": "function", "function": { "name": name } });
    names.iter().map(tool).collect::<Vec<_>>().into()
}

pub(crate) fn chat(text: &str, stream: bool) -> Value {
    json!({
        "model": "auto",
        "messages": [{ "role": "user", "content": text }],
        "stream": stream,
    })
}
