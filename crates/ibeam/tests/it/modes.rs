//! Modes and workspaces: from the model's name, headers and settings to the wire.

use ibeam_core::model::RunModes;
use ibeam_sim::{BehaviourChanges, Scenario, SimConfig};
use serde_json::{Value, json};

use crate::lab::{Lab, Reply, chat};

fn lab(change: impl FnOnce(&mut ibeam_server::config::Config)) -> Lab {
    let sim = SimConfig {
        behaviour: BehaviourChanges::default().with("host.config", "none").unwrap(),
        ..SimConfig::scenario(Scenario::from_toml("[[rule]]\nsteps = [{ text = \"ok\" }]").unwrap())
    };
    Lab::with(sim, |config| {
        config.upstream.inline_context = true;
        change(config);
    })
}

fn body(model: &str) -> Value {
    let mut body = chat("Say hello", false);
    body["model"] = json!(model);
    body
}

fn controls(reply: &Reply) -> &str {
    reply.headers.get("x-ibeam-controls").map_or("", |value| value.to_str().unwrap())
}

/// What the last run was asked: the number of the mode, and whether it is max mode.
fn wire(lab: &Lab) -> (i32, bool) {
    let run = lab.sim.runs().pop().unwrap().request;
    (run.mode, run.max_mode)
}

#[tokio::test(start_paused = true)]
async fn modes_come_from_the_name_of_the_model_the_header_and_the_setting() {
    let lab_with = |modes: &str| {
        let modes = RunModes::parse(modes).unwrap();
        lab(|config| config.models.modes = modes)
    };
    for (setting, model, header, want, says) in [
        ("", "auto", None, (1, false), ""),
        ("", "auto[mode=plan]", None, (3, false), "native=(mode)"),
        ("", "gpt-5.5:high[max=true]", None, (1, true), "native=(max)"),
        ("", "auto", Some("ask"), (2, false), "native=(mode)"),
        ("", "gpt-5.5", Some("plan, max"), (3, true), "native=(mode max)"),
        ("", "auto[mode=plan]", Some("ask"), (3, false), "native=(mode)"),
        ("plan, max", "gpt-5.5", None, (3, true), ""),
        ("plan, max", "gpt-5.5[max=false]", Some("agent"), (1, false), ""),
    ] {
        let lab = lab_with(setting);
        let headers: Vec<_> = header.map(|word| ("x-ibeam-mode", word)).into_iter().collect();
        let reply = lab.post_with(&body(model), &headers).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.json()["model"], model, "the client's name");
        assert_eq!(wire(&lab), want, "{setting} {model} {header:?}");
        assert_eq!(controls(&reply), says, "{model} {header:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn max_mode_takes_the_context_that_the_list_has_for_it() {
    let lab = lab(|_| {});
    assert_eq!(lab.post_with(&body("claude-opus-5[max=true]"), &[]).await.status, 200);
    assert!(wire(&lab).1);
    assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn unknown_modes_are_refused_with_the_place_where_they_are() {
    let lab = lab(|_| {});
    for (model, header, param) in [
        ("auto[mode=debug]", None, "model"),
        ("gpt-5.5[max=2]", None, "model"),
        ("auto", Some("debug"), "x-ibeam-mode"),
        ("auto", Some("plan,ask"), "x-ibeam-mode"),
    ] {
        let headers: Vec<_> = header.map(|word| ("x-ibeam-mode", word)).into_iter().collect();
        let reply = lab.post_with(&body(model), &headers).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]["param"]), (400, &json!(param)));
    }
    assert!(lab.sim.runs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_conversation_continues_in_another_mode() {
    let lab = lab(|_| {});
    let mut talk = crate::lab::Talk::new("Say hello");
    talk.headers = vec![("x-ibeam-mode", "plan".to_owned())];
    talk.ask(&lab).await;
    talk.say("Now do it");
    talk.headers.clear();
    let reply = talk.ask(&lab).await;
    assert_eq!(reply.headers["x-ibeam-session"], "continued");
    let runs = lab.sim.runs();
    let [first, second] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!(first.conversation, second.conversation);
    assert_eq!((first.request.mode, second.request.mode), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn the_router_of_auto_can_be_given_a_goal() {
    let lab = lab(|_| {});
    assert_eq!(lab.post_with(&body("auto[optimization=cost]"), &[]).await.status, 200);
    let reply = lab.post_with(&body("auto[optimization=luck]"), &[]).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body.contains("cost, balance, intelligence"), "{}", reply.body);
}

#[tokio::test(start_paused = true)]
async fn a_workspace_is_named_to_the_model_and_nothing_looks_into_it() {
    let lab = lab(|_| {});
    let folder = "/no/such/folder/of/this/machine";
    let reply = lab.post_with(&body("auto"), &[("x-cursor-workspace", folder)]).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(lab.sim.runs().pop().unwrap().request.workspaces, [folder]);
    assert_eq!(lab.post_with(&body("auto"), &[]).await.status, 200);
    assert!(lab.sim.runs().pop().unwrap().request.workspaces.is_empty());
    let reply = lab.post_with(&body("auto"), &[("x-cursor-workspace", "relative")]).await;
    let error = reply.json()["error"].clone();
    assert_eq!((reply.status.as_u16(), &error["param"]), (400, &json!("x-cursor-workspace")));
}
