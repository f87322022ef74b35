//! `cargo xtask attack`: builds the program and hands over to `ibeam-bench`, which has the
//! attacks.

use std::path::PathBuf;

use crate::{
    args::Args,
    command::{cargo, command, run},
};

pub(crate) struct Options {
    /// Attack this program, and build none
    program: Option<PathBuf>,
    /// Smaller attacks of a few seconds each
    short: bool,
    /// All attacks in turn on one gateway for so many minutes, beside honest clients
    minutes: Option<u64>,
    /// Only attacks whose name contains this
    only: Option<String>,
}

impl Options {
    pub(crate) fn parse(mut args: Args) -> anyhow::Result<Self> {
        let options = Self {
            program: args.value("--program")?,
            short: args.flag("--short"),
            minutes: args.value("--minutes")?,
            only: args.value("--only")?,
        };
        args.finish()?;
        Ok(options)
    }
}

pub(crate) fn start(options: &Options) -> anyhow::Result<()> {
    let release = crate::target().join("release");
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "ibeam-bench"]);
    if options.program.is_none() {
        build.args(["--package", "ibeam"]);
    }
    run(&mut build)?;
    let program = options.program.clone().unwrap_or_else(|| release.join("ibeam"));
    let mut attack = command(release.join("ibeam-bench"));
    attack.arg("attack").arg("--program").arg(program);
    if options.short {
        attack.arg("--short");
    }
    if let Some(minutes) = options.minutes {
        attack.arg("--minutes").arg(minutes.to_string());
    }
    if let Some(only) = &options.only {
        attack.arg("--only").arg(only);
    }
    run(&mut attack)
}
