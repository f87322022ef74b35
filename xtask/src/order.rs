//! `cargo xtask order`: finds out which functions run while a gateway starts, and writes the linker
//! script that puts them next to each other (`crates/ibeam/build.rs` says why).

use std::{collections::BTreeSet, fs, time::Duration};

use anyhow::bail;

use crate::{
    command::{cargo, command, run, works},
    gateway::MeasuredGateway,
    scratch::Scratch,
};

const SCRIPT: &str = "crates/ibeam/link/start.ld";
/// A program takes fifty times as long under valgrind.
const PATIENCE: Duration = Duration::from_secs(120);
/// Threads take turns differently each time, and then other functions run.
const RUNS: usize = 4;

pub(crate) fn write() -> anyhow::Result<()> {
    if !works("valgrind", &["--version"]) {
        bail!("this needs valgrind (Debian: `apt-get install valgrind`)");
    }
    let target = crate::target().join("xtask/order");
    let mut build = cargo();
    build.env("IBEAM_LINK_ORDER", "off").args(["build", "--release", "--locked"]);
    build.args(["--package", "ibeam", "--config", "profile.release.package.ibeam.strip='none'"]);
    build.args(["--config", "profile.release.strip='none'", "--target-dir"]).arg(&target);
    run(&mut build)?;
    let program = target.join("release/ibeam");
    let scratch = Scratch::new("order")?;
    let mut names = BTreeSet::new();
    for run in 0..RUNS {
        let profile = scratch.path().join(format!("callgrind.{run}"));
        let mut valgrind = command("valgrind");
        valgrind.args(["--tool=callgrind", "--demangle=no", "--fair-sched=yes"]);
        valgrind.arg(format!("--callgrind-out-file={}", profile.display())).arg(&program);
        MeasuredGateway::start(&mut valgrind, PATIENCE)?.stop()?;
        let profile = crate::read(&profile)?;
        names.extend(functions(&profile, &program.to_string_lossy()));
    }
    if names.is_empty() {
        bail!("the profile names no function of {}", program.display());
    }
    fs::write(crate::root().join(SCRIPT), script(&names))?;
    println!("  {SCRIPT}: {} functions", names.len());
    Ok(())
}

/// The functions of the program that ran, by a pattern each.
fn functions(profile: &str, program: &str) -> BTreeSet<String> {
    let mut programs = Vec::new();
    let mut in_program = false;
    let mut found = BTreeSet::new();
    // Names are given once, as `(7) name`, and by their number alone from then on. A called
    // function (`cfn`) is named there, but has lines of its own as well.
    let mut names = std::collections::HashMap::new();
    for line in profile.lines() {
        let Some((key, value)) = line.split_once("=(") else { continue };
        let Some((number, name)) = value.split_once(')') else { continue };
        let name = name.trim();
        match key {
            "ob" | "cob" => {
                if name == program {
                    programs.push(number);
                }
                if key == "ob" {
                    in_program = programs.contains(&number);
                }
            }
            "fn" | "cfn" => {
                if !name.is_empty() {
                    names.insert(number, name);
                }
                if key == "fn" && in_program {
                    found.extend(names.get(number).and_then(|name| pattern(name)));
                }
            }
            _ => {}
        }
    }
    found
}

/// A symbol without what changes with every version of a compiler or a dependency: the hash at the
/// end (`17h0123456789abcdefE`), or before the names of crates (`Cs1a2B3c_`) and the number at the
/// end of copies (`.609`).
fn pattern(symbol: &str) -> Option<String> {
    // Recursive calls have a number: `name'2`. What has no name is listed by its address.
    let symbol = symbol.split('\'').next().unwrap_or(symbol);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte);
    if symbol.is_empty() || symbol.starts_with("0x") || !symbol.bytes().all(is_plain) {
        return None;
    }
    if symbol.starts_with("_ZN") {
        let (name, _hash) = symbol.rsplit_once("17h").unwrap_or((symbol, ""));
        return Some(format!("{name}17h*"));
    }
    if !symbol.starts_with("_R") {
        return Some(symbol.to_owned());
    }
    let (name, number) = symbol.rsplit_once('.').unwrap_or((symbol, ""));
    let is_copy = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let mut pieces = if is_copy { name } else { symbol }.split("Cs");
    let mut pattern = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once('_') {
            Some((hash, rest)) if hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                pattern += "Cs*_";
                pattern += rest;
            }
            _ => {
                pattern += "Cs";
                pattern += piece;
            }
        }
    }
    Some(pattern)
}

fn script(names: &BTreeSet<String>) -> String {
    let mut script = String::from(
        "/* Functions that run while a gateway starts, kept together. Written by `cargo xtask order`. */\n\
         SECTIONS {\n  .text.start : {\n",
    );
    for name in names {
        // Functions that are marked as cold have sections of another name, and so have copies.
        let copies =
            if name.starts_with("_R") { format!(" .text.{name}.*") } else { String::new() };
        script += &format!("    *(.text.{name} .text.unlikely.{name}{copies})\n");
    }
    script += "  }\n}\nINSERT BEFORE .text;\n";
    script
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
