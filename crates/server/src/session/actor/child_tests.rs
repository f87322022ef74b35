//! A turn and a child, joined by a link in memory, under a clock that the tests own.

use ibeam_core::{
    backend::BackendKind,
    limits::{GateRules, Quota, SlotOwner},
    model::{
        Dialect, FinishReason, Hints, Item, Message, Part, Role, Sampling, Tool, ToolCall,
        ToolChoice, ToolResult, TurnEvent, TurnRequest, ids::CallId,
    },
    models::{ModelInfo, ModelList, ModelPick, UnknownName},
    peer::child::{self, ChildPeer, ChildStart, Exit, FromChild, HostedCall, Ready, ToChild},
    peer::cli,
    turn::Settings,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    auth::AccessTokens,
    catalog::{Catalog, CatalogOptions},
    checks::SchemaChecks,
    counter::Counter,
    driver::{
        BoxFuture, Dial, Driver, NewTurn, Open, TurnDriver as _, TurnSetup,
        child::{ChildEnd, ChildLink, link},
    },
    large::LargeWork,
    limits::{PermitClaim, TurnSlots},
    session::{
        Conversations, LegIndex, LegRequest, ParkedLimits, Patience, Registry, RequestOutline,
        Retries, leg_index::LegKeys, retries::RetryClaim, visit::Resume,
    },
    store::{ResponseLimits, Scope, Store, StoreLimits},
    tasks::Tasks,
};

const SCOPE: Scope = [1; 32];
const GRACE: Duration = Duration::from_secs(2);
const TTL: Duration = Duration::from_secs(900);
const SECOND: Duration = Duration::from_secs(1);

/// Passes the other end of each link to the test.
#[derive(Debug)]
struct Fake(mpsc::Sender<(ChildStart, ChildEnd)>);

impl Dial for Fake {
    type Peer = ChildPeer;

    fn plan(&self, _: &TurnRequest, turn: TurnSetup) -> child::ChildPlan {
        child::ChildPlan {
            speaker: || Box::<cli::CliSpeaker>::default(),
            model: "auto".into(),
            conversation_id: turn.conversation_id,
            images: false,
            result_bytes: 1 << 20,
            kept: None,
            owner: turn.owner,
        }
    }

    fn open(&self, open: Open<Box<ChildStart>>) -> BoxFuture<'_, Result<ChildLink, LinkError>> {
        let (link, end) = link();
        self.0.try_send((*open.peer, end)).unwrap();
        Box::pin(async { Ok(link) })
    }
}

impl Driver for Fake {
    fn models(&self, _token: SecretString) -> BoxFuture<'_, Result<Vec<ModelInfo>, TurnError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn kind(&self) -> BackendKind {
        BackendKind::Cli
    }
}

/// A list of models that nothing here asks for.
fn no_catalog(tasks: &Tasks) -> Catalog {
    let (ttl, unknown) = (SECOND, UnknownName::PassThrough);
    let options = CatalogOptions { ttl, file: None, unknown };
    Catalog::new(Arc::new(|| Box::pin(async { Ok(ModelList::default()) })), options, tasks.clone())
}

struct Bench {
    hub: Arc<Hub>,
    driver: Arc<Fake>,
    tasks: Tasks,
    opened: mpsc::Receiver<(ChildStart, ChildEnd)>,
    store: Store,
    conversations: Arc<Conversations>,
}

impl Bench {
    fn new() -> Self {
        let tasks = Tasks::new();
        let (sender, opened) = mpsc::channel(4);
        let (day, bytes) = (Duration::from_secs(86_400), 1 << 20);
        let responses = ResponseLimits { retention: day, count: 9, bytes };
        let limits = StoreLimits { retention: day, bytes, responses };
        let hub = Hub {
            tokens: AccessTokens::fixed(SecretString::from("token"), "test", &tasks),
            patience: Patience { cancel_grace: GRACE, client_stall: 60 * SECOND, parked: TTL },
            registry: Registry::new(ParkedLimits::default()),
            leg_index: LegIndex::new(SECOND),
            retries: Retries::new(3),
            slots: TurnSlots::new(GateRules { total: 4, reserve: 0, waiting: 4 }),
            stop: CancellationToken::new(),
            drain: CancellationToken::new(),
            catalog: no_catalog(&tasks),
            counter: Counter::new(tasks.clone()),
            checks: SchemaChecks::new(tasks.clone()),
            large_work: LargeWork::new(tasks.clone()),
            recorder: None,
            tasks: tasks.clone(),
        };
        Self {
            hub: Arc::new(hub),
            driver: Arc::new(Fake(sender)),
            store: Store::open(None, limits, &tasks).unwrap(),
            tasks,
            opened,
            conversations: Arc::default(),
        }
    }

    fn permit(&self) -> Permit {
        self.hub
            .slots
            .try_acquire(PermitClaim { owner: SlotOwner(1), quota: Quota::alone(9) })
            .unwrap()
    }

    fn start(&self) -> TurnStream {
        let claim = self.conversations.claim(SCOPE, "conv").unwrap();
        let actor = Actor {
            hub: Arc::clone(&self.hub),
            writer: ConversationWriter::new(
                &self.store,
                claim,
                session(),
                &outline(&request()),
                None,
            ),
            session: session(),
            identity: TurnIdentity { scope: SCOPE, setup: [0; 32], model: ModelPick::default() },
            family: Family::of("auto"),
            controls: None,
            model: "auto".into(),
            leg_entry: self.hub.leg_index.reserve(LegKeys::default()),
            asked: Instant::now(),
            permit: self.permit(),
            bridged: None,
            retry_key: RetryKey::default(),
        };
        let turn = NewTurn {
            setup: TurnSetup {
                model: ModelPick::default(),
                models: None,
                conversation_id: "conv".into(),
                kept: None,
                setup: [0; 32],
                owner: child::ChildOwner { scope: [0; 32], assured: usize::MAX },
            },
            session: session(),
            settings: Settings::default(),
            seed: [7; 16],
            bridged: None,
            recorder: None,
        };
        Arc::clone(&self.driver).machine(turn, request()).start(actor)
    }

    /// A child that has received its request.
    async fn child(&mut self) -> Child {
        let (start, end) = self.opened.recv().await.unwrap();
        let mut child = Child { start, end };
        child.hear(FromChild::Ready(Ready::default())).await;
        assert!(matches!(child.told().await, Some(ToChild::Input(_))));
        assert!(matches!(child.told().await, Some(ToChild::CloseInput)));
        child
    }

    /// A turn that waits for the result of its only call.
    async fn parked(&mut self) -> Child {
        let mut stream = self.start();
        let mut child = self.child().await;
        child.line(&json!({ "type": "system", "subtype": "init", "session_id": "s1" })).await;
        child.calls().await;
        assert_eq!(last(&mut stream).await, FINISHED_CALLS);
        assert_eq!(self.hub.registry.snapshot().parked, 1);
        child
    }

    async fn resume(&self, request: TurnRequest) -> Result<TurnStream, Box<LegRequest>> {
        let live = self.hub.registry.find(session(), SCOPE).unwrap();
        let leg_entry = self.hub.leg_index.reserve(LegKeys::default());
        let said = outline(&request).said;
        let leg = LegRequest {
            request,
            said,
            permit: self.permit(),
            leg_entry,
            controls: None,
            retry: RetryClaim::default(),
        };
        let (reply, answer) = oneshot::channel();
        let resume = Resume { leg, asked: Instant::now(), reply };
        live.mailbox.send(Visit::Resume(Box::new(resume))).await.unwrap();
        answer.await.unwrap()
    }

    /// All tasks have ended, and nothing is held.
    async fn all_gone(self) {
        assert_eq!(self.tasks.join_within(SECOND).await, 0);
        let now = self.hub.registry.snapshot();
        assert_eq!((now.active, now.parked, self.hub.slots.free()), (0, 0, 4));
    }
}

struct Child {
    start: ChildStart,
    end: ChildEnd,
}

impl Child {
    async fn hear(&mut self, heard: FromChild) {
        self.end.heard.send(heard).await.unwrap();
    }

    async fn line(&mut self, event: &Value) {
        self.hear(FromChild::Output(format!("{event}\n").into())).await;
    }

    async fn says(&mut self, text: &str) {
        self.line(&delta(text)).await;
    }

    async fn calls(&mut self) {
        let (name, arguments) = ("read".into(), r#"{"path":"a"}"#.into());
        self.hear(FromChild::Call(HostedCall { id: 5, name, arguments })).await;
    }

    async fn ends(&mut self) {
        let usage = json!({ "inputTokens": 10, "outputTokens": 3 });
        self.line(&json!({ "type": "result", "subtype": "success", "is_error": false,
            "result": "", "session_id": "s1", "usage": usage }))
            .await;
    }

    async fn told(&mut self) -> Option<ToChild> {
        self.end.told.recv().await
    }
}

fn delta(text: &str) -> Value {
    json!({ "type": "assistant", "session_id": "s1", "timestamp_ms": 1,
        "message": { "role": "assistant", "content": [{ "type": "text", "text": text }] } })
}

fn outline(request: &TurnRequest) -> RequestOutline {
    RequestOutline::new(request, None, SCOPE, ModelPick::default())
}

fn session() -> SessionId {
    SessionId::from_random([0xab; 16])
}

fn request() -> TurnRequest {
    let parts = vec![Part::Text("hi".into())];
    TurnRequest {
        model: "auto".into(),
        system: Vec::new(),
        items: vec![Item::Message(Message { role: Role::User, parts })],
        tools: vec![Tool { name: "read".into(), description: String::new(), schema: None }],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    }
}

/// The same with the call and its result.
fn answered() -> TurnRequest {
    let id = CallId::in_session(session(), 1).as_str().to_owned();
    let (name, arguments) = ("read".into(), r#"{"path":"a"}"#.into());
    let content = vec![Part::Text("A".into())];
    let mut request = request();
    request.items.push(Item::ToolCall(ToolCall { id: id.clone(), name, arguments }));
    request.items.push(Item::ToolResult(ToolResult { call_id: id, content, is_error: false }));
    request
}

const FINISHED_CALLS: TurnEvent = TurnEvent::Finished(FinishReason::ToolCalls);
const STOP: TurnEvent = TurnEvent::Finished(FinishReason::Stop);

/// The ending of a leg.
async fn last(stream: &mut TurnStream) -> TurnEvent {
    loop {
        let event = stream.next().await.unwrap();
        if event.is_terminal() {
            return event;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deltas_arrive_without_delay() {
    const APART: Duration = Duration::from_millis(100);
    let mut bench = Bench::new();
    let mut stream = bench.start();
    let mut child = bench.child().await;
    assert_eq!((child.start.model.as_str(), child.start.tools.len()), ("auto", 1));
    let began = Instant::now();
    let speaks = async {
        for _ in 0..10 {
            child.says("no ").await;
            tokio::time::sleep(APART).await;
        }
        child.ends().await;
    };
    let reads = async {
        let mut seen = Vec::new();
        loop {
            match stream.next().await.unwrap() {
                TurnEvent::Text(text) => seen.push((began.elapsed(), text)),
                event if event.is_terminal() => return (seen, event),
                _ => {}
            }
        }
    };
    let ((), (seen, ending)) = tokio::join!(speaks, reads);
    let expected: Vec<_> = (0..10).map(|n| (n * APART, "no ".to_owned())).collect();
    assert_eq!((seen, ending), (expected, STOP));
    assert!(matches!(child.told().await, Some(ToChild::Release { .. })), "left in order");
    assert!(child.told().await.is_none());
    assert!(!child.end.kill.is_cancelled());
    let stored = bench.store.by_session(SCOPE, session()).await.unwrap().unwrap();
    assert_eq!(stored.checkpoint.unwrap(), br#"{"v":1,"session":"s1"}"#[..]);
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn child_waits_for_its_result_and_continues() {
    let mut bench = Bench::new();
    let mut child = bench.parked().await;
    tokio::time::sleep(TTL / 2).await;
    let mut stream = bench.resume(answered()).await.unwrap();
    let Some(ToChild::Result(result)) = child.told().await else { panic!("no result") };
    assert_eq!((result.id, result.content), (5, vec![Part::Text("A".into())]));
    child.says("Done.").await;
    child.ends().await;
    assert_eq!(last(&mut stream).await, STOP);
    assert!(matches!(child.told().await, Some(ToChild::Release { .. })));
    assert_eq!(bench.hub.registry.snapshot().fates.resumed, 1);
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_client_can_reconnect_for_a_moment() {
    let mut bench = Bench::new();
    let stream = bench.start();
    let mut child = bench.child().await;
    child.says("half").await;
    tokio::task::yield_now().await;
    let left = Instant::now();
    drop(stream);
    child.end.kill.cancelled().await;
    assert_eq!(left.elapsed().as_secs(), GRACE.as_secs());
    assert!(child.told().await.is_none(), "not a word, and no release");
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_children() {
    let mut bench = Bench::new();
    let mut stream = bench.start();
    let mut child = bench.child().await;
    child.says("half").await;
    bench.hub.stop.cancel();
    let TurnEvent::Failed(error) = last(&mut stream).await else { panic!("no failure") };
    assert_eq!(error.code, ErrorCode::Unavailable);
    child.end.kill.cancelled().await;
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_parked_during_shutdown() {
    let mut bench = Bench::new();
    let child = bench.parked().await;
    bench.hub.drain.cancel();
    child.end.kill.cancelled().await;
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn parked_child_expires() {
    let mut bench = Bench::new();
    let child = bench.parked().await;
    let began = Instant::now();
    child.end.kill.cancelled().await;
    assert_eq!(began.elapsed().as_secs(), TTL.as_secs());
    assert_eq!(bench.hub.registry.snapshot().fates.expired, 1);
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn child_that_dies_while_parked_is_forgotten() {
    let mut bench = Bench::new();
    let mut child = bench.parked().await;
    child.hear(FromChild::Exited(Exit::default())).await;
    assert!(child.told().await.is_none());
    assert!(bench.hub.registry.find(session(), SCOPE).is_none());
    assert_eq!(bench.hub.registry.snapshot().fates.died_parked, 1);
    let stored = bench.store.by_session(SCOPE, session()).await.unwrap().unwrap();
    assert_eq!(stored.calls.len(), 1, "what it waited for can be told anew");
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn result_of_a_dropped_call_returns_the_request() {
    let mut bench = Bench::new();
    let mut child = bench.parked().await;
    child.hear(FromChild::Dropped(5)).await;
    child.says("I go on without.").await;
    tokio::time::sleep(SECOND).await;
    let leg = bench.resume(answered()).await.unwrap_err();
    assert_eq!(leg.request.items.len(), 3);
    drop(leg);
    child.end.kill.cancelled().await;
    assert_eq!(bench.hub.registry.snapshot().fates.superseded, 1);
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn lost_child_is_restarted() {
    let mut bench = Bench::new();
    let mut stream = bench.start();
    let child = bench.child().await;
    drop(child);
    let mut child = bench.child().await;
    child.says("Hello.").await;
    child.ends().await;
    assert_eq!(last(&mut stream).await, STOP);
    bench.all_gone().await;
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_slows_its_child() {
    let mut bench = Bench::new();
    let mut stream = bench.start();
    let mut child = bench.child().await;
    let line = FromChild::Output(format!("{}\n", delta("more ")).into());
    let mut taken = 0;
    while tokio::time::timeout(SECOND, child.hear(line.clone())).await.is_ok() {
        taken += 1;
        assert!(taken < 1000, "nobody stops it");
    }
    let mut seen = 0;
    while seen < taken {
        if let TurnEvent::Text(_) = stream.next().await.unwrap() {
            seen += 1;
        }
    }
    child.ends().await;
    assert_eq!(last(&mut stream).await, STOP);
    bench.all_gone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results_are_sent_beside_the_event_loop() {
    for (bytes, beside) in [(1000, 0), (2 << 20, 1)] {
        let mut bench = Bench::new();
        let mut child = bench.parked().await;
        let done = || bench.hub.large_work.done.load(std::sync::atomic::Ordering::Relaxed);
        let mut request = answered();
        if let Some(Item::ToolResult(result)) = request.items.last_mut() {
            result.content = vec![Part::Text("x".repeat(bytes))];
        }
        assert_eq!(done(), 0);
        let mut stream = bench.resume(request).await.unwrap();
        assert_eq!(done(), beside, "{bytes} bytes");
        assert!(matches!(child.told().await, Some(ToChild::Result(_))));
        child.says("Done.").await;
        child.ends().await;
        assert_eq!(last(&mut stream).await, STOP);
    }
}
