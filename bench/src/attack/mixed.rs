//! `--minutes N`: all attacks in turn on one gateway, beside honest clients that work all the
//! time. None of their requests may fail, and the gateway's memory has to return to what the same
//! clients need without an attack. So it is measured twice in the same way: the clients work alone
//! for a while, before the first attack and after the last one.

use std::{fmt::Write as _, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};

use super::{
    AttackScale, SAMPLE,
    attacks::{ATTACKS, Attack, NOTHING, exchange},
    honest_clients::{ClientResults, HonestClients},
    honest_stream::{HonestStream, post},
    table::ms,
    target::AttackTarget,
};

/// People, each with a key.
const KEYS: usize = 4;
/// Their clients together.
const CLIENTS: usize = 20;
/// How long the gateway waits for slow clients. On a busy machine an honest client may get no
/// processor for seconds, and none of its requests may fail.
const PATIENCE: Duration = Duration::from_secs(20);
/// After each attack: its last connections end, and the next one does not meet them.
const REST: Duration = Duration::from_secs(10);
/// How much more memory than before the attacks the gateway may have after them, in MB. Between two
/// moments of clients that work alone there are a few MB.
const KEPT: f64 = 16.0;
/// How long the clients work alone before the attacks, and after them: long enough for as many
/// finished answers as the gateway keeps to be replayed.
const ALONE: Duration = Duration::from_secs(150);
/// The part of that time in which memory is looked at.
const LOOKED_AT: u32 = 3;

/// One attack, in all the rounds.
#[derive(Debug)]
struct AttackTally {
    name: &'static str,
    times: usize,
    seen: ClientResults,
    /// None: the honest stream has ended.
    gap: Option<Duration>,
    /// The most memory, in MB.
    peak: f64,
}

/// Memory in MB while the clients work alone.
#[derive(Debug)]
struct MemoryAlone {
    before: f64,
    /// After each round.
    rounds: Vec<f64>,
    after: f64,
}

/// `only`: attacks whose name contains this.
pub(super) async fn run(program: &Path, minutes: u64, only: &str) -> anyhow::Result<()> {
    let target = AttackTarget::start(program, KEYS, PATIENCE).await?;
    load_vocabulary(&target).await?;
    let stream = HonestStream::start(&target)?;
    let honest = HonestClients::start(&target, CLIENTS)?;
    let attacks: Vec<_> = ATTACKS
        .iter()
        .filter(|attack| attack.name == NOTHING || attack.name.contains(only))
        // They need another gateway.
        .filter(|attack| !attack.hosted_tools)
        .collect();
    let mut tallies: Vec<AttackTally> = attacks.iter().copied().map(AttackTally::new).collect();
    let length = Duration::from_secs(minutes * 60);
    // Short runs, to look for something, need not be exact.
    let alone = ALONE.min(length / 4);
    let begun = Instant::now();
    let before = work_alone(&target, &stream, &honest, &mut tallies, alone).await?;
    println!("{before:.0} MB before the attacks");
    let mut memory = MemoryAlone { before, rounds: Vec::new(), after: 0.0 };
    let deadline = Instant::now() + length;
    'rounds: loop {
        for (tally, attack) in tallies.iter_mut().zip(&attacks) {
            if Instant::now() >= deadline {
                break 'rounds;
            }
            tally.add(&target, &stream, &honest, attack).await?;
            let (minute, now) = (begun.elapsed().as_secs() / 60, target.memory());
            println!("minute {minute}: {}, {now:.0} MB", tally.line());
            // In every round the first attack is none.
            if attack.name == NOTHING {
                memory.rounds.push(now);
            }
        }
    }
    memory.after = work_alone(&target, &stream, &honest, &mut tallies, alone).await?;
    drop(honest);
    target.stop().await;
    println!("\n{}", page(&tallies, &memory, begun.elapsed()));
    let problems = problems(&tallies, &memory);
    if !problems.is_empty() {
        bail!("{}", problems.join("; "));
    }
    Ok(())
}

/// Lets the clients work for that long without an attack. Returns the memory that the gateway has
/// then: the median, since it goes up and down with the requests.
async fn work_alone(
    target: &AttackTarget,
    stream: &HonestStream,
    honest: &HonestClients,
    tallies: &mut [AttackTally],
    time: Duration,
) -> anyhow::Result<f64> {
    let Some(tally) = tallies.first_mut() else { bail!("there is no attack") };
    stream.forget();
    sleep(time - time / LOOKED_AT).await;
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while begun.elapsed() < time / LOOKED_AT {
        seen.push(target.memory());
        sleep(SAMPLE).await;
    }
    tally.note(stream, honest);
    seen.sort_unstable_by(f64::total_cmp);
    seen.get(seen.len() / 2).copied().context("memory was not measured")
}

/// The first count of tokens loads the vocabulary, which stays: it is not what an attack costs.
async fn load_vocabulary(target: &AttackTarget) -> anyhow::Result<()> {
    let body = r#"{"model":"auto","messages":[{"role":"user","content":"a few words"}]}"#;
    let path = "/v1/messages/count_tokens";
    let request = post(target.socket(), target.honest_key(), path, body);
    let answer = exchange(target.socket(), &request).await.context("no count of tokens")?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        bail!("a count of tokens is refused: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

impl AttackTally {
    fn new(attack: &Attack) -> Self {
        let gap = Some(Duration::ZERO);
        Self { name: attack.name, times: 0, seen: ClientResults::default(), gap, peak: 0.0 }
    }

    async fn add(
        &mut self,
        target: &AttackTarget,
        stream: &HonestStream,
        honest: &HonestClients,
        attack: &Attack,
    ) -> anyhow::Result<()> {
        stream.forget();
        let begun = Instant::now();
        let scale = AttackScale { patience: PATIENCE, ..AttackScale::FULL };
        let held = (attack.run)(target.clone_address(), scale).await;
        let held = held.with_context(|| format!("the attack `{}`", attack.name))?;
        while begun.elapsed() < scale.hold(attack) {
            self.peak = self.peak.max(target.memory());
            sleep(SAMPLE).await;
        }
        drop(held.tasks);
        sleep(REST).await;
        self.note(stream, honest);
        Ok(())
    }

    /// What honest clients noticed.
    fn note(&mut self, stream: &HonestStream, honest: &HonestClients) {
        self.times += 1;
        self.gap = self.gap.zip(stream.longest_gap()).map(|(before, now)| before.max(now));
        self.seen.add(honest.look());
    }

    fn line(&self) -> String {
        let Self { name, times, seen, .. } = self;
        let (requests, failed) = (seen.took.len(), seen.failures.len());
        format!("{name} ({times}): {requests} honest requests, {failed} failed")
    }
}

impl ClientResults {
    fn add(&mut self, more: Self) {
        self.took.extend(more.took);
        self.chains += more.chains;
        self.failures.extend(more.failures);
    }

    /// The time within which this percentage of the requests was answered.
    fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut took = self.took.clone();
        took.sort_unstable();
        took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied()
    }
}

fn problems(tallies: &[AttackTally], memory: &MemoryAlone) -> Vec<String> {
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
    let MemoryAlone { before, after, .. } = memory;
    if *after > before + KEPT {
        problems.push(format!("memory does not return: {before:.0} MB, then {after:.0} MB"));
    }
    problems
}

fn page(tallies: &[AttackTally], memory: &MemoryAlone, took: Duration) -> String {
    let mut page = String::from(
        "| attack | times | honest requests | failed | median | 99 of 100 | slowest | longest gap \
         | most memory |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for tally in tallies {
        let AttackTally { name, times, seen, gap, peak } = tally;
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
    let rounds: Vec<String> = memory.rounds.iter().map(|mb| format!("{mb:.0}")).collect();
    let _ = write!(
        page,
        "\n{} minutes, {CLIENTS} honest clients with {KEYS} keys, {chains} whole chains of tool \
         calls. Memory while they work alone: {:.0} MB before the attacks, {:.0} MB after them; in \
         each round, 30 s after the last attack: {} MB.\n",
        took.as_secs() / 60,
        memory.before,
        memory.after,
        rounds.join(", ")
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> AttackTally {
        let took = (1..=100).map(Duration::from_millis).collect();
        AttackTally {
            name: "slow heads",
            times: 2,
            seen: ClientResults { took, chains: 25, failures: Vec::new() },
            gap: Some(Duration::from_millis(12)),
            peak: 40.0,
        }
    }

    fn memory(after: f64) -> MemoryAlone {
        MemoryAlone { before: 30.0, rounds: vec![30.0, 90.0], after }
    }

    #[test]
    fn run_without_failures_passes() {
        assert_eq!(problems(&[tally()], &memory(31.0)), Vec::<String>::new());
        let page = page(&[tally()], &memory(31.0), Duration::from_secs(3600));
        let row = "| slow heads | 2 | 100 | 0 | 51 ms | 100 ms | 100 ms | 12 ms | 40 MB |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("60 minutes, 20 honest clients with 4 keys, 25 whole chains"));
        assert!(page.contains("30 MB before the attacks, 31 MB after them"), "{page}");
    }

    #[test]
    fn each_kind_of_failure_is_reported() {
        let failed = ClientResults { failures: vec!["client 1: 429".to_owned()], ..tally().seen };
        let silent = ClientResults::default();
        for (broken, after, problem) in [
            (AttackTally { seen: failed, ..tally() }, 30.0, "1 honest requests failed"),
            (AttackTally { gap: None, ..tally() }, 30.0, "the honest stream ended"),
            (AttackTally { seen: silent, ..tally() }, 30.0, "no honest client got an answer"),
            (tally(), 47.0, "memory does not return: 30 MB, then 47 MB"),
        ] {
            let problems = problems(&[broken], &memory(after));
            assert!(matches!(&problems[..], [one] if one.starts_with(problem)), "{problems:?}");
        }
    }
}
