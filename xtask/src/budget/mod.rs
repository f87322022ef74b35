//! `cargo xtask budget`: what the program costs to build, to test, to store and to keep running,
//! each beside its earlier value and its budget (`docs/budget.toml`).

mod crates;
mod idle;
mod times;
mod values;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

pub(crate) use self::times::{is_timed, timed};
use self::values::{BudgetMeasure, MeasuredValues};
use crate::args::TaskArgs;

/// How many crates the list has.
const LISTED: usize = 20;
const FILE: &str = "docs/budget.toml";

pub(crate) fn start(mut args: TaskArgs) -> anyhow::Result<()> {
    let (quick, write) = (args.flag("--quick"), args.flag("--write"));
    args.finish()?;
    let mut present = MeasuredValues::default();
    let mut program = program();
    if !quick {
        let build = times::cold_build(LISTED)?;
        present.set(BudgetMeasure::ReleaseBuild, build.seconds);
        program = build.program;
        for measure in [BudgetMeasure::TestCold, BudgetMeasure::TestWarm] {
            if let Some(seconds) = crate::runs::last(measure == BudgetMeasure::TestCold) {
                present.set(measure, seconds);
            }
        }
    }
    measure(&program, &mut present)?;
    let path = crate::root().join(FILE);
    let text = crate::read(&path)?;
    print!("\n{}", values::table(&text, &present)?);
    if write {
        fs::write(&path, values::written(&text, &present))?;
        println!("\n{FILE}: the earlier values are now these");
    }
    Ok(())
}

/// For the step of `cargo xtask test`: size, memory and crates of the release binary.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut present = MeasuredValues::default();
    measure(&program(), &mut present)?;
    let text = crate::read(&crate::root().join(FILE))?;
    print!("{}", values::table(&text, &present)?);
    let over = values::over(&text, &present)?;
    if !over.is_empty() {
        bail!("over budget: {}", over.join("; "));
    }
    Ok(())
}

fn measure(program: &Path, present: &mut MeasuredValues) -> anyhow::Result<()> {
    const MEGA: f64 = 1e6;
    let file = program.metadata();
    let file = file.with_context(|| format!("{}: build it first", program.display()))?;
    present.set(BudgetMeasure::Binary, file.len() as f64 / MEGA);
    present.set(BudgetMeasure::Crates, crates::count()? as f64);
    match idle::memory(program)? {
        Some(memory) => {
            println!(
                "  idle: {:.1} MB resident, {:.1} of them its own, {:.1} mapped from files",
                memory.all, memory.own, memory.files
            );
            present.set(BudgetMeasure::IdleMemory, memory.all);
        }
        None => println!("  idle: memory is measured on Linux only"),
    }
    Ok(())
}

/// What `cargo build --release` makes.
pub(crate) fn program() -> PathBuf {
    crate::target().join("release").join(format!("ibeam{}", std::env::consts::EXE_SUFFIX))
}
