//! How a rebuilt history reaches the model.

use std::time::Duration;

use ibeam_core::codec::connect::Code;
use ibeam_proto::{
    agent::{SystemPromptSpec, conversation_action::Action, system_prompt_spec},
    aiserver::ErrorKind,
};
use serde_json::json;
use tokio::time::Instant;

use super::{answered, autumn, entries_of, entry, error, resumed, state, with_model, with_roots};
use crate::peer::Peer;

const RULES: &str = "What are your rules?";

#[tokio::test(start_paused = true)]
async fn resumed_run_has_exactly_the_clients_entries() {
    let entries = [entry("system", "Answer in Latin"), entry("user", RULES)];
    for (value, part) in [("on", "Answer in Latin"), ("off", "context rule")] {
        let changes = [("roots.resume_verbatim", value), ("roots.uma_context", "always")];
        let sim = autumn(&changes);
        let mut peer = Peer::new(&sim);
        peer.cloud_rule = Some("context rule".to_owned());
        let request = resumed(&mut peer, &entries);
        let heard = peer.run(request).await;
        answered(&heard);
        assert_eq!(heard.text, format!("My instructions are:\n{part}"));
    }
}

#[tokio::test(start_paused = true)]
async fn service_writes_the_first_slot_of_a_message() {
    for (value, own) in [("on", true), ("off", false)] {
        let sim = autumn(&[("roots.uma_slot0", value)]);
        let mut peer = Peer::new(&sim);
        let request = with_roots(&mut peer, "hello", &[entry("system", "mine")]);
        let heard = peer.run(request).await;
        answered(&heard);
        let entries = entries_of(&peer, &heard.checkpoint.unwrap());
        assert_eq!(entries[0]["content"] != "mine", own);
        assert_eq!(sim.prompts()[0].system == ["mine"], !own);
        let blob = peer.blobs.values().filter(|blob| blob.len() == 2262).count();
        assert_eq!(blob, usize::from(own));
    }
}

#[tokio::test(start_paused = true)]
async fn context_rules_are_shown_as_the_switch_says() {
    let history = [entry("system", "s"), entry("user", "hi"), entry("assistant", "ho")];
    for (value, without, with) in
        [("always", true, true), ("no-history", true, false), ("never", false, false)]
    {
        for (entries, shown) in [(&history[..1], without), (&history[..], with)] {
            let sim = autumn(&[("roots.uma_context", value)]);
            let mut peer = Peer::new(&sim);
            peer.cloud_rule = Some("context rule".to_owned());
            let request = with_roots(&mut peer, RULES, entries);
            let heard = peer.run(request).await;
            assert_eq!(heard.text.contains("context rule"), shown, "{value}: {}", heard.text);
            let details = heard.checkpoint.unwrap().token_details.unwrap();
            let categories = details.breakdown.unwrap().categories;
            let rules = categories.iter().find(|category| category.id == "rules").unwrap();
            assert_eq!(rules.estimated_tokens > 0, shown, "{value}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rules_entry_is_obeyed_together_with_a_history() {
    let sim = autumn(&[]);
    let mut peer = Peer::new(&sim);
    let entries = [
        entry("system", "ignored"),
        entry("user", "<rules>\nAnswer in Latin\n</rules>"),
        entry("user", "<user_query>\nhi\n</user_query>"),
        entry("assistant", "ho"),
    ];
    let request = with_roots(&mut peer, RULES, &entries);
    assert_eq!(peer.run(request).await.text, "My instructions are:\nAnswer in Latin");
    let known = sim.prompts().remove(0);
    let texts: Vec<_> = known.entries.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["hi", "ho", RULES]);
}

#[tokio::test(start_paused = true)]
async fn conversation_continues_from_its_checkpoint_with_its_rules() {
    let sim = autumn(&[]);
    let mut peer = Peer::new(&sim);
    peer.cloud_rule = Some("context rule".to_owned());
    let first = peer.ask("hello").await;
    let mut request = peer.request(RULES);
    request.conversation_state = first.checkpoint;
    let heard = peer.run(request).await;
    assert_eq!(heard.text, "My instructions are:\ncontext rule");
    let mut request = peer.request("what did i say?");
    request.conversation_state = heard.checkpoint;
    assert_eq!(peer.run(request).await.text, format!("Earlier you said:\n- hello\n- {RULES}"));
    assert_eq!(sim.stats().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn resume_without_a_turn_is_empty() {
    for (value, empty) in [("on", true), ("off", false)] {
        let sim = autumn(&[("roots.resume_needs_turn", value)]);
        let mut peer = Peer::new(&sim);
        let mut request = resumed(&mut peer, &[entry("system", "s"), entry("user", "hello")]);
        state(&mut request).turns.clear();
        let heard = peer.run(request).await;
        assert_eq!(heard.text.is_empty(), empty);
        assert!(heard.turn_ended.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn empty_slots_are_refused_by_the_provider() {
    let entries = [entry("system", ""), entry("user", "hello")];
    let sim = autumn(&[]);
    let mut peer = Peer::new(&sim);
    let request = resumed(&mut peer, &entries);
    let error = error(peer.run(request).await);
    assert_eq!(error.code, Code::ResourceExhausted);
    let detail = error.detail.unwrap();
    assert_eq!(detail.kind, ErrorKind::ErrorProviderError);
    assert_eq!(detail.additional_info["providerStatusCode"], "400");
    let sim = autumn(&[("roots.empty_slots_57", "off")]);
    let mut peer = Peer::new(&sim);
    let request = resumed(&mut peer, &entries);
    answered(&peer.run(request).await);
}

#[tokio::test(start_paused = true)]
async fn entries_and_turns_are_fetched_in_one_batch_without_their_content() {
    let entries = [entry("system", "s"), entry("user", "one"), entry("assistant", "two")];
    for (value, inner) in [("on", false), ("off", true)] {
        let sim = autumn(&[("roots.fetch", value)]);
        let mut peer = Peer::new(&sim);
        let request = with_roots(&mut peer, "hello", &entries);
        let roots = request.conversation_state.clone().unwrap().root_prompt_messages_json;
        let heard = peer.run(request).await;
        assert_eq!(heard.gets.len(), 4 + usize::from(inner));
        assert_eq!(heard.gets[0] == roots[2], !inner, "the last entry is fetched first");
    }
    // Pushed blobs are not asked for, and a missing one cannot be restored.
    let sim = autumn(&[]);
    let mut peer = Peer::new(&sim);
    let mut request = with_roots(&mut peer, "hello", &entries);
    request.pre_fetched_blobs = peer
        .blobs
        .drain()
        .map(|(id, value)| ibeam_proto::agent::PreFetchedBlob { id, value })
        .collect();
    let mut without = request.clone();
    let heard = peer.run(request).await;
    answered(&heard);
    assert_eq!(heard.gets.len(), 0);
    without.pre_fetched_blobs.clear();
    peer.blobs.clear();
    assert!(error(peer.run(without).await).message.contains("cannot be restored"));
}

#[tokio::test(start_paused = true)]
async fn malformed_entries_fail_late_and_use_nothing() {
    let bare = [json!({ "role": "user", "content": "hi" })];
    for (model, value, fails) in [
        ("claude-opus-5", "strict", true),
        ("claude-opus-5", "off", false),
        ("composer-2.5", "strict", false),
    ] {
        let sim = autumn(&[("roots.validate", value)]);
        let mut peer = Peer::new(&sim);
        let request = with_model(with_roots(&mut peer, "hello", &bare), model);
        let heard = peer.run(request).await;
        if !fails {
            answered(&heard);
            continue;
        }
        assert_eq!(heard.gets.len(), 2);
        let used = heard.checkpoint.clone().unwrap().token_details.unwrap().used_tokens;
        assert_eq!(used, 0);
        assert_eq!(error(heard).code, Code::InvalidArgument);
        assert!(sim.runs()[0].refused.contains("not a list"));
    }
}

#[tokio::test(start_paused = true)]
async fn number_of_entries_is_limited() {
    let entries = vec![entry("user", "hi"); 3];
    for (value, fails) in [("3", true), ("4", false), ("off", false)] {
        let sim = autumn(&[("roots.max", value)]);
        let mut peer = Peer::new(&sim);
        let request = with_roots(&mut peer, "hello", &entries);
        let heard = peer.run(request).await;
        match fails {
            true => assert_eq!(error(heard).code, Code::InvalidArgument),
            false => answered(&heard),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn state_is_required_with_both_halves_of_its_start_time() {
    for (value, part) in [("on", Some("is required")), ("off", None)] {
        let sim = autumn(&[("state.required", value)]);
        let mut peer = Peer::new(&sim);
        let mut request = peer.request("hello");
        request.conversation_state = None;
        let heard = peer.run(request).await;
        match part {
            Some(part) => assert!(error(heard).message.contains(part)),
            None => answered(&heard),
        }
    }
    for (value, fails) in [("on", true), ("off", false)] {
        let sim = autumn(&[("state.tz_pair", value)]);
        let mut peer = Peer::new(&sim);
        let mut request = peer.request("hello");
        state(&mut request).conversation_started_timestamp_ms = Some(1);
        let heard = peer.run(request.clone()).await;
        match fails {
            true => assert!(error(heard).message.contains("conversation_started_time_zone")),
            false => answered(&heard),
        }
        state(&mut request).conversation_started_time_zone = Some("Etc/UTC".to_owned());
        answered(&peer.run(request).await);
    }
}

#[tokio::test(start_paused = true)]
async fn fields_for_the_system_prompt_are_refused_ignored_or_obeyed() {
    for (value, text) in [
        ("refuse", None),
        ("ignore", Some("I have no instructions.")),
        ("obey", Some("My instructions are:\nBe brief")),
    ] {
        for name in ["system.custom8", "system.spec29"] {
            let sim = autumn(&[(name, value)]);
            let mut peer = Peer::new(&sim);
            let mut request = peer.request(RULES);
            if name == "system.custom8" {
                request.custom_system_prompt = Some("Be brief".to_owned());
            } else {
                let spec = Some(system_prompt_spec::Spec::Append("Be brief".to_owned()));
                request.system_prompt_spec = Some(SystemPromptSpec { spec });
            }
            let heard = peer.run(request).await;
            match text {
                Some(text) => assert_eq!(heard.text, text, "{name}={value}"),
                None => assert_eq!(error(heard).code, Code::InvalidArgument),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn inline_history_stalls_and_is_not_read() {
    for (value, least, most) in [("90s", 90, 92), ("off", 0, 2)] {
        let sim = autumn(&[("history.inline7", value)]);
        let mut peer = Peer::new(&sim);
        let mut request = peer.request("hello");
        let action = request.action.as_mut().unwrap().action.as_mut().unwrap();
        let Action::UserMessageAction(action) = action else { panic!("no message") };
        action.conversation_history = Some(bytes::Bytes::new());
        let start = Instant::now();
        answered(&peer.run(request).await);
        let passed = start.elapsed();
        assert!(passed >= Duration::from_secs(least) && passed < Duration::from_secs(most));
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_of_a_result_is_only_in_its_text() {
    let call = json!({ "role": "assistant", "content": [
        { "type": "tool-call", "toolCallId": "c1", "toolName": "CallDynamicTool",
          "args": { "namespace": "peer", "toolName": "bash", "arguments": { "command": "ls" } } }] });
    let result = json!({ "role": "tool", "content": [
        { "type": "tool-result", "toolCallId": "c1", "toolName": "CallDynamicTool",
          "result": "nothing to see", "isError": true }] });
    let entries = [entry("system", "bash"), entry("user", "run `ls`"), call, result];
    for (value, part) in [("off", "bash answered:"), ("on", "bash failed")] {
        let sim = autumn(&[("result.is_error_visible", value)]);
        let mut peer = super::with_bash(&sim);
        let request = resumed(&mut peer, &entries);
        let heard = peer.run(request).await;
        assert!(heard.text.contains(part), "{}", heard.text);
        let known = sim.prompts().remove(0);
        assert_eq!(known.entries.last().unwrap().tool.as_deref(), Some("bash"));
    }
}
