//! Runs of the backend as they come over its wire, and the turn's events that they make.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use ibeam_core::{
    codec::connect::{self, Code, ConnectError},
    controls::{self, ControlVerdict},
    model::{
        Dialect, Hints, Item, Message, Millis, Part, Role, Sampling, TerminalGuard, Tool,
        ToolChoice, TurnEvent, TurnRequest, ids::SessionId,
    },
    models::Family,
    models::ModelPick,
    peer::agent::{
        AgentPeer, BlobLimits, Environment, HistorySetting, Permissions, Plan, Surroundings,
    },
    turn::{Settings, Turn},
};
use ibeam_proto::agent::{
    AgentServerMessage, ExecServerMessage, HeartbeatUpdate, InteractionUpdate, McpArgs,
    McpToolCall, PartialToolCallUpdate, TextDeltaUpdate, ThinkingDeltaUpdate, ToolCall,
    TurnEndedUpdate, agent_server_message::Message as FromServer,
    exec_server_message::Message as Ask, interaction_update::Message as Update, tool_call,
};
use prost::Message as _;
use prost_types::{Value, value::Kind};

/// One frame of a recording, or what happens between two.
enum Step {
    Frame(Bytes),
    /// Long enough that no sibling of a call is waited for any more.
    Pause,
    /// The stream is gone.
    Cut,
}

/// One run of the backend.
pub(crate) struct Recording {
    pub(crate) name: &'static str,
    steps: Vec<Step>,
}

pub(crate) fn all() -> Vec<Recording> {
    let answer =
        || vec![thinks("The user greets "), thinks("me."), says("Hello "), says("wörld\n")];
    let with = |rest: Vec<Step>| answer().into_iter().chain(rest).collect();
    vec![
        Recording {
            name: "answer",
            steps: with(vec![beat(), says("\"quoted\" 🦀"), ended(), end(None)]),
        },
        Recording {
            name: "calls",
            steps: with(vec![
                announces(1, "read", ""),
                announces(1, "read", r#"{"path": "a"#),
                announces(2, "bash", ""),
                announces(1, "read", r#"{"path": "a.txt"#),
                calls(1, "read", &[("path", "a.txt")]),
                calls(2, "bash", &[("command", "ls -l \"b\"")]),
                calls(3, "now", &[]),
                Step::Pause,
            ]),
        },
        Recording {
            name: "sequence",
            steps: with(vec![says("1 2 ST"), says("OP 3"), ended(), end(None)]),
        },
        Recording {
            name: "failure",
            steps: with(vec![end(Some(&ConnectError::new(Code::Internal, "model crashed")))]),
        },
        Recording { name: "cut", steps: with(vec![Step::Cut]) },
        Recording {
            name: "refusal",
            steps: vec![end(Some(&ConnectError::new(
                Code::PermissionDenied,
                "not with this plan",
            )))],
        },
    ]
}

impl Recording {
    /// What the turn makes of it, and the client's controls of that.
    pub(crate) fn controlled(&self, sampling: Sampling) -> Vec<TurnEvent> {
        let mut request = request(&[]);
        request.sampling = sampling;
        request.hints.stream = true;
        let controls = controls::prepare(&mut request, Family::of("default"));
        let mut controls = controls.expect("controls that are possible").expect("any controls");
        let mut events = Vec::new();
        for event in self.events() {
            let verdict = controls.on_event(event);
            events.extend(std::iter::from_fn(|| controls.pop()));
            match verdict {
                ControlVerdict::Go => {}
                ControlVerdict::End(reason) => {
                    events.push(TurnEvent::Finished(reason));
                    break;
                }
                ControlVerdict::Fail(error) | ControlVerdict::Again(_, error) => {
                    events.push(TurnEvent::Failed(error));
                    break;
                }
            }
        }
        events
    }

    /// What the turn makes of it.
    pub(crate) fn events(&self) -> Vec<TurnEvent> {
        let request = request(&["read", "bash", "now"]);
        let surroundings =
            Surroundings::new(&request, &Environment::default(), Permissions::default(), true);
        let plan = Plan {
            model: ModelPick { id: "default".to_owned(), ..ModelPick::default() },
            conversation_id: "conversation".to_owned(),
            surroundings: Arc::new(surroundings),
            limits: BlobLimits::default(),
            inline_context: false,
            kept: None,
            history: HistorySetting::default(),
            memory: Arc::default(),
            signed: Vec::new(),
            scope: [0; 32],
            run_seed: String::new(),
            host_changes: None,
        };
        let mut now = Millis(0);
        let session = SessionId::from_random([0xab; 16]);
        let mut turn =
            Turn::<AgentPeer>::new(request, plan, session, Settings::default(), [7; 16], now);
        turn.on_opened(now);
        for step in &self.steps {
            match step {
                Step::Frame(frame) => turn.on_message(frame.clone(), now),
                Step::Pause => {
                    now = now + Duration::from_secs(1);
                    turn.on_timeout(now);
                }
                Step::Cut => turn.on_eof(now),
            }
        }
        let mut guard = TerminalGuard::default();
        let mut events = Vec::new();
        while let Some(event) = turn.poll_event() {
            assert_eq!(guard.check(&event), Ok(()), "{}", self.name);
            events.push(event);
        }
        assert!(guard.ended(), "{}: {events:?}", self.name);
        events
    }
}

fn request(tools: &[&str]) -> TurnRequest {
    let tool =
        |name: &&str| Tool { name: (*name).to_owned(), description: String::new(), schema: None };
    TurnRequest {
        model: "auto".to_owned(),
        system: vec!["Be brief.".to_owned()],
        items: vec![Item::Message(Message {
            role: Role::User,
            parts: vec![Part::Text("hi".to_owned())],
        })],
        tools: tools.iter().map(tool).collect(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    }
}

// === frames ===

fn frame(message: FromServer) -> Step {
    Step::Frame(connect::encode(&AgentServerMessage {
        message: Some(message),
        ..AgentServerMessage::default()
    }))
}

fn update(update: Update) -> Step {
    frame(FromServer::InteractionUpdate(InteractionUpdate {
        message: Some(update),
        ..InteractionUpdate::default()
    }))
}

fn says(text: &str) -> Step {
    update(Update::TextDelta(TextDeltaUpdate {
        text: text.to_owned(),
        ..TextDeltaUpdate::default()
    }))
}

fn thinks(text: &str) -> Step {
    update(Update::ThinkingDelta(ThinkingDeltaUpdate {
        text: text.to_owned(),
        ..ThinkingDeltaUpdate::default()
    }))
}

fn beat() -> Step {
    update(Update::Heartbeat(HeartbeatUpdate {}))
}

fn ended() -> Step {
    update(Update::TurnEnded(TurnEndedUpdate {
        input_tokens: Some(100),
        output_tokens: Some(20),
        cache_read_tokens: Some(60),
        cache_write_tokens: Some(5),
        reasoning_tokens: Some(7),
    }))
}

fn end(error: Option<&ConnectError>) -> Step {
    Step::Frame(connect::end_frame(error))
}

fn call_id(number: u32) -> String {
    format!("call_{number}\nfc_{number}")
}

/// A call that grows before it is made.
fn announces(number: u32, tool: &str, so_far: &str) -> Step {
    let args = McpArgs { name: tool.to_owned(), ..McpArgs::default() };
    let call = McpToolCall { args: Some(args), result: None };
    update(Update::PartialToolCall(Box::new(PartialToolCallUpdate {
        call_id: call_id(number),
        tool_call: Some(ToolCall {
            tool: Some(tool_call::Tool::McpToolCall(call)),
            ..ToolCall::default()
        }),
        args_text_delta: so_far.to_owned(),
        ..PartialToolCallUpdate::default()
    })))
}

fn calls(number: u32, tool: &str, args: &[(&str, &str)]) -> Step {
    let value = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
    let args: BTreeMap<String, Bytes> = args
        .iter()
        .map(|(name, text)| ((*name).to_owned(), value(text).encode_to_vec().into()))
        .collect();
    frame(FromServer::ExecServerMessage(Box::new(ExecServerMessage {
        id: number,
        exec_id: format!("e{number}"),
        message: Some(Ask::McpArgs(McpArgs {
            name: tool.to_owned(),
            args,
            tool_call_id: call_id(number),
            ..McpArgs::default()
        })),
        ..ExecServerMessage::default()
    })))
}
