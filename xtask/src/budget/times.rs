//! A cold release build, and which crates it spends its time on.
//!
//! Cargo starts this program in the place of rustc, and build scripts in the place of the C
//! compiler. It starts the real one and notes the CPU seconds that it used, with the package that
//! it worked for.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::Context as _;

use crate::{
    command::{cargo, run},
    cpu,
};

/// Names the file with the notes; set only for the build that is measured.
const NOTES: &str = "IBEAM_BUDGET_NOTES";
/// The C compiler that is stood in for.
const CC: &str = "cc";

pub(super) struct ColdBuild {
    pub(super) seconds: f64,
    pub(super) program: PathBuf,
}

/// Builds in an empty folder, and prints the most expensive crates.
pub(super) fn cold_build(listed: usize) -> anyhow::Result<ColdBuild> {
    let folder = std::path::absolute(crate::target().join("budget"))?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let notes = folder.join("notes");
    let [rustc, cc] = ["rustc-timed", CC].map(|name| folder.join(name));
    for name in [&rustc, &cc] {
        let own = std::env::current_exe()?;
        fs::hard_link(&own, name).or_else(|_| fs::copy(&own, name).map(drop))?;
    }
    let mut build = cargo();
    build
        .args(["build", "--release", "--locked", "--package", "ibeam"])
        .env("CARGO_TARGET_DIR", &folder)
        .env("RUSTC_WRAPPER", &rustc)
        .env(NOTES, &notes);
    if cfg!(unix) {
        build.env("CC", &cc);
    }
    let (started, before) = (crate::now(), cpu::of_children());
    run(&mut build)?;
    let seconds = started.elapsed().as_secs_f64();
    let all = cpu::of_children().zip(before).map(|(after, before)| after - before);
    let text = crate::read(&notes)?;
    print!("{}", list(&text, all, listed));
    Ok(ColdBuild { seconds, program: folder.join("release").join(exe("ibeam")) })
}

/// The packages by what they cost, the most expensive first.
fn list(notes: &str, all: Option<f64>, listed: usize) -> String {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for line in notes.lines() {
        if let Some((seconds, package)) = line.split_once(' ') {
            *sums.entry(package).or_default() += seconds.parse::<f64>().unwrap_or_default();
        }
    }
    let noted: f64 = sums.values().sum();
    let mut sums: Vec<(&str, f64)> = sums.into_iter().collect();
    sums.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut out = format!("\nCPU seconds of the release build, {} packages\n", sums.len());
    for (package, seconds) in sums.into_iter().take(listed) {
        out += &format!("{seconds:>8.1}  {package}\n");
    }
    out += &format!("{noted:>8.1}  all compilers together\n");
    if let Some(all) = all {
        out += &format!("{all:>8.1}  with cargo, build scripts and the linker\n");
    }
    out
}

/// Whether this process stands in for a compiler.
pub(crate) fn is_timed() -> bool {
    std::env::var_os(NOTES).is_some()
}

/// Runs the compiler and notes what it cost.
pub(crate) fn timed() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os();
    let own = words.next().unwrap_or_default();
    let is_cc = Path::new(&own).file_stem() == Some(CC.as_ref());
    // Cargo says which rustc it wants; for C it is the usual one.
    let program = if is_cc { Some(OsString::from(CC)) } else { words.next() };
    let program = program.context("no compiler is named")?;
    let status = Command::new(&program)
        .args(words)
        .status()
        .with_context(|| program.display().to_string())?;
    if let (Some(notes), Some(seconds)) = (std::env::var_os(NOTES), cpu::of_children()) {
        let word = |name: &str| std::env::var(name).unwrap_or_else(|_| "?".to_owned());
        // One write, so that lines of several compilers do not mix.
        let line = format!("{seconds} {} {}\n", word("CARGO_PKG_NAME"), word("CARGO_PKG_VERSION"));
        let mut file = OpenOptions::new().create(true).append(true).open(notes)?;
        file.write_all(line.as_bytes())?;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn exe(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
