//! What the tests of plans share: a gateway with two models, and plans as text.

use std::fmt::Write as _;

use super::{ClientSpec, Launch, Offered, SetupPlan, System, UnfitSettings, UserMachine, Wiring};

pub(super) const LOCKED: &str = "ibk_0123456789";

/// One that asks for no key.
pub(super) fn open() -> Wiring {
    let offered = |id: &str, name: &str, context, output, efforts: &[&str]| Offered {
        id: id.to_owned(),
        name: name.to_owned(),
        context,
        output,
        reasoning: !efforts.is_empty(),
        images: true,
        tools: true,
        efforts: efforts.iter().map(ToString::to_string).collect(),
    };
    Wiring {
        url: "http://127.0.0.1:18741".to_owned(),
        key: super::ANY_KEY.into(),
        model: "auto".to_owned(),
        models: vec![
            offered("gpt-5.5", "GPT-5.5", 272_000, 64_000, &["low", "medium", "high"]),
            offered("auto", "Auto", 200_000, 32_000, &[]),
        ],
        local: true,
        args: Vec::new(),
        asked: true,
    }
}

/// One that does.
pub(super) fn locked() -> Wiring {
    Wiring { key: LOCKED.into(), ..open() }
}

/// A user on Linux who has these files and nothing else.
pub(super) fn home(files: &[(&str, &str)]) -> UserMachine {
    UserMachine::made_up(System::Linux, &[], files, &[])
}

/// Files and notes of a plan.
pub(super) fn plan_text(plan: &SetupPlan) -> String {
    let mut text = String::new();
    for change in &plan.changes {
        let private = if change.private { " (private)" } else { "" };
        let _ = write!(text, "--- {}{private}\n{}", change.path.display(), change.after);
        if !change.after.ends_with('\n') {
            text.push_str("⏎\n");
        }
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(paste) = &plan.paste {
        let _ = write!(text, "paste: {paste}");
    }
    text
}

pub(super) fn started(launch: &Launch) -> String {
    let mut text = launch.program.to_owned();
    for arg in &launch.args {
        let _ = write!(text, " {}", arg.to_string_lossy());
    }
    text.push('\n');
    for (name, value) in &launch.env {
        let _ = writeln!(text, "{name}={value}");
    }
    for name in &launch.without {
        let _ = writeln!(text, "without {name}");
    }
    for (name, file) in &launch.files {
        let _ = writeln!(text, "--- {name}\n{}", file.trim_end());
    }
    text
}

fn planned(client: &ClientSpec, machine: &UserMachine) -> SetupPlan {
    (client.plan)(machine, &open()).expect("a plan")
}

/// Where the plan's files are, for one who has none yet.
pub(super) fn places(client: &ClientSpec, system: System, env: &[(&str, &str)]) -> Vec<String> {
    let machine = UserMachine::made_up(system, env, &[], &[]);
    let plan = planned(client, &machine);
    plan.changes.iter().map(|change| change.path.display().to_string()).collect()
}

/// Every line that was there is there still, and in order; a comma may follow it now.
pub(super) fn assert_kept(before: &str, after: &str) {
    let bare = |line: &str| line.trim_end().trim_end_matches(',').to_owned();
    let mut lines = after.lines().map(bare);
    for line in before.lines().map(bare) {
        assert!(lines.any(|there| there == line), "{line:?} is not kept:\n{after}");
    }
}

/// The plan for a user with this file, which keeps every line of it.
pub(super) fn with(client: &ClientSpec, path: &str, before: &str) -> SetupPlan {
    let plan = planned(client, &home(&[(path, before)]));
    let change = plan.changes.iter().find(|change| change.path.ends_with(&path[1..]));
    assert_kept(before, &change.expect("a change of the file").after);
    plan
}

pub(super) fn refused(client: &ClientSpec, path: &str, text: &str) -> UnfitSettings {
    (client.plan)(&home(&[(path, text)]), &open()).expect_err("a refusal")
}

/// With a key that is a secret: new files are for their owner alone, nothing but files has it.
pub(super) fn assert_guarded(client: &ClientSpec) {
    let plan = (client.plan)(&home(&[]), &locked()).expect("a plan");
    for change in &plan.changes {
        assert_eq!(change.after.contains(LOCKED), change.private, "{}", change.path.display());
    }
    let said = plan.notes.concat() + &plan.paste.unwrap_or_default();
    assert!(!said.contains(LOCKED), "{said}");
    for wiring in [open(), locked()] {
        let Ok(launch) = (client.launch.expect("a launch"))(&home(&[]), &wiring) else { continue };
        let seen: Vec<_> = launch.args.iter().map(|arg| arg.to_string_lossy()).collect();
        assert!(!seen.concat().contains(LOCKED), "{seen:?}");
    }
}

#[test]
fn keys_are_masked() {
    for client in super::CLIENTS.iter().filter(|client| client.name != "opencode") {
        assert_guarded(client);
    }
}
