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
    load::Target,
    measure::{Speed, first_byte, speed},
    page::{cell, number, ratio},
    recipe::backend_start,
    rules::{MARK, Rule, Size, scenario},
};

/// Each turn of a CLI is a process: few run at once.
const STREAMS: usize = 8;

const BACKENDS: [&str; 3] = ["agent", "cli", "acp"];

/// One line of the table.
pub(crate) struct Backend {
    name: &'static str,
    best: Speed,
    /// Microseconds from the request to the first event.
    first: Option<f64>,
    pub(crate) errors: Vec<String>,
}

/// All backends, and what the stand-in for Cursor's CLI does by itself, in events/s.
pub(crate) struct Backends {
    pub(crate) all: Vec<Backend>,
    alone: f64,
}

pub(crate) async fn race(
    ibeam: &Path,
    size: Size,
    rounds: usize,
    firsts: usize,
) -> anyhow::Result<Backends> {
    let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    std::fs::write(file.path(), scenario(size))?;
    let mut all = Vec::new();
    for name in BACKENDS {
        let racer = backend_start(ibeam, name, file.path()).start().await?;
        let target = Target::Http(racer.address);
        let (first, mut errors) = first_byte(&target, firsts).await;
        let mut best = speed(&target, &racer, STREAMS, size, rounds).await;
        errors.append(&mut best.errors);
        racer.stop().await;
        all.push(Backend { name, best, first, errors });
    }
    let mut alone: f64 = 0.0;
    for _ in 0..rounds {
        alone = alone.max(stand_ins(ibeam, file.path()).await?);
    }
    Ok(Backends { all, alone })
}

/// As many stand-ins as there are streams, each read to its end.
async fn stand_ins(ibeam: &Path, scenario: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..STREAMS {
        running.spawn(stand_in(ibeam.to_owned(), scenario.to_owned()));
    }
    let mut events = 0;
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

pub(crate) fn table(backends: &Backends) -> String {
    let Backends { all, alone } = backends;
    let agent = all.first().map(|backend| backend.best.events_per_second);
    let mut out = format!(
        "The stand-in for `cursor-agent` read directly: {} events/s, {STREAMS} at once.\n\n",
        number(*alone)
    );
    // Writing to a string cannot fail, hence the ignored results below.
    let _ = writeln!(
        out,
        "| {STREAMS} streams, simulated backends | events/s | of agent | of the stand-in alone | time to first event, µs | errors |\n\
         |---|---:|---:|---:|---:|---:|"
    );
    for Backend { name, best, first, errors } in all {
        let rate = Some(best.events_per_second);
        let alone = if *name == "agent" { None } else { Some(*alone) };
        let _ = writeln!(
            out,
            "| `{name}` | {} | {} | {} | {} | {} |",
            cell(rate),
            ratio(rate, agent),
            ratio(rate, alone),
            cell(*first),
            errors.len(),
        );
    }
    for Backend { name, errors, .. } in all {
        if let Some(first) = errors.first() {
            let _ = writeln!(out, "\nErrors of {name}: {}, the first: {first}", errors.len());
        }
    }
    out
}
