//! Resuming: from a checkpoint, from a history with results, and after a break at any frame.

use bytes::Bytes;
use ibeam_core::codec::connect::Code;
use ibeam_proto::agent::ConversationStateStructure;
use ibeam_sim::{
    ResetCode, Scenario, ScenarioRule, Sim, SimConfig, SimSignIn, StreamCut, StreamFault,
};
use prost::Message as _;
use serde_json::json;

use crate::{
    http1,
    peer::{Ended, Heard, Peer, resume, summer},
};

const TASK: &str = "Read the file a.txt, replace \"x\" with \"y\" in it, then run `cat a.txt`.";

fn coder(sim: &Sim) -> Peer {
    let peer = Peer::new(sim).tool("bash", Bytes::new()).tool("read", Bytes::new());
    peer.tool("edit", Bytes::new())
}

fn tools_called(heard: &Heard) -> usize {
    heard.updates.iter().filter(|update| *update == "ToolCallStarted").count()
}

#[tokio::test(start_paused = true)]
async fn checkpoint_has_the_whole_conversation() {
    for keep_blobs in [false, true] {
        let sim = Sim::new(summer(SimConfig { keep_blobs, ..SimConfig::default() }));
        let mut peer = coder(&sim);
        // The first request has a history that the client has built.
        let mut request = peer.request("My dog is Rex");
        let stated = json!({"role": "user", "content": "My cat is Tom"});
        let said = json!({"role": "assistant", "content": "Nice"});
        let state = request.conversation_state.as_mut().unwrap();
        for message in [stated, said] {
            state.root_prompt_messages_json.push(peer.put_blob(message.to_string()));
        }
        let mut state = peer.run(request).await.checkpoint.unwrap();
        for text in ["run `ls`", "My fish is Bob"] {
            let mut request = peer.request(text);
            request.conversation_state = Some(state);
            let heard = peer.run(request).await;
            state = heard.checkpoint.unwrap();
        }
        assert_eq!(state.turns.len(), 4);
        // More is appended, as protobuf allows.
        let late = json!({"role": "user", "content": "My bird is Kim"});
        let late = ConversationStateStructure {
            root_prompt_messages_json: vec![peer.put_blob(late.to_string())],
            ..ConversationStateStructure::default()
        };
        let bytes = [state.encode_to_vec(), late.encode_to_vec()].concat();
        let mut request = peer.request("what did I say");
        request.conversation_state = Some(ConversationStateStructure::decode(&bytes[..]).unwrap());
        let heard = peer.run(request).await;
        let list =
            "- My cat is Tom\n- My dog is Rex\n- run `ls`\n- My fish is Bob\n- My bird is Kim";
        assert!(heard.text.contains(list), "{}", heard.text);
        assert_eq!(sim.stats().violations, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn results_after_a_checkpoint_are_used() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = coder(&sim);
    let before = peer.ask("My cat is Tom").await.checkpoint.unwrap();
    let messages = [
        json!({"role": "user", "content": [{"type": "text", "text": TASK}]}),
        json!({"role": "assistant", "content": [
            {"type": "tool-call", "toolCallId": "call_1", "toolName": "read", "args": {}},
        ]}),
        json!({"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "call_1", "toolName": "read", "result": "x"},
        ]}),
        // Half of an edit by the service's own tools: a read.
        json!({"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "call_2", "toolName": "read", "result": "x"},
        ]}),
    ];
    let mut request = resume(peer.request(""));
    let mut state = before;
    for message in messages {
        state.root_prompt_messages_json.push(peer.put_blob(message.to_string()));
    }
    request.conversation_state = Some(state);
    let heard = peer.run(request).await;
    assert_eq!(tools_called(&heard), 2, "{}", heard.text);
    assert!(heard.text.contains("edit answered") && heard.text.contains("bash answered"));
    // Its own checkpoint has all of it.
    let mut request = peer.request("what did I say");
    request.conversation_state = heard.checkpoint;
    let heard = peer.run(request).await;
    assert!(heard.text.ends_with(&format!("- My cat is Tom\n- {TASK}")), "{}", heard.text);
}

#[tokio::test(start_paused = true)]
async fn failed_result_in_the_history_ends_the_task() {
    let mut peer = coder(&Sim::new(summer(SimConfig::default())));
    let messages = [
        json!({"role": "user", "content": TASK}),
        json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "call_1",
            "toolName": "read", "result": "no such file", "isError": true}]}),
    ];
    let mut request = resume(peer.request(""));
    for message in messages {
        let id = peer.put_blob(message.to_string());
        request.conversation_state.as_mut().unwrap().root_prompt_messages_json.push(id);
    }
    let heard = peer.run(request).await;
    assert_eq!(tools_called(&heard), 0);
    assert!(heard.text.starts_with("read failed"), "{}", heard.text);
}

#[tokio::test(start_paused = true)]
async fn checkpoint_belongs_to_an_account() {
    let sim = Sim::new(SimSignIn { any_token: true, ..SimSignIn::default() }.into());
    let mut peer = Peer::new(&sim);
    let state = peer.ask("My cat is Tom").await.checkpoint;
    let mut request = peer.request("what did I say");
    request.conversation_state = state;
    assert!(peer.run(request.clone()).await.text.contains("Tom"));
    peer.token = "another-account".to_owned();
    let Some(Ended::Error(error)) = peer.run(request).await.ended else { panic!("no error") };
    assert_eq!((error.code, error.message.as_str()), (Code::Internal, "Blob not found"));
}

/// A run that breaks at a frame, and the rest of it after a resume with the client's state.
async fn broken_at(frame: u64, how: &StreamFault, sse: bool) -> (Heard, Heard, Sim) {
    let cut = Some(StreamCut { after_frames: frame, how: how.clone() });
    let rules = vec![ScenarioRule { cut, times: Some(1), ..ScenarioRule::default() }];
    let scenario = Scenario { rules, ..Scenario::builtin() };
    let sim = Sim::new(summer(SimConfig::scenario(scenario)));
    let mut peer = coder(&sim);
    let request = peer.request(TASK);
    let first = Box::pin(run(&mut peer, request, sse)).await;
    "44444444-4444-4444-8444-444444444444".clone_into(&mut peer.stream);
    let mut request = resume(peer.request(""));
    if let Some(state) = &first.checkpoint {
        request.conversation_state = Some(state.clone());
    }
    let second = Box::pin(run(&mut peer, request, sse)).await;
    (first, second, sim)
}

async fn run(peer: &mut Peer, request: ibeam_proto::agent::AgentRunRequest, sse: bool) -> Heard {
    if sse { http1::run_sse(peer, request).await } else { peer.run(request).await }
}

#[tokio::test(start_paused = true)]
async fn connection_lost_at_any_frame_loses_nothing() {
    let sim = Sim::new(summer(SimConfig::default()));
    let whole = coder(&sim).ask(TASK).await;
    let frames = sim.stats().server_frames;
    assert!(frames > 60, "{frames}");
    for (how, sse, every) in [
        (StreamFault::Reset(ResetCode::INTERNAL_ERROR), false, 1),
        (StreamFault::Eof, false, 5),
        (StreamFault::Truncate, false, 5),
        (StreamFault::Reset(ResetCode::INTERNAL_ERROR), true, 3),
        (StreamFault::Eof, true, 7),
    ] {
        for frame in (0..frames).step_by(every) {
            let (first, second, sim) = Box::pin(broken_at(frame, &how, sse)).await;
            if first.turn_ended.is_some() {
                continue;
            }
            let place = format!("frame {frame}, {how:?}, sse {sse}");
            assert_eq!(second.ended, Some(Ended::EndFrame), "{place}");
            let text = format!("{}{}", first.text, second.text);
            // A resumed run reports its own calls; one that broke during that, all of them.
            assert!(whole.text.ends_with(&text), "{place}: {text}");
            assert!(text.contains("bash answered"), "{place}: {text}");
            assert!(first.text.is_empty() || text == whole.text, "{place}: {text}");
            // No call that had its result is made again.
            let results = sim.stats().exec_results - contexts(&first) - contexts(&second);
            assert!((3..=4).contains(&results), "{place}: {results}");
        }
    }
}

fn contexts(heard: &Heard) -> u64 {
    use ibeam_proto::agent::exec_server_message::Message as Exec;
    let asked = heard.execs.iter();
    asked.filter(|e| matches!(e.message, Some(Exec::RequestContextArgs(_)))).count() as u64
}

#[tokio::test(start_paused = true)]
async fn script_resumes_after_the_given_results() {
    let scenario = r#"
        [[rule]]
        steps = [
            { text = "One." },
            { exec = { arm = "mcp", args = { name = "first" } } },
            { exec = { arm = "mcp", args = { name = "second" } } },
            { text = "Last: {result}" },
        ]
    "#;
    let sim = Sim::new(summer(SimConfig::scenario(Scenario::from_toml(scenario).unwrap())));
    let mut peer = Peer::new(&sim);
    peer.mcp_text = "from the call".to_owned();
    for (results, text, calls) in
        [(vec!["a"], "Last: from the call", 1), (vec!["a", "b"], "Last: b", 0)]
    {
        let mut request = resume(peer.request(""));
        let state = request.conversation_state.as_mut().unwrap();
        let parts: Vec<_> = results
            .iter()
            .map(|text| json!({"type": "tool-result", "toolCallId": "c", "result": text}))
            .collect();
        for message in
            [json!({"role": "user", "content": "go"}), json!({"role": "tool", "content": parts})]
        {
            state.root_prompt_messages_json.push(peer.put_blob(message.to_string()));
        }
        let heard = peer.run(request).await;
        assert_eq!((heard.text.as_str(), tools_called(&heard)), (text, calls));
    }
}
