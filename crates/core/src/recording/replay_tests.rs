use bytes::Bytes;
use ibeam_proto::agent::{
    AgentServerMessage, ConversationStateStructure, ExecServerMessage, GetBlobArgs,
    InteractionUpdate, KvServerMessage, McpArgs, SetBlobArgs, TextDeltaUpdate, TurnEndedUpdate,
    agent_client_message::Message as ToServer, agent_server_message::Message as FromServer,
    exec_server_message::Message as Ask, interaction_update::Message as Update, kv_server_message,
};
use ibeam_proto::{Wire as _, agent::AgentClientMessage};
use serde_json::json;

use super::*;
use crate::{
    codec::connect::{self, Code, ConnectError},
    model::{
        Dialect, Hints, Item, Message, Part, Role, Sampling, Tool, ToolCall, ToolChoice,
        ToolResult, TurnRequest,
    },
    models::ModelPick,
    peer::{
        LinkError,
        agent::{
            BlobLimits, Environment, HistoryForm, HistorySetting, Permissions, Plan, SignedItem,
            SignedReasoning, Surroundings,
        },
        child::{ChildOwner, ChildPlan, Exit, FromChild, HostedCall, Ready},
        cli::CliSpeaker,
    },
    recording::{Mask, testing::TapedTurn},
    turn::Settings,
};

/// Texts that must not be in a redacted recording.
const PLANTED: [&str; 13] = [
    "PlantedSignature",
    "PlantedSystem",
    "PlantedQuestion",
    "PlantedAnswer",
    "PlantedTool",
    "PlantedDescription",
    "PlantedArgument",
    "PlantedResult",
    "planted@example.com",
    "/home/planted",
    "sk-ant-planted0123456789abcdef",
    "PlantedHistory",
    "PlantedParameter",
];

fn user(text: &str) -> Item {
    Item::Message(Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] })
}

fn said(text: &str) -> Item {
    Item::Message(Message { role: Role::Assistant, parts: vec![Part::Text(text.to_owned())] })
}

fn request(items: Vec<Item>) -> TurnRequest {
    let schema = json!({
        "type": "object",
        "properties": {"PlantedParameter": {"type": "string", "description": "PlantedDescription"}},
    });
    TurnRequest {
        model: "auto".into(),
        system: vec!["PlantedSystem planted@example.com sk-ant-planted0123456789abcdef".into()],
        items,
        tools: vec![Tool {
            name: "PlantedTool".into(),
            description: "PlantedDescription".into(),
            schema: serde_json::value::to_raw_value(&schema).ok(),
        }],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints {
            session: Some("PlantedQuestion".into()),
            workspace: Some("/home/planted".into()),
            user: Some("planted@example.com".into()),
            ..Hints::default()
        },
    }
}

fn agent(request: TurnRequest, settings: Settings) -> (Turn<AgentPeer>, TapedTurn) {
    let environment = Environment {
        os_version: "PlantedSystem".into(),
        shell: "/home/planted/zsh".into(),
        workspace_paths: vec!["/home/planted/work".into()],
        ..Environment::default()
    };
    let plan = Plan {
        model: ModelPick { id: "default".into(), ..ModelPick::default() },
        conversation_id: "5a7b45c0-0611-4b58-898e-02fec27f75b1".into(),
        surroundings: std::sync::Arc::new(Surroundings::new(
            &request,
            &environment,
            Permissions::default(),
            true,
        )),
        limits: BlobLimits::default(),
        inline_context: true,
        kept: None,
        history: HistorySetting::Only(HistoryForm::ResumeRoots),
        memory: std::sync::Arc::default(),
        signed: vec![SignedItem {
            at: 0,
            signed: SignedReasoning {
                signature: "PlantedSignature".into(),
                options: serde_json::value::to_raw_value(
                    &json!({ "cursor": { "modelName": "m" }, "PlantedOption": "PlantedOption" }),
                )
                .unwrap(),
            },
        }],
        scope: [0; 32],
        run_seed: "turn".into(),
        host_changes: Some(0),
    };
    TapedTurn::begin(request, plan, SessionId::from_random([3; 16]), settings, [9; 16])
}

/// What the turn sent.
fn drain<P: Peer>(turn: &mut Turn<P>) -> Vec<P::Out> {
    let mut sent = Vec::new();
    while let Some(command) = turn.poll_command() {
        if let Command::Send(message) = command {
            sent.push(message);
        }
    }
    while turn.poll_event().is_some() {}
    sent
}

fn frame(message: FromServer) -> Bytes {
    connect::encode(&AgentServerMessage { message: Some(message), ..AgentServerMessage::default() })
}

fn update(update: Update) -> Bytes {
    let update = InteractionUpdate { message: Some(update), ..InteractionUpdate::default() };
    frame(FromServer::InteractionUpdate(update))
}

fn text(text: &str) -> Bytes {
    update(Update::TextDelta(TextDeltaUpdate { text: text.into(), ..TextDeltaUpdate::default() }))
}

fn check_redacted(taped: &TapedTurn) -> String {
    let redacted = taped.text(Mask::redacted([5; 32]));
    for planted in PLANTED {
        assert!(!redacted.contains(planted), "{planted} in {redacted}");
        assert!(!redacted.to_lowercase().contains("planted"), "{redacted}");
    }
    redacted
}

/// A rebuilt history, whose entries the backend asks for by their ids: in a recording with
/// placeholders the machine calls them by other ids.
#[test]
fn entries_that_are_asked_for_by_their_id_are_found() {
    let items =
        vec![user("PlantedHistory"), said("PlantedHistory too"), user("PlantedQuestion, please")];
    let (mut turn, taped) = agent(request(items), Settings::default());
    drain(&mut turn);
    turn.on_opened(Millis(3));
    let sent = drain(&mut turn);
    let first = AgentClientMessage::from_wire(sent[0].slice(5..)).unwrap();
    let Some(ToServer::RunRequest(run)) = first.message else { panic!() };
    let roots = run.conversation_state.unwrap().root_prompt_messages_json;
    assert!(roots.len() > 2);
    for (number, id) in (1..).zip(roots) {
        let ask = KvServerMessage {
            id: number,
            message: Some(kv_server_message::Message::GetBlobArgs(GetBlobArgs { blob_id: id })),
            ..KvServerMessage::default()
        };
        turn.on_message(frame(FromServer::KvServerMessage(ask)), Millis(5));
        let answer = drain(&mut turn).remove(0);
        assert!(answer.len() > 20, "the blob was there");
    }
    turn.on_message(text("PlantedAnswer"), Millis(8));
    drain(&mut turn);
    turn.on_message(update(Update::TurnEnded(TurnEndedUpdate::default())), Millis(9));
    turn.on_message(connect::end_frame(None), Millis(9));
    drain(&mut turn);
    let redacted = check_redacted(&taped);
    let replay = Replay::same_as_recorded(&redacted).unwrap();
    assert!(replay.over);
    let answers = replay.steps.iter().filter(|step| match &step.what {
        ReplayWhat::Did(LineBody::Out(frame)) => frame.title().contains("get_blob_result"),
        _ => false,
    });
    let texts: Vec<String> = answers.map(|step| format!("{:?}", step.what)).collect();
    assert!(!texts.is_empty() && texts.iter().all(|text| text.contains("blob_data")), "{texts:?}");
}

/// A retry waits for a time that depends on the random numbers of the turn.
#[test]
fn a_retry_comes_when_it_came() {
    let (mut turn, taped) = agent(request(vec![user("PlantedQuestion")]), Settings::default());
    drain(&mut turn);
    turn.on_link_error(&LinkError::Connect("no route to planted.example".into()), Millis(20));
    drain(&mut turn);
    let due = turn.poll_deadline().unwrap();
    turn.on_timeout(due);
    drain(&mut turn);
    turn.on_opened(due);
    drain(&mut turn);
    let error = ConnectError::new(Code::ResourceExhausted, "planted, you hit your usage limit");
    turn.on_message(connect::end_frame(Some(&error)), due);
    drain(&mut turn);
    let redacted = check_redacted(&taped);
    let replay = Replay::same_as_recorded(&redacted).unwrap();
    let failed = replay.steps.iter().any(|step| {
        matches!(&step.what, ReplayWhat::Did(LineBody::Event(EventRecord::Failed { code, message }))
            if code == "insufficient_quota" && message.contains("usage limit"))
    });
    assert!(failed, "{:#?}", replay.steps);
}

fn child() -> (Turn<ChildPeer>, TapedTurn) {
    let plan = ChildPlan {
        speaker: || Box::<CliSpeaker>::default(),
        model: "auto".into(),
        conversation_id: "5a7b45c0-0611-4b58-898e-02fec27f75b1".into(),
        images: false,
        result_bytes: 1 << 20,
        kept: None,
        owner: ChildOwner::default(),
    };
    let items = vec![user("PlantedQuestion")];
    let session = SessionId::from_random([3; 16]);
    TapedTurn::begin(request(items), plan, session, Settings::default(), [9; 16])
}

#[test]
fn a_child_with_a_hosted_call_is_replayed() {
    let (mut turn, taped) = child();
    let line = |value: serde_json::Value| FromChild::Output(format!("{value}\n").into());
    let say = |text: &str, marks: serde_json::Value| {
        let mut event = json!({
            "type": "assistant", "session_id": "planted-session",
            "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
        });
        event.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        line(event)
    };
    let piece = json!({"timestamp_ms": 1});
    drain(&mut turn);
    turn.on_opened(Millis(1));
    let ready = Ready { workspace: "/home/planted/run".into(), ..Ready::default() };
    let mut messages = vec![
        FromChild::Ready(ready),
        line(json!({"type": "system", "subtype": "init", "cwd": "/home/planted"})),
        say("PlantedAnswer ", piece.clone()),
        say("goes on.", piece.clone()),
    ];
    // A line that comes in two pieces.
    let started = json!({
        "type": "tool_call", "subtype": "started", "call_id": "planted-call",
        "tool_call": {"mcpToolCall": {"args": {
            "providerIdentifier": "ibeam", "name": "ibeam-PlantedTool", "toolName": "PlantedTool",
            "args": {"PlantedParameter": "PlantedArgument"},
        }}},
    });
    let bytes = Bytes::from(format!("{started}\n"));
    messages.push(FromChild::Output(bytes.slice(..40)));
    messages.push(FromChild::Output(bytes.slice(40..)));
    messages.push(FromChild::Call(HostedCall {
        id: 1,
        name: "PlantedTool".into(),
        arguments: r#"{"PlantedParameter":"PlantedArgument"}"#.into(),
    }));
    for message in messages {
        turn.on_message(message, Millis(2));
        drain(&mut turn);
    }
    while let Some(due) = turn.poll_deadline().filter(|due| *due < Millis(20_000)) {
        turn.on_timeout(due);
        drain(&mut turn);
        if turn.state() == crate::turn::TurnState::AwaitingTools {
            break;
        }
    }
    let mut next = request(vec![user("PlantedQuestion")]);
    let call = turn.calls().remove(0);
    next.items.push(Item::ToolCall(ToolCall { ..call.clone() }));
    next.items.push(Item::ToolResult(ToolResult {
        call_id: call.id,
        content: vec![Part::Text("Error: PlantedResult in /home/planted".into())],
        is_error: false,
    }));
    turn.resume(next, Millis(30_000)).unwrap();
    drain(&mut turn);
    for message in [
        say("PlantedAnswer", piece),
        say("PlantedAnswer", json!({})),
        line(json!({"type": "result", "subtype": "success", "result": "PlantedAnswer"})),
        FromChild::Exited(Exit { code: Some(0), stderr: "planted@example.com".into() }),
    ] {
        turn.on_message(message, Millis(30_001));
        drain(&mut turn);
    }
    assert_eq!(turn.state(), crate::turn::TurnState::Done);
    let redacted = check_redacted(&taped);
    assert!(Replay::same_as_recorded(&redacted).unwrap().over);
}

/// A complete recording of a short answer.
fn recorded() -> String {
    let (mut turn, taped) = agent(request(vec![user("PlantedQuestion")]), Settings::default());
    drain(&mut turn);
    turn.on_opened(Millis(1));
    drain(&mut turn);
    let state = ConversationStateStructure::default();
    for message in [
        text("PlantedAnswer"),
        frame(FromServer::ConversationCheckpointUpdate(Box::new(state))),
        update(Update::TurnEnded(TurnEndedUpdate::default())),
        connect::end_frame(None),
    ] {
        turn.on_message(message, Millis(7));
        drain(&mut turn);
    }
    taped.text(Mask::redacted([5; 32]))
}

fn without(text: &str, words: &str) -> String {
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains(words)).collect();
    assert!(kept.len() < text.lines().count(), "no line with {words}");
    kept.join("\n")
}

#[test]
fn a_machine_that_does_something_else_is_noticed() {
    let text = recorded();
    assert!(Replay::same_as_recorded(&text).is_ok());
    // It sent its first message, and now it does not; and the other way round.
    let extra = Replay::same_as_recorded(&without(&text, "run_request")).unwrap_err();
    assert!(extra.contains("extra: run_request"), "{extra}");
    let twice = text.replacen(
        "{\"t\":7,\"what\":\"event\"",
        "{\"t\":7,\"what\":\"close\",\"cancel\":true}\n{\"t\":7,\"what\":\"event\"",
        1,
    );
    let missing = Replay::same_as_recorded(&twice).unwrap_err();
    assert!(missing.contains("missing: close the link"), "{missing}");
    // The client got another ending.
    let other = text.replace("\"reason\":\"stop\"", "\"reason\":\"length\"");
    let ending = Replay::same_as_recorded(&other).unwrap_err();
    assert!(
        ending.contains("missing: finished: length") && ending.contains("extra: finished: stop")
    );
    // A message of another structure.
    let other = text.replacen("5 conversation_id", "99", 1);
    assert!(Replay::same_as_recorded(&other).is_err());
}

#[test]
fn what_is_cut_off_or_of_a_later_version_is_passed_over() {
    let text = recorded();
    let cut = &text[..text.len() - text.lines().next_back().unwrap().len() - 10];
    let recording = Recording::read(cut).unwrap();
    assert!(recording.truncated && !recording.is_complete());
    assert_eq!(replay(&recording).unwrap().differences, 0, "what is missing is not a difference");
    let later = text.replacen(
        "{\"t\":1,\"what\":\"opened\"",
        "{\"t\":1,\"what\":\"teleported\",\"to\":7}\n{\"t\":1,\"what\":\"opened\"",
        1,
    );
    let recording = Recording::read(&later).unwrap();
    assert_eq!((recording.unknown, replay(&recording).unwrap().differences), (1, 0));
    let broken = text.replacen("{\"t\":1,\"what\":\"opened\"", "{\"t\":1,", 1);
    let error = Recording::read(&broken).unwrap_err().to_string();
    assert!(error.starts_with("line "), "{error}");
}

#[test]
fn a_recording_ends_at_its_limit() {
    let (mut turn, taped) = agent(request(vec![user("hi")]), Settings::default());
    drain(&mut turn);
    turn.on_opened(Millis(1));
    for _ in 0..50 {
        turn.on_message(text("more"), Millis(2));
        drain(&mut turn);
    }
    let whole = taped.text(Mask::redacted([5; 32]));
    let limited = taped.limited(Mask::redacted([5; 32]), whole.len() / 2);
    assert!(limited.len() <= whole.len() / 2 + 64, "{} of {}", limited.len(), whole.len());
    assert!(limited.trim_end().ends_with("\"what\":\"full\"}"), "{limited}");
    let recording = Recording::read(&limited).unwrap();
    assert!(!recording.is_complete());
    assert_eq!(replay(&recording).unwrap().differences, 0);
}

/// The fixtures in the folder of recordings: each was a bug, or stands for one kind of turn.
#[test]
fn recordings_of_the_test_folder_are_replayed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let replay = Replay::same_as_recorded(&text);
        assert!(replay.is_ok(), "{}: {}", path.display(), replay.unwrap_err());
        count += 1;
    }
    assert!(count >= 3, "{count} recordings");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]

    /// Whatever a conversation has, a recording without texts has none of it, and replays.
    #[test]
    fn a_recording_without_texts_has_nothing_of_a_conversation(
        words in proptest::collection::vec("[A-Z][a-z]{3,8}[0-9]{2,5}(@[a-z]{4}\\.org|/[A-Z]{4,6})?", 8),
    ) {
        let [system, question, old, tool, parameter, argument, result, answer] = words.as_slice() else {
            panic!()
        };
        let mut request = request(vec![user(old), said(answer), user(question)]);
        request.system = vec![system.clone()];
        request.tools[0].name = format!("mcp__{}__x", tool.replace(['@', '/', '.'], "-"));
        request.tools[0].description.clone_from(answer);
        request.hints = Hints { session: Some(old.clone()), workspace: Some(format!("/{system}")), ..Hints::default() };
        let name = request.tools[0].name.clone();
        let (mut turn, taped) = agent(request.clone(), Settings::default());
        drain(&mut turn);
        turn.on_opened(Millis(1));
        drain(&mut turn);
        let kind = Some(prost_types::value::Kind::StringValue(argument.clone()));
        let value = prost::Message::encode_to_vec(&prost_types::Value { kind });
        let call = McpArgs {
            name: name.clone(),
            tool_name: name,
            tool_call_id: question.clone(),
            args: [(parameter.clone(), value.into())].into(),
            ..McpArgs::default()
        };
        let exec = ExecServerMessage {
            id: 4,
            exec_id: result.clone(),
            message: Some(Ask::McpArgs(call)),
            ..ExecServerMessage::default()
        };
        let blob = json!({"role": "assistant", "content": [{"type": "text", "text": answer}]});
        let set = SetBlobArgs {
            blob_id: vec![0xfe; 32].into(),
            blob_data: blob.to_string().into(),
        };
        let set = KvServerMessage {
            id: 9,
            message: Some(kv_server_message::Message::SetBlobArgs(set)),
            ..KvServerMessage::default()
        };
        let (head, tail) = answer.split_at(answer.len() / 2);
        for message in [
            text(head),
            text(tail),
            frame(FromServer::KvServerMessage(set)),
            frame(FromServer::ExecServerMessage(Box::new(exec))),
        ] {
            turn.on_message(message, Millis(2));
            drain(&mut turn);
        }
        turn.on_timeout(Millis(2_000));
        drain(&mut turn);
        let called = turn.calls();
        proptest::prop_assert_eq!(called.len(), 1);
        request.items.push(Item::ToolCall(called[0].clone()));
        request.items.push(Item::ToolResult(ToolResult {
            call_id: called[0].id.clone(),
            content: vec![Part::Text(result.clone())],
            is_error: true,
        }));
        turn.resume(request, Millis(3_000)).unwrap();
        drain(&mut turn);
        turn.on_link_error(&LinkError::Reset(format!("by {system}")), Millis(3_001));
        drain(&mut turn);
        let recording = taped.text(Mask::redacted([1; 32]));
        for word in &words {
            // Placeholders have no capital letters, so nothing is there by chance.
            for part in word.split(['@', '/', '.']).filter(|part| part.contains(char::is_uppercase)) {
                proptest::prop_assert!(!recording.contains(part), "{} in {}", part, recording);
            }
        }
        proptest::prop_assert_eq!(Replay::same_as_recorded(&recording).map(|_| ()), Ok(()));
    }
}

#[path = "replay_limits_tests.rs"]
mod limits;
#[path = "replay_names_tests.rs"]
mod names;
