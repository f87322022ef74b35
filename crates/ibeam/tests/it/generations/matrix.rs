//! Every conversation under every setting. Each test prints its part of one table.

use std::{future::Future, panic::AssertUnwindSafe, pin::Pin};

use futures_util::FutureExt as _;
use ibeam_core::peer::agent::{HistoryForm, HistorySetting};
use ibeam_server::config::Transport;

use super::{Setup, conversations};

type Conversation = fn(Setup) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! conversations {
    ($($name:ident),* $(,)?) => {
        const CONVERSATIONS: &[(&str, Conversation)] =
            &[$((stringify!($name), |setup| Box::pin(conversations::$name(setup)))),*];
    };
}

conversations![
    question,
    chain,
    parallel,
    restart,
    foreign_history,
    continued,
    named,
    edited,
    long_history,
    pictures,
    required_call,
    fallback,
];

const TRANSPORTS: [Transport; 2] = [Transport::H2, Transport::H1];
const TOOLS: [&str; 3] = ["direct", "meta", "meta-old-names"];

/// Runs all conversations under these settings, and prints the results as a table.
async fn run(setups: impl IntoIterator<Item = Setup>) {
    let names: Vec<&str> = CONVERSATIONS.iter().map(|(name, _)| *name).collect();
    let mut table = format!("| preset | history | tools | transport | {} |\n", names.join(" | "));
    table += &format!("|{}\n", "---|".repeat(names.len() + 4));
    let mut failed = Vec::new();
    for setup in setups {
        let head = setup.head();
        table += &format!("| {} |", head.join(" | "));
        for (name, conversation) in CONVERSATIONS {
            let ended = AssertUnwindSafe(conversation(setup)).catch_unwind().await;
            table += if ended.is_ok() { " ok |" } else { " **fails** |" };
            if ended.is_err() {
                failed.push(format!("{name} under {}", head.join(", ")));
            }
        }
        table.push('\n');
    }
    println!("{table}");
    assert!(failed.is_empty(), "{failed:#?}");
}

/// All ways to offer tools, over both transports.
fn all(history: HistorySetting) -> impl Iterator<Item = Setup> {
    let base = Setup { history, ..Setup::DEFAULT };
    let base = if history == HistorySetting::Auto { base } else { base.external() };
    TOOLS.into_iter().flat_map(move |tools| {
        TRANSPORTS.into_iter().map(move |transport| Setup { tools, transport, ..base })
    })
}

#[tokio::test(start_paused = true)]
async fn conversations_work_with_resumed_entries() {
    run(all(HistorySetting::Only(HistoryForm::ResumeRoots))).await;
}

#[tokio::test(start_paused = true)]
async fn conversations_work_with_entries_of_the_user() {
    run(all(HistorySetting::Only(HistoryForm::UserRoots))).await;
}

#[tokio::test(start_paused = true)]
async fn conversations_work_with_a_transcript() {
    run(all(HistorySetting::Only(HistoryForm::Transcript))).await;
}

#[tokio::test(start_paused = true)]
async fn conversations_work_with_a_form_chosen_for_the_model() {
    let external = Setup { ..Setup::DEFAULT }.external();
    run(all(HistorySetting::Auto).chain([external])).await;
}

/// The service of the summer did not follow a system prompt among the entries of a history, so
/// that it needs the form of then.
#[tokio::test(start_paused = true)]
async fn conversations_work_with_the_service_of_the_summer() {
    run(TRANSPORTS.map(|transport| Setup { transport, ..Setup::SUMMER })).await;
}
