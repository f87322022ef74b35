//! One upstream run for a whole chain of tools: what is parked, what finds it again,
//! and what happens when it is gone.

use std::time::Duration;

use ibeam_server::config::Config;
use ibeam_sim::{Scenario, SimConfig};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lab::{Call, Lab, Talk, tools};

/// The first run asks for one command and repeats its result. Any other run is a
/// conversation that was sent again, and repeats what it was sent.
const ONE: &str = r#"
    [[rule]]
    when = { nth = 1 }
    steps = [
      { text = "Let me look. " },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    steps = [{ text = "[{conversation}] told anew: {history} {prompt}" }]
"#;

/// The first run asks for two commands at once.
const TWO: &str = r#"
    [[rule]]
    when = { nth = 1 }
    steps = [
      { execs = [
        { arm = "mcp", args = { name = "bash", args = { command = "a" } } },
        { arm = "mcp", args = { name = "bash", args = { command = "b" } } },
      ] },
      { text = "They say: {result}" },
    ]
    [[rule]]
    steps = [{ text = "told anew: {history} {prompt}" }]
"#;

fn lab(scenario: &str, change: impl FnOnce(&mut Config)) -> Lab {
    Lab::with(SimConfig::scenario(Scenario::from_toml(scenario).unwrap()), change)
}

/// A talk whose first call is with the client.
async fn parked(lab: &Lab) -> Talk {
    let mut talk = Talk::new("look");
    let reply = talk.ask(lab).await;
    assert_eq!(reply.finish_reason().as_deref(), Some("tool_calls"), "{}", reply.body);
    assert_eq!((lab.app.sessions().parked, lab.app.sessions().active), (1, 0));
    assert!(lab.app.sessions().parked_bytes > 0);
    talk
}

fn calls(talk: &Talk) -> Vec<Call> {
    let message = talk.body["messages"].as_array().unwrap().last().unwrap();
    let calls = message["tool_calls"].as_array().unwrap().iter();
    calls
        .map(|call| Call {
            id: call["id"].as_str().unwrap().to_owned(),
            name: call["function"]["name"].as_str().unwrap().to_owned(),
            arguments: call["function"]["arguments"].as_str().unwrap().to_owned(),
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn chain_of_tool_calls_is_one_run() {
    let step = |n: usize| {
        format!(
            "{{ exec = {{ arm = \"mcp\", args = {{ name = \"bash\", args = {{ command = \"c{n}\" }} }} }} }},"
        )
    };
    let steps: String = (0..10).map(step).collect();
    let lab =
        Lab::scenario(&format!("[[rule]]\nsteps = [{steps} {{ text = \"done {{result}}\" }}]"));
    let mut talk = Talk::new("go");
    for n in 0..10 {
        let reply = talk.ask(&lab).await;
        assert_eq!(reply.finish_reason().as_deref(), Some("tool_calls"), "{n}: {}", reply.body);
        let call = reply.call();
        assert!(call.arguments.contains(&format!("c{n}")), "{call:?}");
        assert!(call.id.ends_with(&format!("__call_{}", n + 1)), "{}", call.id);
        assert_eq!(lab.app.free_turns(), 32, "a parked turn takes no place");
        // Heartbeats keep the stream alive meanwhile.
        sleep(Duration::from_secs(60)).await;
        talk.result(&call, format!("r{n}"));
    }
    let reply = talk.ask(&lab).await;
    assert_eq!(
        (reply.text().as_str(), reply.finish_reason().as_deref()),
        ("done r9", Some("stop"))
    );
    let stats = lab.sim.stats();
    // The context and, twice, the state of the MCP servers are asked for by execs, too.
    assert_eq!((stats.runs_started, stats.exec_results, stats.resumes), (1, 10 + 3, 0));
    assert!(stats.client_heartbeats >= 100, "{}", stats.client_heartbeats);
    assert_eq!(stats.violations, Vec::<String>::new());
    assert_eq!((lab.fates().resumed, lab.fates().rebuilt), (10, 0));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn unstreamed_answers_are_parked_too() {
    let lab = Lab::scenario(ONE);
    let mut body = Talk::new("look").body;
    body["stream"] = json!(false);
    let first = lab.post(body.to_string()).await.json();
    let message = first["choices"][0]["message"].clone();
    let id = message["tool_calls"][0]["id"].clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(message);
    messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "a b c" }));
    let second = lab.post(body.to_string()).await.json();
    assert_eq!(second["choices"][0]["message"]["content"], "It says: a b c");
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}

/// Each way in which results may come, and what the model gets of it.
#[tokio::test(start_paused = true)]
async fn results_are_accepted_in_many_forms() {
    type Bring = fn(&mut Talk, &[Call]);
    let cases: [(&str, Bring, &str); 6] = [
        (
            "in reverse",
            |talk, calls| {
                talk.result(&calls[1], "B");
                talk.result(&calls[0], "A");
            },
            "They say: A\nB",
        ),
        ("one is missing", |talk, calls| talk.result(&calls[1], "B"), "no result"),
        (
            "one twice",
            |talk, calls| {
                talk.result(&calls[0], "old");
                talk.result(&calls[1], "B");
                talk.result(&calls[0], "A");
            },
            "They say: A\nB",
        ),
        (
            "a message beside them",
            |talk, calls| {
                talk.result(&calls[0], "A");
                talk.result(&calls[1], "B");
                talk.say("hurry up");
            },
            "hurry up",
        ),
        (
            "an image",
            |talk, calls| {
                let png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
                let parts = json!([
                    { "type": "text", "text": "a picture" },
                    { "type": "image_url", "image_url": { "url": png } },
                ]);
                talk.result(&calls[0], parts);
                talk.result(&calls[1], "B");
            },
            "a picture",
        ),
        (
            "nothing in it",
            |talk, calls| {
                talk.result(&calls[0], "");
                talk.result(&calls[1], "B");
            },
            "B",
        ),
    ];
    for (name, bring, want) in cases {
        let lab = Lab::scenario(TWO);
        let mut talk = parked(&lab).await;
        let out = calls(&talk);
        assert_eq!(out.len(), 2, "{name}");
        bring(&mut talk, &out);
        let reply = talk.ask(&lab).await;
        assert!(reply.text().contains(want), "{name}: {}", reply.text());
        assert_eq!(lab.sim.stats().runs_started, 1, "{name}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn other_tools_another_prompt_or_another_model_fork() {
    type Change = fn(&mut Talk);
    let changes: [(&str, Change); 3] = [
        ("tools", |talk| talk.body["tools"] = tools(&["bash", "grep"])),
        ("prompt", |talk| {
            let messages = talk.body["messages"].as_array_mut().unwrap();
            messages.insert(0, json!({ "role": "system", "content": "Be brief." }));
        }),
        ("model", |talk| talk.body["model"] = json!("composer-2")),
    ];
    for (name, change) in changes {
        let lab = Lab::scenario(ONE);
        let mut talk = parked(&lab).await;
        let call = calls(&talk).remove(0);
        talk.result(&call, "a b c");
        let mut fork = talk.clone();
        change(&mut fork);
        let told = fork.ask(&lab).await.text();
        assert!(told.contains("told anew") && told.contains("a b c"), "{name}: {told}");
        assert_eq!((lab.fates().forked, lab.fates().resumed), (1, 0), "{name}");
        // The one that was left still finds its turn.
        assert_eq!(lab.app.sessions().parked, 1, "{name}");
        assert_eq!(talk.ask(&lab).await.text(), "It says: a b c", "{name}");
        assert_eq!(lab.sim.stats().runs_started, 2, "{name}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_sent_again_after_the_ttl() {
    let lab = Lab::scenario(ONE);
    let mut talk = parked(&lab).await;
    sleep(Duration::from_secs(15 * 60 - 1)).await;
    assert_eq!(lab.app.sessions().parked, 1);
    sleep(Duration::from_secs(3)).await;
    assert_eq!((lab.app.sessions().parked, lab.fates().expired), (0, 1));
    assert_eq!(lab.sim.stats().runs_cancelled, 1, "the backend was told");
    let call = calls(&talk).remove(0);
    talk.result(&call, "a b c");
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("told anew") && text.contains("a b c"), "{text}");
    assert_eq!(lab.fates().rebuilt, 1);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn oldest_parked_turn_is_evicted_first() {
    let scenario = "[[rule]]\nsteps = [{ exec = { arm = \"mcp\", args = { name = \"bash\", \
                    args = { command = \"ls\" } } } }, { text = \"{result}\" }]";
    for by_bytes in [false, true] {
        let lab = lab(scenario, |config| {
            if by_bytes {
                config.sessions.parked_bytes = 100_000;
            } else {
                config.sessions.max_parked = 3;
            }
        });
        let mut talks = Vec::new();
        for n in 0..12 {
            let mut talk = Talk::new(&format!("window {n}"));
            let call = talk.ask(&lab).await.call();
            talk.result(&call, format!("r{n}"));
            talks.push(talk);
        }
        sleep(Duration::from_secs(5)).await;
        let now = lab.app.sessions();
        assert!((1..12).contains(&now.parked), "{now:?}");
        assert_eq!(now.fates.evicted as usize, 12 - now.parked);
        assert!(now.parked_bytes <= 100_000 || !by_bytes, "{now:?}");
        let newest = talks.last_mut().unwrap();
        assert_eq!(newest.ask(&lab).await.text(), "r11", "it was not its turn");
        assert_eq!(lab.fates().resumed, 1);
        // The first was evicted, and lost nothing else: sent again, it is asked to look
        // again.
        let runs = lab.sim.stats().runs_started;
        assert_eq!(talks[0].send(&lab).await.error(), None);
        assert_eq!(lab.sim.stats().runs_started, runs + 1);
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn stream_lost_while_parked_is_not_an_error() {
    for fault in [
        "\"eof\"",
        "\"disconnect\"",
        "{ reset = \"internal_error\" }",
        "{ error = { code = \"unavailable\" } }",
    ] {
        let scenario = format!(
            r#"
            [[rule]]
            when = {{ nth = 1 }}
            steps = [
              {{ exec = {{ arm = "mcp", args = {{ name = "bash", args = {{ command = "ls" }} }}, forget = true }} }},
              {{ silence = 20 }},
              {{ fault = {fault} }},
            ]
            [[rule]]
            steps = [{{ text = "told anew: {{history}}" }}]
            "#
        );
        let lab = Lab::scenario(&scenario);
        let mut talk = parked(&lab).await;
        sleep(Duration::from_secs(60)).await;
        assert_eq!((lab.app.sessions().parked, lab.fates().died_parked), (0, 1), "{fault}");
        assert_eq!(lab.app.sessions().failed, 0, "nobody was there to be told");
        let call = calls(&talk).remove(0);
        talk.result(&call, "a b c");
        let text = talk.ask(&lab).await.text();
        assert!(text.contains("told anew") && text.contains("a b c"), "{fault}: {text}");
        lab.assert_gone().await;
    }
}

/// By then the turn is asleep, and has not read that its stream is over.
#[tokio::test(start_paused = true)]
async fn results_are_not_sent_to_an_ended_stream() {
    for fault in ["\"eof\"", "{ reset = \"internal_error\" }"] {
        let scenario = format!(
            r#"
            [[rule]]
            when = {{ nth = 1 }}
            steps = [
              {{ exec = {{ arm = "mcp", args = {{ name = "bash", args = {{ command = "ls" }} }}, forget = true }} }},
              {{ silence = 20 }},
              {{ fault = {fault} }},
            ]
            [[rule]]
            steps = [{{ text = "told anew: {{history}}" }}]
            "#
        );
        let lab = Lab::scenario(&scenario);
        let mut talk = parked(&lab).await;
        sleep(Duration::from_secs(22)).await;
        assert_eq!(lab.app.sessions().parked, 1, "{fault}: nobody has looked");
        let call = calls(&talk).remove(0);
        talk.result(&call, "a b c");
        let text = talk.ask(&lab).await.text();
        assert!(text.contains("told anew") && text.contains("a b c"), "{fault}: {text}");
        assert_eq!(lab.fates().resumed, 0, "{fault}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn session_of_another_key_is_not_found() {
    let lab = Lab::scenario(ONE);
    let mut talk = parked(&lab).await;
    let call = calls(&talk).remove(0);
    talk.result(&call, "a b c");
    let mut other = talk.clone();
    other.headers.push(("authorization", "Bearer another".to_owned()));
    assert!(other.ask(&lab).await.text().contains("told anew"));
    assert_eq!((lab.fates().resumed, lab.app.sessions().parked), (0, 1));
    assert_eq!(talk.ask(&lab).await.text(), "It says: a b c");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn message_without_results_ends_the_wait() {
    let lab = Lab::scenario(ONE);
    let mut talk = parked(&lab).await;
    talk.say("never mind");
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("told anew") && text.contains("never mind"), "{text}");
    assert_eq!((lab.app.sessions().parked, lab.fates().superseded), (0, 1));
    lab.assert_gone().await;
}

/// A request that the waiting run cannot serve ends it: nothing else would.
#[tokio::test(start_paused = true)]
async fn run_that_refuses_its_results_ends() {
    let lab = Lab::scenario(ONE);
    let mut talk = parked(&lab).await;
    let call = calls(&talk).remove(0);
    talk.result(&call, "a b c");
    talk.body["tool_choice"] = json!("none");
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("told anew") && text.contains("a b c"), "{text}");
    assert_eq!((lab.app.sessions().parked, lab.fates().superseded), (0, 1));
    assert_eq!(lab.sim.stats().runs_cancelled, 1, "the backend was told");
    lab.assert_gone().await;
}

/// A title for a conversation whose calls are under way.
#[tokio::test(start_paused = true)]
async fn unrelated_request_leaves_the_parked_turn_alone() {
    type Change = fn(&mut Talk);
    let helpers: [(&str, Change); 2] = [
        ("another prompt", |talk| {
            let messages = talk.body["messages"].as_array_mut().unwrap();
            messages.insert(0, json!({ "role": "system", "content": "You make titles." }));
        }),
        ("another model", |talk| talk.body["model"] = json!("composer-2")),
    ];
    for (name, change) in helpers {
        let lab = Lab::scenario(ONE);
        let mut talk = parked(&lab).await;
        let mut helper = talk.clone();
        change(&mut helper);
        helper.say("Make a title.");
        assert_eq!(helper.send(&lab).await.error(), None, "{name}");
        assert_eq!((lab.app.sessions().parked, lab.fates().superseded), (1, 0), "{name}");
        let call = calls(&talk).remove(0);
        talk.result(&call, "a b c");
        assert_eq!(talk.ask(&lab).await.text(), "It says: a b c", "{name}");
        lab.assert_gone().await;
    }
}

/// The conversation continues under its id only when the backend has released it.
#[tokio::test(start_paused = true)]
async fn run_is_cancelled_before_its_conversation_continues() {
    let lab = Lab::scenario(&ONE.replacen("steps = [", "steps = [\"checkpoint\",", 1));
    let mut talk = parked(&lab).await;
    talk.say("never mind");
    let response = lab.open(talk.body.to_string()).await;
    assert_eq!(lab.sim.stats().runs_cancelled, 1, "before the next run answers");
    drop(response);
    lab.assert_clean().await;
}

/// What the backend stores with a turn that waits is counted.
#[tokio::test(start_paused = true)]
async fn growing_parked_run_is_measured_again() {
    let large = "x".repeat(50_000);
    let lab = Lab::scenario(&format!(
        r#"
        [[rule]]
        steps = [
          {{ exec = {{ arm = "mcp", args = {{ name = "bash", args = {{ command = "ls" }} }}, forget = true }} }},
          {{ silence = 5 }},
          {{ kv_set = "{large}" }},
          {{ silence = 600 }},
        ]
        "#
    ));
    parked(&lab).await;
    let before = lab.app.sessions().parked_bytes;
    sleep(Duration::from_secs(10)).await;
    let now = lab.app.sessions();
    assert!(now.parked == 1 && now.parked_bytes >= before + large.len(), "{before}: {now:?}");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn without_reuse_every_request_is_a_run() {
    every_request_is_a_run(lab(ONE, |config| config.sessions.reuse = false), None).await;
}

/// The same for one client, while others have theirs.
#[tokio::test(start_paused = true)]
async fn client_can_disable_reuse() {
    let lab = lab(ONE, |_| {});
    every_request_is_a_run(lab, Some(("x-ibeam-session-reuse", "off".to_owned()))).await;
}

async fn every_request_is_a_run(lab: Lab, header: Option<(&'static str, String)>) {
    let mut talk = Talk::new("look");
    talk.headers.extend(header);
    let call = talk.ask(&lab).await.call();
    assert_eq!(lab.app.sessions().parked, 0);
    talk.result(&call, "a b c");
    let text = talk.ask(&lab).await.text();
    assert!(text.contains("told anew") && text.contains("a b c"), "{text}");
    talk.say("and now?");
    let again = talk.ask(&lab).await.text();
    let id = |text: &str| text.split(']').next().unwrap_or_default().to_owned();
    assert_eq!(id(&text), id(&again), "the conversation keeps its id");
    assert_eq!(lab.sim.stats().runs_started, 3);
    assert_eq!((lab.fates().resumed, lab.fates().continued), (0, 0));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_client_finds_its_parked_turn() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        when = { nth = 1 }
        steps = [
          { text = "first" },
          { silence = 1 },
          { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
          { text = "It says: {result}" },
        ]
        "#,
    );
    let talk = Talk::new("look");
    drop(lab.open(talk.body.to_string()).await);
    // It left within the grace before the call came: the turn is parked all the same.
    sleep(Duration::from_secs(30)).await;
    assert_eq!((lab.app.sessions().parked, lab.app.sessions().cancelled), (1, 0));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn parked_turns_end_with_the_program_at_once() {
    let lab = Lab::scenario(ONE);
    parked(&lab).await;
    let start = Instant::now();
    lab.app.drain_turns();
    while lab.sim.stats().open_streams > 0 {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(lab.sim.stats().runs_cancelled, 1);
    // What would be parked from now on is ended too.
    let mut late = Talk::new("look");
    assert_eq!(late.send(&lab).await.error(), None);
    late.say("x");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn health_shows_what_is_parked() {
    let lab = Lab::scenario(ONE);
    let mut talk = parked(&lab).await;
    let health = lab.get("/health").await.json();
    assert_eq!(health["sessions"]["parked"], 1);
    assert!(health["sessions"]["parked_bytes"].as_u64().unwrap() > 1000);
    assert_eq!(health["sessions"]["max_parked"], 10_000);
    assert_eq!(health["sessions"]["ttl_seconds"], 900);
    assert_eq!(health["store"]["conversations"], 1);
    assert_eq!(health["store"]["in_memory"], true);
    let call = calls(&talk).remove(0);
    talk.result(&call, "x");
    talk.ask(&lab).await;
    let health = lab.get("/health").await.json();
    assert_eq!(
        (&health["sessions"]["parked"], &health["sessions"]["resumed"]),
        (&json!(0), &json!(1))
    );
    lab.assert_gone().await;
}
