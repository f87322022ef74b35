//! The gateway as a service of one user: started by the system, at the first request or when
//! the user logs in, and kept running.
//!
//! What is installed is text, made by pure functions for each system. Only its own tool
//! (`systemctl`, `launchctl`, `schtasks`) changes the system, by way of a [`CommandRunner`].

mod launchd;
mod run;
mod schtasks;
mod stamp;
mod systemd;
mod variables;
mod write;
mod xml;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub(crate) use self::{
    launchd::Launchd,
    run::{CommandLine, CommandRunner, SystemRunner},
    schtasks::Schtasks,
    stamp::{FileOwner, ServiceStamp, read},
    systemd::{Systemd, SystemdPaths},
    variables::{carried, unseen},
    write::{ServiceError, install, uninstall},
};
use ibeam_server::config::Listen;

/// The service's name on each system.
pub(crate) const NAME: &str = "ibeam";

const ABOUT: &str = "ibeam: your Cursor plan's models in every tool";

const PAGE: &str = "https://github.com/ibeam-gateway/ibeam";

/// What is to run.
#[derive(Clone, Debug)]
pub(crate) struct ServiceSpec {
    pub(crate) program: String,
    /// Nothing secret: everyone on the machine can read them.
    pub(crate) args: Vec<String>,
    /// Where programs and files are found. Nothing secret either.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) places: Vec<Listen>,
    pub(crate) tls: bool,
    /// How long running turns may take to end.
    pub(crate) drain: Duration,
}

impl ServiceSpec {
    /// Where clients call it.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.places.iter().map(|place| ibeam_server::server::url(place, self.tls)).collect()
    }

    /// In seconds. After that, the system ends it.
    fn patience(&self) -> u64 {
        self.drain.as_secs().saturating_add(10)
    }
}

/// A file to be written, before it has its stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceFile {
    pub(crate) path: PathBuf,
    /// What must come first.
    pub(crate) head: &'static str,
    pub(crate) body: String,
    pub(crate) comment: CommentStyle,
    pub(crate) encoding: FileEncoding,
}

/// How a remark is written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentStyle {
    Hash,
    Xml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileEncoding {
    Utf8,
    /// With a mark at its beginning, as Windows writes its tasks.
    Utf16,
}

/// A command, and whether the rest makes sense without it.
#[derive(Clone, Debug)]
pub(crate) struct ServiceStep {
    pub(crate) line: CommandLine,
    pub(crate) must: bool,
}

impl ServiceStep {
    fn must(line: CommandLine) -> Self {
        Self { line, must: true }
    }

    fn may(line: CommandLine) -> Self {
        Self { line, must: false }
    }
}

/// What the system says about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceState {
    /// Whether it is started again, after the next boot or login.
    pub(crate) enabled: bool,
    /// None: the system does not say.
    pub(crate) running: Option<bool>,
    /// The system listens in its place, and starts it for the first client.
    pub(crate) waiting: bool,
    pub(crate) pid: Option<u32>,
    /// How it ended, if not well.
    pub(crate) trouble: Option<String>,
}

/// Where its log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceLogs {
    By(CommandLine),
    In(PathBuf),
}

/// What starts services on a system.
pub(crate) trait ServiceManager {
    fn name(&self) -> &'static str;

    /// Why it cannot be used here, and what to do instead. None: it can.
    fn missing(&self, runner: &dyn CommandRunner) -> Option<(String, Vec<String>)>;

    /// The first is the one that says where it listens.
    fn files(&self) -> Vec<PathBuf>;

    fn drafts(&self, service: &ServiceSpec) -> Vec<ServiceFile>;

    /// Once the files are written. `again`: it was installed before, and may run.
    fn install(&self, again: bool) -> Vec<ServiceStep>;

    /// Before the files are removed, and after.
    fn uninstall(&self) -> (Vec<ServiceStep>, Vec<ServiceStep>);

    fn state(&self, runner: &dyn CommandRunner) -> ServiceState;

    fn logs(&self, follow: bool, lines: u32) -> ServiceLogs;

    /// Where it must log to, if the system does not keep what it prints.
    fn log_file(&self) -> Option<&Path>;

    /// Whether a request starts it.
    fn starts_on_demand(&self) -> bool {
        false
    }

    /// What the user should know about it.
    fn notes(&self) -> Vec<String>;
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
