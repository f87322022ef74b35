//! The clients on this machine, with the command that wires each: the end of `ibeam up`.

use crate::clients::{CLIENTS, ClientSpec, UserMachine, engine::SetupEngine};

/// A line for each, below one that says what they are. Empty: there are none.
pub(super) fn lines(sim: bool) -> Vec<String> {
    let Some(machine) = UserMachine::here() else { return Vec::new() };
    let engine = SetupEngine::here();
    let is_set_up = |client: &ClientSpec| engine.as_ref().is_some_and(|it| it.is_set_up(client));
    client_lines(&machine, is_set_up, sim)
}

fn client_lines(
    machine: &UserMachine,
    is_set_up: impl Fn(&ClientSpec) -> bool,
    sim: bool,
) -> Vec<String> {
    let found: Vec<&ClientSpec> =
        CLIENTS.iter().copied().filter(|client| client.is_found(machine)).collect();
    let width = found.iter().map(|client| client.title.len()).max().unwrap_or_default();
    let mut lines: Vec<String> =
        found.iter().map(|client| line(client, is_set_up(client), sim, width)).collect();
    if !lines.is_empty() {
        lines.insert(0, "\nClients on this machine:\n".to_owned());
    }
    lines
}

fn line(client: &ClientSpec, is_set_up: bool, sim: bool, width: usize) -> String {
    let (title, name) = (client.title, client.name);
    // What people type to start it, where that is a name of it, too.
    let short = client.programs.iter().find(|program| client.also.contains(program));
    let run = short.copied().unwrap_or(name);
    let sim = if sim { "--sim " } else { "" };
    let command = match client.launch {
        _ if is_set_up => format!("is set up; `ibeam undo {name}` undoes that"),
        Some(_) => format!("ibeam setup {name}, or once: ibeam run {sim}{run}"),
        None => format!("ibeam setup {name}"),
    };
    format!("  {title:width$}  {command}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::System;

    #[test]
    fn each_installed_client_has_a_line() {
        let machine = UserMachine::made_up(
            System::Linux,
            &[("PATH", "/usr/bin")],
            &[("/home/me/.codex/config.toml", "")],
            &["/usr/bin/claude"],
        );
        let lines = client_lines(&machine, |client| client.name == "codex", true);
        let [head, claude, codex] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(head.contains("Clients"), "{head}");
        assert!(claude.contains("Claude Code"), "{claude}");
        assert!(claude.ends_with("ibeam setup claude-code, or once: ibeam run --sim claude"));
        assert!(codex.contains("Codex        is set up; `ibeam undo codex`"), "{codex}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        let empty = UserMachine::made_up(System::Linux, &[("PATH", "/usr/bin")], &[], &[]);
        assert_eq!(client_lines(&empty, |_| false, false), Vec::<String>::new());
    }
}
