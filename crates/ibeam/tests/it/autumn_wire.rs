//! What sections 5 to 8 of the autumn's facts say about hosts, models and errors, through the
//! gateway and the simulator, over both transports.

use ibeam_server::config::{Config, Transport};
use ibeam_sim::{BehaviourChanges, RunReport, Scenario, SimConfig, SimHttp2};
use serde_json::json;

use crate::lab::{Lab, Reply, chat};

const API: &str = "api2.cursor.sh";
const AGENT: &str = "agent.global.api5.cursor.sh";
const AGENTN: &str = "agentn.global.api5.cursor.sh";

/// A simulator with these switches, whatever its defaults are.
fn switched(switches: &[(&str, &str)]) -> SimConfig {
    let mut behaviour = BehaviourChanges::default();
    for (name, value) in switches {
        behaviour = behaviour.with(name, value).unwrap();
    }
    SimConfig {
        behaviour,
        ..SimConfig::scenario(Scenario::from_toml("[[rule]]\nsteps = [{ text = \"ok\" }]").unwrap())
    }
}

fn over(transport: Transport, switches: &[(&str, &str)]) -> Lab {
    Lab::with(switched(switches), |config| {
        config.upstream.transport = transport;
        config.retry.retries = 0;
    })
}

fn lab(switches: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Lab {
    Lab::with(switched(switches), change)
}

fn hosts(runs: &[RunReport]) -> Vec<&str> {
    runs.iter().map(|run| run.host.as_str()).collect()
}

async fn asked(lab: &Lab, model: &str) -> Reply {
    let mut body = chat("Say hello", false);
    body["model"] = json!(model);
    lab.post(body.to_string()).await
}

/// The status and code of a request that fails, after so many runs.
async fn refused(lab: &Lab) -> (u16, String, usize) {
    let reply = asked(lab, "gpt-5.5").await;
    assert!(!reply.status.is_success(), "{}", reply.body);
    lab.assert_clean().await;
    (reply.status.as_u16(), reply.error().unwrap_or_default(), lab.sim.runs().len())
}

const BOTH: [Transport; 2] = [Transport::H2, Transport::H1];

// === section 5 ===

#[tokio::test(start_paused = true)]
async fn section_5_runs_go_to_the_host_that_the_service_names_for_the_account() {
    for (config, privacy, want) in [
        ("both", true, AGENT),
        ("both", false, AGENTN),
        ("agent", false, AGENT),
        ("agentn", true, AGENTN),
        ("none", true, API),
    ] {
        let lab = lab(&[("host.config", config)], |config| config.upstream.privacy = privacy);
        assert_eq!(lab.ask("Say hello").await, "ok");
        assert_eq!(hosts(&lab.sim.runs()), [want], "{config} {privacy}");
        lab.assert_clean().await;
    }
    // A host that the user named is for everything.
    let lab = lab(&[("host.config", "both")], |config| config.upstream.named = true);
    assert_eq!(lab.ask("Say hello").await, "ok");
    assert_eq!(hosts(&lab.sim.runs()), [API]);
}

#[tokio::test(start_paused = true)]
async fn section_5_a_region_error_is_answered_by_the_other_host_and_never_by_a_sign_in() {
    let lab = lab(&[("host.config", "both"), ("host.region_error", "agent")], |_| {});
    for _ in 0..2 {
        assert_eq!(lab.ask("Say hello").await, "ok");
    }
    // The refused stream is no run of the simulator's.
    assert_eq!(hosts(&lab.sim.runs()), [AGENTN, AGENTN], "it is remembered");
    let requests = lab.sim.stats().requests;
    assert_eq!(requests.get("/agent.v1.AgentService/Run"), Some(&3), "{requests:?}");
    assert!(!requests.keys().any(|path| path.contains("/auth/")), "{requests:?}");
    lab.assert_clean().await;

    // No other host helps: 403.
    let lab = over(Transport::H1, &[("host.region_error", "api2")]);
    assert_eq!(refused(&lab).await, (403, "region_unsupported".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn section_5_http1_goes_to_the_api_host_because_the_others_refuse_it() {
    let switches = [("host.config", "both"), ("host.agentn_464", "on")];
    let lab = lab(&switches, |config| {
        config.upstream.privacy = false;
        config.upstream.transport = Transport::H1;
    });
    assert_eq!(lab.ask("Say hello").await, "ok");
    let runs = lab.sim.runs();
    assert_eq!((hosts(&runs), runs[0].transport), (vec![API], "run_sse"));
}

#[tokio::test(start_paused = true)]
async fn section_5_http2_that_does_not_open_in_time_is_replaced_by_http1_on_the_api_host() {
    let lab = lab(&[("host.config", "both"), ("host.h2_delay", "90s")], |_| {});
    for _ in 0..2 {
        assert_eq!(lab.ask("Say hello").await, "ok");
    }
    let runs = lab.sim.runs();
    assert_eq!(hosts(&runs), [API, API]);
    assert!(runs.iter().all(|run| run.transport == "run_sse"), "{runs:?}");
}

// === section 6 ===

#[tokio::test(start_paused = true)]
async fn section_6_max_mode_is_sent_in_both_fields_when_the_service_wants_it() {
    for transport in BOTH {
        let lab = over(transport, &[("model.max_required", "all")]);
        for _ in 0..2 {
            let reply = asked(&lab, "gpt-5.5").await;
            assert_eq!(reply.status, 200, "{}", reply.body);
        }
        let max: Vec<bool> = lab.sim.runs().iter().map(|run| run.request.max_mode).collect();
        assert_eq!(max, [false, true, true], "{transport:?}: tried once, then remembered");
        lab.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn section_6_a_model_of_max_mode_only_is_asked_so_from_the_start() {
    let lab = over(Transport::H2, &[("model.max_required", "listed")]);
    assert_eq!(asked(&lab, "claude-opus-4-7").await.status, 200);
    assert_eq!(lab.sim.runs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn section_6_a_model_in_both_fields_at_odds_is_named_in_the_newer_one() {
    for transport in BOTH {
        let lab = over(transport, &[("model.both_conflict", "on")]);
        for _ in 0..2 {
            let reply = asked(&lab, "gpt-5.5:high").await;
            assert_eq!(reply.status, 200, "{}", reply.body);
        }
        let runs = lab.sim.runs();
        let details: Vec<bool> =
            runs.iter().map(|run| !run.request.model_details.is_empty()).collect();
        assert_eq!(details, [true, false, false], "{transport:?}");
        assert!(runs.windows(2).take(1).all(|pair| pair[0].conversation == pair[1].conversation));
    }
    // And in both where the service wants it so.
    let lab = over(Transport::H2, &[("model.details_missing_empty", "on")]);
    assert_eq!(asked(&lab, "gpt-5.5:high").await.status, 200);
    assert_eq!(lab.sim.runs().len(), 1);
}

// === section 7 ===

#[tokio::test(start_paused = true)]
async fn section_7_each_error_of_the_service_has_its_status_and_is_not_repeated_in_vain() {
    for (switch, status, code, runs) in [
        ("error.plan_limit", 429, "quota_exceeded", 2),
        ("error.provider_refused", 400, "invalid_value", 1),
        ("error.free_plan", 403, "plan_required", 1),
        ("error.trial_limit", 429, "insufficient_quota", 1),
        ("error.region_model", 403, "region_unsupported", 1),
        ("error.model_blocked", 403, "policy_denied", 1),
        ("error.policy_review", 403, "policy_denied", 1),
        ("error.data_missing", 502, "upstream_error", 2),
        ("error.instant_close", 502, "upstream_closed", 1),
        ("error.provider_busy", 503, "unavailable", 1),
        ("model.not_found", 400, "model_not_found", 1),
    ] {
        for transport in BOTH {
            let lab = over(transport, &[(switch, "always")]);
            let got = refused(&lab).await;
            assert_eq!(got, (status, code.to_owned(), runs), "{switch} {transport:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn section_7_errors_that_pass_are_answered_by_another_run() {
    for switch in
        ["error.plan_limit", "error.provider_busy", "error.data_missing", "error.instant_close"]
    {
        for transport in BOTH {
            let lab = lab(&[(switch, "first")], |config| config.upstream.transport = transport);
            let reply = asked(&lab, "gpt-5.5").await;
            assert_eq!(reply.status, 200, "{switch} {transport:?}: {}", reply.body);
            assert_eq!(lab.sim.runs().len(), 2, "{switch} {transport:?}");
            lab.assert_clean().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn section_7_schemas_are_sent_as_text_when_their_bytes_are_not_understood() {
    for transport in BOTH {
        let lab = over(transport, &[("error.schema_bytes", "first")]);
        let mut body = chat("Say hello", false);
        body["tools"] = crate::lab::tools(&["bash"]);
        let reply = lab.post(body.to_string()).await;
        assert_eq!(reply.status, 200, "{transport:?}: {}", reply.body);
        assert_eq!(lab.sim.runs().len(), 2);
        assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn section_7_no_header_of_the_ide_is_sent() {
    for transport in BOTH {
        let lab = over(transport, &[("error.too_many_computers", "on")]);
        assert_eq!(asked(&lab, "gpt-5.5").await.status, 200, "{transport:?}");
    }
}

// === section 8 ===

#[tokio::test(start_paused = true)]
async fn section_8_new_fields_and_messages_are_tolerated_also_after_the_end() {
    for transport in BOTH {
        let lab = over(transport, &[("fields.extra", "on")]);
        let reply = asked(&lab, "gpt-5.5").await;
        assert_eq!(reply.json()["choices"][0]["message"]["content"], "ok", "{transport:?}");
        lab.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn section_8_runs_have_the_group_of_their_conversation_and_an_id_of_their_own() {
    let lab = over(Transport::H2, &[("error.data_missing", "first")]);
    lab.ask("Say hello").await;
    let runs = lab.sim.runs();
    let [first, second] = &runs[..] else { panic!("{runs:?}") };
    assert_ne!(first.conversation, second.conversation);
    assert_eq!(first.request.conversation_group, second.request.conversation_group);
    assert_ne!(first.request.run_id, second.request.run_id);
    assert_eq!(first.request.run_id.len(), 36);
}

#[tokio::test(start_paused = true)]
async fn section_8_3_the_prompt_of_an_answer_is_the_context_and_not_the_sum_of_its_steps() {
    let script = r#"
[[rule]]
steps = [
  { text = "one" },
  { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
  { text = "two" },
]"#;
    let input = async |summed: &str| {
        let sim = SimConfig {
            behaviour: BehaviourChanges::default().with("usage.summed", summed).unwrap(),
            ..SimConfig::scenario(Scenario::from_toml(script).unwrap())
        };
        let lab = Lab::with(sim, |_| {});
        let mut talk = crate::lab::Talk::new("a question ".repeat(200).as_str());
        talk.body["stream_options"] = json!({ "include_usage": true });
        let call = talk.ask(&lab).await.call();
        talk.result(&call, "a result");
        let last = talk.ask(&lab).await;
        let usage = last.chunks().iter().find_map(|chunk| chunk["usage"]["prompt_tokens"].as_u64());
        usage.unwrap()
    };
    let (summed, alone) = (input("on").await, input("off").await);
    assert!(summed.abs_diff(alone) <= alone / 10, "{summed} {alone}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_http2_is_remembered_on_the_host_that_the_service_names() {
    let sim = SimConfig { http2: SimHttp2::Status(464), ..switched(&[("host.config", "both")]) };
    let lab = Lab::with(sim, |_| {});
    for _ in 0..2 {
        assert_eq!(lab.ask("Say hello").await, "ok");
    }
    assert_eq!(hosts(&lab.sim.runs()), [API, API]);
    assert_eq!(lab.sim.stats().requests.get("/agent.v1.AgentService/Run"), Some(&1));
}
