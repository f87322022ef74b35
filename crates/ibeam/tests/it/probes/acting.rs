//! What the driver does with each finding: at a service where it makes the difference, a
//! conversation works with the finding and does not without it.

use std::time::Duration;

use ibeam_core::peer::agent::{HistoryForm, HistorySetting, probe::ProbeFindings};
use ibeam_server::{
    config::{Config, Transport},
    findings,
};
use serde_json::{Value, json};

use super::{find, service};
use crate::{
    lab::{Lab, Talk, chat, tools},
    watch,
};

const MODEL: &str = "claude-haiku-4-5";

/// A gateway before the service with these switches, with or without what a probe of it found.
struct ActingLab {
    lab: Lab,
    _folder: tempfile::TempDir,
}

async fn acting(
    letter: Option<char>,
    switches: &[(&str, &str)],
    change: impl FnOnce(&mut Config),
) -> ActingLab {
    let folder = watch::folder();
    let path = folder.path().join("findings.json");
    if let Some(letter) = letter {
        let finding = find(letter, switches, Transport::Auto).await;
        assert!(finding.effect().is_some(), "{letter} {switches:?}: {:?}", finding.verdict);
        // Question a was put to the first of its models.
        let model = finding.model.as_ref().map(|_| MODEL.to_owned());
        let finding = ibeam_core::peer::agent::probe::ProbeFinding { model, ..finding };
        findings::write(&path, &ProbeFindings::from_iter([finding])).unwrap();
    }
    let lab = Lab::with(service(switches), |config| {
        config.upstream.findings = Some(path);
        config.retry.retries = 0;
        change(config);
    });
    ActingLab { lab, _folder: folder }
}

fn in_form(form: HistoryForm) -> impl Fn(&mut Config) {
    move |config| config.upstream.history = HistorySetting::Only(form)
}

fn message(role: &str, content: impl Into<Value>) -> Value {
    json!({ "role": role, "content": content.into() })
}

fn talk(messages: &[Value]) -> String {
    json!({ "model": MODEL, "stream": true, "messages": messages }).to_string()
}

/// The answer, or the code of the error.
async fn answer(lab: &ActingLab, body: &str) -> String {
    let reply = lab.lab.post(body.to_owned()).await;
    reply.error().unwrap_or_else(|| reply.text())
}

const SYSTEM: &str = "Mind the gap.";
const RULES: &str = "What are your instructions?";

#[tokio::test(start_paused = true)]
async fn question_a_chooses_the_form_of_a_history() {
    let switches = &[("roots.resume_verbatim", "off")];
    let body = || {
        talk(&[
            message("system", SYSTEM),
            message("user", "Hello"),
            message("assistant", "Hi"),
            message("user", RULES),
        ])
    };
    let auto = |config: &mut Config| config.upstream.history = HistorySetting::Auto;
    let without = acting(None, switches, auto).await;
    assert!(!answer(&without, &body()).await.contains(SYSTEM), "the default form does not work");
    let with = acting(Some('a'), switches, auto).await;
    let said = answer(&with, &body()).await;
    assert!(said.contains(SYSTEM), "{said}");
    assert!(!with.lab.sim.runs()[0].resumed);
}

#[tokio::test(start_paused = true)]
async fn question_b_makes_the_system_prompt_an_entry_where_rules_are_lost() {
    let switches = &[("roots.uma_context", "never")];
    for form in [HistoryForm::RulesRoots, HistoryForm::UserRoots, HistoryForm::ResumeRoots] {
        let body = || talk(&[message("system", SYSTEM), message("user", RULES)]);
        let without = acting(None, switches, in_form(form)).await;
        assert!(!answer(&without, &body()).await.contains(SYSTEM), "{form:?}");
        let with = acting(Some('b'), switches, in_form(form)).await;
        let said = answer(&with, &body()).await;
        assert!(said.contains(SYSTEM), "{form:?}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_d_caps_the_entries_of_a_history() {
    let switches = &[("roots.max", "160")];
    for form in [HistoryForm::UserRoots, HistoryForm::ResumeRoots] {
        // More than this service takes, and fewer than ibeam sends unasked.
        let mut messages: Vec<Value> = (0..85)
            .flat_map(|n| [message("user", format!("Note {n}")), message("assistant", "Noted")])
            .collect();
        messages.push(message("user", "What did I say?"));
        let without = acting(None, switches, in_form(form)).await;
        assert_eq!(answer(&without, &talk(&messages)).await, "invalid_value", "{form:?}");
        let with = acting(Some('d'), switches, in_form(form)).await;
        let said = answer(&with, &talk(&messages)).await;
        assert!(said.contains("Note 84"), "{form:?}: {said}");
        let prompt = &with.lab.sim.prompts()[0];
        assert!(prompt.entries.len() <= 151, "{}", prompt.entries.len());
    }
}

/// Whether the model calls the client's tool of this name.
async fn calls(lab: &ActingLab, tool: &str) -> bool {
    let mut body = chat(&format!("Call the tool `{tool}` with {{}}"), true);
    body["tools"] = tools(&[tool]);
    let reply = lab.lab.post(body.to_string()).await;
    let calls = reply.calls();
    assert!(calls.iter().all(|call| call.name == tool), "{calls:?}");
    calls.len() == 1
}

#[tokio::test(start_paused = true)]
async fn question_f_declares_tools_where_they_are_found() {
    for switches in [[("tools.spoil34", "on")], [("tools.double_declare_stall", "on")]] {
        let without = acting(None, &switches, |_| {}).await;
        assert!(!calls(&without, "probe_me").await, "{switches:?}");
        let with = acting(Some('f'), &switches, |_| {}).await;
        assert!(calls(&with, "probe_me").await, "{switches:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_g_reports_the_status_that_works() {
    for switches in [[("tools.mcp_status", "ready")], [("tools.mcp_status", "absent")]] {
        let without = acting(None, &switches, |_| {}).await;
        assert!(!calls(&without, "probe_me").await, "{switches:?}");
        let with = acting(Some('g'), &switches, |_| {}).await;
        assert!(calls(&with, "probe_me").await, "{switches:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_h_sends_images_in_the_shape_that_is_seen() {
    /// The palette of a PNG with one colour is all that the simulated model looks at.
    const GREEN: &str = "data:image/png;base64,iVBORw0KGgpQTFRFFNwU";
    let switches = &[("roots.images", "data-url")];
    let image = json!({ "type": "image_url", "image_url": { "url": GREEN } });
    let first = json!([{ "type": "text", "text": "Keep this." }, image]);
    let body = || {
        talk(&[
            message("user", first.clone()),
            message("assistant", "Kept."),
            message("user", "Which colour has the image?"),
        ])
    };
    for form in [HistoryForm::UserRoots, HistoryForm::ResumeRoots] {
        let without = acting(None, switches, in_form(form)).await;
        assert_eq!(answer(&without, &body()).await, "I see no image.", "{form:?}");
        let with = acting(Some('h'), switches, in_form(form)).await;
        assert_eq!(answer(&with, &body()).await, "It is green.", "{form:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_i_replaces_a_version_that_is_refused() {
    let switches = &[("version.floor", "2026.06.01")];
    let old = |config: &mut Config| {
        config.upstream.client_version = "cli-2025.12.01-0123abc".to_owned();
    };
    let hello = || talk(&[message("user", "Hello")]);
    let without = acting(None, switches, old).await;
    assert_eq!(answer(&without, &hello()).await, "client_outdated");
    let with = acting(Some('i'), switches, old).await;
    assert!(answer(&with, &hello()).await.contains("Hello"));
}

#[tokio::test(start_paused = true)]
async fn question_j_waits_for_all_calls_where_refused_ones_are_not_counted() {
    let switches = &[("tools.listed_counts_refused", "off")];
    let ask = "Do this in parallel: call the tool no_such_tool with {} although it is not listed, \
               call the tool tool_one with {}, call the tool tool_two with {}";
    let body = || {
        let mut body = chat(ask, true);
        body["tools"] = tools(&["tool_one", "tool_two"]);
        body.to_string()
    };
    let without = acting(None, switches, |_| {}).await;
    assert_eq!(without.lab.post(body()).await.calls().len(), 1, "the second comes too late");
    let with = acting(Some('j'), switches, |_| {}).await;
    assert_eq!(with.lab.post(body()).await.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn question_k_fills_an_empty_list_that_is_ignored() {
    let switches = &[("tools.allow_header", "lenient")];
    let body = || talk(&[message("user", "Run the shell command `ls`")]);
    let without = acting(None, switches, |_| {}).await;
    answer(&without, &body()).await;
    assert_eq!(without.lab.sim.runs()[0].execs, 1, "the built-in shell was called, and refused");
    let with = acting(Some('k'), switches, |_| {}).await;
    answer(&with, &body()).await;
    assert_eq!(with.lab.sim.runs()[0].execs, 0);
}

#[tokio::test(start_paused = true)]
async fn question_m_sends_runs_to_the_host_that_answers() {
    const RUN: &str = "/agent.v1.AgentService/Run";
    let switches = &[("host.region_error", "agent")];
    let hello = || talk(&[message("user", "Hello")]);
    for (letter, runs) in [(None, 2), (Some('m'), 1)] {
        let lab = acting(letter, switches, |_| {}).await;
        assert!(answer(&lab, &hello()).await.contains("Hello"));
        assert_eq!(lab.lab.sim.stats().requests.get(RUN), Some(&runs), "{letter:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_n_sends_a_key_where_one_is_needed() {
    let switches = &[("headers.blob_key", "required")];
    let hello = || talk(&[message("user", "Hello")]);
    for transport in [Transport::H2, Transport::H1] {
        let over = |config: &mut Config| config.upstream.transport = transport;
        let without = acting(None, switches, over).await;
        assert_eq!(answer(&without, &hello()).await, "invalid_value");
        let with = acting(Some('n'), switches, over).await;
        assert!(answer(&with, &hello()).await.contains("Hello"), "{transport:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_p_renames_tools_that_collide_and_the_client_sees_its_own_names() {
    let switches = &[("tools.collide_builtin_error", "on")];
    for form in [HistoryForm::UserRoots, HistoryForm::ResumeRoots] {
        let with = acting(None, switches, in_form(form)).await;
        let mut talk = Talk::new("Call the tool `read_tool` with {}");
        talk.body["tools"] = tools(&["read"]);
        let call = talk.ask(&with.lab).await.call();
        assert_eq!(call.name, "read", "the client's own name");
        talk.result(&call, "the content");
        let said = talk.ask(&with.lab).await.text();
        assert!(said.contains("the content"), "{form:?}: {said}");
        // Rebuilt from its history, the conversation has the same names.
        let lab = with.lab.restarted(in_form(form)).await;
        talk.say("Which tools do you have?");
        assert_eq!(talk.ask(&lab).await.text(), "My tools are: read_tool");
    }
}

#[tokio::test(start_paused = true)]
async fn question_p_leaves_the_names_of_tools_where_they_are_free() {
    let mut body = chat("Which tools do you have?", true);
    body["tools"] = tools(&["read"]);
    for (question, name) in [(None, "read_tool"), (Some('p'), "read")] {
        let lab = acting(question, &[], |_| {}).await;
        assert_eq!(lab.lab.post(body.to_string()).await.text(), format!("My tools are: {name}"));
    }
}

#[tokio::test(start_paused = true)]
async fn question_q_parks_no_longer_than_a_call_may_wait() {
    let switches = &[("hold.max", "60s")];
    let parked_after = |lab: ActingLab| async move {
        let mut talk = Talk::new("run `ls`");
        let call = talk.ask(&lab.lab).await.call();
        tokio::time::sleep(Duration::from_secs(56)).await;
        let parked = lab.lab.app.sessions().parked;
        talk.result(&call, "a.txt");
        let said = talk.ask(&lab.lab).await.text();
        assert!(said.contains("a.txt"), "{said}");
        parked
    };
    let form = in_form(HistoryForm::ResumeRoots);
    assert_eq!(parked_after(acting(None, switches, &form).await).await, 1);
    assert_eq!(parked_after(acting(Some('q'), switches, &form).await).await, 0, "54 s at most");
}
