use std::sync::Arc;

use super::{FakeTurn, FakeTurnEvent, FakeTurnRequest};
use crate::{
    behaviour::Preset,
    config::SimConfig,
    cursor_agent::toolbox::FakeTools,
    engine::SimState,
    scenario::{Quirk, Scenario},
};

fn sim(scenario: &str) -> Arc<SimState> {
    let mut config = SimConfig::scenario(Scenario::from_toml(scenario).unwrap());
    config.quirks.extend([Quirk::Terse]);
    // As in the stand-in: what has changed since is about the wire.
    config.behaviour = Preset::Summer.into();
    Arc::new(SimState::new(config))
}

fn ask(text: &str) -> FakeTurnRequest {
    FakeTurnRequest {
        session: "s".to_owned(),
        number: 1,
        model: "auto".to_owned(),
        mode: 1,
        text: Some(text.to_owned()),
        ..FakeTurnRequest::default()
    }
}

async fn events(sim: &Arc<SimState>, ask: FakeTurnRequest) -> Vec<FakeTurnEvent> {
    let tools = Arc::new(FakeTools::default());
    let mut turn = FakeTurn::begin(sim, ask, tools, |run| run.choose()).await;
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    events
}

fn text(events: &[FakeTurnEvent]) -> String {
    let text = |event: &FakeTurnEvent| match event {
        FakeTurnEvent::Text(text) => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn turn_has_the_answer_of_the_simulator() {
    let events = events(&sim(""), ask("hello")).await;
    assert_eq!(text(&events), "I understand: hello This is the simulator speaking.");
    let Some(FakeTurnEvent::Ended(usage)) = events.last() else { panic!("{events:?}") };
    assert!(usage.output_tokens.unwrap() > 0);
}

#[tokio::test(start_paused = true)]
async fn history_is_known_to_the_model() {
    let history = vec![crate::prompt::blocks::said("user", "my cat is Tom")];
    let ask = FakeTurnRequest { history, ..ask("what did I say?") };
    assert_eq!(text(&events(&sim(""), ask).await), "Earlier you said:\n- my cat is Tom");
}

#[tokio::test(start_paused = true)]
async fn unknown_server_fails_the_call() {
    let script = r#"
        [[rule]]
        steps = [{ exec = { arm = "mcp", args = { name = "t", provider_identifier = "p" } } },
                 { text = "{result}" }]
    "#;
    let events = events(&sim(script), ask("go")).await;
    assert_eq!(text(&events), "MCP server p is not connected");
    let done = events.iter().find_map(|event| match event {
        FakeTurnEvent::Completed(act) => Some(act),
        _ => None,
    });
    assert!(!done.unwrap().good());
}

#[tokio::test(start_paused = true)]
async fn questions_blobs_and_contexts_are_answered() {
    let script = r#"
        [[rule]]
        steps = ["ask_context", { kv_set = "abc" }, { kv_get = { data = "abc" } },
                 { query = { arm = "web_search" } },
                 { unknown_exec = { field = 99, hex = "0a0178" } }, { text = "done" }]
    "#;
    let sim = sim(script);
    assert_eq!(text(&events(&sim, ask("go")).await), "done");
    assert!(sim.records.stats().violations.is_empty(), "{:?}", sim.records.stats().violations);
}

#[tokio::test(start_paused = true)]
async fn failures_become_text() {
    let cases = [
        ("{ error = { code = \"unavailable\", message = \"later\" } }", "[unavailable] later"),
        ("{ fault = \"eof\" }", "fetch failed"),
        ("{ fault = \"garbage\" }", "network error"),
        ("{ fault = { reset = \"cancel\" } }", "ECONNRESET"),
        ("{ fault = \"disconnect\" }", "ECONNRESET"),
    ];
    for (step, words) in cases {
        let events = events(&sim(&format!("[[rule]]\nsteps = [{step}]")), ask("go")).await;
        let Some(FakeTurnEvent::Failed(said)) = events.last() else { panic!("{step}: {events:?}") };
        assert!(said.contains(words), "{said}");
    }
    let refused = "[[rule]]\nrefuse = { status = 503 }";
    let events = events(&sim(refused), ask("go")).await;
    assert!(
        matches!(events.last(), Some(FakeTurnEvent::Failed(said)) if said.contains("unavailable"))
    );
}
