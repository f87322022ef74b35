use std::time::Duration;

use ibeam_proto::agent::{
    AgentClientMessage, AgentServerMessage, ConversationStateStructure, ConversationTokenDetails,
    ExecServerMessage, GetBlobArgs, HeartbeatUpdate, InteractionQuery, InteractionUpdate,
    KvServerMessage, McpArgs, RequestContextArgs, SetBlobArgs, StepCompletedUpdate,
    StepStartedUpdate, TextDeltaUpdate, ThinkingDeltaUpdate, TokenDeltaUpdate,
    ToolCallStartedUpdate, TurnEndedUpdate, WebSearchRequestQuery,
    agent_server_message::Message as FromServer, conversation_action,
    exec_server_message::Message as Ask, interaction_query::Query,
    interaction_update::Message as Update, kv_server_message,
};
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::{
    agent::{
        blobs::BlobLimits,
        request::{Environment, ModelPick, Permissions},
        tools::arguments_map,
    },
    codec::connect::{self, Code, ConnectError},
    model::{
        Dialect, FinishReason, Hints, Item, Message, Part, Role, Sampling, TerminalGuard, Tool,
        ToolChoice, TurnRequest, Usage, UsageSource,
    },
};

// === a harness ===

fn user(text: &str) -> Item {
    Item::Message(Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] })
}

fn spec(tools: &[&str]) -> RunSpec {
    let request = TurnRequest {
        model: "auto".into(),
        system: vec!["Be brief.".into()],
        items: vec![user("hi")],
        tools: tools
            .iter()
            .map(|name| Tool { name: (*name).into(), description: String::new(), schema: None })
            .collect(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    };
    let model = ModelPick { id: "default".into(), ..ModelPick::default() };
    RunSpec::new(
        &request,
        model,
        "conv".into(),
        &Environment::default(),
        Permissions::default(),
        BlobLimits::default(),
    )
}

/// A turn with its clock, and everything it said so far.
struct Bench {
    turn: Turn,
    now: Millis,
    commands: Vec<Command>,
    events: Vec<TurnEvent>,
    guard: TerminalGuard,
}

impl Bench {
    /// A turn whose first stream is open.
    fn open(tools: &[&str]) -> Self {
        let mut bench = Self::closed(tools);
        bench.opened();
        bench
    }

    fn closed(tools: &[&str]) -> Self {
        let turn = Turn::new(spec(tools), Settings::default(), [7; 16], Millis(0));
        let mut bench = Self {
            turn,
            now: Millis(0),
            commands: Vec::new(),
            events: Vec::new(),
            guard: TerminalGuard::default(),
        };
        bench.drain();
        bench
    }

    fn drain(&mut self) {
        while let Some(command) = self.turn.poll_command() {
            self.commands.push(command);
        }
        while let Some(event) = self.turn.poll_event() {
            assert_eq!(self.guard.check(&event), Ok(()));
            self.events.push(event);
        }
    }

    fn opened(&mut self) {
        self.turn.on_opened(self.now);
        self.drain();
    }

    fn say(&mut self, message: FromServer) {
        self.bytes(connect::encode(&AgentServerMessage { message: Some(message) }));
    }

    fn update(&mut self, update: Update) {
        self.say(updated(update));
    }

    fn bytes(&mut self, bytes: Bytes) {
        self.turn.on_bytes(bytes, self.now);
        self.drain();
    }

    fn text(&mut self, text: &str) {
        self.update(Update::TextDelta(TextDeltaUpdate { text: text.into() }));
    }

    fn end(&mut self, error: Option<&ConnectError>) {
        self.bytes(connect::end_frame(error));
    }

    fn eof(&mut self) {
        self.turn.on_eof(self.now);
        self.drain();
    }

    fn broke(&mut self, error: &LinkError) {
        self.turn.on_link_error(error, self.now);
        self.drain();
    }

    /// Lets time pass, waking the turn whenever it asks to be.
    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.turn.poll_deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            self.turn.on_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    /// What was sent on the streams, decoded.
    fn sent(&self) -> Vec<ToServer> {
        let frames = self.commands.iter().filter_map(|command| match command {
            Command::Send(frame) => Some(frame.slice(5..)),
            _ => None,
        });
        frames.filter_map(|bytes| AgentClientMessage::decode(bytes).unwrap().message).collect()
    }

    fn opens(&self) -> usize {
        self.commands.iter().filter(|command| matches!(command, Command::Open(_))).count()
    }

    fn ending(&self) -> &TurnEvent {
        self.events.last().expect("no event")
    }

    fn failure(&self) -> ErrorCode {
        match self.ending() {
            TurnEvent::Failed(error) => error.code,
            other => panic!("not failed: {other:?}"),
        }
    }

    fn said(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            TurnEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

fn updated(update: Update) -> FromServer {
    FromServer::InteractionUpdate(InteractionUpdate { message: Some(update) })
}

fn heartbeat() -> Update {
    Update::Heartbeat(HeartbeatUpdate {})
}

fn ended() -> Update {
    Update::TurnEnded(TurnEndedUpdate {
        input_tokens: Some(100),
        output_tokens: Some(20),
        cache_read_tokens: Some(60),
        ..TurnEndedUpdate::default()
    })
}

fn checkpoint() -> FromServer {
    FromServer::ConversationCheckpointUpdate(ConversationStateStructure {
        token_details: Some(ConversationTokenDetails { used_tokens: 120, max_tokens: 1000 }),
        ..ConversationStateStructure::default()
    })
}

fn set_blob(data: &str) -> FromServer {
    FromServer::KvServerMessage(KvServerMessage {
        id: 5,
        message: Some(kv_server_message::Message::SetBlobArgs(SetBlobArgs {
            blob_id: Bytes::copy_from_slice(data.as_bytes()),
            blob_data: Bytes::copy_from_slice(data.as_bytes()),
        })),
        ..KvServerMessage::default()
    })
}

fn exec(id: u32, ask: Ask) -> FromServer {
    FromServer::ExecServerMessage(ExecServerMessage {
        id,
        exec_id: format!("e{id}"),
        message: Some(ask),
        ..ExecServerMessage::default()
    })
}

fn call(id: u32, tool: &str, args: &str) -> FromServer {
    exec(
        id,
        Ask::McpArgs(McpArgs {
            name: tool.into(),
            args: arguments_map(args),
            tool_call_id: format!("call_{id}\nfc_{id}"),
            ..McpArgs::default()
        }),
    )
}

const STOP: TurnEvent = TurnEvent::Finished(FinishReason::Stop);

fn reset() -> LinkError {
    LinkError::Reset("connection reset".into())
}

// === a plain turn ===

#[test]
fn a_plain_turn_from_open_to_end() {
    let mut bench = Bench::open(&[]);
    bench.say(exec(1, Ask::RequestContextArgs(RequestContextArgs::default())));
    bench.update(Update::ThinkingDelta(ThinkingDeltaUpdate { text: "Hm".into() }));
    bench.text("Hel");
    bench.text("lo");
    bench.update(Update::TokenDelta(TokenDeltaUpdate { tokens: 3 }));
    bench.say(checkpoint());
    bench.update(ended());
    assert_eq!(bench.said(), "Hello");
    assert_ne!(bench.ending(), &STOP, "an error may still follow");
    bench.end(None);
    let usage = Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        source: UsageSource::Backend,
        ..Usage::default()
    };
    assert_eq!(
        bench.events,
        [
            TurnEvent::Started,
            TurnEvent::Reasoning("Hm".into()),
            TurnEvent::Text("Hel".into()),
            TurnEvent::Text("lo".into()),
            TurnEvent::Usage(usage),
            STOP,
        ]
    );
    let sent = bench.sent();
    assert!(matches!(sent[0], ToServer::RunRequest(_)));
    assert!(matches!(&sent[1], ToServer::ExecClientMessage(m) if m.id == 1 && m.exec_id == "e1"));
    assert!(matches!(sent[2], ToServer::ExecClientControlMessage(_)));
    assert_eq!(sent.len(), 3);
    assert_eq!(bench.commands.last(), Some(&Command::Close { cancel: false }));
    assert_eq!(bench.turn.poll_deadline(), None);
}

#[test]
fn blobs_are_given_by_hash_and_kept_when_handed_over() {
    let mut bench = Bench::open(&[]);
    bench.say(set_blob("stored"));
    bench.say(FromServer::KvServerMessage(KvServerMessage {
        id: 6,
        message: Some(kv_server_message::Message::GetBlobArgs(GetBlobArgs {
            blob_id: Bytes::from_static(b"stored"),
        })),
        ..KvServerMessage::default()
    }));
    bench.say(FromServer::KvServerMessage(KvServerMessage {
        id: 7,
        message: Some(kv_server_message::Message::GetBlobArgs(GetBlobArgs {
            blob_id: Bytes::from_static(b"missing"),
        })),
        ..KvServerMessage::default()
    }));
    let answers: Vec<String> = bench.sent()[1..].iter().map(|m| format!("{m:?}")).collect();
    assert!(answers[0].contains("id: 5") && answers[0].contains("SetBlobResult"));
    assert!(answers[1].contains("id: 6") && answers[1].contains("b\"stored\""));
    assert!(answers[2].contains("id: 7") && answers[2].contains("blob_data: None"));
}

#[test]
fn queries_are_answered_and_unknown_arms_refused_by_number() {
    let mut bench = Bench::open(&[]);
    bench.say(FromServer::InteractionQuery(InteractionQuery {
        id: 4,
        query: Some(Query::WebSearchRequestQuery(WebSearchRequestQuery::default())),
    }));
    // interaction_query { id: 9, field 30: {} }
    bench.bytes(connect::frame(0, &[0x3a, 0x05, 0x08, 0x09, 0xf2, 0x01, 0x00]));
    assert!(matches!(&bench.sent()[1], ToServer::InteractionResponse(r) if r.id == 4));
    let Some(Command::Send(frame)) = bench.commands.last() else { panic!() };
    assert_eq!(&frame[5..11], [0x32, frame[6], 0x08, 0x09, 0xf2, 0x01]);
    assert_eq!(bench.turn.drift().unknown_arms, 1);
}

#[test]
fn unknown_execs_are_thrown_back_and_counted() {
    let mut bench = Bench::open(&[]);
    // exec_server_message { id: 3, field 60: {} }
    bench.bytes(connect::frame(0, &[0x12, 0x05, 0x08, 0x03, 0xe2, 0x03, 0x00]));
    let text = format!("{:?}", bench.sent()[1]);
    assert!(text.contains("Throw") && text.contains("id: 3"), "{text}");
    let drift = bench.turn.drift();
    assert_eq!(drift.unknown_arms, 1);
    assert_eq!(drift.unknown_fields[0].0.field, 60);
}

#[test]
fn a_message_that_does_not_decode_is_counted_and_skipped() {
    let mut bench = Bench::open(&[]);
    bench.bytes(connect::frame(0, &[0x0a, 0xff]));
    bench.text("fine");
    bench.end(None);
    assert_eq!(bench.turn.drift().undecodable_messages, 1);
    assert_eq!(bench.said(), "fine");
}

#[test]
fn leaked_thinking_goes_to_reasoning() {
    let mut bench = Bench::open(&[]);
    bench.text("<thi");
    bench.text("nk>why</think>");
    bench.text("because");
    bench.end(None);
    assert_eq!(bench.said(), "because");
    assert!(bench.events.contains(&TurnEvent::Reasoning("why".into())));
}

// === endings ===

#[test]
fn text_only_in_a_blob_is_delivered_once() {
    let blob = r#"{"role":"assistant","content":[{"type":"text","text":"from the blob"}]}"#;
    let mut bench = Bench::open(&[]);
    bench.say(set_blob(blob));
    bench.say(set_blob(blob));
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.said(), "from the blob");

    let mut both = Bench::open(&[]);
    both.text("streamed");
    both.say(set_blob(blob));
    both.update(ended());
    both.end(None);
    assert_eq!(both.said(), "streamed");
}

#[test]
fn every_way_a_turn_ends_well() {
    type Script = fn(&mut Bench);
    let scripts: [(&str, Script); 6] = [
        ("turn_ended, end frame", |b| {
            b.update(ended());
            b.end(None);
        }),
        ("turn_ended, eof", |b| {
            b.update(ended());
            b.eof();
        }),
        ("turn_ended, reset", |b| {
            b.update(ended());
            b.broke(&reset());
        }),
        ("turn_ended, then only heartbeats", |b| {
            b.update(ended());
            b.update(heartbeat());
            b.wait(Duration::from_secs(3));
        }),
        ("end frame without turn_ended", |b| b.end(None)),
        ("storage after text, then only heartbeats", |b| {
            b.say(set_blob("x"));
            for _ in 0..4 {
                b.wait(Duration::from_secs(10));
                b.update(heartbeat());
            }
        }),
    ];
    for (name, script) in scripts {
        let mut bench = Bench::open(&[]);
        bench.text("answer");
        script(&mut bench);
        assert_eq!(bench.ending(), &STOP, "{name}");
        assert_eq!(bench.said(), "answer", "{name}");
        assert_eq!(bench.turn.phase(), Phase::Done, "{name}");
        assert_eq!(bench.opens(), 1, "{name}");
    }
}

#[test]
fn silence_is_no_ending_while_a_step_or_a_server_tool_is_open() {
    let started = Update::ToolCallStarted(ToolCallStartedUpdate {
        call_id: "web".into(),
        ..ToolCallStartedUpdate::default()
    });
    for open in [Update::StepStarted(StepStartedUpdate { step_id: 1 }), started] {
        let mut bench = Bench::open(&[]);
        bench.text("searching");
        bench.update(open);
        bench.say(set_blob("x"));
        for _ in 0..10 {
            bench.wait(Duration::from_secs(10));
            bench.update(heartbeat());
        }
        assert_eq!(bench.turn.phase(), Phase::Streaming);
    }
}

#[test]
fn a_checkpoint_is_never_an_ending() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    for _ in 0..6 {
        bench.wait(Duration::from_secs(10));
        bench.update(heartbeat());
    }
    bench.text("two");
    bench.update(Update::StepCompleted(StepCompletedUpdate::default()));
    bench.end(None);
    assert_eq!(bench.said(), "one two");
}

#[test]
fn an_error_after_turn_ended_fails_the_turn() {
    let mut bench = Bench::open(&[]);
    bench.text("half");
    bench.update(ended());
    bench.end(Some(&ConnectError::new(Code::Internal, "boom")));
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
}

#[test]
fn a_cut_stream_is_never_a_clean_stop() {
    for cut in [Bench::eof as fn(&mut Bench), |b| b.broke(&reset())] {
        let mut bench = Bench::open(&[]);
        bench.text("half an ans");
        cut(&mut bench);
        assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
    }
}

// === clocks ===

#[test]
fn fifteen_quiet_minutes_with_heartbeats_are_healthy() {
    let mut bench = Bench::open(&[]);
    bench.turn.settings.clocks.heartbeat_only = Duration::from_secs(3600);
    for _ in 0..90 {
        bench.wait(Duration::from_secs(10));
        bench.update(heartbeat());
    }
    bench.text("at last");
    bench.end(None);
    assert_eq!(bench.said(), "at last");
    let beats = bench.sent().iter().filter(|m| matches!(m, ToServer::ClientHeartbeat(_))).count();
    assert_eq!(beats, 180);
}

#[test]
fn silence_and_length_have_clocks_of_their_own() {
    let mut quiet = Bench::open(&[]);
    for _ in 0..61 {
        quiet.wait(Duration::from_secs(10));
        quiet.update(heartbeat());
    }
    assert_eq!(quiet.failure(), ErrorCode::Timeout);

    let mut dead = Bench::open(&[]);
    dead.text("x");
    dead.wait(Duration::from_secs(46));
    assert_eq!(dead.failure(), ErrorCode::Timeout);

    let mut long = Bench::open(&[]);
    for _ in 0..1900 {
        long.text(".");
        long.wait(Duration::from_secs(1));
    }
    assert_eq!(long.failure(), ErrorCode::Timeout);
    let cancelled = long.sent().into_iter().any(|message| {
        matches!(message, ToServer::ConversationAction(a)
            if matches!(a.action, Some(conversation_action::Action::CancelAction(_))))
    });
    assert!(cancelled, "the backend is told to stop");
}

#[test]
fn silence_while_we_do_not_read_is_our_own() {
    let mut bench = Bench::open(&[]);
    bench.text("x");
    bench.turn.set_reading(false, bench.now);
    bench.wait(Duration::from_secs(100));
    bench.turn.set_reading(true, bench.now);
    bench.wait(Duration::from_secs(40));
    assert_eq!(bench.turn.phase(), Phase::Streaming);
}

// === retries, by phase ===

#[test]
fn before_the_first_message_it_tries_again_with_back_off() {
    let unavailable = LinkError::Status { status: 503, error: None, retry_after: None };
    for error in [LinkError::Connect("refused".into()), LinkError::ConnectTimeout, unavailable] {
        let mut bench = Bench::closed(&[]);
        for attempt in 1..=3 {
            bench.broke(&error);
            assert_eq!(bench.opens(), attempt, "waits first");
            bench.wait(Duration::from_secs(10));
            assert_eq!(bench.opens(), attempt + 1);
        }
        bench.broke(&error);
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)), "{error:?}");
        assert_eq!(bench.events.len(), 1);
    }
    let ids: Vec<_> = {
        let mut bench = Bench::closed(&[]);
        bench.broke(&LinkError::ConnectTimeout);
        bench.wait(Duration::from_secs(10));
        let opens = bench.commands.into_iter().filter_map(|command| match command {
            Command::Open(spec) => Some(spec),
            _ => None,
        });
        opens.collect()
    };
    assert_ne!(ids[0].request_id, ids[1].request_id);
    assert_eq!(ids[0].original_request_id, ids[1].original_request_id);
}

#[test]
fn what_cannot_get_better_is_not_tried_again() {
    for (status, code) in [
        (401, ErrorCode::NotAuthenticated),
        (403, ErrorCode::PolicyDenied),
        (429, ErrorCode::RateLimited),
    ] {
        let mut bench = Bench::closed(&[]);
        bench.broke(&LinkError::Status { status, error: None, retry_after: None });
        assert_eq!(bench.failure(), code);
        assert_eq!(bench.opens(), 1);
    }
}

#[test]
fn a_stuck_or_broken_conversation_is_renewed_once() {
    type Script = fn(&mut Bench);
    let scripts: [(&str, Script); 4] = [
        ("stuck", |b| b.end(Some(&ConnectError::new(Code::ResourceExhausted, "")))),
        ("missing blob", |b| b.end(Some(&ConnectError::new(Code::Internal, "Blob not found")))),
        ("empty turn", |b| {
            b.update(ended());
            b.end(None);
        }),
        ("empty end", |b| b.end(None)),
    ];
    for (name, script) in scripts {
        let mut bench = Bench::open(&[]);
        bench.say(checkpoint());
        script(&mut bench);
        assert_eq!(bench.opens(), 2, "{name}");
        bench.opened();
        let runs: Vec<_> = bench
            .sent()
            .into_iter()
            .filter_map(|message| match message {
                ToServer::RunRequest(run) => run.conversation_id,
                _ => None,
            })
            .collect();
        assert_eq!(runs.len(), 2, "{name}");
        assert_ne!(runs[0], runs[1], "{name}");
        script(&mut bench);
        assert!(matches!(bench.ending(), TurnEvent::Failed(_)), "{name}");
        assert_eq!(bench.opens(), 2, "{name}");
    }
}

#[test]
fn once_the_client_saw_text_nothing_starts_over() {
    let mut bench = Bench::open(&[]);
    bench.text("visible");
    bench.end(Some(&ConnectError::new(Code::Internal, "Blob not found")));
    assert_eq!(bench.opens(), 1);
    assert_eq!(bench.failure(), ErrorCode::UpstreamError);
}

#[test]
fn a_lost_stream_is_resumed_once_from_the_newest_checkpoint() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    // A checkpoint with a field that our schema does not have: { 99: 7 }.
    let raw = [0x98, 0x06, 0x07];
    let mut message = vec![0x1a, 0x03];
    message.extend_from_slice(&raw);
    bench.bytes(connect::frame(0, &message));
    bench.broke(&reset());
    assert_eq!(bench.opens(), 2);
    bench.opened();
    let Some(Command::Send(frame)) = bench.commands.last() else { panic!() };
    assert!(
        frame.windows(5).any(|window| window == [0x0a, 0x03, 0x98, 0x06, 0x07]),
        "the checkpoint goes back byte for byte"
    );
    let sent = bench.sent();
    let Some(ToServer::RunRequest(run)) = sent.last() else { panic!() };
    assert_eq!(run.conversation_id.as_deref(), Some("conv"));
    let action = run.action.as_ref().and_then(|a| a.action.as_ref());
    assert!(matches!(action, Some(conversation_action::Action::ResumeAction(_))));
    bench.text("two");
    bench.broke(&reset());
    assert_eq!(bench.opens(), 2, "only once");
    assert_eq!(bench.failure(), ErrorCode::UpstreamClosed);
    assert_eq!(bench.said(), "one two");
}

#[test]
fn a_resume_that_finds_a_dead_connection_is_tried_again() {
    let mut bench = Bench::open(&[]);
    bench.text("one ");
    bench.say(checkpoint());
    bench.broke(&reset());
    bench.broke(&LinkError::Refused("connection is closing".into()));
    bench.wait(Duration::from_secs(10));
    assert_eq!(bench.opens(), 3);
    bench.opened();
    bench.text("two");
    bench.end(None);
    assert_eq!(bench.said(), "one two");
}

#[test]
fn an_internal_reset_is_resumed_over_http1() {
    let mut bench = Bench::open(&[]);
    bench.say(checkpoint());
    bench.broke(&LinkError::Reset("stream reset: INTERNAL_ERROR".into()));
    let open = bench.commands.iter().rev().find_map(|command| match command {
        Command::Open(spec) => Some(spec),
        _ => None,
    });
    assert!(open.unwrap().prefer_h1);
}

#[test]
fn cancel_tells_the_backend_and_ends_the_turn() {
    let mut bench = Bench::open(&[]);
    bench.text("x");
    bench.turn.cancel();
    bench.drain();
    assert_eq!(bench.failure(), ErrorCode::Cancelled);
    let Some(Command::Send(frame)) = bench.commands.iter().rev().nth(1) else { panic!() };
    assert_eq!(&frame[5..], [0x22, 0x02, 0x1a, 0x00]);
    assert_eq!(bench.commands.last(), Some(&Command::Close { cancel: true }));
    bench.text("too late");
    bench.turn.cancel();
    bench.drain();
    assert_eq!(bench.said(), "x");
}

// === client tools ===

#[test]
fn parallel_calls_leave_together_after_the_batch_window() {
    let mut bench = Bench::open(&["read", "bash"]);
    bench.text("Let me look.");
    bench.say(call(1, "read", r#"{"path":"a"}"#));
    bench.wait(Duration::from_millis(10));
    bench.say(call(2, "bash", r#"{"cmd":"ls"}"#));
    assert_eq!(bench.turn.phase(), Phase::Streaming);
    bench.wait(Duration::from_millis(30));
    assert_eq!(bench.ending(), &TurnEvent::Finished(FinishReason::ToolCalls));
    let names: Vec<_> = bench
        .events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::ToolCallBegin { id, name } => Some((id.as_str(), name.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(names, [("call_1_fc_1", "read"), ("call_2_fc_2", "bash")]);
}

#[test]
fn a_call_of_a_tool_nobody_offered_is_refused() {
    let mut bench = Bench::open(&["read"]);
    bench.say(call(1, "rm", "{}"));
    assert!(format!("{:?}", bench.sent()[1]).contains("ToolNotFound"));
    assert_eq!(bench.turn.phase(), Phase::Streaming);
}

// === any split of any transcript ===

fn transcript() -> impl Strategy<Value = Vec<Bytes>> {
    let message = prop_oneof![
        5 => "[a-z<>/\\n ]{0,12}".prop_map(|text| updated(Update::TextDelta(TextDeltaUpdate { text }))),
        2 => "[a-z]{1,5}".prop_map(|text| {
            updated(Update::ThinkingDelta(ThinkingDeltaUpdate { text }))
        }),
        1 => Just(updated(heartbeat())),
        1 => Just(updated(ended())),
        1 => Just(checkpoint()),
        1 => Just(set_blob(r#"{"role":"assistant","content":"blob"}"#)),
        1 => Just(exec(1, Ask::RequestContextArgs(RequestContextArgs::default()))),
        1 => Just(call(2, "read", r#"{"path":"x"}"#)),
    ];
    let frame =
        message.prop_map(|message| connect::encode(&AgentServerMessage { message: Some(message) }));
    let end = prop_oneof![
        Just(connect::end_frame(None)),
        Just(connect::end_frame(Some(&ConnectError::new(Code::Unavailable, "later")))),
        Just(Bytes::from_static(b"\x40garbage")),
        Just(Bytes::new()),
    ];
    (prop::collection::vec(frame, 0..20), end).prop_map(|(mut frames, end)| {
        frames.push(end);
        frames
    })
}

fn play(chunks: impl Iterator<Item = Bytes>) -> (Vec<TurnEvent>, Vec<Command>) {
    let mut bench = Bench::open(&["read"]);
    for chunk in chunks {
        bench.bytes(chunk);
    }
    bench.eof();
    (bench.events, bench.commands)
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(frames in transcript(), size in 1_usize..40) {
        let bytes: Vec<u8> = frames.concat();
        let whole = play(std::iter::once(Bytes::from(bytes.clone())));
        let split = play(bytes.chunks(size).map(Bytes::copy_from_slice));
        prop_assert_eq!(&whole, &split);
    }

    #[test]
    fn every_turn_has_one_ending(frames in transcript(), cut in 0_usize..400) {
        let bytes: Vec<u8> = frames.concat();
        let mut bench = Bench::open(&["read"]);
        bench.bytes(Bytes::copy_from_slice(&bytes[..cut.min(bytes.len())]));
        bench.eof();
        // Whatever was recovered, the clocks end it.
        bench.opened();
        bench.wait(Duration::from_secs(4000));
        prop_assert!(bench.guard.ended());
        prop_assert_eq!(bench.turn.phase(), Phase::Done);
    }
}
