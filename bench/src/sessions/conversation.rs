//! A long conversation of questions and answers, sent in three ways.

use std::{fmt::Write as _, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};

use super::{
    SessionPlan, SessionReport,
    dialogue::Dialogue,
    requests::{ClientSetup, QUESTION_BYTES, padded},
    rig::{RigOptions, SessionRig, TALK},
};
use crate::page::{count, number, saving, share_saved, verdict};

/// What the project promises of the ways that reuse.
const TARGET: f64 = 0.7;

/// How the client speaks, and whether ibeam may remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TalkWay {
    /// The whole history each time, to a gateway that keeps nothing.
    Resend,
    /// Sends the whole history each time; ibeam finds the part that it knows.
    History,
    /// Only the new message, under a name.
    Named,
}

/// What a conversation took.
struct TalkCost {
    upstream: u64,
    /// Upstream bytes of the last turn.
    last: u64,
    /// Bytes of the client's request bodies.
    client: u64,
}

/// A line of the table.
struct TalkRow {
    keep_blobs: bool,
    way: TalkWay,
    talk: anyhow::Result<TalkCost>,
}

pub(super) async fn measure(ibeam: &Path, plan: &SessionPlan) -> anyhow::Result<SessionReport> {
    let mut section = SessionReport::default();
    let kinds = [
        ("a chat", ClientSetup::chat(), true),
        ("an agent with tools", ClientSetup::agent(), false),
    ];
    for (name, setup, judged) in kinds {
        let setup = Arc::new(setup);
        let mut rows = Vec::new();
        for keep_blobs in [false, true] {
            for way in [TalkWay::Resend, TalkWay::History, TalkWay::Named] {
                let talk = converse(ibeam, &setup, keep_blobs, way, plan.turns).await;
                if let Err(error) = &talk {
                    section.broken.push(format!("{name}, {}: {error:#}", way.words()));
                }
                rows.push(TalkRow { keep_blobs, way, talk });
            }
        }
        let title = format!("{} turns, {name}, {} bytes of setup", plan.turns, setup.bytes());
        section.text.push_str(&table(&title, &rows, judged));
        section.text.push('\n');
    }
    Ok(section)
}

async fn converse(
    ibeam: &Path,
    setup: &Arc<ClientSetup>,
    keep_blobs: bool,
    way: TalkWay,
    turns: usize,
) -> anyhow::Result<TalkCost> {
    let options = RigOptions { keep_blobs, reuse: way != TalkWay::Resend, ..RigOptions::default() };
    let mut rig = SessionRig::make(ibeam, options).await?;
    let mut dialogue = Dialogue::open(rig.gateway.address, setup).await?;
    if way == TalkWay::Named {
        dialogue.name("bench-talk");
    }
    let begun = rig.settled().await?;
    let (mut before, mut now) = (begun, begun);
    for turn in 0..turns {
        if way == TalkWay::Named {
            dialogue.messages.clear();
        }
        dialogue.user(&padded(&format!("{TALK}, question {turn}:"), QUESTION_BYTES));
        let answer = dialogue.ask().await.with_context(|| format!("turn {}", turn + 1))?;
        ensure!(
            remembers(&answer.text, turn),
            "in turn {} the model did not know all earlier ones: {}",
            turn + 1,
            answer.text
        );
        dialogue.keep(&answer);
        before = now;
        now = rig.settled().await?;
    }
    rig.end().await?;
    Ok(TalkCost {
        upstream: now.bytes - begun.bytes,
        last: now.bytes - before.bytes,
        client: dialogue.sent,
    })
}

/// Whether the simulator's assistant reports this number of earlier questions.
fn remembers(answer: &str, earlier: usize) -> bool {
    match earlier {
        0 => !answer.contains("We have spoken"),
        1 => answer.contains("We have spoken once before."),
        n => answer.contains(&format!("We have spoken {n} times before.")),
    }
}

impl TalkWay {
    fn words(self) -> &'static str {
        match self {
            Self::Resend => "everything again, reuse off",
            Self::History => "full history, recognised",
            Self::Named => "named, only the new message",
        }
    }
}

/// `judged` tables have a target: tools are sent with every run, and no reuse spares them.
fn table(title: &str, rows: &[TalkRow], judged: bool) -> String {
    let baseline = rows
        .iter()
        .find(|row| row.way == TalkWay::Resend && !row.keep_blobs)
        .and_then(|row| row.talk.as_ref().ok())
        .map(|talk| count(talk.upstream));
    let mut out = format!(
        "| {title} | backend | upstream bytes | last turn | from the client | saved upstream | target | |\n\
         |---|---|---:|---:|---:|---:|---|---|\n"
    );
    for row in rows {
        let backend = if row.keep_blobs { "keeps blobs" } else { "forgets" };
        let words = row.way.words();
        // Writing to a string cannot fail, hence the ignored results.
        let Ok(talk) = &row.talk else {
            let _ = writeln!(out, "| {words} | {backend} | not measured | | | | | |");
            continue;
        };
        let upstream = count(talk.upstream);
        let (saved, share) = match baseline {
            Some(baseline) => (saving(upstream, baseline), share_saved(upstream, baseline)),
            None => ("not measured".to_owned(), f64::NAN),
        };
        let (target, met) = if judged && row.keep_blobs && row.way != TalkWay::Resend {
            ("70 to 90 %", verdict(share >= TARGET))
        } else {
            ("", "")
        };
        let _ = writeln!(
            out,
            "| {words} | {backend} | {} | {} | {} | {saved} | {target} | {met} |",
            number(upstream),
            number(count(talk.last)),
            number(count(talk.client)),
        );
    }
    out
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
