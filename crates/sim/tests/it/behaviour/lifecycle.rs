//! What comes beside and after the answer: new fields, time, usage, and lost calls.

use std::time::Duration;

use bytes::Bytes;
use ibeam_proto::agent::exec_server_message::Message as Exec;
use ibeam_sim::{Quirk, Sim, SimConfig};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{answered, autumn, scripted, with_bash};
use crate::peer::{Ended, Peer, call};

#[tokio::test(start_paused = true)]
async fn new_fields_and_updates_are_sent() {
    for (value, extra) in [("on", true), ("off", false)] {
        let mut peer = with_bash(&autumn(&[("fields.extra", value)]));
        let heard = peer.ask("run `ls`").await;
        answered(&heard);
        let after = heard.updates.iter().skip_while(|name| *name != "TurnEnded").count();
        assert_eq!(after, if extra { 2 } else { 1 }, "{:?}", heard.updates);
        assert_eq!((heard.timed > 0, heard.started_at > 0), (extra, extra));
        assert_eq!(heard.execs[0].id == 0, extra, "the id of the first question is absent");
        let machine = heard.execs.iter().all(|exec| exec.machine_id.is_some());
        assert_eq!(machine, extra);
        assert_eq!(heard.checkpoints, if extra { 3 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn shell_stream_has_to_be_closed_with_its_result() {
    for (value, closes, text) in [("on", false, false), ("on", true, true), ("off", false, true)] {
        let config = autumn(&[("shell.close_required", value)]).config().clone();
        let quirks = config.quirks.with(Quirk::NativeToolsFirst);
        let mut peer = Peer::new(&Sim::new(SimConfig { quirks, ..autumn_config(value) }));
        peer.files = Some(std::sync::Arc::default());
        peer.closes_shells = closes;
        peer.patience = Duration::from_secs(180);
        let heard = peer.ask("run `ls`").await;
        assert_eq!(!heard.text.is_empty(), text, "{value} {closes}");
        assert_eq!(peer.sim.stats().violations, Vec::<String>::new());
    }
}

fn autumn_config(value: &str) -> SimConfig {
    autumn(&[("shell.close_required", value)]).config().clone()
}

#[tokio::test(start_paused = true)]
async fn first_output_may_take_minutes() {
    for (value, seconds) in [("175s", 175), ("off", 0)] {
        let mut peer = Peer::new(&autumn(&[("latency.first_output", value)]));
        let start = Instant::now();
        let heard = peer.ask("hello").await;
        answered(&heard);
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert_eq!(u64::from(heard.heartbeats), seconds / 10);
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_is_held_too_long_loses_its_stream() {
    for (value, ended) in [("120s", Ended::Eof(false)), ("off", Ended::EndFrame)] {
        let mut peer = with_bash(&autumn(&[("hold.max", value), ("tools.mcp_state", "off")]));
        peer.tool_time = Duration::from_secs(200);
        let heard = peer.ask("run `ls`").await;
        assert_eq!(heard.ended, Some(ended));
    }
}

async fn dashboard(sim: &Sim, method: &str, body: Value) -> (u16, Value) {
    let path = format!("/aiserver.v1.DashboardService/{method}");
    let head = Peer::new(sim).head(&path, "application/json");
    let response = call(sim, head, Bytes::from(body.to_string())).await;
    let status = response.status().as_u16();
    (status, serde_json::from_slice(response.body()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn usage_of_the_plan_has_both_pools() {
    let sim = autumn(&[]);
    let long = "word ".repeat(20_000);
    for model in ["default", "claude-opus-5"] {
        let mut peer = Peer::new(&sim);
        let request = super::with_model(peer.request(&long), model);
        answered(&peer.run(request).await);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (status, usage) = dashboard(&sim, "GetCurrentPeriodUsage", json!({})).await;
    assert_eq!(status, 200);
    let plan = &usage["planUsage"];
    assert!(plan["autoPercentUsed"].as_f64().unwrap() > 0.0);
    assert!(plan["apiPercentUsed"].as_f64().unwrap() > 0.0);
    assert!(usage["billingCycleEnd"].as_str().unwrap().ends_with("000"));
    let (status, _) =
        dashboard(&autumn(&[("usage.rpc", "off")]), "GetCurrentPeriodUsage", json!({})).await;
    assert_eq!(status, 403);
}

#[tokio::test(start_paused = true)]
async fn usage_events_come_late() {
    for (value, at_once) in [("2500ms", 0), ("off", 1)] {
        let sim = autumn(&[("usage.events_delay", value)]);
        answered(&Peer::new(&sim).ask("hello").await);
        let events = async || {
            let (_, events) = dashboard(&sim, "GetFilteredUsageEvents", json!({})).await;
            events["usageEventsDisplay"].as_array().unwrap().clone()
        };
        assert_eq!(events().await.len(), at_once);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let listed = events().await;
        assert_eq!(listed[0]["conversationId"], crate::peer::CONVERSATION);
        assert!(listed[0]["tokenUsage"]["outputTokens"].as_u64().unwrap() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_runs_are_billed() {
    for (value, events) in [("on", 1), ("off", 0)] {
        let sim = autumn(&[("usage.abandoned_billed", value), ("tools.mcp_state", "off")]);
        let mut peer = with_bash(&sim);
        peer.tool_time = Duration::from_secs(3600);
        peer.patience = Duration::from_secs(5);
        assert_eq!(peer.ask("run `ls`").await.ended, None);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (_, listed) = dashboard(&sim, "GetFilteredUsageEvents", json!({})).await;
        assert_eq!(listed["usageEventsDisplay"].as_array().unwrap().len(), events);
    }
}

#[tokio::test(start_paused = true)]
async fn reported_input_is_that_of_all_steps() {
    let mut inputs = Vec::new();
    for value in ["on", "off"] {
        let mut peer = with_bash(&autumn(&[("usage.summed", value)]));
        let ended = peer.ask("run `ls`").await.turn_ended.unwrap();
        assert!(ended.cache_read_tokens < ended.input_tokens);
        inputs.push(ended.input_tokens.unwrap());
    }
    assert!(inputs[0] > inputs[1] + inputs[1] / 2, "{inputs:?}");
}

#[tokio::test(start_paused = true)]
async fn report_has_every_message_and_result_that_the_model_knows() {
    let sim = autumn(&[]);
    let mut peer = with_bash(&sim);
    peer.cloud_rule = Some("Be brief".to_owned());
    answered(&peer.ask("run `ls`").await);
    let known = sim.prompts().remove(0);
    assert_eq!((known.action, known.run), ("message", 1));
    assert_eq!(known.instructions, ["Be brief"]);
    assert_eq!(known.tools, ["bash"]);
    let said: Vec<_> =
        known.entries.iter().map(|entry| (entry.role.as_str(), entry.text.as_str())).collect();
    assert_eq!(said, [("user", "run `ls`"), ("tool", "tool says hi")]);
    let head = http::Request::get("http://sim/sim/prompts");
    let page = call(&sim, head, Bytes::new()).await;
    let page: Value = serde_json::from_slice(page.body()).unwrap();
    assert_eq!(page["prompts"][0]["entries"][1]["tool"], "bash");
}

#[tokio::test(start_paused = true)]
async fn rules_of_a_scenario_can_change_switches() {
    const SCRIPT: &str = r#"
        [behaviour]
        preset = "autumn"
        "tools.partial" = "off"
        [[rule]]
        when = { contains = "grow" }
        behaviour = { tools = { partial = "cumulative" } }
        "#;
    let sim = Sim::new(SimConfig::scenario(ibeam_sim::Scenario::from_toml(SCRIPT).unwrap()));
    assert!(with_bash(&sim).ask("run `ls`").await.partials.is_empty());
    assert!(with_bash(&sim).ask("run `grow`").await.partials.len() > 1);
    let wrong = "[[rule]]\nbehaviour = { preset = \"summer\" }\n";
    let error = ibeam_sim::Scenario::from_toml(wrong).unwrap_err().to_string();
    assert!(error.contains("preset"), "{error}");
    let wrong = ibeam_sim::Scenario::from_toml("behaviour = { \"tools.mod\" = \"meta\" }\n");
    assert!(wrong.is_err());
}

#[tokio::test(start_paused = true)]
async fn rule_for_a_resumed_question_is_chosen_by_its_text() {
    const SCRIPT: &str = r#"
        [[rule]]
        when = { contains = "weather", history = false, resume = false }
        steps = [{ text = "It rains." }]
        "#;
    let sim = scripted(&[], SCRIPT);
    let mut peer = Peer::new(&sim);
    let entries = [super::entry("system", "s"), super::entry("user", "How is the weather?")];
    let request = super::resumed(&mut peer, &entries);
    assert_eq!(peer.run(request).await.text, "It rains.");
    let entries = [super::entry("system", "s"), super::entry("user", "Who are you?")];
    let request = super::resumed(&mut peer, &entries);
    assert!(peer.run(request).await.text.contains("I understand"));
}

#[tokio::test(start_paused = true)]
async fn state_question_is_not_a_call() {
    let mut peer = with_bash(&autumn(&[]));
    let heard = peer.ask("hello").await;
    let asks = |exec: &Option<Exec>| matches!(exec, Some(Exec::McpStateExecArgs(_)));
    assert!(heard.execs.iter().any(|exec| asks(&exec.message)));
    assert!(!heard.order.iter().any(|entry| entry.starts_with("listed")));
}
