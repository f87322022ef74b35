//! The folders that children work in.
//!
//! Each child has one of its own, empty but for the two files that tell it about the
//! hosted tools and about what it may not do. Nobody else can look into it, and it goes
//! when the child goes.
//!
//! A folder of the user's is never worked in directly. The CLI takes its MCP servers and
//! its permissions from `.cursor` in the folder it works in, so that hosting tools there
//! would mean to write into the user's files, and two turns at once would overwrite each
//! other's. It is given as a further folder instead (`--add-dir`), beside the child's own.
//!
//! The CLI keeps its conversations by the folder they were held in. So the name of a folder
//! follows from its conversation, and the first program of a user has them always in the
//! same place: a conversation goes on where it was held, also after a restart.
//!
//! All folders of one program are in one, whose lock it holds. What a killed program left
//! behind has no holder, and is removed by the next one that starts.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use ibeam_core::{
    model::ids,
    peer::child::{HostAddress, SERVER_NAME},
};
use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::{sync::Notify, time::timeout};
use tracing::{debug, info};

use super::{environment::Sight, find::Program, spawn::Spawn, tree};
use crate::{clock, files::private, random};

const LOCK: &str = "lock";
/// A folder that has no lock yet. Nobody removes it before its time is over.
const UNBORN: &str = "new-";
/// What takes longer to get its lock never will.
const BIRTH: Duration = Duration::from_secs(60 * 60);
/// The place of the first program; others that run beside it have names of their own.
const FIRST: &str = "first";
/// For the last child of a conversation to leave its folder. One that was told to end is
/// gone by then.
const LEAVING: Duration = Duration::from_secs(5);

/// Makes folders for children. What it does blocks for a moment.
#[derive(Debug)]
pub(super) struct Workspaces {
    /// None: this machine has no place for them.
    base: Option<PathBuf>,
    home: Mutex<Option<Home>>,
    /// Some folder is gone.
    left: Arc<Notify>,
}

/// The folder of this program's folders.
#[derive(Debug)]
struct Home {
    path: PathBuf,
    _lock: File,
}

/// One child's folder. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct Workspace {
    path: PathBuf,
    name: String,
    left: Arc<Notify>,
}

impl Workspaces {
    pub(super) fn new(base: Option<PathBuf>) -> Self {
        Self { base, home: Mutex::new(None), left: Arc::default() }
    }

    /// Removes what programs left behind that are no more, and ends what they started.
    pub(super) fn sweep(&self) {
        // Before others could take the usual place for a while. Without one, nobody left
        // anything either.
        let _ = self.home();
        let Some(entries) = self.base.as_ref().and_then(|base| fs::read_dir(base).ok()) else {
            return;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let unborn = name.to_string_lossy().starts_with(UNBORN) && !is_old(&path);
            if unborn || name == FIRST {
                continue;
            }
            // Held until the folder is gone.
            let _lock = match File::open(path.join(LOCK)) {
                Ok(lock) if lock.try_lock().is_ok() => Some(lock),
                // It was not removed to the end: it had one when it got its name.
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Ok(_) | Err(_) => continue,
            };
            match clear(&path).and_then(|()| fs::remove_dir_all(&path)) {
                Ok(()) => info!("removed what a killed gateway left behind"),
                Err(error) => debug!(%error, "cannot remove the leftovers of a killed gateway"),
            }
        }
    }

    /// A new folder: that of this conversation, if nobody is in it.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn open(&self, conversation: Option<&str>) -> io::Result<Workspace> {
        let home = self.home()?;
        // Somebody may be in it: then the conversation is as good as lost to the child, which
        // says so.
        let own = conversation.and_then(|of| self.make(&home, name_of(of)).ok());
        own.map_or_else(|| self.make(&home, random_name()), Ok)
    }

    /// Waits until nobody is in the folder of that conversation. The client has its answer
    /// before the child that gave it has left, and goes on at once.
    pub(super) async fn vacated(&self, conversation: &str) {
        let home = self.home.lock().as_ref().map(|home| home.path.clone());
        let Some(path) = home.map(|home| home.join(name_of(conversation))) else { return };
        let gone = async {
            loop {
                let mut left = pin!(self.left.notified());
                // Before looking: one that goes meanwhile is noticed.
                left.as_mut().enable();
                if !path.exists() {
                    return;
                }
                left.await;
            }
        };
        // Whoever stays longer is at work there.
        let _ = timeout(LEAVING, gone).await;
    }

    fn make(&self, home: &Path, name: String) -> io::Result<Workspace> {
        Workspace::make(home, name, &self.left)
    }

    fn home(&self) -> io::Result<PathBuf> {
        let mut home = self.home.lock();
        if let Some(home) = home.as_ref() {
            return Ok(home.path.clone());
        }
        let base = self.base.as_ref().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the home directory is unknown; set HOME")
        })?;
        let made = Home::first(base).map_or_else(|| Home::make(base), Ok)?;
        Ok(home.insert(made).path.clone())
    }
}

impl Home {
    /// The usual place, unless another program has it. What was left in it goes.
    fn first(base: &Path) -> Option<Self> {
        let path = base.join(FIRST);
        private_folder(&path, true).ok()?;
        let lock = private_file(&path.join(LOCK)).ok()?;
        lock.try_lock().ok()?;
        // Whoever had it may have removed it meanwhile: then this is the lock of nothing.
        let is_there = fs::metadata(path.join(LOCK))
            .is_ok_and(|there| lock.metadata().is_ok_and(|mine| same_file(&there, &mine)));
        if !is_there {
            return None;
        }
        clear(&path).ok()?;
        Some(Self { path, _lock: lock })
    }

    /// Under another name until it is locked, so that nobody takes it for a leftover.
    fn make(base: &Path) -> io::Result<Self> {
        private_folder(base, true)?;
        let name = random_name();
        let unborn = base.join(format!("{UNBORN}{name}"));
        private_folder(&unborn, false)?;
        let lock = private_file(&unborn.join(LOCK))?;
        lock.lock()?;
        let path = base.join(name);
        fs::rename(&unborn, &path)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The usual place stays: another program may be about to take it.
        if !self.path.ends_with(FIRST) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Workspace {
    /// How Cursor's program is started in it.
    pub(super) fn start<'a>(&'a self, program: &'a Program) -> Spawn<'a> {
        Spawn { program, folder: &self.path, name: &self.name, sight: Sight::Full }
    }

    fn make(home: &Path, name: String, left: &Arc<Notify>) -> io::Result<Self> {
        let path = home.join(&name);
        private_folder(&path, false)?;
        let made = Self { path, name, left: Arc::clone(left) };
        private_folder(&made.path.join(".cursor"), false)?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the child where its tools are, and what it may not do.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn furnish(&self, host: Option<&HostAddress>, own_tools: bool) -> io::Result<()> {
        let servers = match host {
            Some(host) => json!({ SERVER_NAME: {
                "url": host.url,
                "headers": { "Authorization": format!("Bearer {}", host.bearer.expose_secret()) },
            }}),
            None => json!({}),
        };
        self.write("mcp.json", &json!({ "mcpServers": servers }))?;
        if own_tools {
            return Ok(());
        }
        // A pattern without a root is about this folder, one with a root about all others.
        let deny = [
            "Shell(*)",
            "Shell(**)",
            "Read(**)",
            "Read(/**)",
            "Write(**)",
            "Write(/**)",
            "WebFetch(*)",
        ];
        let allow = [format!("Mcp({SERVER_NAME}:*)")];
        self.write("cli.json", &json!({ "permissions": { "allow": allow, "deny": deny } }))
    }

    fn write(&self, name: &str, value: &serde_json::Value) -> io::Result<()> {
        let path = self.path.join(".cursor").join(name);
        private_file(&path)?.write_all(value.to_string().as_bytes())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            debug!(%error, "cannot remove the folder of a child process");
        }
        self.left.notify_waiters();
    }
}

/// Removes the folders in there, and ends what runs in them.
fn clear(home: &Path) -> io::Result<()> {
    let inner = fs::read_dir(home)?.flatten().filter(|entry| entry.file_name() != LOCK);
    let names: Vec<_> = inner.filter_map(|run| run.file_name().into_string().ok()).collect();
    tree::end_named(&names);
    names.iter().try_for_each(|name| fs::remove_dir_all(home.join(name)))
}

#[cfg(unix)]
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Elsewhere a file that is open cannot be removed.
#[cfg(not(unix))]
fn same_file(_one: &fs::Metadata, _other: &fs::Metadata) -> bool {
    true
}

fn is_old(path: &Path) -> bool {
    let changed = fs::metadata(path).and_then(|meta| meta.modified());
    let since = changed.ok().and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    since.is_some_and(|since| (since + BIRTH).as_secs() < clock::unix_seconds())
}

/// The name of a conversation's folder, whatever characters its own has.
fn name_of(conversation: &str) -> String {
    ids::uuid_from_content([&b"folder"[..], conversation.as_bytes()])
}

fn random_name() -> String {
    random::uuid()
}

fn private_folder(path: &Path, recursive: bool) -> io::Result<()> {
    private::dir_builder().recursive(recursive).create(path)
}

fn private_file(path: &Path) -> io::Result<File> {
    private::owner_only(OpenOptions::new().write(true).create(true).truncate(true)).open(path)
}

#[cfg(test)]
#[cfg(unix)]
#[path = "workspace_tests.rs"]
mod tests;
