//! The output of subcommands that print something and exit (§9.2), and error messages (§9.5).

use std::fmt::Write as _;

use serde_json::json;

use super::context::FakeAgent;
use crate::models;

pub(super) const EMAIL: &str = "user@example.com";

pub(super) const NOT_LOGGED_IN: &str = "Error: Authentication required. Please run \
     'cursor-agent login' first, or set CURSOR_API_KEY environment variable. (not logged in)";

pub(super) const USAGE_LIMIT: &str = "Error: You've hit your usage limit. You've saved $102 on \
     API model usage this month. Switch to Auto to continue with auto, or set a Spend Limit to \
     continue with this model. Your usage limits will reset when your monthly cycle ends on \
     1/31/2026.";

pub(super) const TRUST_PROMPT: &str = "\
⚠ Workspace Trust Required

Cursor Agent can execute code and access files in this directory.

Do you trust the contents of this directory?
  [a] Trust this workspace
  [q] Quit
";

pub(super) const HELP: &str = "\
Usage: cursor-agent [options] [command] [prompt...]

Start the Cursor Agent

This is a stand-in for tests. It takes the options of the real program, and what it says
comes from ibeam's simulator.
";

pub(super) fn bad_model(model: &str) -> String {
    let known: Vec<_> = models::cli_list().into_iter().map(|(id, _)| id).collect();
    format!("Cannot use this model: {model}. Available models: {}", known.join(", "))
}

pub(super) fn lost_chat(id: &str) -> String {
    format!("Error: could not resume: chat {id} not found")
}

pub(super) fn models() -> String {
    let mut out = "Available models\n\n".to_owned();
    for (at, (id, name)) in models::cli_list().iter().enumerate() {
        let mark = if at == 0 { " (current)" } else { "" };
        let _ = writeln!(out, "{id} - {name}{mark}");
    }
    out.push_str("\nTip: use --model <id> (or /model <id> in interactive mode) to switch.\n");
    out
}

pub(super) fn status(fake: &FakeAgent, key: Option<&str>, as_json: bool) -> String {
    let good = fake.signed_in(key);
    if as_json {
        let status = if good { "authenticated" } else { "unauthenticated" };
        let email = good.then_some(EMAIL);
        let object = json!({ "status": status, "isAuthenticated": good, "email": email });
        return format!("{object}\n");
    }
    if good { format!("✓ Logged in as {EMAIL}\n") } else { "Not logged in\n".to_owned() }
}

pub(super) fn about(fake: &FakeAgent, key: Option<&str>) -> String {
    let who = if fake.signed_in(key) { EMAIL } else { "Not logged in" };
    format!("About Cursor CLI\n\nCLI Version    {}\nUser Email     {who}\n", super::VERSION)
}

pub(super) fn chats(fake: &FakeAgent) -> String {
    fake.home.chats().iter().map(|chat| format!("{}\n", chat.id)).collect()
}
