use serde_json::json;

use super::*;
use crate::behaviour::Preset;

fn said(role: &str, text: &str) -> HistoryMessage {
    HistoryMessage { role: role.to_owned(), text: text.to_owned(), ..HistoryMessage::default() }
}

fn prompt(resume: bool, history: Vec<HistoryMessage>) -> RunPrompt {
    RunPrompt {
        resume,
        history,
        system: vec!["client system".to_owned()],
        root_roles: vec!["system".to_owned()],
        context_rules: vec!["context rule".to_owned()],
        ..RunPrompt::default()
    }
}

fn settled(mut prompt: RunPrompt, changes: &[(&str, &str)]) -> RunPrompt {
    let mut behaviour = Behaviour::preset(Preset::Autumn);
    for (name, value) in changes {
        behaviour.set(name, value).unwrap();
    }
    let entries = vec![json!({})];
    prompt.settle(&entries, &behaviour);
    prompt
}

#[test]
fn resumed_prompt_is_exactly_the_clients() {
    let history = vec![said("user", "first"), said("assistant", "ok"), said("user", "second")];
    let prompt = settled(prompt(true, history), &[]);
    assert_eq!(prompt.rules, ["client system"]);
    assert_eq!(prompt.system, ["client system"]);
    assert_eq!(prompt.text, "second");
    assert!(prompt.asks_anew());
    assert_eq!(prompt.history.len(), 2);
}

#[test]
fn message_without_a_history_gets_the_services_system_text_and_context_rules() {
    let empty = settled(prompt(false, Vec::new()), &[]);
    assert_eq!(empty.system, [server_entries::system_text()]);
    assert_eq!(empty.rules, ["context rule"]);
    let history = vec![said("user", "<rules>\nroot rule\n</rules>"), said("user", "first")];
    let rebuilt = settled(prompt(false, history.clone()), &[]);
    assert_eq!(rebuilt.rules, ["root rule"]);
    assert_eq!(rebuilt.history, [said("user", "first")]);
    let always = settled(prompt(false, history), &[("roots.uma_context", "always")]);
    assert_eq!(always.rules, ["root rule", "context rule"]);
    let never = settled(prompt(false, Vec::new()), &[("roots.uma_context", "never")]);
    assert_eq!(never.rules, Vec::<String>::new());
}

#[test]
fn own_context_entry_is_rewritten() {
    let entry = server_entries::context_text(&["old rule".to_owned()], &[]);
    let history = vec![said("user", &entry), said("user", "first")];
    let continued = settled(prompt(false, history.clone()), &[]);
    assert_eq!(continued.rules, ["context rule"]);
    assert!(continued.server_context);
    let resumed = settled(prompt(true, history), &[]);
    assert_eq!(resumed.rules, ["client system", "old rule"]);
}

#[test]
fn failed_results_are_known_by_their_text() {
    let result = |text: &str| HistoryMessage { failed: true, ..said("tool", text) };
    let history = vec![result("all good"), result("Error: no such file")];
    let judged = settled(prompt(true, history.clone()), &[]);
    assert_eq!(judged.history.iter().map(|said| said.failed).collect::<Vec<_>>(), [false, true]);
    let visible = settled(prompt(true, history), &[("result.is_error_visible", "on")]);
    assert!(visible.history.iter().all(|said| said.failed));
}
