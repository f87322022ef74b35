//! The clients that `ibeam setup` and `ibeam undo` list when none is named.

use serde::Serialize;

use crate::{
    cli::{models::align, print, print_json},
    clients::{CLIENTS, UserMachine, engine::SetupEngine},
};

#[derive(Serialize)]
struct ClientRow {
    client: &'static str,
    title: &'static str,
    /// Its program, or a trace of it, is on this machine.
    found: bool,
    set_up: bool,
    page: &'static str,
}

/// The clients that there are, and which of them are set up.
pub(in crate::cli) fn list(
    engine: &SetupEngine,
    machine: &UserMachine,
    json: bool,
) -> anyhow::Result<()> {
    let rows = CLIENTS.iter().map(|client| ClientRow {
        client: client.name,
        title: client.title,
        found: client.is_found(machine),
        set_up: engine.is_set_up(client),
        page: client.page,
    });
    if json {
        return print_json(&rows.collect::<Vec<_>>());
    }
    let mut table = vec![["CLIENT", "NAME", "HERE", "SET UP"].map(str::to_owned)];
    let mark = |yes: bool| if yes { "yes" } else { "-" }.to_owned();
    table.extend(rows.map(|row| {
        [row.client.to_owned(), row.title.to_owned(), mark(row.found), mark(row.set_up)]
    }));
    print(&align(&table))
}
