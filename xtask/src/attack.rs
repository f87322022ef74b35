//! `cargo xtask attack`: builds the program and hands over to `ibeam-bench`, which has the
//! attacks.

use std::path::PathBuf;

use crate::{
    args::TaskArgs,
    command::{cargo, command, run},
};

pub(crate) fn start(mut args: TaskArgs) -> anyhow::Result<()> {
    let program: Option<PathBuf> = args.value("--program")?;
    let short = args.flag("--short");
    let minutes: Option<u64> = args.value("--minutes")?;
    let only: Option<String> = args.value("--only")?;
    args.finish()?;
    let release = crate::target().join("release");
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "ibeam-bench"]);
    if program.is_none() {
        build.args(["--package", "ibeam"]);
    }
    run(&mut build)?;
    let mut attack = command(release.join("ibeam-bench"));
    attack.arg("attack").arg("--program").arg(program.unwrap_or_else(|| release.join("ibeam")));
    attack.args(short.then_some("--short"));
    attack.args(minutes.map(|minutes| format!("--minutes={minutes}")));
    attack.args(only.map(|only| format!("--only={only}")));
    run(&mut attack)
}
