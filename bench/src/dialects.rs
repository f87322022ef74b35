//! The same turns through every API of ibeam: what a dialect costs beside chat.

use std::fmt::Write as _;

use crate::{
    load::{Dialect, Target},
    measure::{Speed, speed},
    page::{cell, number, ratio, verdict},
    recipe::Recipe,
    rules::Size,
};

/// As a share of chat's events/s.
const AT_LEAST: f64 = 0.9;

/// One column of the table.
pub(crate) struct Spoken {
    dialect: Dialect,
    best: Speed,
    pub(crate) errors: Vec<String>,
}

/// All dialects on one process. They take turns, so that a busy moment of the machine hits
/// them alike; the best of the rounds counts.
pub(crate) async fn race(
    recipe: &Recipe,
    streams: usize,
    size: Size,
    rounds: usize,
) -> anyhow::Result<Vec<Spoken>> {
    let racer = recipe.start().await?;
    let mut all: Vec<Spoken> = Dialect::ALL
        .into_iter()
        .map(|dialect| Spoken { dialect, best: Speed::default(), errors: Vec::new() })
        .collect();
    for _ in 0..rounds {
        for spoken in &mut all {
            let target = Target::Spoken(racer.address, spoken.dialect);
            let mut seen = speed(&target, &racer, streams, size, 1).await;
            spoken.errors.append(&mut seen.errors);
            if seen.events_per_second > spoken.best.events_per_second {
                spoken.best = seen;
            }
        }
    }
    racer.stop().await;
    Ok(all)
}

pub(crate) fn table(streams: usize, all: &[Spoken]) -> String {
    let mut out = String::new();
    let chat = all.first().map(|spoken| spoken.best.events_per_second);
    // Writing to a string cannot fail, hence the ignored results below.
    let _ = writeln!(
        out,
        "| {streams} streams through ibeam | events/s | of chat | CPU s per million events | errors | target | |\n\
         |---|---:|---:|---:|---:|---|---|"
    );
    for Spoken { dialect, best, errors } in all {
        let rate = Some(best.events_per_second);
        let met = chat.is_some_and(|chat| best.events_per_second >= AT_LEAST * chat);
        let (target, met) = match dialect {
            // The store is no part of a dialect; its row shows what it costs.
            Dialect::Chat | Dialect::ResponsesKept => ("", ""),
            Dialect::Responses | Dialect::Messages => ("at least 0.9 of chat", verdict(met)),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {target} | {met} |",
            dialect.name(),
            cell(rate),
            ratio(rate, chat),
            number(best.cpu_per_million),
            errors.len(),
        );
    }
    for Spoken { dialect, errors, .. } in all {
        if let Some(first) = errors.first() {
            let (name, count) = (dialect.name(), errors.len());
            let _ = writeln!(out, "\nErrors of {name}: {count}, the first: {first}");
        }
    }
    out
}
