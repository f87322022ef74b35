//! The folders that children work in.
//!
//! Each child has a folder of its own. It is empty except for two files: one names the hosted
//! tools, the other the child's permissions. Other users cannot look into it, and it is deleted
//! with the child.
//!
//! A child never works directly in a folder of the user. The CLI reads MCP servers and permissions
//! from `.cursor` in its working folder, so hosting tools there would change the user's files, and
//! two turns at once would overwrite each other's settings. The user's folder is given as an
//! additional one (`--add-dir`).
//!
//! The CLI finds its conversations by the folder in which they were started. So the name of a
//! folder is derived from its conversation, and a user's first program always uses the same parent
//! folder: a conversation continues in its own folder, also after a restart.
//!
//! All folders of one program are in one parent folder, whose lock it holds. What a killed program
//! left behind is not locked, and the next program that starts removes it.

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
/// How long a folder without a lock is left alone.
const UNBORN: &str = "new-";
/// A folder that is not locked within this time never will be.
const BIRTH: Duration = Duration::from_secs(60 * 60);
/// The parent folder of the first program; programs beside it have names of their own.
const FIRST: &str = "first";
/// How long to wait until the last child of a conversation leaves its folder. A child that is asked
/// to end is gone by then.
const LEAVING: Duration = Duration::from_secs(5);

/// Makes folders for children. Its calls block for a moment.
#[derive(Debug)]
pub(super) struct Workspaces {
    /// `None`: this machine has no folder for them.
    base: Option<PathBuf>,
    home: Mutex<Option<Home>>,
    /// A folder was removed.
    left: Arc<Notify>,
}

/// The parent folder of this program.
#[derive(Debug)]
struct Home {
    path: PathBuf,
    _lock: File,
}

/// The folder of one child. Dropping it deletes the folder.
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

    /// Removes what dead programs left behind, and ends the processes that they started.
    pub(super) fn sweep(&self) {
        // Done before other programs can take the usual folder. If that does not exist, nothing was
        // left behind.
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
                // Its removal was interrupted: it had a lock when it got its name.
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Ok(_) | Err(_) => continue,
            };
            match clear(&path).and_then(|()| fs::remove_dir_all(&path)) {
                Ok(()) => info!("removed what a killed gateway left behind"),
                Err(error) => debug!(%error, "cannot remove the leftovers of a killed gateway"),
            }
        }
    }

    /// A new folder: that of the conversation, if it is free.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(super) fn open(&self, conversation: Option<&str>) -> io::Result<Workspace> {
        let home = self.home()?;
        // Another child may use it. Then the child cannot find its conversation, and reports that.
        let own = conversation.and_then(|of| self.make(&home, name_of(of)).ok());
        own.map_or_else(|| self.make(&home, random_name()), Ok)
    }

    /// Waits until the folder of that conversation is free. A client has its answer before the
    /// child has ended, and may continue at once.
    pub(super) async fn vacated(&self, conversation: &str) {
        let home = self.home.lock().as_ref().map(|home| home.path.clone());
        let Some(path) = home.map(|home| home.join(name_of(conversation))) else { return };
        let gone = async {
            loop {
                let mut left = pin!(self.left.notified());
                // Subscribed before the check, so that a child that leaves meanwhile is noticed.
                left.as_mut().enable();
                if !path.exists() {
                    return;
                }
                left.await;
            }
        };
        // A child that stays longer is at work there.
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
    /// The usual folder, unless another program has it. Leftovers in it are removed.
    fn first(base: &Path) -> Option<Self> {
        let path = base.join(FIRST);
        private_folder(&path, true).ok()?;
        let lock = private_file(&path.join(LOCK)).ok()?;
        lock.try_lock().ok()?;
        // Its owner may have removed it meanwhile: then this lock protects nothing.
        let is_there = fs::metadata(path.join(LOCK))
            .is_ok_and(|there| lock.metadata().is_ok_and(|mine| same_file(&there, &mine)));
        if !is_there {
            return None;
        }
        clear(&path).ok()?;
        Some(Self { path, _lock: lock })
    }

    /// It has another name until it is locked, so that it is not taken for a leftover.
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
        // The usual folder stays: another program may be about to take it.
        if !self.path.ends_with(FIRST) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

impl Workspace {
    /// How Cursor's program is started in this folder.
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

    /// Writes the files with the child's tools and permissions.
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
        // A pattern without a root applies to this folder, one with a root to all others.
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

/// Removes the folders in it, and ends the processes that run in them.
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

/// Other systems cannot remove a file that is open.
#[cfg(not(unix))]
fn same_file(_one: &fs::Metadata, _other: &fs::Metadata) -> bool {
    true
}

fn is_old(path: &Path) -> bool {
    let changed = fs::metadata(path).and_then(|meta| meta.modified());
    let since = changed.ok().and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    since.is_some_and(|since| (since + BIRTH).as_secs() < clock::unix_seconds())
}

/// The name of a conversation's folder, whatever characters the conversation's own name has.
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
