//! A run of the suite of which everything is written down: what tests and processes print,
//! what they log, what they answer, which files they leave.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use super::place::{absolute, base};
use crate::{
    command::{run, works},
    test::{external, rust},
};

/// Everything that can be logged, the libraries' part as well.
const LEVEL: &str = "trace,h2=trace,hyper=trace,hyper_util=trace,rustls=trace,tower=trace";

/// A Unix socket's path has 108 bytes at most, on some systems 104, and tests make some
/// below our folder.
const LONGEST: usize = 64;

/// Where a secret could get out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeakChannel {
    /// What the tests print, panics among it.
    Output,
    Stdout,
    /// Messages, logs and crashes of the program.
    Stderr,
    Arguments,
    /// Logs of gateways inside a test, as they would be shown.
    Logs,
    /// The same before secrets are made out.
    BareLogs,
    /// Status, headers and bodies.
    Answers,
    Files,
    /// Where secrets belong.
    Store,
}

impl LeakChannel {
    pub(super) const WATCHED: [Self; 8] = [
        Self::Output,
        Self::Stdout,
        Self::Stderr,
        Self::Arguments,
        Self::Logs,
        Self::BareLogs,
        Self::Answers,
        Self::Files,
    ];
}

pub(super) struct SuiteRecord {
    folder: PathBuf,
}

/// Says that the whole suite has passed in this run of `cargo xtask test`.
const PASSED: &str = "passed";

impl SuiteRecord {
    /// Why nothing can be written down here.
    pub(super) fn unusable() -> Option<String> {
        let bash = works("/bin/bash", &["--version"]);
        let long = base().as_os_str().len() > LONGEST;
        match (bash, long) {
            (false, _) => Some("/bin/bash is not installed".to_owned()),
            (true, true) => Some(format!("the path of {} is too long", base().display())),
            (true, false) => None,
        }
    }

    /// An empty one, in place of the last of its name.
    pub(super) fn new(name: &str) -> anyhow::Result<Self> {
        let folder = base().join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        for part in ["output", "processes", "files"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let record = Self { folder };
        record.write_script()?;
        fs::write(record.path("nextest.toml"), record.nextest())?;
        Ok(record)
    }

    /// The one that an earlier step of this run made, if all tests passed: tests that failed may
    /// have printed less.
    pub(super) fn made(name: &str) -> Option<Self> {
        let record = Self { folder: base().join(name) };
        record.path(PASSED).exists().then_some(record)
    }

    /// A new run does not use what an earlier one recorded.
    pub(super) fn forget(name: &str) {
        fs::remove_file(base().join(name).join(PASSED)).ok();
    }

    pub(super) fn path(&self, part: &str) -> PathBuf {
        self.folder.join(part)
    }

    /// Runs the tests of the workspace: all, or one that is ignored.
    pub(super) fn run(&self, ignored: Option<&str>) -> anyhow::Result<()> {
        self.tests(ignored)?;
        if ignored.is_none() {
            fs::write(self.path(PASSED), "")?;
        }
        Ok(())
    }

    fn tests(&self, ignored: Option<&str>) -> anyhow::Result<()> {
        let nextest = rust::has_nextest();
        let mut command = rust::test_command(nextest);
        self.watch(&mut command);
        if nextest {
            // Below the project's own settings, which let tests that measure run alone.
            let ours = self.path("nextest.toml");
            command.arg("--tool-config-file").arg(format!("xtask:{}", ours.display()));
            if let Some(test) = ignored {
                command.args(["--run-ignored", "only", "-E", &format!("test(={test})")]);
            }
            return run(&mut command);
        }
        command.args(["--", "--show-output"]);
        if let Some(test) = ignored {
            command.args(["--ignored", "--exact", test]);
        }
        let path = self.path("output/tests.txt");
        let file = File::create(&path)?;
        let ran = run(command.stdout(file.try_clone()?).stderr(file));
        if ran.is_err() {
            print!("{}", fs::read_to_string(&path).unwrap_or_default());
        }
        ran
    }

    fn watch(&self, command: &mut Command) {
        let files = self.path("files");
        command.env("IBEAM_TEST_WATCH", &self.folder).env("TMPDIR", &files);
        for kind in ["CONFIG", "CACHE", "DATA", "STATE"] {
            command.env(format!("XDG_{kind}_HOME"), files.join("xdg").join(kind));
        }
    }

    /// Each file that was written, and what it belongs to.
    pub(super) fn files(&self) -> anyhow::Result<Vec<(LeakChannel, PathBuf)>> {
        let files = crate::files_below(&self.folder, |_| false)?.into_iter();
        Ok(files.filter_map(|path| Some((self.channel(&path)?, path))).collect())
    }

    fn channel(&self, path: &Path) -> Option<LeakChannel> {
        let mut parts = path.strip_prefix(&self.folder).ok()?.components();
        let part = parts.next()?.as_os_str().to_str()?;
        let kind = path.extension().and_then(|kind| kind.to_str());
        Some(match (part, kind) {
            ("output", _) => LeakChannel::Output,
            ("processes", Some("out")) => LeakChannel::Stdout,
            ("processes", Some("err")) => LeakChannel::Stderr,
            ("processes", Some("args")) => LeakChannel::Arguments,
            ("logs", Some("bare")) => LeakChannel::BareLogs,
            ("logs", _) => LeakChannel::Logs,
            ("answers", _) => LeakChannel::Answers,
            ("files", _) if is_store(path) => LeakChannel::Store,
            ("files", _) => LeakChannel::Files,
            _ => return None,
        })
    }

    /// Stands in for the program: turns on its logs and copies what it prints. The process
    /// becomes the program, so that signals reach it.
    fn write_script(&self) -> anyhow::Result<()> {
        let program = absolute(external::binary());
        // The tests may build this program again.
        let copy = self.path("xtask");
        let own = std::env::current_exe()?;
        fs::hard_link(&own, &copy).or_else(|_| fs::copy(&own, &copy).map(drop))?;
        let text = format!(
            "#!/bin/bash\n\
             name={processes}/$$-$RANDOM$RANDOM\n\
             echo \"$*\" >> \"$name.args\"\n\
             export TMPDIR={files}\n\
             if [[ -z $WATCH_USUAL_LOG$CURSOR_LOG_LEVEL$IBEAM_LOG_LEVEL$CURSOR_DEBUG ]]; then\n\
             export IBEAM_LOG_LEVEL='{LEVEL}'\n\
             fi\n\
             [[ -p /dev/stdout ]] && exec > >(exec {copy} copy \"$name.out\")\n\
             exec 2> >(exec {copy} copy \"$name.err\" >&2)\n\
             exec {program} \"$@\"\n",
            processes = quoted(&self.path("processes")),
            files = quoted(&self.path("files")),
            program = quoted(&program),
            copy = quoted(&copy),
        );
        let path = self.path("ibeam");
        fs::write(&path, text)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    fn nextest(&self) -> String {
        format!(
            "[profile.default.junit]\n\
             path = {:?}\n\
             store-success-output = true\n\
             store-failure-output = true\n",
            self.path("output/junit.xml")
        )
    }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// ibeam's own credentials, the keys of running gateways, a sign-in of another program that a test
/// wrote, and the key of a certificate that one made.
fn is_store(path: &Path) -> bool {
    let own = ["credentials", "instances"];
    let own = path.parent().is_some_and(|parent| own.iter().any(|name| parent.ends_with(name)));
    let theirs = [".config/cursor/auth.json", ".local/share/opencode/auth.json"];
    own || theirs.iter().any(|file| path.ends_with(file)) || path.ends_with("key.pem")
}
