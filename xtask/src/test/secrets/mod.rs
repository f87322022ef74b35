//! No secret leaves the program. The suite works with tokens and keys that are known by
//! their look; here everything it printed, logged, answered and left behind is searched for
//! them.
//!
//! Before that, a test leaks them on purpose in every way there is, and each must be found.

mod copy;
mod needles;
mod place;
mod record;

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, anyhow, bail};

pub(crate) use self::copy::run as copy;
use self::{
    needles::{FoundForms, SecretNeedles},
    record::{LeakChannel, SuiteRecord},
};
use super::NotRun;

const SUITE: &str = "suite";

/// The test that leaks.
const CONTROL: &str = "secrets::leak_in_every_channel";

/// Leaks that are listed one by one.
const LISTED: usize = 20;

/// Why nothing can be watched here.
pub(super) fn unusable() -> Option<String> {
    SuiteRecord::unusable()
}

/// A new run starts.
pub(super) fn forget() {
    SuiteRecord::forget(SUITE);
}

/// Runs all tests, and records what they print and leave.
pub(super) fn suite() -> anyhow::Result<()> {
    SuiteRecord::new(SUITE)?.run(None)
}

pub(super) fn check() -> anyhow::Result<()> {
    if let Some(why) = unusable() {
        return Err(anyhow!(why).context(NotRun));
    }
    sources(&crate::root().join("crates/ibeam/tests/it"))?;
    let control = SuiteRecord::new("control")?;
    control.run(Some(CONTROL))?;
    let planted = LeakSearch::of(&control)?;
    planted.print("planted");
    for channel in LeakChannel::WATCHED {
        if planted.in_channel(channel).leaks.is_empty() {
            bail!("{channel:?}: the watch did not see what was leaked there on purpose");
        }
    }

    let (record, ran) = match SuiteRecord::made(SUITE) {
        Some(record) => (record, Ok(())),
        None => {
            let record = SuiteRecord::new(SUITE)?;
            let ran = record.run(None);
            (record, ran)
        }
    };
    let found = LeakSearch::of(&record)?;
    found.print("suite");
    if found.in_channel(LeakChannel::Store).leaks.is_empty() {
        bail!("no store holds a mark: the suite did not use the marked secrets");
    }
    let watched = LeakChannel::WATCHED.into_iter();
    let leaks: Vec<_> = watched.flat_map(|channel| found.in_channel(channel).leaks).collect();
    for leak in leaks.iter().take(LISTED) {
        println!("  {leak}");
    }
    if !leaks.is_empty() {
        bail!("{} places hold a secret; {} has them", leaks.len(), record.path("").display());
    }
    // Tests that failed may have printed less than they would have.
    ran?;
    println!("  no secret but in the store");
    place::clear();
    Ok(())
}

/// What was searched, and what was found.
#[derive(Default)]
struct LeakSearch(BTreeMap<LeakChannel, ChannelTally>);

#[derive(Clone, Default)]
struct ChannelTally {
    files: usize,
    bytes: usize,
    leaks: Vec<String>,
}

impl LeakSearch {
    fn of(record: &SuiteRecord) -> anyhow::Result<Self> {
        let marks = crate::read(&record.path("marks"))?;
        if let Some(short) = marks.lines().find(|mark| mark.len() < 2 * needles::PIECE) {
            bail!("the mark {short:?} is too short to be found");
        }
        let needles = SecretNeedles::of(marks.lines());
        let mut search = Self::default();
        for (channel, path) in record.files()? {
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            let tally = search.0.entry(channel).or_default();
            tally.files += 1;
            tally.bytes += text.len();
            let found = needles.find(&text);
            let meant = channel == LeakChannel::Stdout && is_meant(&path);
            if !found.is_empty() && !meant {
                tally.leaks.push(describe(channel, &path, &text, &found));
            }
        }
        Ok(search)
    }

    fn in_channel(&self, channel: LeakChannel) -> ChannelTally {
        self.0.get(&channel).cloned().unwrap_or_default()
    }

    fn print(&self, name: &str) {
        println!("  {name:<12}{:>7}{:>13}  secrets in", "files", "bytes");
        for (channel, tally) in &self.0 {
            let (name, leaks) = (format!("{channel:?}"), tally.leaks.len());
            println!("  {name:<12}{:>7}{:>13}{leaks:>5} files", tally.files, tally.bytes);
        }
    }
}

/// A new key is shown once, and `sim --token` is there to show a token.
fn is_meant(stdout: &Path) -> bool {
    let arguments = fs::read_to_string(stdout.with_extension("args")).unwrap_or_default();
    let key = arguments.starts_with("start ") && arguments.contains("--json");
    arguments.starts_with("keys add ") || arguments.trim_end() == "sim --token" || key
}

fn describe(channel: LeakChannel, path: &Path, text: &[u8], found: &FoundForms) -> String {
    let mut line = format!("{channel:?} {}:", path.display());
    for (form, at) in found {
        // Enough to find the place in the code.
        let around = text.get(at.saturating_sub(80)..text.len().min(at + 40)).unwrap_or_default();
        let around = String::from_utf8_lossy(around);
        line.push_str(&format!(" {form} at {at}, in {around:?};"));
    }
    line
}

/// A test that starts the program itself, or makes a folder that goes with it, would not be
/// watched.
fn sources(folder: &Path) -> anyhow::Result<()> {
    for path in crate::files_below(folder, |_| false)? {
        // One is the watch, the other has a watch of its own.
        if path.ends_with("watch.rs") || path.ends_with("strace.rs") {
            continue;
        }
        let text = crate::read(&path)?;
        for (word, instead) in
            [("CARGO_BIN_EXE_ibeam", "watch::program"), ("tempdir()", "watch::folder")]
        {
            if text.contains(word) {
                bail!("{} has `{word}`; use `{instead}`, or it is not watched", path.display());
            }
        }
    }
    Ok(())
}
