//! The race: which tables there are, and who runs in them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use tokio::time::Instant;

use crate::{
    BenchOptions, against,
    backends::{self, BackendRace},
    dialects::{self, DialectRace},
    lane::{self, Column, Lane, RaceSize},
    load::{LoadTarget, SETTLE_EVENTS, streams_at_once},
    measure::SimulatorClock,
    page::{self, complain, say},
    recipe::{Recipe, ibeam_start, peer_start, relay_start, simulator},
    report,
    rules::{Rule, Size},
    stats::Series,
    upstream::Upstream,
};

/// The least of which the spread leaves out the lowest and the highest. The whole race takes
/// about five minutes on two cores.
const ROUNDS: usize = 12;
/// The peer is much slower than everything else, and has no targets.
const PEER_ROUNDS: usize = 6;
/// Each is a process with the public peer and with `cli`.
const FEW_FIRSTS: usize = 20;
const PEER: &str = "opencode-cursor-oauth";
/// The name of the table's marks in the document.
const MARKS: &str = "bench";

/// How much is done.
#[derive(Clone, Copy)]
struct RacePlan {
    size: Size,
    streams: usize,
    /// How many streams a public peer gets.
    peer_streams: usize,
    crowd: usize,
    rounds: usize,
    firsts: usize,
    starts: usize,
    /// Before memory is read.
    rest: Duration,
}

impl RacePlan {
    fn of(options: &BenchOptions) -> Self {
        let mut plan = if options.smoke { Self::smoke() } else { Self::full() };
        plan.rounds = options.rounds.unwrap_or(plan.rounds);
        plan
    }

    fn full() -> Self {
        Self {
            size: Size { fast_events: 2_000, paced_events: 25, pace_ms: 100, hold_ms: 20_000 },
            streams: 200,
            peer_streams: 50,
            crowd: 1_000,
            rounds: ROUNDS,
            firsts: 100,
            starts: 3,
            rest: Duration::from_millis(300),
        }
    }

    fn smoke() -> Self {
        let paced_events = SETTLE_EVENTS as u64 + 2;
        Self {
            size: Size { fast_events: 20, paced_events, pace_ms: 5, hold_ms: 20_000 },
            streams: 10,
            peer_streams: 2,
            crowd: 20,
            rounds: 1,
            firsts: 3,
            starts: 1,
            rest: Duration::from_millis(10),
        }
    }

    fn peer_rounds(&self) -> usize {
        self.rounds.min(PEER_ROUNDS)
    }
}

/// What came of a table: the simulator alone, and its racers.
struct RaceTable {
    direct: Series,
    relay: Column,
    ibeam: Column,
    /// The earlier build, or the public peer.
    third: Option<Column>,
}

pub(crate) async fn run(options: &BenchOptions) -> anyhow::Result<()> {
    let plan = RacePlan::of(options);
    let ibeam = options.ibeam()?;
    let earlier = earlier(options, &ibeam)?;
    let peer = options.peer.as_deref().map(fs::canonicalize).transpose().context("--peer")?;

    let simulator = simulator(plan.size).await?;
    let direct = LoadTarget::Direct(Arc::new(Upstream::new(simulator.address)));
    let race_size = RaceSize {
        simulator: simulator.address,
        clock: SimulatorClock::read(&direct, plan.size).await,
        size: plan.size,
        streams: plan.streams,
        rounds: plan.rounds,
        firsts: plan.firsts,
        starts: plan.starts,
        rest: plan.rest,
    };

    let third = earlier.as_deref().map(|file| ("earlier", ibeam_start(file, race_size.simulator)));
    let main = table(&race_size, &ibeam, third).await?;
    let dialects = dialects(&race_size, &ibeam, earlier.as_deref()).await?;
    let firsts = plan.firsts.min(FEW_FIRSTS);
    let backends = backends::race(&ibeam, plan.size, plan.rounds, firsts).await?;
    say("a crowd");
    let crowd = crowd_errors(&ibeam_start(&ibeam, simulator.address), &plan).await?;
    let peer = match &peer {
        Some(folder) => {
            let (streams, rounds) = (plan.peer_streams, plan.peer_rounds());
            let race_size = RaceSize { streams, rounds, firsts, ..race_size };
            let third = Some((PEER, peer_start(folder, race_size.simulator)));
            Some(table(&race_size, &ibeam, third).await?)
        }
        None => None,
    };
    simulator.stop().await;

    let text = text(&plan, &main, &dialects, &backends, &crowd, peer.as_ref());
    println!("\n{text}");
    if let Some(earlier) = &main.third {
        let table = against::table(plan.streams, &main.direct, &main.ibeam, earlier, &dialects);
        println!("\n{table}");
    }
    if options.smoke {
        check(&main, &dialects, &backends, &crowd)?;
    }
    if let Some(file) = &options.write {
        page::write(file, MARKS, &text)?;
    }
    Ok(())
}

/// The earlier build. When the bench only shows that it works, the same binary will do.
fn earlier(options: &BenchOptions, ibeam: &Path) -> anyhow::Result<Option<PathBuf>> {
    match &options.against {
        Some(file) => Ok(Some(crate::absolute(file)?)),
        None => Ok(options.smoke.then(|| ibeam.to_owned())),
    }
}

async fn table(
    race_size: &RaceSize,
    ibeam: &Path,
    third: Option<(&'static str, Recipe)>,
) -> anyhow::Result<RaceTable> {
    let mut lanes = vec![
        Lane::start("relay", relay_start(race_size.simulator)).await?,
        Lane::start("ibeam", ibeam_start(ibeam, race_size.simulator)).await?,
    ];
    if let Some((name, recipe)) = third {
        lanes.push(Lane::start(name, recipe).await?);
    }
    let direct = lane::race(&mut lanes, race_size).await?;
    let mut columns = Vec::new();
    for lane in lanes {
        columns.push(lane.stop().await);
    }
    let mut columns = columns.into_iter();
    Ok(RaceTable {
        direct,
        relay: columns.next().unwrap_or_default(),
        ibeam: columns.next().unwrap_or_default(),
        third: columns.next(),
    })
}

async fn dialects(
    race_size: &RaceSize,
    ibeam: &Path,
    earlier: Option<&Path>,
) -> anyhow::Result<DialectRace> {
    let this = ibeam_start(ibeam, race_size.simulator);
    let earlier = earlier.map(|earlier| ibeam_start(earlier, race_size.simulator));
    let recipes: Vec<&Recipe> = std::iter::once(&this).chain(&earlier).collect();
    dialects::race(&recipes, race_size).await
}

/// Many more streams than in the tables: only errors count.
async fn crowd_errors(recipe: &Recipe, plan: &RacePlan) -> anyhow::Result<Vec<String>> {
    let racer = recipe.start().await?;
    let target = LoadTarget::Http(racer.address);
    let seen = streams_at_once(&target, Rule::Paced, plan.crowd, plan.size, Instant::now()).await;
    racer.stop().await;
    Ok(seen.errors)
}

fn text(
    plan: &RacePlan,
    main: &RaceTable,
    dialects: &DialectRace,
    backends: &BackendRace,
    crowd: &[String],
    peer: Option<&RaceTable>,
) -> String {
    let crowd = match crowd.first() {
        None => "no error".to_owned(),
        Some(first) => format!("{} ERRORS, the first: {first}", crowd.len()),
    };
    let mut parts = vec![
        format!(
            "Medians of {} rounds, in brackets their spread.\n{}{} streams at once through ibeam: {crowd}.\n",
            plan.rounds,
            report::simulator_line(&main.direct, &main.ibeam),
            plan.crowd,
        ),
        report::relay_table(plan.streams, &main.direct, &main.relay, &main.ibeam),
    ];
    if let Some(RaceTable { direct, relay, ibeam, third: Some(peer) }) = peer {
        parts.push(format!(
            "With the public peer, {} rounds.\n{}",
            plan.peer_rounds(),
            report::simulator_line(direct, ibeam)
        ));
        parts.push(report::peer_table(plan.peer_streams, PEER, relay, ibeam, peer));
    }
    if let Some(rows) = dialects.gateways.first() {
        parts.push(dialects::table(plan.streams, rows, &dialects.direct));
    }
    parts.push(backends::table(backends));
    parts.join("\n")
}

/// Fails when any racer of ours had errors.
fn check(
    main: &RaceTable,
    dialects: &DialectRace,
    backends: &BackendRace,
    crowd: &[String],
) -> anyhow::Result<()> {
    let mut all = vec![("relay", &main.relay.errors), ("ibeam", &main.ibeam.errors)];
    all.extend(main.third.iter().map(|column| ("the earlier build", &column.errors)));
    let rows = dialects.gateways.iter().flatten();
    all.extend(rows.map(|row| (row.dialect.name(), &row.column.errors)));
    all.extend(backends.rows.iter().map(|row| (row.name, &row.column.errors)));
    all.iter().try_for_each(|(name, errors)| complain(name, errors))?;
    complain("many streams", crowd)
}
