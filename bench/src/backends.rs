//! The same turns through every backend of ibeam, all of them simulated: what a process for
//! each turn costs beside a stream of the Agent API, and beside the process itself.

use std::{fmt::Write as _, path::Path, process::Stdio};

use anyhow::Context as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    task::JoinSet,
    time::Instant,
};

use crate::{
    child::Racer,
    lane::{Column, progress},
    load::LoadTarget,
    measure::{first_event, speed},
    metric::Metric,
    page::{error_lines, ratio_cell, spread_cell},
    recipe::backend_start,
    rules::{MARK, Rule, Size, scenario},
    stats::{Series, judge_open, order},
};

/// Each turn of a CLI is a process: few run at once.
const STREAMS: usize = 8;
/// So few streams need more events, or a lap is over before it can be measured.
const MORE_EVENTS: u64 = 5;

const BACKENDS: [&str; 3] = ["agent", "cli", "acp"];

/// One row of the table.
pub(crate) struct BackendRow {
    pub(crate) name: &'static str,
    pub(crate) column: Column,
}

/// All backends, and what the stand-in for Cursor's CLI does by itself, in events/s.
pub(crate) struct BackendRace {
    pub(crate) rows: Vec<BackendRow>,
    alone: Series,
}

pub(crate) async fn race(
    ibeam: &Path,
    size: Size,
    rounds: usize,
    firsts: usize,
) -> anyhow::Result<BackendRace> {
    let size = Size { fast_events: size.fast_events * MORE_EVENTS, ..size };
    let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    std::fs::write(file.path(), scenario(size))?;
    let mut racers = Vec::new();
    for name in BACKENDS {
        racers.push(backend_start(ibeam, name, file.path()).start().await.context(name)?);
    }
    let mut rows: Vec<BackendRow> =
        BACKENDS.into_iter().map(|name| BackendRow { name, column: Column::default() }).collect();
    let mut alone = Series::default();
    for round in 0..=rounds {
        progress("backends", round, rounds);
        let counted = round > 0;
        for at in order(rows.len(), round) {
            if let Some((racer, row)) = racers.get(at).zip(rows.get_mut(at)) {
                row.measure(racer, size, firsts, counted).await;
            }
        }
        let rate = stand_ins(ibeam, file.path()).await?;
        if counted {
            alone.push(Some(rate));
        }
    }
    for racer in racers {
        racer.stop().await;
    }
    Ok(BackendRace { rows, alone })
}

impl BackendRow {
    async fn measure(&mut self, racer: &Racer, size: Size, firsts: usize, counted: bool) {
        let target = LoadTarget::Http(racer.address);
        self.column.take(first_event(&target, firsts).await, counted);
        self.column.take(speed(&target, racer, STREAMS, size).await, counted);
    }
}

/// As many stand-ins as there are streams, each read to its end.
async fn stand_ins(ibeam: &Path, scenario: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..STREAMS {
        running.spawn(stand_in(ibeam.to_owned(), scenario.to_owned()));
    }
    let mut events: u64 = 0;
    while let Some(read) = running.join_next().await {
        events += read??;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    Ok(events as f64 / started.elapsed().as_secs_f64())
}

/// The deltas that one stand-in writes.
async fn stand_in(ibeam: std::path::PathBuf, scenario: std::path::PathBuf) -> anyhow::Result<u64> {
    let home = tempfile::tempdir()?;
    let mut child = Command::new(ibeam)
        .args(["fake-cursor-agent", "--print", "--output-format", "stream-json"])
        .args(["--stream-partial-output", "--trust", "--workspace"])
        .arg(home.path())
        .env("IBEAM_FAKE_AGENT", format!("scenario={}", scenario.display()))
        .env("IBEAM_FAKE_AGENT_HOME", home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("start the stand-in for cursor-agent")?;
    let mut stdin = child.stdin.take().context("its standard input")?;
    stdin.write_all(Rule::Fast.prompt().as_bytes()).await?;
    drop(stdin);
    let mut lines = BufReader::new(child.stdout.take().context("its standard output")?).lines();
    let mut events = 0;
    while let Some(line) = lines.next_line().await? {
        // Recaps have no time.
        if line.contains("timestamp_ms") && line.as_bytes().contains(&MARK) {
            events += 1;
        }
    }
    child.wait().await?;
    Ok(events)
}

pub(crate) fn table(backends: &BackendRace) -> String {
    let BackendRace { rows, alone } = backends;
    let agent = rows.first().map(|row| row.column.series(Metric::Events)).unwrap_or_default();
    let mut out = format!(
        "The stand-in for `cursor-agent` read directly: {} events/s, {STREAMS} at once.\n\n",
        spread_cell(alone.spread())
    );
    // Writing to a string cannot fail, hence the ignored results below.
    let _ = writeln!(
        out,
        "| {STREAMS} streams, simulated backends | events/s | of agent | of the stand-in alone | time to first event, µs | errors | |\n\
         |---|---:|---:|---:|---:|---:|---|"
    );
    for BackendRow { name, column } in rows {
        let rate = column.series(Metric::Events);
        let of_agent = rate.ratio(&agent).spread();
        let is_agent = *name == "agent";
        let of_alone = if is_agent { None } else { rate.ratio(alone).spread() };
        let claim = if is_agent { rate.spread() } else { of_agent };
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {} | {} | {} | {} |",
            spread_cell(rate.spread()),
            ratio_cell(of_agent),
            ratio_cell(of_alone),
            spread_cell(column.series(Metric::FirstEvent).spread()),
            column.errors.len(),
            judge_open(claim).words(),
        );
    }
    out += &error_lines(rows.iter().map(|row| (row.name, row.column.errors.as_slice())));
    out
}
