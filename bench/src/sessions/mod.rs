//! What sessions save and what they cost, measured from outside, with `ibeam serve` and `ibeam sim`
//! as processes of their own, a client over HTTP, and the simulator's counters.

mod chain;
mod conversation;
pub(crate) mod dialogue;
mod parked;
pub(crate) mod requests;
mod rig;

use std::time::Duration;

use crate::{
    BenchOptions,
    page::{self, complain, say},
};

/// The name of the tables' marks in the document.
const MARKS: &str = "bench-sessions";

/// How much is done.
struct SessionPlan {
    /// Tool calls in a row.
    calls: usize,
    bootstrap: Duration,
    /// Messages of the user in a conversation.
    turns: usize,
    /// Sessions that wait for a result at the same time.
    parked: usize,
    /// How long they are watched.
    window: Duration,
    /// How many of them get their result.
    resumed: usize,
}

/// One measurement's tables.
#[derive(Default)]
struct SessionReport {
    text: String,
    /// Requirements that must hold on any machine and did not.
    broken: Vec<String>,
}

pub(crate) async fn measure(options: &BenchOptions) -> anyhow::Result<()> {
    let ibeam = options.ibeam()?;
    let mut plan = if options.smoke { SessionPlan::smoke() } else { SessionPlan::full() };
    plan.parked = options.parked.unwrap_or(plan.parked);
    say("sessions: a chain of tool calls");
    let chain = chain::measure(&ibeam, &plan).await;
    say("sessions: a long conversation");
    let talk = conversation::measure(&ibeam, &plan).await;
    say("sessions: parked");
    let parked = parked::measure(&ibeam, &plan).await;

    let sections =
        [chain, talk, parked].map(|section| section.unwrap_or_else(SessionReport::failed));
    let text = sections.each_ref().map(|section| section.text.trim()).join("\n\n");
    println!("\n{text}");
    if let Some(file) = &options.write {
        page::write(file, MARKS, &text)?;
    }
    let broken: Vec<String> = sections.into_iter().flat_map(|section| section.broken).collect();
    if options.smoke {
        complain("sessions", &broken)?;
    }
    Ok(())
}

impl SessionPlan {
    fn full() -> Self {
        Self {
            calls: 10,
            bootstrap: Duration::from_secs(6),
            turns: 20,
            parked: 10_000,
            window: Duration::from_secs(60),
            resumed: 200,
        }
    }

    fn smoke() -> Self {
        Self {
            calls: 10,
            bootstrap: Duration::from_millis(100),
            turns: 6,
            parked: 200,
            window: Duration::from_secs(1),
            resumed: 50,
        }
    }
}

impl SessionReport {
    /// Notes what does not hold.
    fn must(&mut self, holds: bool, what: &str) {
        if !holds {
            self.broken.push(what.to_owned());
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "taken from a result that failed")]
    fn failed(error: anyhow::Error) -> Self {
        Self { text: format!("Not measured: {error:#}"), broken: vec![format!("{error:#}")] }
    }
}
