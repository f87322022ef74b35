//! The turn machine, driven by hand: a harness, and the tests by theme.

mod autumn;
mod bare;
mod choice;
mod cut;
mod endings;
mod kept;
mod native;
mod parked;
mod partial;
mod plain;
mod reasoning;
mod recovery;
mod tools;
mod unsent;

use std::{sync::Arc, time::Duration};

use ibeam_proto::agent::{
    AgentClientMessage, AgentServerMessage, ConversationStateStructure, ConversationTokenDetails,
    ExecServerMessage, GetBlobArgs, HeartbeatUpdate, InteractionQuery, InteractionUpdate,
    KvServerMessage, McpArgs, McpResult, RequestContextArgs, SetBlobArgs, StepCompletedUpdate,
    StepStartedUpdate, TextDeltaUpdate, ThinkingDeltaUpdate, TokenDeltaUpdate,
    ToolCallStartedUpdate, TurnEndedUpdate, WebSearchRequestQuery,
    agent_client_message::Message as ToServer, agent_server_message::Message as FromServer,
    conversation_action, exec_client_message::Message as Reply,
    exec_server_message::Message as Ask, interaction_query::Query,
    interaction_update::Message as Update, kv_client_message, kv_server_message, mcp_result,
    mcp_tool_result_content_item,
};
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::{
    codec::connect::{self, Code, ConnectError},
    model::{
        Dialect, FinishReason, Hints, Item, Message, Part, Role, Sampling, TerminalGuard, Tool,
        ToolCall, ToolChoice, ToolResult, TurnEvent, TurnRequest, Usage, UsageSource,
        ids::{CallId, SessionId},
    },
    models::ModelPick,
    peer::agent::{
        HistoryForm, HistorySetting, ServiceFacts,
        blobs::{BlobLimits, Blobs},
        request::{Environment, Permissions, Surroundings},
        tools::arguments_map,
    },
    recording::testing::TapedTurn,
    turn::{Command, Settings, Turn, TurnCommand, TurnState},
};

fn user(text: &str) -> Item {
    Item::Message(Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] })
}

fn said(text: &str) -> Item {
    Item::Message(Message { role: Role::Assistant, parts: vec![Part::Text(text.to_owned())] })
}

fn request(tools: &[&str]) -> TurnRequest {
    TurnRequest {
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
    }
}

const SESSION: [u8; 16] = [0xab; 16];

fn plan_for(request: &TurnRequest) -> Plan {
    let (environment, allow) = (Environment::default(), Permissions::default());
    Plan {
        model: ModelPick { id: "default".into(), ..ModelPick::default() },
        conversation_id: "conv".into(),
        surroundings: Arc::new(Surroundings::new(request, &environment, allow, true)),
        limits: BlobLimits::default(),
        inline_context: false,
        kept: None,
        history: HistorySetting::Only(HistoryForm::RulesRoots),
        memory: Arc::default(),
        signed: Vec::new(),
        scope: [1; 32],
        run_seed: "turn".into(),
        host_changes: Some(0),
    }
}

/// A turn with its clock, and everything it said so far.
struct Bench {
    turn: Turn<AgentPeer>,
    now: Millis,
    commands: Vec<TurnCommand<AgentPeer>>,
    events: Vec<TurnEvent>,
    guard: TerminalGuard,
    /// Every test is a test of replays, too.
    taped: TapedTurn,
}

impl Bench {
    /// A turn whose first stream is open.
    fn open(tools: &[&str]) -> Self {
        let mut bench = Self::closed(tools);
        bench.opened();
        bench
    }

    fn closed(tools: &[&str]) -> Self {
        Self::of(request(tools), Settings::default())
    }

    /// A turn at a service of which this is known, with its first stream open.
    fn knowing(tools: &[&str], facts: ServiceFacts) -> Self {
        let request = request(tools);
        let (environment, allow) = (Environment::default(), Permissions::default());
        let around = Surroundings::informed(&request, &environment, allow, true, &Arc::new(facts));
        let plan = Plan { surroundings: Arc::new(around), ..plan_for(&request) };
        let mut bench = Self::planned(request, plan, Settings::default());
        bench.opened();
        bench
    }

    fn of(request: TurnRequest, settings: Settings) -> Self {
        let plan = plan_for(&request);
        Self::planned(request, plan, settings)
    }

    fn planned(request: TurnRequest, plan: Plan, settings: Settings) -> Self {
        let session = SessionId::from_random(SESSION);
        let (turn, taped) = TapedTurn::begin(request, plan, session, settings, [7; 16]);
        let mut bench = Self {
            turn,
            now: Millis(0),
            commands: Vec::new(),
            events: Vec::new(),
            guard: TerminalGuard::default(),
            taped,
        };
        bench.drain();
        bench
    }

    fn drain(&mut self) {
        let now = self.now;
        if matches!(self.turn.state(), TurnState::Backoff { until } if until <= now) {
            self.turn.on_timeout(now);
        }
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
        self.bytes(connect::encode(&AgentServerMessage {
            message: Some(message),
            ..AgentServerMessage::default()
        }));
    }

    fn update(&mut self, update: Update) {
        self.say(updated(update));
    }

    fn bytes(&mut self, bytes: Bytes) {
        self.turn.on_message(bytes, self.now);
        self.drain();
    }

    fn text(&mut self, text: &str) {
        self.update(Update::TextDelta(TextDeltaUpdate {
            text: text.into(),
            ..TextDeltaUpdate::default()
        }));
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

    /// How many heartbeats were sent.
    fn beats(&self) -> usize {
        self.sent().iter().filter(|m| matches!(m, ToServer::ClientHeartbeat(_))).count()
    }

    /// What was sent on the streams, decoded.
    fn sent(&self) -> Vec<ToServer> {
        let frames = self.commands.iter().filter_map(|command| match command {
            Command::Send(frame) => Some(frame.slice(5..)),
            _ => None,
        });
        frames.filter_map(|bytes| AgentClientMessage::decode(bytes).unwrap().message).collect()
    }

    /// The client comes back with these after its earlier items.
    fn resume(&mut self, tools: &[&str], items: Vec<Item>) -> bool {
        let mut request = request(tools);
        request.items.extend(items);
        self.resume_with(request)
    }

    fn resume_with(&mut self, request: TurnRequest) -> bool {
        let resumed = self.turn.resume(request, self.now).is_ok();
        if resumed {
            self.guard = TerminalGuard::default();
            self.events.clear();
        }
        self.drain();
        resumed
    }

    /// The results of execs that were sent: their numbers and what was said.
    fn results(&self) -> Vec<(u32, String)> {
        let sent = self.sent().into_iter().filter_map(|message| match message {
            ToServer::ExecClientMessage(message) => Some(message),
            _ => None,
        });
        sent.map(|message| {
            let text = match message.message {
                Some(Reply::McpResult(McpResult {
                    result: Some(mcp_result::Result::Success(success)),
                })) => {
                    let texts = success.content.iter().map(|item| match &item.content {
                        Some(mcp_tool_result_content_item::Content::Text(text)) => {
                            text.text.clone()
                        }
                        Some(mcp_tool_result_content_item::Content::Image(image)) => {
                            format!("{} {:?}", image.mime_type, image.data)
                        }
                        None => String::new(),
                    });
                    let text: Vec<String> = texts.collect();
                    let word = if success.is_error { "error: " } else { "" };
                    format!("{word}{}", text.join("\n"))
                }
                Some(Reply::McpResult(McpResult {
                    result: Some(mcp_result::Result::Error(error)),
                })) => format!("error: {}", error.error),
                other => format!("{other:?}"),
            };
            (message.id, text)
        })
        .collect()
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
    FromServer::InteractionUpdate(InteractionUpdate {
        message: Some(update),
        ..InteractionUpdate::default()
    })
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
    FromServer::ConversationCheckpointUpdate(Box::new(ConversationStateStructure {
        token_details: Some(ConversationTokenDetails {
            used_tokens: 120,
            max_tokens: 1000,
            ..ConversationTokenDetails::default()
        }),
        ..ConversationStateStructure::default()
    }))
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
    FromServer::ExecServerMessage(Box::new(ExecServerMessage {
        id,
        exec_id: format!("e{id}"),
        message: Some(ask),
        ..ExecServerMessage::default()
    }))
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

fn id(n: u32) -> CallId {
    CallId::in_session(SessionId::from_random([0xab; 16]), n)
}

/// The `n`th call as the client sends it back.
fn made(n: u32, name: &str) -> Item {
    Item::ToolCall(ToolCall {
        id: id(n).as_str().into(),
        name: name.into(),
        arguments: "{}".into(),
    })
}

fn result(n: u32, text: &str) -> Item {
    Item::ToolResult(ToolResult {
        call_id: id(n).as_str().into(),
        content: vec![Part::Text(text.into())],
        is_error: false,
    })
}

const CALLS: TurnEvent = TurnEvent::Finished(FinishReason::ToolCalls);
const STOP: TurnEvent = TurnEvent::Finished(FinishReason::Stop);

/// Longer than siblings of a call are waited for.
const WINDOW: Duration = Duration::from_millis(30);

/// The ways in which a stream is lost.
const LOST: [fn(&mut Bench); 3] = [
    |b| b.broke(&reset()),
    Bench::eof,
    |b| b.end(Some(&ConnectError::new(Code::Unavailable, "gone"))),
];

fn reset() -> LinkError {
    LinkError::Reset("connection reset".into())
}

/// A turn with these tools called (exec 1, 2, ...) and handed out.
fn parked(tools: &[&str]) -> Bench {
    let mut bench = Bench::open(tools);
    for (n, tool) in (1..).zip(tools) {
        bench.say(call(n, tool, r#"{"a":1}"#));
    }
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.turn.state()), (&CALLS, TurnState::AwaitingTools));
    bench
}

fn finish(bench: &mut Bench, text: &str) {
    bench.text(text);
    bench.update(ended());
    bench.end(None);
    assert_eq!(bench.ending(), &STOP);
    assert_eq!(bench.turn.state(), TurnState::Done);
}
