//! Why a setup is refused, and what helps.

use crate::{
    cli::{Refusal, USAGE},
    clients::{
        CLIENTS, ClientSpec, Offered, UnfitSettings, engine::SetupError, named, verify::VerifyError,
    },
};

pub(in crate::cli) fn find(name: &str) -> anyhow::Result<&'static ClientSpec> {
    named(name).ok_or_else(|| {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        let mut refusal = Refusal::new(format!("no client is named `{name}`"));
        refusal.code = USAGE;
        if let Some(near) = similar(name, names.iter().copied()).first() {
            refusal = refusal.hint(format!("did you mean `{near}`?"));
        }
        refusal.hint(format!("the clients are {}", names.join(", "))).into()
    })
}

/// How many models are suggested for a mistyped one.
const SUGGESTED: usize = 3;

pub(super) fn unknown_model(model: &str, models: &[Offered]) -> Refusal {
    let mut refusal = Refusal::new(format!("the model `{model}` does not exist"));
    refusal.code = USAGE;
    let names = similar(model, models.iter().map(|offered| offered.id.as_str()));
    let names: Vec<String> = names.iter().take(SUGGESTED).map(|id| format!("`{id}`")).collect();
    if !names.is_empty() {
        refusal = refusal.hint(format!("did you mean {}?", names.join(" or ")));
    }
    refusal.hint("`ibeam models` lists them; nothing was changed")
}

/// The names that are like this one, the most similar first.
fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let likeness = |other: &str| strsim::jaro_winkler(other, name);
    let mut similar: Vec<&str> = names.filter(|other| likeness(other) > 0.7).collect();
    similar.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    similar
}

pub(super) fn unreachable(error: &VerifyError) -> Refusal {
    let refusal = Refusal::new(format!("the gateway does not answer: {error}"));
    match error {
        VerifyError::Unreachable(..) => refusal
            .hint("start one in another terminal: `ibeam up`, or `ibeam up --sim` to try it")
            .hint("or continue without testing it: `--no-verify`"),
        VerifyError::Status(..) => refusal.hint("`ibeam doctor` shows why"),
        VerifyError::Unexpected(_) => {
            refusal.hint("is that an ibeam? `--url` names another address")
        }
    }
}

/// What to do about a setup that was not done.
pub(in crate::cli) fn refused(error: &SetupError, client: &ClientSpec) -> anyhow::Error {
    let refusal = Refusal::new(error.to_string());
    let untouched = "nothing was changed";
    match error {
        SetupError::Unfit(UnfitSettings::Malformed { .. }) => {
            refusal.hint(format!("fix it first; {untouched}")).hint(run_instead(client))
        }
        SetupError::Unfit(UnfitSettings::Conflict { .. }) => refusal
            .hint(format!("{untouched}; remove it if you do not need it"))
            .hint(run_instead(client)),
        SetupError::Unfit(UnfitSettings::Unreadable { .. }) | SetupError::ReadOnly { .. } => {
            refusal.hint(untouched).hint(run_instead(client))
        }
        SetupError::Unfit(UnfitSettings::Missing { .. }) => {
            refusal.hint(format!("see {}", client.page))
        }
        SetupError::Overlap { .. } => refusal.hint(format!("{untouched}; remove it by hand")),
        SetupError::Busy => refusal.hint("try again when it is done"),
        SetupError::Changed { .. } => refusal.hint(format!("{untouched}; try again")),
        SetupError::Io { .. } | SetupError::Own(_) | SetupError::Long { .. } => {
            refusal.hint(untouched)
        }
        SetupError::Record { .. } => {
            refusal.hint("the files next to it have the content from before the setup")
        }
    }
    .into()
}

fn run_instead(client: &ClientSpec) -> String {
    match client.runs_unwired() {
        true => {
            format!("`ibeam run {}` starts it with ibeam, without changing a file", client.name)
        }
        false => format!("{} shows what to enter by hand", client.page),
    }
}
