//! Child processes: started in the workspace root, output passed through, a
//! failure turned into an error that names the command.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A command in the workspace root that cannot ask questions.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// The cargo that started us.
pub(crate) fn cargo() -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Set by the outer `cargo run` for this package; a nested build must not see them, or
    // build scripts that watch them (ring's does) run again, with all that depends on them.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    // CI builds once: what would make a second build faster only costs.
    if in_ci() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs to the end and fails unless the exit status is 0.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let words = describe(command);
    println!("  $ {words}");
    let status = command.status().with_context(|| format!("could not start `{words}`"))?;
    if !status.success() {
        bail!("`{words}` failed: {status}");
    }
    Ok(())
}

/// Runs to the end and returns what the command prints. An error has what it prints to stderr.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let words = describe(command);
    let output = command.output().with_context(|| format!("could not start `{words}`"))?;
    if !output.status.success() {
        bail!("`{words}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether `program args` starts and succeeds; its output is thrown away.
pub(crate) fn works(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> bool {
    command(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The first line that `program args` prints.
pub(crate) fn first_line(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Option<String> {
    let text = output(command(program).args(args)).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn describe(command: &Command) -> String {
    let root = crate::root();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| {
            let path = std::path::Path::new(word);
            path.strip_prefix(&root).unwrap_or(path).display().to_string()
        })
        .collect();
    // cargo's own path is long and says nothing.
    let mut line = words.join(" ");
    if let Some((first, rest)) = line.split_once(' ')
        && first.ends_with("/cargo")
    {
        line = format!("cargo {rest}");
    }
    line
}

/// Under CI everything must have been run.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| matches!(value.as_str(), "1" | "true" | "TRUE" | "True"))
}
