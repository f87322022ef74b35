//! `cargo xtask attack`: attacks on a gateway over loopback, one after the other, beside an
//! honest stream that runs all the time. For each: what it cost in memory, the longest gap of
//! that stream, how long an honest request took meanwhile, and how many of the attacker's
//! connections the gateway still had at the end.

mod attacks;
mod bodies;
mod honest_clients;
mod honest_stream;
mod hosted_tools;
mod http2;
mod mixed;
mod table;
mod target;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::bail;
use tokio::time::{Instant, sleep};

use self::{
    attacks::{ATTACKS, Attack, RunningAttack},
    honest_stream::{HonestStream, probe},
    hosted_tools::ParkedTurn,
    table::{AttackLimits, AttackRow},
    target::AttackTarget,
};

#[derive(clap::Args)]
pub(crate) struct AttackOptions {
    /// The ibeam binary
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// Smaller attacks of a few seconds each
    #[arg(long)]
    short: bool,
    /// All attacks in turn on one gateway for this long, beside twenty honest clients
    #[arg(long, value_name = "N", conflicts_with = "short")]
    minutes: Option<u64>,
    /// Accept gaps of the honest stream up to this, whatever the attack, and honest requests that
    /// take four times as long
    #[arg(long, value_name = "MS", default_value_t = 0)]
    gap: u64,
    /// Measure an attack again, on a new gateway, as long as it costs too much: what else runs on
    /// the machine costs it time and memory, too
    #[arg(long, value_name = "N", default_value_t = 1)]
    tries: usize,
    /// Only attacks whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// How large an attack is.
#[derive(Clone, Copy)]
pub(super) struct AttackScale {
    /// How long it runs, unless it has to wait for the gateway.
    hold: Duration,
    /// How long the gateway waits for a client that is slow: also for an honest one that gets no
    /// processor, so it must not be short.
    patience: Duration,
    /// For memory to return afterwards: the gateway returns it every five seconds, in two steps.
    settle: Duration,
    short: bool,
}

impl AttackScale {
    const SHORT: Self = Self {
        hold: Duration::from_secs(5),
        patience: Duration::from_secs(5),
        settle: Duration::from_secs(20),
        short: true,
    };
    const FULL: Self = Self {
        hold: Duration::from_secs(20),
        patience: Duration::from_secs(10),
        settle: Duration::from_secs(30),
        short: false,
    };

    /// How long this attack runs. Where the gateway has to end its connections, its patience must
    /// be over by then.
    fn hold(self, attack: &Attack) -> Duration {
        if attack.must_close { self.hold.max(self.patience * 3 / 2) } else { self.hold }
    }

    /// One number for the short form, another for the full one.
    pub(super) const fn pick(self, short: usize, full: usize) -> usize {
        if self.short { short } else { full }
    }
}

/// Between two looks at the gateway's memory.
const SAMPLE: Duration = Duration::from_millis(25);

pub(crate) async fn run(options: &AttackOptions) -> anyhow::Result<()> {
    let program = crate::absolute(&options.program)?;
    let only = options.only.as_deref().unwrap_or_default();
    if let Some(minutes) = options.minutes {
        return mixed::run(&program, minutes, only).await;
    }
    let scale = if options.short { AttackScale::SHORT } else { AttackScale::FULL };
    let mut rows = Vec::new();
    for attack in ATTACKS.iter().filter(|attack| attack.name.contains(only)) {
        let mut row = alone(&program, attack, scale, options.gap).await?;
        for _ in 1..options.tries {
            if row.problems.is_empty() {
                break;
            }
            row = alone(&program, attack, scale, options.gap).await?;
        }
        rows.push(row);
    }
    println!("\n{}", table::page(&rows));
    let failed: Vec<String> =
        rows.iter().filter(|row| !row.problems.is_empty()).map(ToString::to_string).collect();
    if !failed.is_empty() {
        bail!(
            "{} of {} attacks cost more than they may\n{}",
            failed.len(),
            rows.len(),
            failed.join("\n")
        );
    }
    Ok(())
}

/// An attack on a gateway of its own, so that it does not suffer from the one before.
async fn alone(
    program: &Path,
    attack: &Attack,
    scale: AttackScale,
    gap: u64,
) -> anyhow::Result<AttackRow> {
    let target = match attack.hosted_tools {
        true => AttackTarget::with_hosted_tools(program, 1).await?,
        false => AttackTarget::start(program, 1, scale.patience).await?,
    };
    let stream = HonestStream::start(&target)?;
    let row = measure(&target, &stream, attack, scale, gap).await?;
    println!("{row}");
    target.stop().await;
    Ok(row)
}

async fn measure(
    target: &AttackTarget,
    stream: &HonestStream,
    attack: &Attack,
    scale: AttackScale,
    gap: u64,
) -> anyhow::Result<AttackRow> {
    let mut parked = match attack.hosted_tools {
        true => Some(ParkedTurn::start(target).await?),
        false => None,
    };
    let hold = scale.hold(attack);
    let (before, connections) = (target.memory(), target.connections());
    stream.forget();
    let begun = Instant::now();
    let RunningAttack { tasks, sent, note } = (attack.run)(target.clone_address(), scale).await?;
    let mut peak = before;
    let (mut honest, mut half) = (None, 0.0);
    while begun.elapsed() < hold {
        peak = peak.max(target.memory());
        // Once, while the attack runs.
        if honest.is_none() && begun.elapsed() > hold / 2 {
            half = target.cpu();
            honest = Some(match parked.take() {
                Some(parked) => parked.finish_and_repeat(target).await,
                None => probe(target).await,
            });
        }
        sleep(SAMPLE).await;
    }
    let (gap_seen, cpu) = (stream.longest_gap(), target.cpu() - half);
    let left = target.connections().saturating_sub(connections);
    // The honest stream is one of them.
    let turns = target.turns().await?.saturating_sub(1);
    let note = note();
    drop(tasks);
    let ended = Instant::now();
    let mut after = target.memory();
    while after > before + attack.kept && ended.elapsed() < scale.settle {
        sleep(SAMPLE).await;
        after = target.memory();
    }
    let later = match attack.hosted_tools {
        true => hosted_tools::probe(target).await,
        false => probe(target).await,
    };
    let limits = AttackLimits {
        gap: Duration::from_millis(gap).max(attack.gap),
        growth: attack.growth_mb(sent),
        kept: attack.kept,
        probe: Duration::from_secs(2).max(4 * Duration::from_millis(gap)),
        left: attack.must_close.then_some(0),
        cpu: attack.must_rest.then(|| hold.as_secs_f64() / 8.0),
    };
    let row = AttackRow {
        name: attack.name,
        sent,
        memory: [before, peak, after],
        gap: gap_seen,
        honest: honest.flatten(),
        later,
        left,
        turns,
        cpu,
        note,
        problems: Vec::new(),
    };
    Ok(row.judged(&limits))
}
