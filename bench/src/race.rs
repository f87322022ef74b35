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
    Options, against,
    backends::{self, Backends},
    dialects::{self, Dialects},
    lane::{self, Column, Heat, Lane},
    load::{SETTLE_EVENTS, Target, crowd},
    measure::Clock,
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
struct Plan {
    size: Size,
    streams: usize,
    /// How many streams a public peer is asked to bear.
    peer_streams: usize,
    crowd: usize,
    rounds: usize,
    firsts: usize,
    starts: usize,
    /// Before memory is read.
    rest: Duration,
}

impl Plan {
    fn of(options: &Options) -> Self {
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

/// What came of the table with all streams.
struct Main {
    direct: Series,
    relay: Column,
    ibeam: Column,
    earlier: Option<Column>,
}

/// What came of the table with the public peer.
struct Peer {
    direct: Series,
    relay: Column,
    ibeam: Column,
    peer: Column,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let plan = Plan::of(options);
    let ibeam = options.ibeam()?;
    let earlier = earlier(options, &ibeam)?;
    let peer = options.peer.as_deref().map(fs::canonicalize).transpose().context("--peer")?;

    let simulator = simulator(plan.size).await?;
    let direct = Target::Direct(Arc::new(Upstream::new(simulator.address)));
    let heat = Heat {
        simulator: simulator.address,
        clock: Clock::read(&direct, plan.size).await,
        size: plan.size,
        streams: plan.streams,
        rounds: plan.rounds,
        firsts: plan.firsts,
        starts: plan.starts,
        rest: plan.rest,
    };

    let main = main_table(&heat, &ibeam, earlier.as_deref()).await?;
    let dialects = dialects(&heat, &ibeam, earlier.as_deref()).await?;
    let firsts = plan.firsts.min(FEW_FIRSTS);
    let backends = backends::race(&ibeam, plan.size, plan.rounds, firsts).await?;
    say("a crowd");
    let crowd = crowd_errors(&ibeam_start(&ibeam, simulator.address), &plan).await?;
    let peer = match &peer {
        Some(folder) => Some(peer_table(&heat, &plan, &ibeam, folder).await?),
        None => None,
    };
    simulator.stop().await;

    let text = text(&plan, &main, &dialects, &backends, &crowd, peer.as_ref());
    println!("\n{text}");
    if let Some(earlier) = &main.earlier {
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
fn earlier(options: &Options, ibeam: &Path) -> anyhow::Result<Option<PathBuf>> {
    match &options.against {
        Some(file) => Ok(Some(crate::absolute(file)?)),
        None => Ok(options.smoke.then(|| ibeam.to_owned())),
    }
}

async fn main_table(heat: &Heat, ibeam: &Path, earlier: Option<&Path>) -> anyhow::Result<Main> {
    let relay = Lane::start("relay", relay_start(heat.simulator)).await?;
    let this = Lane::start("ibeam", ibeam_start(ibeam, heat.simulator)).await?;
    let mut lanes = vec![relay, this];
    if let Some(earlier) = earlier {
        lanes.push(Lane::start("earlier", ibeam_start(earlier, heat.simulator)).await?);
    }
    let direct = lane::race(&mut lanes, heat).await?;
    let mut columns = columns(lanes).await.into_iter();
    Ok(Main {
        direct,
        relay: columns.next().unwrap_or_default(),
        ibeam: columns.next().unwrap_or_default(),
        earlier: columns.next(),
    })
}

async fn peer_table(heat: &Heat, plan: &Plan, ibeam: &Path, folder: &Path) -> anyhow::Result<Peer> {
    let heat = Heat {
        streams: plan.peer_streams,
        rounds: plan.peer_rounds(),
        firsts: plan.firsts.min(FEW_FIRSTS),
        ..*heat
    };
    let mut lanes = vec![
        Lane::start("relay", relay_start(heat.simulator)).await?,
        Lane::start("ibeam", ibeam_start(ibeam, heat.simulator)).await?,
        Lane::start(PEER, peer_start(folder, heat.simulator)).await?,
    ];
    let direct = lane::race(&mut lanes, &heat).await?;
    let mut columns = columns(lanes).await.into_iter();
    Ok(Peer {
        direct,
        relay: columns.next().unwrap_or_default(),
        ibeam: columns.next().unwrap_or_default(),
        peer: columns.next().unwrap_or_default(),
    })
}

async fn columns(lanes: Vec<Lane>) -> Vec<Column> {
    let mut columns = Vec::new();
    for lane in lanes {
        columns.push(lane.stop().await);
    }
    columns
}

async fn dialects(heat: &Heat, ibeam: &Path, earlier: Option<&Path>) -> anyhow::Result<Dialects> {
    let this = ibeam_start(ibeam, heat.simulator);
    let earlier = earlier.map(|earlier| ibeam_start(earlier, heat.simulator));
    let recipes: Vec<&Recipe> = std::iter::once(&this).chain(&earlier).collect();
    dialects::race(&recipes, heat).await
}

/// Many more streams than in the tables: only errors count.
async fn crowd_errors(recipe: &Recipe, plan: &Plan) -> anyhow::Result<Vec<String>> {
    let racer = recipe.start().await?;
    let target = Target::Http(racer.address);
    let seen = crowd(&target, Rule::Paced, plan.crowd, plan.size, Instant::now()).await;
    racer.stop().await;
    Ok(seen.errors)
}

fn text(
    plan: &Plan,
    main: &Main,
    dialects: &Dialects,
    backends: &Backends,
    crowd: &[String],
    peer: Option<&Peer>,
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
    if let Some(Peer { direct, relay, ibeam, peer }) = peer {
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
    main: &Main,
    dialects: &Dialects,
    backends: &Backends,
    crowd: &[String],
) -> anyhow::Result<()> {
    complain("relay", &main.relay.errors)?;
    complain("ibeam", &main.ibeam.errors)?;
    if let Some(earlier) = &main.earlier {
        complain("the earlier build", &earlier.errors)?;
    }
    complain("the crowd", crowd)?;
    for row in dialects.gateways.iter().flatten() {
        complain(row.dialect.name(), &row.errors)?;
    }
    for row in &backends.rows {
        complain(row.name, &row.errors)?;
    }
    Ok(())
}
