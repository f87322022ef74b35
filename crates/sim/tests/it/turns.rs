//! Plain turns over HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use ibeam_core::codec::connect::Code;
use ibeam_proto::agent::{
    CancelAction, ConversationAction, ResumeAction, agent_client_message::Message as ToServer,
    conversation_action, exec_server_message::Message as Exec,
};
use ibeam_sim::{Scenario, Sim, SimConfig};
use serde_json::json;

use crate::peer::{Ended, Peer, send, summer};

fn failed(ended: Option<Ended>) -> (Code, String) {
    match ended {
        Some(Ended::Error(error)) => (error.code, error.message),
        other => panic!("not an error: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn plain_turn_has_everything_in_order() {
    let sim = Sim::new(summer(SimConfig::default()));
    let heard = Peer::new(&sim).ask("hello").await;
    assert_eq!(heard.ended, Some(Ended::EndFrame));
    assert_eq!(heard.text, "I understand: hello This is the simulator speaking.");
    assert!(heard.thinking.contains("hello"));
    let usage = heard.turn_ended.unwrap();
    assert!(usage.input_tokens.unwrap() > 0 && usage.output_tokens.unwrap() > 0);
    let checkpoint = heard.checkpoint.unwrap();
    assert_eq!((checkpoint.root_prompt_messages_json.len(), checkpoint.turns.len()), (2, 1));
    let mut order = heard.updates.clone();
    order.dedup();
    assert_eq!(
        order,
        [
            "UserMessageAppended",
            "StepStarted",
            "ThinkingDelta",
            "ThinkingCompleted",
            "TokenDelta",
            "TextDelta",
            "TokenDelta",
            "StepCompleted",
            "TurnEnded",
        ]
    );
    let stats = sim.stats();
    assert_eq!((stats.runs_started, stats.runs_finished, stats.open_streams), (1, 1, 0));
    assert_eq!(stats.violations, Vec::<String>::new());
    assert_eq!(stats.unknown_fields, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn context_is_requested_unless_it_is_inline() {
    let sim = Sim::default();
    let mut peer = Peer::new(&sim);
    peer.cloud_rule = Some("Speak like a pirate".to_owned());
    let heard = peer.ask("What are your instructions?").await;
    assert!(matches!(heard.execs[0].message, Some(Exec::RequestContextArgs(_))));
    assert!(heard.text.contains("Speak like a pirate"));
    peer.inline_context = true;
    let heard = peer.ask("What are your instructions?").await;
    assert!(heard.execs.is_empty());
    assert!(heard.text.contains("Speak like a pirate"));
}

#[tokio::test(start_paused = true)]
async fn history_comes_from_blobs() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim);
    let root = [
        json!({"role": "system", "content": "ignored"}),
        json!({"role": "user", "content": [{"type": "text", "text": "My cat is Tom"}]}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "Nice"}]}),
    ];
    let mut request = peer.request("What did I say before?");
    let state = request.conversation_state.as_mut().unwrap();
    for message in root {
        state.root_prompt_messages_json.push(peer.put_blob(message.to_string()));
    }
    let heard = peer.run(request.clone()).await;
    assert!(heard.text.contains("My cat is Tom"), "{}", heard.text);
    assert_eq!(sim.stats().kv_gets, 3);

    // In the checkpoint the user's text is blank in the root list, but not in the turns.
    let mut next = peer.request("What did I say before?");
    next.conversation_state = heard.checkpoint;
    let heard = peer.run(next).await;
    assert!(heard.text.contains("What did I say before?"), "{}", heard.text);

    peer.blobs.clear();
    let heard = peer.run(request).await;
    assert_eq!(failed(heard.ended), (Code::Internal, "Blob not found".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn pushed_blobs_must_match_their_id() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim);
    let data = Bytes::from(json!({"role": "user", "content": "I like tea"}).to_string());
    let id = peer.put_blob(data.clone());
    let mut request = peer.request("what did I say");
    request.conversation_state.as_mut().unwrap().root_prompt_messages_json.push(id.clone());
    let blob = ibeam_proto::agent::PreFetchedBlob { id: id.clone(), value: data };
    request.pre_fetched_blobs.push(blob);
    let heard = peer.run(request.clone()).await;
    assert!(heard.text.contains("I like tea"));
    assert_eq!(sim.stats().kv_gets, 0);

    request.pre_fetched_blobs.clear();
    peer.blobs.insert(id, Bytes::from_static(b"something else"));
    let heard = peer.run(request).await;
    assert_eq!(failed(heard.ended).1, "Blob not found");
    assert_eq!(sim.stats().violations, ["blob does not have the hash of its id"]);
}

#[tokio::test(start_paused = true)]
async fn kept_blobs_are_not_fetched_again() {
    let sim = Sim::new(SimConfig { keep_blobs: true, ..SimConfig::default() });
    let mut peer = Peer::new(&sim);
    let id = peer.put_blob(json!({"role": "user", "content": "x"}).to_string());
    for _ in 0..2 {
        let mut request = peer.request("hi");
        request.conversation_state.as_mut().unwrap().root_prompt_messages_json.push(id.clone());
        peer.run(request).await;
    }
    assert_eq!(sim.stats().kv_gets, 1);
}

#[tokio::test(start_paused = true)]
async fn bad_call_ids_in_history_are_refused_without_detail() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim);
    let call = json!({"role": "assistant", "content": [
        {"type": "tool-call", "toolCallId": "call_x\nfc_y", "toolName": "t", "args": {}},
    ]});
    let id = peer.put_blob(call.to_string());
    let mut request = peer.request("hi");
    request.conversation_state.as_mut().unwrap().root_prompt_messages_json.push(id);
    let heard = peer.run(request).await;
    assert_eq!(failed(heard.ended).0, Code::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn tools_are_used_when_asked_for() {
    let sim = Sim::default();
    let mut peer = Peer::new(&sim).tool("bash", Bytes::new()).tool("read", Bytes::new());
    peer.mcp_text = "hi there".to_owned();
    let heard = peer.ask("run `echo hi`, then read file a.txt").await;
    let names: Vec<_> = heard
        .execs
        .iter()
        .filter_map(|exec| match &exec.message {
            Some(Exec::McpArgs(args)) => Some(args.tool_name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["bash", "read"]);
    assert_eq!(heard.text.matches("hi there").count(), 2, "{}", heard.text);
    for update in ["PartialToolCall", "ToolCallStarted", "ToolCallCompleted"] {
        assert!(heard.updates.iter().any(|u| u == update), "{update}");
    }
    assert_eq!(sim.stats().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_are_all_sent_before_any_answer() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim).tool("bash", Bytes::new());
    let heard = peer.ask("in parallel run `a` and run `b`").await;
    assert_eq!(heard.execs.len(), 3);
    assert_eq!(heard.text.matches("tool says hi").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn server_sends_heartbeats_and_drops_silent_clients() {
    let sim = Sim::default();
    let mut peer = Peer::new(&sim);
    peer.mute = true;
    let start = tokio::time::Instant::now();
    let heard = peer.ask("hello").await;
    // The context question is never answered.
    assert_eq!(heard.text, "");
    assert_eq!(heard.heartbeats, 4);
    assert_eq!(start.elapsed().as_secs(), 45);
    assert!(matches!(heard.ended, Some(Ended::Broken(text)) if text.contains("no longer needed")));
    assert_eq!(sim.stats().runs_silent, 1);
}

#[tokio::test(start_paused = true)]
async fn run_waits_as_long_as_the_client_sends_heartbeats() {
    let scenario = r#"
        [[rule]]
        steps = [{ silence = 1800 }, { text = "at last" }]
    "#;
    let sim = Sim::new(SimConfig::scenario(Scenario::from_toml(scenario).unwrap()));
    let heard = Peer::new(&sim).ask("hello").await;
    assert_eq!(heard.text, "at last");
    assert_eq!(heard.heartbeats, 179);
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_the_stream() {
    let scenario = "[[rule]]\nsteps = [{ text = \"one\" }, { silence = 600 }, { text = \"two\" }]";
    let sim = Sim::new(SimConfig::scenario(Scenario::from_toml(scenario).unwrap()));
    let mut peer = Peer::new(&sim);
    peer.inline_context = true;
    let (tx, pending) = peer.open().await;
    send(&tx, ToServer::RunRequest(peer.request("hi"))).await;
    let response = pending.response.await.unwrap();
    let canceller = {
        let tx = tx.clone();
        crate::peer::spawn(async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            let action = Some(conversation_action::Action::CancelAction(CancelAction::default()));
            send(&tx, ToServer::ConversationAction(ConversationAction { action })).await;
        })
    };
    let mut heard = crate::peer::Heard::default();
    let start = tokio::time::Instant::now();
    peer.read(response, &mut heard, async |message: Bytes| {
        let _ = tx.send(ibeam_core::codec::connect::frame(0, &message)).await;
    })
    .await;
    canceller.await.unwrap();
    assert_eq!(heard.text, "one");
    assert_eq!(heard.ended, Some(Ended::EndFrame));
    assert_eq!(sim.stats().runs_cancelled, 1);
    // Not at once: a client that waits for the end has to wait.
    assert_eq!(start.elapsed().as_millis(), 20_050);
}

#[tokio::test(start_paused = true)]
async fn disconnect_is_noticed() {
    let scenario = "[[rule]]\nsteps = [{ silence = 600 }]";
    let sim = Sim::new(SimConfig::scenario(Scenario::from_toml(scenario).unwrap()));
    let mut peer = Peer::new(&sim);
    peer.patience = Duration::from_secs(3);
    let heard = peer.ask("hello").await;
    assert_eq!(heard.ended, None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stats = sim.stats();
    assert_eq!((stats.runs_abandoned, stats.open_streams), (1, 0));
    assert_eq!(stats.open_connections, 0);
}

#[tokio::test(start_paused = true)]
async fn interrupted_turn_is_resumed_where_it_stopped() {
    let scenario = r#"
        [[rule]]
        when = { resume = false }
        cut = { after_frames = 9, how = { reset = "internal_error" } }
        steps = [{ text = { text = "abcdefghijklmnop", chunk = 2 } }, { text = " end" }]
    "#;
    let sim = Sim::new(summer(SimConfig::scenario(Scenario::from_toml(scenario).unwrap())));
    let mut peer = Peer::new(&sim);
    let first = peer.ask("hello").await;
    assert!(matches!(first.ended, Some(Ended::Broken(_))), "{:?}", first.ended);
    assert!(!first.text.is_empty() && first.text.len() < 16, "{}", first.text);
    let mut request = peer.request("");
    let action = Some(conversation_action::Action::ResumeAction(ResumeAction::default()));
    request.action = Some(ConversationAction { action });
    let second = peer.run(request).await;
    assert_eq!(second.ended, Some(Ended::EndFrame));
    assert_eq!(format!("{}{}", first.text, second.text), "abcdefghijklmnop end");
}

#[tokio::test(start_paused = true)]
async fn small_window_takes_a_large_prompt() {
    let sim = Sim::new(SimConfig { initial_window: Some(64 * 1024), ..SimConfig::default() });
    let mut peer = Peer::new(&sim);
    let heard = peer.ask(&format!("hello {}", "x".repeat(1_000_000))).await;
    assert_eq!(heard.ended, Some(Ended::EndFrame));
    assert!(heard.text.contains("(1000006 characters)"), "{}", heard.text);
}

#[tokio::test(start_paused = true)]
async fn refusals_name_their_reason() {
    let sim = Sim::new(summer(SimConfig::default()));
    let peer = Peer::new(&sim);
    let mut request = peer.request("hi");
    request.conversation_state = None;
    let heard = peer.clone().run(request).await;
    assert_eq!(failed(heard.ended).1, "Conversation state is required");
    let mut request = peer.request("hi");
    request.requested_model.as_mut().unwrap().model_id = "nope".to_owned();
    assert_eq!(failed(peer.clone().run(request).await.ended).0, Code::NotFound);

    let mut bad = peer.clone();
    bad.token = "wrong".to_owned();
    assert_eq!(bad.ask("hi").await.ended, Some(Ended::Status(http::StatusCode::UNAUTHORIZED)));
    let mut old = peer.clone();
    old.headers[1].1 = "cli-2024.01.01-abc";
    assert_eq!(old.ask("hi").await.ended, Some(Ended::Status(http::StatusCode::BAD_REQUEST)));
    let mut ide = peer;
    ide.headers[0].1 = "ide";
    assert_eq!(ide.ask("hi").await.ended, Some(Ended::Status(http::StatusCode::BAD_REQUEST)));
}

#[tokio::test(start_paused = true)]
async fn unexpected_answers_are_recorded() {
    let sim = Sim::default();
    let peer = Peer::new(&sim);
    let (tx, pending) = peer.open().await;
    send(&tx, ToServer::RunRequest(peer.request("hi"))).await;
    let response = pending.response.await.unwrap();
    let stray = ibeam_proto::agent::ExecClientMessage { id: 77, ..Default::default() };
    send(&tx, ToServer::ExecClientMessage(stray)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.stats().violations, ["unexpected exec result"]);
    drop(response);
}

#[tokio::test(start_paused = true)]
async fn assistant_repeats_its_prompt() {
    let sim = Sim::default();
    let mut peer = Peer::new(&sim);
    let heard =
        peer.ask("Generate a short title for this conversation:\nfix my tests please").await;
    assert_eq!(heard.text, "Fix my tests please");

    let mut request = peer.request("look");
    let Some(conversation_action::Action::UserMessageAction(action)) =
        request.action.as_mut().and_then(|action| action.action.as_mut())
    else {
        panic!("no user message")
    };
    let image = ibeam_proto::agent::SelectedImage {
        data_or_blob_id: Some(ibeam_proto::agent::selected_image::DataOrBlobId::Data(
            Bytes::from_static(b"png"),
        )),
        uuid: "one".to_owned(),
        ..Default::default()
    };
    let user = action.user_message.as_mut().unwrap();
    user.selected_context = Some(ibeam_proto::agent::SelectedContext {
        selected_images: vec![image.clone(), image],
        ..Default::default()
    });
    assert_eq!(peer.run(request).await.text, "I see 2 images. You wrote: look");

    let mut request = peer.request("which model are you?");
    let model = request.requested_model.as_mut().unwrap();
    model.model_id = "claude-opus-4-8".to_owned();
    model.parameters.push(ibeam_proto::agent::RequestedModelModelParameter {
        id: "effort".to_owned(),
        value: "high".to_owned(),
    });
    assert_eq!(peer.run(request).await.text, "I am claude-opus-4-8 [effort=high].");

    let mut peer = peer.tool("bash", Bytes::new());
    let mut request = peer.request("run `ls`");
    let Some(conversation_action::Action::UserMessageAction(action)) =
        request.action.as_mut().and_then(|action| action.action.as_mut())
    else {
        panic!("no user message")
    };
    action.user_message.as_mut().unwrap().mode = 2;
    assert!(peer.run(request).await.text.starts_with("In ask mode"));
}

#[tokio::test(start_paused = true)]
async fn rebuilt_turn_continues_from_the_results_in_its_history() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim).tool("bash", Bytes::new());
    let history = [
        json!({"role": "user", "content": [{"type": "text", "text": "run `a`, then run `b`"}]}),
        json!({"role": "assistant", "content": [
            {"type": "tool-call", "toolCallId": "call_1", "toolName": "bash", "args": {}},
        ]}),
        json!({"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "call_1", "toolName": "bash", "result": "A done"},
        ]}),
    ];
    let mut request = peer.request("");
    let action = Some(conversation_action::Action::ResumeAction(ResumeAction::default()));
    request.action = Some(ConversationAction { action });
    let state = request.conversation_state.as_mut().unwrap();
    for message in history {
        state.root_prompt_messages_json.push(peer.put_blob(message.to_string()));
    }
    let heard = peer.run(request.clone()).await;
    // The first call has its result; only the second is made.
    assert_eq!(heard.execs.len(), 2);
    assert!(heard.text.contains("tool says hi"));
    let last = json!({"role": "user", "content": "[Tool Result]\nB done"});
    let id = peer.put_blob(last.to_string());
    request.conversation_state.as_mut().unwrap().root_prompt_messages_json.push(id);
    let heard = peer.run(request).await;
    assert_eq!(heard.execs.len(), 1);
    assert!(heard.text.contains("B done"), "{}", heard.text);
}
