//! `--minutes N`: all attacks in turn on one gateway, beside honest clients that work all the
//! time. None of their requests may fail, and the gateway's memory has to return.

use std::{fmt::Write as _, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};

use super::{
    SAMPLE, Scale,
    attacks::{ATTACKS, Attack},
    crowd::{Crowd, Seen},
    honest::{Stream, post},
    target::Target,
};

/// People, each with a key.
const KEYS: usize = 4;
/// Their clients together.
const CLIENTS: usize = 20;
/// After each attack: its last connections end, and the next one does not meet them.
const REST: Duration = Duration::from_secs(10);
/// How much more memory than after the first round the gateway may have at the end, in MB: what is
/// remembered of the conversations since then. The first round itself leaves what the allocator
/// keeps.
const KEPT: f64 = 64.0;

/// One attack, in all the rounds.
#[derive(Debug)]
struct Tally {
    name: &'static str,
    times: usize,
    seen: Seen,
    /// None: the honest stream has ended.
    gap: Option<Duration>,
    /// The most memory, in MB.
    peak: f64,
}

pub(super) async fn run(program: &Path, minutes: u64) -> anyhow::Result<()> {
    let target = Target::start(program, KEYS).await?;
    load_vocabulary(&target).await?;
    let stream = Stream::start(&target)?;
    let crowd = Crowd::start(&target, CLIENTS)?;
    let mut tallies: Vec<Tally> = ATTACKS.iter().map(Tally::new).collect();
    let mut memory = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(minutes * 60);
    let begun = Instant::now();
    'rounds: loop {
        for (tally, attack) in tallies.iter_mut().zip(ATTACKS) {
            if Instant::now() >= deadline {
                break 'rounds;
            }
            tally.add(&target, &stream, &crowd, attack).await?;
            let minute = begun.elapsed().as_secs() / 60;
            println!("minute {minute}: {}", tally.line());
            // In every round the first attack is none.
            if attack.name == "nothing" {
                memory.push(target.memory());
            }
        }
    }
    // Once more without an attack, to see what the last one left.
    if let (Some(tally), Some(attack)) = (tallies.first_mut(), ATTACKS.first()) {
        tally.add(&target, &stream, &crowd, attack).await?;
        memory.push(target.memory());
    }
    drop(crowd);
    target.stop().await;
    println!("\n{}", page(&tallies, &memory, begun.elapsed()));
    let problems = problems(&tallies, &memory);
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    Ok(())
}

/// The first count of tokens loads the vocabulary, which stays: it is not what an attack costs.
async fn load_vocabulary(target: &Target) -> anyhow::Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let body = r#"{"model":"auto","messages":[{"role":"user","content":"a few words"}]}"#;
    let path = "/v1/messages/count_tokens";
    let mut socket = tokio::net::TcpStream::connect(target.socket()).await?;
    let request = post(target.socket(), target.honest_key(), path, body);
    socket.write_all(request.as_bytes()).await?;
    let mut answer = [0; 1024];
    let read = socket.read(&mut answer).await?;
    let answer = answer.get(..read).unwrap_or_default();
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        bail!("a count of tokens is refused: {}", String::from_utf8_lossy(answer));
    }
    Ok(())
}

impl Tally {
    fn new(attack: &Attack) -> Self {
        let gap = Some(Duration::ZERO);
        Self { name: attack.name, times: 0, seen: Seen::default(), gap, peak: 0.0 }
    }

    async fn add(
        &mut self,
        target: &Target,
        stream: &Stream,
        crowd: &Crowd,
        attack: &Attack,
    ) -> anyhow::Result<()> {
        stream.forget();
        let begun = Instant::now();
        let held = (attack.run)(target.clone_address(), Scale::FULL).await;
        let held = held.with_context(|| format!("the attack `{}`", attack.name))?;
        while begun.elapsed() < Scale::FULL.hold {
            self.peak = self.peak.max(target.memory());
            sleep(SAMPLE).await;
        }
        drop(held.tasks);
        sleep(REST).await;
        self.times += 1;
        self.gap = self.gap.zip(stream.longest_gap()).map(|(before, now)| before.max(now));
        self.seen.add(crowd.look());
        Ok(())
    }

    fn line(&self) -> String {
        let Self { name, times, seen, .. } = self;
        let (requests, failed) = (seen.took.len(), seen.failures.len());
        format!("{name} ({times}): {requests} honest requests, {failed} failed")
    }
}

impl Seen {
    fn add(&mut self, more: Self) {
        self.took.extend(more.took);
        self.chains += more.chains;
        self.failures.extend(more.failures);
    }

    /// The time within which so many of a hundred requests were answered.
    fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut took = self.took.clone();
        took.sort_unstable();
        took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied()
    }
}

fn problems(tallies: &[Tally], memory: &[f64]) -> Vec<String> {
    let mut problems = Vec::new();
    let failures: Vec<_> = tallies
        .iter()
        .flat_map(|tally| tally.seen.failures.iter().map(move |text| (tally, text)))
        .collect();
    if let Some((tally, first)) = failures.first() {
        let count = failures.len();
        problems
            .push(format!("{count} honest requests failed, one during `{}`: {first}", tally.name));
    }
    if tallies.iter().any(|tally| tally.gap.is_none()) {
        problems.push("the honest stream ended".to_owned());
    }
    if tallies.iter().all(|tally| tally.seen.chains == 0) {
        problems.push("no honest client got an answer".to_owned());
    }
    // The first value is from before any attack.
    if let (Some(first), Some(last)) = (memory.get(1), memory.last())
        && *last > first + KEPT
    {
        problems.push(format!("memory grows: {first:.0} MB, then {last:.0} MB"));
    }
    problems
}

fn ms(time: Option<Duration>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| format!("{} ms", time.as_millis()))
}

fn page(tallies: &[Tally], memory: &[f64], took: Duration) -> String {
    let mut page = String::from(
        "| attack | times | honest requests | failed | median | 99 of 100 | slowest | longest gap \
         | most memory |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for tally in tallies {
        let Tally { name, times, seen, gap, peak } = tally;
        let (requests, failed) = (seen.took.len(), seen.failures.len());
        let [median, most, slowest] = [50, 99, 100].map(|at| ms(seen.percentile(at)));
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| {name} | {times} | {requests} | {failed} | {median} | {most} | {slowest} | {} | \
             {peak:.0} MB |",
            ms(*gap)
        );
    }
    let chains: usize = tallies.iter().map(|tally| tally.seen.chains).sum();
    let memory: Vec<String> = memory.iter().map(|mb| format!("{mb:.0}")).collect();
    let _ = write!(
        page,
        "\n{} minutes, {CLIENTS} honest clients with {KEYS} keys, {chains} whole chains of tool \
         calls. Memory without an attack, before and after each round: {} MB.\n",
        took.as_secs() / 60,
        memory.join(", ")
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let took = (1..=100).map(Duration::from_millis).collect();
        Tally {
            name: "slow heads",
            times: 2,
            seen: Seen { took, chains: 25, failures: Vec::new() },
            gap: Some(Duration::from_millis(12)),
            peak: 40.0,
        }
    }

    #[test]
    fn a_run_without_a_failure_is_ok() {
        assert_eq!(problems(&[tally()], &[30.0, 50.0, 31.0]), Vec::<String>::new());
        let page = page(&[tally()], &[30.0, 31.0], Duration::from_secs(3600));
        let row = "| slow heads | 2 | 100 | 0 | 51 ms | 100 ms | 100 ms | 12 ms | 40 MB |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("60 minutes, 20 honest clients with 4 keys, 25 whole chains"));
    }

    #[test]
    fn each_failure_counts() {
        let failed = Seen { failures: vec!["client 1: 429".to_owned()], ..tally().seen };
        let silent = Seen::default();
        for (broken, memory, problem) in [
            (Tally { seen: failed, ..tally() }, 30.0, "1 honest requests failed"),
            (Tally { gap: None, ..tally() }, 30.0, "the honest stream ended"),
            (Tally { seen: silent, ..tally() }, 30.0, "no honest client got an answer"),
            (tally(), 95.0, "memory grows: 30 MB, then 95 MB"),
        ] {
            let problems = problems(&[broken], &[20.0, 30.0, memory]);
            assert!(matches!(&problems[..], [one] if one.starts_with(problem)), "{problems:?}");
        }
    }
}
