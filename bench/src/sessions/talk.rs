//! A long conversation of questions and answers, sent in three ways.

use std::{fmt::Write as _, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};

use super::{
    Plan, Section,
    bed::{Bed, Bedding, TALK},
    dialogue::Dialogue,
    material::{QUESTION_BYTES, Setup, padded},
};
use crate::page::{count, number, saving, share_saved, verdict};

/// What the project promises of the ways that reuse.
const TARGET: f64 = 0.7;

/// How the client speaks, and whether ibeam may remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The whole history each time, to a gateway that keeps nothing.
    Resend,
    /// The whole history each time; ibeam finds what it knows of it.
    History,
    /// Only the new message, under a name.
    Named,
}

/// What a conversation took.
struct Talk {
    upstream: u64,
    /// Upstream bytes of the last turn.
    last: u64,
    /// Bytes of the client's request bodies.
    client: u64,
}

/// A line of the table.
struct Row {
    keep_blobs: bool,
    way: Way,
    talk: anyhow::Result<Talk>,
}

pub(super) async fn measure(ibeam: &Path, plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::default();
    let kinds = [("a chat", Setup::chat(), true), ("an agent with tools", Setup::agent(), false)];
    for (name, setup, judged) in kinds {
        let setup = Arc::new(setup);
        let mut rows = Vec::new();
        for keep_blobs in [false, true] {
            for way in [Way::Resend, Way::History, Way::Named] {
                let talk = converse(ibeam, &setup, keep_blobs, way, plan.turns).await;
                if let Err(error) = &talk {
                    section.broken.push(format!("{name}, {}: {error:#}", way.words()));
                }
                rows.push(Row { keep_blobs, way, talk });
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
    setup: &Arc<Setup>,
    keep_blobs: bool,
    way: Way,
    turns: usize,
) -> anyhow::Result<Talk> {
    let bedding = Bedding { keep_blobs, reuse: way != Way::Resend, ..Bedding::default() };
    let mut bed = Bed::make(ibeam, bedding).await?;
    let mut dialogue = Dialogue::open(bed.gateway.address, setup).await?;
    if way == Way::Named {
        dialogue.name("bench-talk");
    }
    let begun = bed.settled().await?;
    let (mut before, mut now) = (begun, begun);
    for turn in 0..turns {
        if way == Way::Named {
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
        now = bed.settled().await?;
    }
    bed.end().await?;
    Ok(Talk {
        upstream: now.bytes - begun.bytes,
        last: now.bytes - before.bytes,
        client: dialogue.sent,
    })
}

/// Whether the simulator's assistant says that it heard so many questions before.
fn remembers(answer: &str, earlier: usize) -> bool {
    match earlier {
        0 => !answer.contains("We have spoken"),
        1 => answer.contains("We have spoken once before."),
        n => answer.contains(&format!("We have spoken {n} times before.")),
    }
}

impl Way {
    fn words(self) -> &'static str {
        match self {
            Self::Resend => "everything again, reuse off",
            Self::History => "full history, recognised",
            Self::Named => "named, only the new message",
        }
    }
}

/// `judged` tables have a target: tools are sent with every run, and no reuse spares them.
fn table(title: &str, rows: &[Row], judged: bool) -> String {
    let baseline = rows
        .iter()
        .find(|row| row.way == Way::Resend && !row.keep_blobs)
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
        let (target, met) = if judged && row.keep_blobs && row.way != Way::Resend {
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
#[path = "talk_tests.rs"]
mod tests;
