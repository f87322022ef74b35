//! `cargo xtask test`: every check of the project, in one run, with a table of
//! what passed, what failed and what could not be run.

mod affected;
mod clients;
mod docs;
mod external;
mod packages;
mod promises;
mod report;
mod runner;
mod rust;
mod schedule;
mod secrets;
mod setup;
mod sizes;
mod steps;
mod words;

use std::{path::PathBuf, thread};

use anyhow::{Context as _, bail};
pub(crate) use secrets::copy;
pub(crate) use setup::plugin as plugin_folder;

use self::{runner::StepRunner, schedule::StepPlan};
use crate::{args::TaskArgs, command::in_ci, runs};

#[derive(Default)]
pub(crate) struct TestOptions {
    /// Only what needs nothing but Rust, and of the tests only those that a change concerns.
    fast: bool,
    /// With `fast`: everything that needs nothing but Rust.
    all: bool,
    /// Only tests of these packages; none means all.
    packages: Vec<String>,
    /// Names of steps, or parts of names.
    only: Vec<String>,
    list: bool,
    /// How many steps run at a time.
    lanes: Option<usize>,
}

impl TestOptions {
    pub(crate) fn parse(mut args: TaskArgs) -> anyhow::Result<Self> {
        let options = Self {
            fast: args.flag("--fast"),
            all: args.flag("--all"),
            packages: args.values("--package")?,
            only: args.values("--only")?,
            list: args.flag("--list"),
            lanes: args.value("--lanes")?,
        };
        args.finish()?;
        if options.all && !options.fast {
            bail!("--all belongs to --fast: without it everything is run anyway");
        }
        Ok(options)
    }

    /// Leaves out what a small change is not worth.
    fn is_short(&self) -> bool {
        self.fast && !self.all
    }

    /// What the process of a step has to know.
    fn words(&self) -> Vec<String> {
        let flags = [("--fast", self.fast), ("--all", self.all)];
        let flags = flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| name.to_owned());
        let packages = self.packages.iter().map(|name| format!("--package={name}"));
        flags.chain(packages).collect()
    }
}

/// The context of an error that a step is not to blame for: it could not be run here.
#[derive(Debug)]
pub(crate) struct NotRun;

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it cannot be run here")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Rust,
    /// Needs only Rust, and takes too long for every small change.
    Thorough,
    External,
    /// Only by its name: it would build much a second time.
    Named,
}

/// The Node folder with the public peer installed, for the bench.
pub(crate) fn peer_folder() -> anyhow::Result<PathBuf> {
    setup::node_packages("node")
}

pub(crate) fn run(mut options: TestOptions) -> anyhow::Result<()> {
    let chosen = steps::chosen(&options);
    if options.list {
        for step in chosen {
            println!("{}", step.name);
        }
        return Ok(());
    }
    if chosen.is_empty() {
        bail!("no step has such a name; `cargo xtask test --list` prints them");
    }
    if options.is_short() && options.packages.is_empty() {
        let choice = affected::choose()?;
        options.packages = choice.packages;
        let what = if options.packages.is_empty() {
            "all packages".to_owned()
        } else {
            options.packages.join(", ")
        };
        println!("tests of {what}: {}", choice.reason);
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let lanes = options.lanes.unwrap_or(cores + 1).max(1);
    secrets::forget();
    rust::TestPrograms::forget();
    let is_whole = options.only.is_empty() && !options.fast;
    let ahead = is_whole.then(runner::ahead).transpose()?;
    let runner = StepRunner::new(&options, lanes > 1 && chosen.len() > 1)?;
    let is_cold = !external::binary().exists();
    let (rows, total) = runner.run(StepPlan::new(&chosen, lanes))?;
    if is_whole {
        runs::record(is_cold, total)?;
    }
    if let Some(mut ahead) = ahead {
        ahead.wait()?;
    }
    report::print(rows, total, in_ci())
}

/// The process of one step.
pub(crate) fn step(mut args: TaskArgs) -> anyhow::Result<()> {
    let name = args.word().context("which step?")?;
    let step = steps::named(&name).with_context(|| format!("there is no step {name}"))?;
    runner::step(step, &TestOptions::parse(args)?)
}

/// The process that installs what later steps want.
pub(crate) fn install() {
    setup::ahead();
}
