//! What each switch of the simulated service changes for a client of ibeam. A switch that is not
//! here is in [`ELSEWHERE`], with the reason.

use std::{future::Future, pin::Pin, time::Duration};

use ibeam_core::peer::agent::HistoryForm;
use ibeam_sim::{Behaviour, SimConfig};
use serde_json::{Value, json};

use super::{Setup, called, contents, conversations::with_picture, newest, unknown};
use crate::lab::{Lab, Reply, Talk, tools};

/// What a client does and sees, in a few words.
type Look = fn(Lab) -> Pin<Box<dyn Future<Output = String>>>;

/// A switch, what is looked at, and what is seen with each value.
type Row = (&'static str, Look, &'static [(&'static str, &'static str)]);

macro_rules! look {
    ($name:ident) => {
        |lab| Box::pin($name(lab))
    };
}

/// A question with a history is answered by a model that knows everything.
const KNOWS: &str = "1 run, knows everything";
const SEEN: &str = "1 run, sees the picture";
const FELL_BACK: &str = "2 runs, knows everything";
/// One call is made and answered.
const CALLED: &str = "1 run; look; answered";
/// The model has no tools, which `ibeam probe` finds out.
const NO_TOOLS: &str = "1 run; answered";
/// Two calls come together.
const BOTH: &str = "1 run; look, feel; answered";

const ROWS: &[Row] = &[
    // The service of the summer took the system prompt from the context, which this form has not.
    (
        "roots.resume_verbatim",
        look!(history),
        &[("on", KNOWS), ("off", "1 run, does not know the system prompt")],
    ),
    // Without it the service is that of the summer, which read no rules in an entry.
    (
        "roots.uma_slot0",
        look!(history_of_user),
        &[("on", KNOWS), ("off", "1 run, does not know the system prompt")],
    ),
    // Nothing else is known to reach the model without a history.
    (
        "roots.uma_context",
        look!(first_question),
        &[
            ("always", KNOWS),
            ("no-history", KNOWS),
            ("never", "1 run, does not know the system prompt"),
        ],
    ),
    ("roots.resume_needs_turn", look!(history), &[("on", KNOWS), ("off", KNOWS)]),
    (
        "roots.resume_needs",
        look!(history),
        &[("nothing", KNOWS), ("mode", KNOWS), ("agent-type", KNOWS)],
    ),
    ("roots.empty_slots_57", look!(history), &[("on", KNOWS), ("off", KNOWS)]),
    ("roots.fetch", look!(history), &[("on", KNOWS), ("off", KNOWS)]),
    ("roots.validate", look!(history), &[("strict", KNOWS), ("off", KNOWS)]),
    ("roots.max", look!(history), &[("off", KNOWS), ("5", "3 runs, error invalid_value")]),
    (
        "roots.images",
        look!(picture),
        &[
            ("both", SEEN),
            ("hex", SEEN),
            ("data-url", "1 run, does not see the picture"),
            ("unseen", "1 run, does not see the picture"),
        ],
    ),
    ("state.required", look!(history), &[("on", KNOWS), ("off", KNOWS)]),
    ("state.tz_pair", look!(history), &[("on", KNOWS), ("off", KNOWS)]),
    ("system.custom8", look!(history), &[("refuse", KNOWS), ("obey", KNOWS)]),
    ("system.spec29", look!(history), &[("refuse", KNOWS), ("obey", KNOWS)]),
    ("history.inline7", look!(history), &[("90s", KNOWS), ("off", KNOWS)]),
    ("result.is_error_visible", look!(history), &[("off", KNOWS), ("on", KNOWS)]),
    (
        "tools.mode",
        look!(call),
        &[("direct", CALLED), ("meta", CALLED), ("meta-old-names", CALLED)],
    ),
    ("tools.literal_meta", look!(call), &[("on", CALLED), ("off", CALLED)]),
    ("tools.allow_header", look!(call), &[("strict", CALLED), ("lenient", CALLED)]),
    (
        "tools.mcp_state",
        look!(answers),
        &[
            ("off", "2 execs answered"),
            ("ask", "4 execs answered"),
            ("blocking", "4 execs answered"),
        ],
    ),
    (
        "tools.mcp_status",
        look!(call),
        &[("any", CALLED), ("connected", CALLED), ("ready", NO_TOOLS), ("absent", NO_TOOLS)],
    ),
    ("tools.spoil34", look!(call), &[("off", CALLED), ("on", NO_TOOLS)]),
    ("tools.need34", look!(call), &[("on", CALLED), ("off", CALLED)]),
    ("tools.double_declare_stall", look!(call), &[("off", CALLED), ("on", "1 run; error timeout")]),
    (
        "tools.refuse_server_side",
        look!(call),
        &[("off", CALLED), ("per-call", CALLED), ("first", "1 run; answered")],
    ),
    ("tools.listed_counts_refused", look!(two_calls), &[("on", BOTH), ("off", BOTH)]),
    (
        "tools.listed27",
        look!(two_calls),
        &[("off", BOTH), ("before-started", BOTH), ("between", BOTH), ("after-execs", BOTH)],
    ),
    ("tools.partial", look!(call), &[("one", CALLED), ("cumulative", CALLED), ("off", CALLED)]),
    (
        "tools.serial_second_call",
        look!(two_calls),
        &[("off", BOTH), ("on", "1 run; look; feel; answered")],
    ),
    ("tools.exec_without_partial", look!(call), &[("off", CALLED), ("on", CALLED)]),
    ("tools.map_drops_large", look!(call), &[("off", CALLED), ("on", CALLED)]),
    (
        "tools.approval_only",
        look!(answers),
        &[("off", "4 execs answered"), ("on", "5 execs answered")],
    ),
    ("tools.spill_catalogue", look!(call), &[("off", CALLED), ("on", CALLED)]),
    ("ids.newline", look!(call), &[("off", CALLED), ("always", CALLED)]),
    ("fields.extra", look!(drift), &[("off", "all known"), ("on", "something unknown")]),
    ("model.max_required", look!(two_conversations), &[("off", "2 runs"), ("all", "3 runs")]),
    ("error.provider_refused", look!(history), &[("off", KNOWS), ("first", FELL_BACK)]),
    ("error.late_invalid", look!(history), &[("off", KNOWS), ("first", FELL_BACK)]),
    ("error.data_missing", look!(history), &[("off", KNOWS), ("first", FELL_BACK)]),
    ("error.instant_close", look!(history), &[("off", KNOWS), ("first", FELL_BACK)]),
    ("error.provider_busy", look!(history), &[("off", KNOWS), ("first", FELL_BACK)]),
    (
        "headers.blob_key",
        look!(history),
        &[("ignored", KNOWS), ("refused", KNOWS), ("required", "0 runs, error invalid_value")],
    ),
    ("latency.first_output", look!(history), &[("off", KNOWS), ("175s", KNOWS)]),
    ("hold.max", look!(slow_call), &[("off", CALLED), ("20s", "2 runs; look; answered")]),
];

/// Switches that no client of a gateway can see, or that have tests of their own.
const ELSEWHERE: &[(&str, &str)] = &[
    ("reasoning.signed", "the tests of `reasoning`"),
    ("tools.collide_builtin_error", "question p of the probe: the tests of `probes`"),
    ("shell.close_required", "native tools: `native_requests`"),
    ("host.config", "hosts are a matter of the driver's own tests"),
    ("host.region_error", "hosts are a matter of the driver's own tests"),
    ("host.agentn_464", "hosts are a matter of the driver's own tests"),
    ("host.h2_delay", "hosts are a matter of the driver's own tests"),
    ("model.details_missing_empty", "ibeam always sends both fields"),
    ("model.not_found", "errors are in one table: `every_kind_is_as_documented`"),
    ("model.both_conflict", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.plan_limit", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.too_many_computers", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.free_plan", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.trial_limit", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.region_model", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.model_blocked", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.policy_review", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.schema_bytes", "errors are in one table: `every_kind_is_as_documented`"),
    ("error.not_logged_in", "errors are in one table: `every_kind_is_as_documented`"),
    ("usage.rpc", "the gateway does not ask for the usage of the plan"),
    ("usage.events_delay", "the gateway does not ask for the usage of the plan"),
    ("usage.abandoned_billed", "the gateway does not ask for the usage of the plan"),
    ("usage.summed", "the tests of `usage`"),
    ("version.floor", "the tests of `doctor`"),
    ("cli.resume_unknown", "Cursor's CLI: the tests of `fake_agent`"),
    ("cli.mcp_approval", "Cursor's CLI: the tests of `fake_agent`"),
    ("cli.worker_stdout", "Cursor's CLI: the tests of `fake_agent`"),
    ("acp.initialize", "Cursor's CLI: the tests of `fake_agent`"),
];

/// The settings of everybody, with a model of another company.
fn setup() -> Setup {
    Setup::DEFAULT.external()
}

fn lab(setup: Setup, switch: &str, value: &str) -> Lab {
    let sim = setup.sim("");
    let behaviour = sim.behaviour.clone().with(switch, value).unwrap();
    Lab::with(SimConfig { behaviour, ..sim }, |config| setup.configure(config))
}

fn runs(lab: &Lab) -> String {
    let count = lab.sim.stats().runs_started;
    format!("{count} run{}", if count == 1 { "" } else { "s" })
}

/// Asks, and says what the model knows of it.
async fn ask(lab: Lab, talk: Talk) -> String {
    let reply = talk.send(&lab).await;
    if let Some(code) = reply.error() {
        return format!("{}, error {code}", runs(&lab));
    }
    let wanted = contents(&talk);
    let lost = unknown(&newest(&lab), &wanted);
    let known = match lost.is_empty() {
        true => "knows everything".to_owned(),
        false => format!("does not know {}", lost.join(", ")),
    };
    let seen = format!("{}, {known}", runs(&lab));
    lab.assert_gone().await;
    seen
}

/// A question behind a history with a failed call.
fn asked(setup: Setup) -> Talk {
    let mut talk = setup.talk(&["look"], "Where is the cat?");
    for message in called("call_1", "look", &json!({ "at": 1 }), "the lamp is broken") {
        talk.push(message);
    }
    talk.push(json!({ "role": "assistant", "content": "I cannot see." }));
    talk.say("Then listen.");
    talk
}

async fn history(lab: Lab) -> String {
    ask(lab, asked(setup())).await
}

/// With the form that Cursor's own models get.
async fn history_of_user(lab: Lab) -> String {
    ask(lab, asked(Setup::DEFAULT)).await
}

/// A picture with the newest message behind a history.
async fn picture(lab: Lab) -> String {
    let mut talk = setup().talk(&[], "What is this?");
    talk.push(json!({ "role": "assistant", "content": "There is nothing." }));
    talk.push(with_picture("And this?"));
    let said = talk.ask(&lab).await.text();
    let sees = if said.contains("I see 1 image") { "sees" } else { "does not see" };
    format!("{}, {sees} the picture", runs(&lab))
}

async fn first_question(lab: Lab) -> String {
    ask(lab, setup().talk(&[], "Where is the cat?")).await
}

/// Works with tools, and says which calls came with each reply.
async fn work_with(lab: &Lab, mut talk: Talk, time: Duration) -> String {
    let mut seen = Vec::new();
    loop {
        let reply: Reply = talk.send(lab).await;
        if let Some(code) = reply.error() {
            seen.push(format!("error {code}"));
            break;
        }
        talk.hear(&reply);
        let calls = reply.calls();
        if calls.is_empty() {
            assert!(!reply.text().is_empty());
            seen.push("answered".to_owned());
            break;
        }
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        seen.push(names.join(", "));
        tokio::time::sleep(time).await;
        for call in &calls {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            assert_eq!(arguments, json!({ "at": "x".repeat(40) }), "{}", call.arguments);
            talk.result(call, format!("{} is done", call.name));
        }
    }
    format!("{}; {}", runs(lab), seen.join("; "))
}

fn with_calls(names: &[&str]) -> Talk {
    let arguments = json!({ "at": "x".repeat(40) });
    let wishes: Vec<String> =
        names.iter().map(|name| format!("use the tool {name} {arguments}")).collect();
    let mut talk = setup().talk(&[], &format!("In parallel, {}", wishes.join(" and ")));
    talk.body["tools"] = tools(&["look", "feel"]);
    talk
}

async fn call(lab: Lab) -> String {
    work_with(&lab, with_calls(&["look"]), Duration::ZERO).await
}

async fn slow_call(lab: Lab) -> String {
    work_with(&lab, with_calls(&["look"]), Duration::from_secs(60)).await
}

async fn two_calls(lab: Lab) -> String {
    work_with(&lab, with_calls(&["look", "feel"]), Duration::ZERO).await
}

/// What ibeam answers by itself beside the one call.
async fn answers(lab: Lab) -> String {
    work_with(&lab, with_calls(&["look"]), Duration::ZERO).await;
    format!("{} execs answered", lab.sim.stats().exec_results)
}

async fn drift(lab: Lab) -> String {
    ask_plainly(&lab).await;
    let known = lab.app.sessions().drift.is_empty();
    if known { "all known" } else { "something unknown" }.to_owned()
}

async fn two_conversations(lab: Lab) -> String {
    ask_plainly(&lab).await;
    ask_plainly(&lab).await;
    runs(&lab)
}

async fn ask_plainly(lab: &Lab) {
    let reply = setup().talk(&[], "Where is the cat?").send(lab).await;
    assert_eq!(reply.error(), None, "{}", reply.body);
}

#[tokio::test(start_paused = true)]
async fn each_switch_is_seen_in_what_ibeam_does() {
    let mut table = "| switch | value | seen |\n|---|---|---|\n".to_owned();
    let mut wrong = Vec::new();
    for (switch, look, values) in ROWS {
        for (value, want) in *values {
            let seen = look(lab(setup(), switch, value)).await;
            table += &format!("| `{switch}` | {value} | {seen} |\n");
            if seen != *want {
                wrong.push(format!("{switch}={value}: {seen}, not {want}"));
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_switch_has_a_row_or_a_reason() {
    let rows = ROWS.iter().map(|(switch, ..)| *switch);
    let mut named: Vec<&str> = rows.chain(ELSEWHERE.iter().map(|(switch, _)| *switch)).collect();
    let mut all: Vec<&str> = Behaviour::table().iter().map(|row| row.name).collect();
    named.sort_unstable();
    all.sort_unstable();
    assert_eq!(named, all);
}

/// A transcript depends on none of the switches about entries.
#[tokio::test(start_paused = true)]
async fn transcript_needs_nothing_of_the_service() {
    for (switch, value) in [
        ("roots.resume_verbatim", "off"),
        ("roots.uma_slot0", "off"),
        ("roots.max", "1"),
        ("roots.fetch", "off"),
    ] {
        let setup = Setup::autumn(HistoryForm::Transcript);
        let seen = ask(lab(setup, switch, value), asked(setup)).await;
        assert_eq!(seen, KNOWS, "{switch}={value}");
    }
}
