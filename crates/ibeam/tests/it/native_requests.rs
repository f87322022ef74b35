//! What the backend may ask for, and what it gets: typed refusals, an approval only
//! where the user said so, and an answer to everything.

use ibeam_sim::{Scenario, SimConfig};

use crate::lab::Lab;

/// Every exec arm, one after the other: the turn must get through all of them.
#[tokio::test(start_paused = true)]
async fn every_exec_is_answered_and_none_is_run() {
    let arms = [
        "shell",
        "shell_stream",
        "write",
        "delete",
        "grep",
        "read",
        "ls",
        "diagnostics",
        "request_context",
        "background_shell_spawn",
        "list_mcp_resources_exec",
        "read_mcp_resource_exec",
        "fetch",
        "record_screen",
        "computer_use",
        "write_shell_stdin",
        "execute_hook",
        "subagent",
        "redacted_read",
        "force_background_shell",
        "force_background_subagent",
        "mcp_state_exec",
        "subagent_await",
        "smart_mode_classifier",
        "canvas_diagnostics",
        "shell_allowlist_precheck",
        "mcp_allowlist_precheck",
        "web_fetch_allowlist_precheck",
        "git_diff_request",
        "pi_read",
        "pi_bash",
        "pi_edit",
        "pi_write",
        "pi_grep",
        "pi_find",
        "pi_ls",
        "mini_swe_agent_bash",
        "conversation_search",
        "agent_store_conflict",
        "mcp",
    ];
    let steps: Vec<String> =
        arms.iter().map(|arm| format!("{{ exec = {{ arm = \"{arm}\" }} }}")).collect();
    let lab = Lab::scenario(&format!(
        "[[rule]]\nsteps = [{}, {{ unknown_exec = {{ field = 77 }} }}, {{ text = \"through\" }}]",
        steps.join(", ")
    ));
    assert_eq!(lab.ask("hi").await, "through");
    let stats = lab.sim.stats();
    assert_eq!(stats.exec_throws, 3, "the unknown arm, an unknown hook, and a diff");
    assert_eq!(stats.violations, Vec::<String>::new());
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn every_query_is_answered() {
    let arms = [
        "web_search_request",
        "ask_question_interaction",
        "switch_mode_request",
        "exa_search_request",
        "exa_fetch_request",
        "create_plan_request",
        "setup_vm_environment",
        "web_fetch_request",
    ];
    let steps: Vec<String> =
        arms.iter().map(|arm| format!("{{ query = {{ arm = \"{arm}\" }} }}")).collect();
    let lab = Lab::scenario(&format!(
        "[[rule]]\nsteps = [{}, {{ unknown_query = {{ field = 33 }} }}, {{ text = \"through\" }}]",
        steps.join(", ")
    ));
    assert_eq!(lab.ask("hi").await, "through");
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_counted_and_ignored() {
    // A checkpoint with a field 99 that no schema has.
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [\n\
         { frame = { flags = 0, hex = \"1a03980607\" } },\n\
         { text = \"fine\" }]",
    );
    assert_eq!(lab.ask("hi").await, "fine");
    lab.assert_clean().await;
    let drift = lab.app.sessions().drift;
    assert_eq!(drift.get("agent.v1.ConversationStateStructure#99"), Some(&1), "{drift:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_token_do_not_reach_the_backend() {
    let mut sim = SimConfig::scenario(Scenario::builtin());
    sim.sign_in.tokens = vec!["another".into()];
    let lab = Lab::with(sim, |_| {});
    let reply = lab.stream("hi").await;
    assert_eq!((reply.status.as_u16(), reply.error().as_deref()), (401, Some("not_authenticated")));
    assert!(reply.body.contains("CURSOR_ACCESS_TOKEN"), "{}", reply.body);
    assert_eq!(lab.get("/health").await.json()["auth"], "not_authenticated");
}

/// All the questions come in one piece, and the answers to them are some hundred times as long.
#[tokio::test]
async fn many_questions_about_a_large_blob_are_all_answered() {
    // kv_server_message { id: 100, get_blob_args { blob_id: "l" } }
    let frames = "00000000092207086412030a016c".repeat(200);
    let data = "x".repeat(256 << 10);
    let lab = Lab::scenario(&format!(
        "[[rule]]\nsteps = [{{ kv_set = {{ data = \"{data}\", id = \"6c\" }} }}, \
         {{ raw_hex = \"{frames}\" }}, {{ kv_get = {{ id = \"6c\" }} }}, {{ text = \"through\" }}]"
    ));
    // The last question is answered after all the others.
    assert_eq!(lab.ask("hi").await, "through");
    lab.assert_gone().await;
}
