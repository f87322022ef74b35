//! The whole router over a scripted service, without a socket.

mod chat;
mod completions;
mod count;
mod messages;
mod responses;
mod routes;
mod stream;
mod unfit;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, TurnRequest, Usage, UsageSource, ids::CallId},
    models::{ModelInfo, ModelList},
    tokens::Count,
};
use parking_lot::Mutex;
use tokio::time::Sleep;
use tower::ServiceExt as _;

use super::{
    ApiSettings, CountedBody, DatedModelList, EventSource, GatewayService, Health, LargeWork,
    RequestContext, SessionHealth, router,
};
use crate::{
    keys::Caller,
    store::{ResponseLimits, Scope, Store, StoreLimits},
    tasks::Tasks,
};

/// One step of a scripted turn.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Event(TurnEvent),
    Wait(Duration),
    /// Never continues.
    Hang,
}

/// A turn that plays steps and counts itself while it lives.
pub(super) struct Turn {
    steps: std::vec::IntoIter<Step>,
    sleep: Option<Pin<Box<Sleep>>>,
    alive: Arc<AtomicUsize>,
}

impl EventSource for Turn {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                std::task::ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.steps.next() {
                Some(Step::Event(event)) => return Poll::Ready(Some(event)),
                Some(Step::Wait(time)) => self.sleep = Some(Box::pin(tokio::time::sleep(time))),
                Some(Step::Hang) => {
                    self.sleep = Some(Box::pin(tokio::time::sleep(Duration::from_secs(1 << 30))));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(super) struct Fake {
    pub(super) settings: ApiSettings,
    pub(super) steps: Vec<Step>,
    pub(super) start_after: Duration,
    pub(super) refuse: Option<TurnError>,
    pub(super) no_models: Option<TurnError>,
    pub(super) panics: bool,
    pub(super) health: Health,
    pub(super) alive: Arc<AtomicUsize>,
    pub(super) seen: Mutex<Vec<(TurnRequest, RequestContext)>>,
    pub(super) store: Store,
    pub(super) tasks: Tasks,
    pub(super) large_work: LargeWork,
    /// How many random numbers were drawn, when each is to be another one.
    pub(super) drawn: Option<AtomicUsize>,
}

impl Default for Fake {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        let responses = ResponseLimits { retention: day, count: 100, bytes: 1 << 20 };
        let limits = StoreLimits { retention: day, bytes: 1 << 20, responses };
        let tasks = Tasks::new();
        Self {
            settings: ApiSettings::default(),
            steps: Vec::new(),
            start_after: Duration::ZERO,
            refuse: None,
            no_models: None,
            panics: false,
            health: Health {
                backend: "agent".to_owned(),
                sessions: SessionHealth { active: 2, parked: 1, ..SessionHealth::default() },
                uptime_seconds: 42,
                ..Health::default()
            },
            alive: Arc::default(),
            seen: Mutex::default(),
            store: Store::open(None, limits, &tasks).unwrap(),
            large_work: LargeWork::new(tasks.clone()),
            tasks,
            drawn: None,
        }
    }
}

impl GatewayService for Fake {
    type Turn = Turn;

    fn settings(&self) -> &ApiSettings {
        &self.settings
    }

    async fn start_turn(
        &self,
        request: TurnRequest,
        context: RequestContext,
    ) -> Result<Turn, TurnError> {
        assert!(!self.panics, "a bug");
        tokio::time::sleep(self.start_after).await;
        self.seen.lock().push((request, context));
        if let Some(error) = &self.refuse {
            return Err(error.clone());
        }
        self.alive.fetch_add(1, Ordering::SeqCst);
        let steps = self.steps.clone().into_iter();
        Ok(Turn { steps, sleep: None, alive: Arc::clone(&self.alive) })
    }

    async fn models(&self) -> Result<DatedModelList, TurnError> {
        if let Some(error) = &self.no_models {
            return Err(error.clone());
        }
        let claude = ModelInfo {
            id: "claude-4.6-sonnet".to_owned(),
            name: "Claude 4.6 Sonnet".to_owned(),
            aliases: vec!["sonnet-4.6".to_owned()],
            thinking: true,
            images: true,
            context_window: 200_000,
            output_limit: 64_000,
            ..ModelInfo::default()
        };
        let auto = ModelInfo { name: "Auto".to_owned(), ..ModelInfo::from_id("default") };
        let secret = ModelInfo { hidden: true, ..ModelInfo::from_id("composer-1") };
        let list = Arc::new(ModelList::new(vec![auto, claude, secret]));
        Ok(DatedModelList { list, created: 1_710_877_200 })
    }

    async fn count_tokens(
        &self,
        request: TurnRequest,
        _: CountedBody,
        _: &Caller,
    ) -> Result<Count, TurnError> {
        if let Some(error) = &self.no_models {
            return Err(error.clone());
        }
        let tokens = request.texts().map(|text| text.len() as u64).sum();
        Ok(Count { tokens, exact: request.model == "gpt-5.5" })
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn store(&self) -> &Store {
        &self.store
    }

    async fn scope(&self, caller: &Caller) -> Result<Scope, TurnError> {
        Ok(caller.id)
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn large_work(&self) -> &LargeWork {
        &self.large_work
    }

    fn unix_now(&self) -> u64 {
        1_710_877_200
    }

    fn random(&self) -> [u8; 16] {
        let drawn = self.drawn.as_ref().map_or(0xab, |drawn| drawn.fetch_add(1, Ordering::SeqCst));
        [u8::try_from(drawn).unwrap(); 16]
    }
}

pub(super) fn text(text: &str) -> Step {
    Step::Event(TurnEvent::Text(text.to_owned()))
}

pub(super) fn failed(code: ErrorCode, message: &'static str) -> Step {
    Step::Event(TurnEvent::Failed(TurnError::new(code, message)))
}

pub(super) fn finished(reason: FinishReason) -> Step {
    Step::Event(TurnEvent::Finished(reason))
}

pub(super) fn hello() -> Vec<Step> {
    let usage = Usage { input: 10, output: 2, source: UsageSource::Backend, ..Usage::default() };
    vec![
        Step::Event(TurnEvent::Started),
        Step::Event(TurnEvent::Reasoning("Hm.".to_owned())),
        text("Hel"),
        text("lo"),
        Step::Event(TurnEvent::Usage(usage)),
        finished(FinishReason::Stop),
    ]
}

pub(super) fn one_call() -> Vec<Step> {
    let id = CallId::sanitised("sess_1__call_0");
    vec![
        Step::Event(TurnEvent::Started),
        Step::Event(TurnEvent::ToolCallBegin { id: id.clone(), name: "bash".to_owned() }),
        Step::Event(TurnEvent::ToolCallArgs { id: id.clone(), delta: "{}".to_owned() }),
        Step::Event(TurnEvent::ToolCallEnd { id }),
        finished(FinishReason::ToolCalls),
    ]
}

pub(super) fn chat_body(stream: bool) -> String {
    format!(r#"{{"model":"auto","stream":{stream},"messages":[{{"role":"user","content":"Hi"}}]}}"#)
}

pub(super) fn post(body: impl Into<Body>) -> Request<Body> {
    Request::post("/v1/chat/completions")
        .header("host", "127.0.0.1:18741")
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap()
}

pub(super) fn get(path: &str) -> Request<Body> {
    request("GET", path)
}

pub(super) fn request(method: &str, path: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header("host", "localhost:18741");
    request.body(Body::empty()).unwrap()
}

pub(super) fn app(fake: Fake) -> (Router, Arc<Fake>) {
    let fake = Arc::new(fake);
    (router(Arc::clone(&fake)), fake)
}

pub(super) async fn call(fake: Fake, request: Request<Body>) -> Response<Body> {
    app(fake).0.oneshot(request).await.unwrap()
}

pub(super) async fn whole(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Status, the headers that matter, body: what a snapshot should hold.
pub(super) async fn shown(response: Response<Body>) -> String {
    use std::fmt::Write as _;
    let mut out = format!("{}\n", response.status());
    for name in ["content-type", "allow", "retry-after", "x-should-retry", "x-ibeam-controls"] {
        if let Some(value) = response.headers().get(name) {
            writeln!(out, "{name}: {}", value.to_str().unwrap()).unwrap();
        }
    }
    assert!(response.headers().contains_key("x-request-id"));
    out.push('\n');
    out.push_str(&whole(response).await);
    out
}

pub(super) fn code_of(body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).expect(body);
    body["error"]["code"].as_str().unwrap().to_owned()
}

pub(super) fn is(response: &Response<Body>, status: u16) {
    assert_eq!(response.status(), StatusCode::from_u16(status).unwrap());
}
