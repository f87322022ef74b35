//! Runs the steps of a plan, each as a process of its own: what it prints is kept apart, and a
//! step that crashes takes nothing with it.
//!
//! All of them stay in our process group, so that Ctrl-C reaches them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use super::{
    NotRun, TestOptions,
    report::{StepRow, StepVerdict, seconds},
    schedule::{NextStep, StepPlan},
    steps::{StepWeight, TestStep},
};
use crate::command::{command, works};

/// How often a long run says what it waits for.
const TICK: Duration = Duration::from_secs(30);

pub(super) struct StepRunner<'a> {
    options: &'a TestOptions,
    program: PathBuf,
    started: Instant,
    /// One step after the other shows its output as it comes.
    captured: bool,
    is_nice: bool,
    rows: Vec<StepRow>,
}

impl<'a> StepRunner<'a> {
    pub(super) fn new(options: &'a TestOptions, captured: bool) -> anyhow::Result<Self> {
        fs::create_dir_all(folder())?;
        Ok(Self {
            options,
            program: own_program()?,
            started: crate::now(),
            captured,
            is_nice: captured && works("nice", &["-n", "10", "true"]),
            rows: Vec::new(),
        })
    }

    pub(super) fn run(mut self, mut plan: StepPlan) -> anyhow::Result<(Vec<StepRow>, Duration)> {
        let (send, ended) = mpsc::channel();
        let mut running = BTreeMap::new();
        let mut last_tick = crate::now();
        loop {
            loop {
                match plan.next() {
                    NextStep::Start(step) => {
                        self.announce(step);
                        let mut child = self.start(step)?;
                        running.insert(step.name, crate::now());
                        let send = send.clone();
                        thread::spawn(move || {
                            let status = child.wait();
                            send.send((step, status)).ok();
                        });
                    }
                    NextStep::Skip(step, why) => {
                        let verdict =
                            StepVerdict::NotRun(format!("it needs `{why}`, which failed"));
                        self.rows.push(StepRow::empty(step.name, verdict));
                    }
                    NextStep::Nothing => break,
                }
            }
            if plan.is_finished() {
                return Ok((self.rows, self.started.elapsed()));
            }
            let left = TICK.saturating_sub(last_tick.elapsed());
            match ended.recv_timeout(left) {
                Ok((step, status)) => {
                    let since = running.remove(step.name).unwrap_or(self.started);
                    let row = self.finish(step, since, &status);
                    plan.done(step, matches!(row.verdict, StepVerdict::Passed));
                    self.rows.push(row);
                }
                Err(RecvTimeoutError::Timeout) => {
                    last_tick = crate::now();
                    if self.captured {
                        self.tick(&running);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the running steps were lost"),
            }
        }
    }

    fn start(&self, step: &TestStep) -> anyhow::Result<Child> {
        fs::remove_file(result_file(step.name)).ok();
        let mut command = if self.is_nice && step.weight == StepWeight::Busy {
            let mut nice = command("nice");
            nice.args(["-n", "10"]).arg(&self.program);
            nice
        } else {
            command(&self.program)
        };
        command.args(["step", step.name]).args(self.options.words());
        if self.captured {
            capture(&mut command, step.name)?;
        }
        command.spawn().with_context(|| format!("could not start the step {}", step.name))
    }

    fn announce(&self, step: &TestStep) {
        if self.captured {
            println!("[{}] {} started", clock(self.started.elapsed()), step.name);
        } else {
            println!("\n=== {} ===", step.name);
        }
    }

    fn tick(&self, running: &BTreeMap<&str, Instant>) {
        let each: Vec<String> = running
            .iter()
            .map(|(name, since)| format!("{name} {:.0} s", since.elapsed().as_secs_f64()))
            .collect();
        println!("[{}] running: {}", clock(self.started.elapsed()), each.join(", "));
    }

    /// Shows what a step printed, in one piece, and what came of it.
    fn finish(
        &self,
        step: &TestStep,
        since: Instant,
        status: &io::Result<std::process::ExitStatus>,
    ) -> StepRow {
        let took = since.elapsed();
        let (verdict, cpu) = read_result(step.name).unwrap_or_else(|| {
            let how = match status {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            (StepVerdict::Failed(format!("it ended without a result: {how}")), None)
        });
        let verdict = match verdict {
            StepVerdict::Failed(why) if self.captured => {
                StepVerdict::Failed(why + &last_lines(&log_file(step.name)))
            }
            other => other,
        };
        if self.captured {
            println!("\n=== {} ===", step.name);
            show(&log_file(step.name));
        }
        println!("--- {}: {} in {}", step.name, verdict.word(), seconds(took));
        if self.captured {
            println!();
        }
        StepRow { name: step.name, verdict, took, cpu, offset: since - self.started }
    }
}

/// The process of one step: runs it and leaves its result for the one that started it.
pub(super) fn step(step: &TestStep, options: &TestOptions) -> anyhow::Result<()> {
    let verdict = match (step.run)(options) {
        Ok(()) => StepVerdict::Passed,
        Err(error) if error.is::<NotRun>() => StepVerdict::NotRun(format!("{error:#}")),
        Err(error) => StepVerdict::Failed(format!("{error:#}")),
    };
    let cpu = crate::cpu::of_all().map(|seconds| seconds.to_string()).unwrap_or_default();
    let text = format!("{}\n{cpu}\n{}", verdict.word(), verdict.why());
    let path = result_file(step.name);
    fs::write(&path, text).with_context(|| path.display().to_string())
}

fn read_result(name: &str) -> Option<(StepVerdict, Option<f64>)> {
    let text = fs::read_to_string(result_file(name)).ok()?;
    let (word, rest) = text.split_once('\n')?;
    let (cpu, why) = rest.split_once('\n')?;
    Some((StepVerdict::parse(word, why)?, cpu.parse().ok()))
}

/// Starts the installation of what later steps want, beside the first ones.
pub(super) fn ahead() -> anyhow::Result<Child> {
    fs::create_dir_all(folder())?;
    let mut command = command(own_program()?);
    command.arg("install");
    capture(&mut command, "install")?;
    command.spawn().context("could not start the installation")
}

fn capture(command: &mut Command, name: &str) -> anyhow::Result<()> {
    let log = log_file(name);
    let file = File::create(&log).with_context(|| log.display().to_string())?;
    command.stdout(file.try_clone()?).stderr(file);
    Ok(())
}

/// A second name for ourselves: the steps build xtask again, which replaces the first.
fn own_program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let copy = folder().join(format!("runner{}", std::env::consts::EXE_SUFFIX));
    fs::remove_file(&copy).ok();
    fs::hard_link(&own, &copy).or_else(|_| fs::copy(&own, &copy).map(drop))?;
    Ok(std::path::absolute(copy)?)
}

fn show(log: &Path) {
    let mut out = io::stdout().lock();
    if let Ok(text) = fs::read(log) {
        // Nothing can be done about a terminal that is gone.
        out.write_all(&text).ok();
        if text.last().is_some_and(|last| *last != b'\n') {
            out.write_all(b"\n").ok();
        }
    }
}

/// How much of its output a failed step repeats at the end of the run, where it is found at once.
const LAST_LINES: usize = 20;

fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    last.iter().map(|line| format!("\n  {line}")).collect()
}

fn folder() -> PathBuf {
    crate::target().join("xtask")
}

fn log_file(name: &str) -> PathBuf {
    folder().join(format!("{name}.log"))
}

fn result_file(name: &str) -> PathBuf {
    folder().join(format!("{name}.result"))
}

fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn failed_step_repeats_the_end_of_its_output() {
        let scratch = Scratch::new("runner").unwrap();
        let log = scratch.path().join("log");
        let lines: Vec<String> = (1..=LAST_LINES + 5).map(|at| format!("line {at}")).collect();
        fs::write(&log, lines.join("\n") + "\n").unwrap();
        let last = last_lines(&log);
        assert_eq!(last.lines().count(), LAST_LINES + 1);
        assert!(last.starts_with("\n  line 6\n") && last.ends_with("\n  line 25"), "{last}");
        assert_eq!(last_lines(&scratch.path().join("none")), "");
    }
}
