//! What every child needs: the program, a process slot, a folder, and a room for its tools.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    limits::{GateRules, Quota, SlotOwner, SlotRequest, Why},
    model::Tool,
    peer::child::{ChildOwner, ChildStart, HostAddress},
};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{
    ChildConfig,
    arguments::Terms,
    capture::{Asking, Captured, capture},
    chats::StoredChats,
    find::{Finder, Program},
    workspace::{Workspace, Workspaces},
};
use crate::{
    config::CursorAgent,
    driver::MakeRoom,
    limits::{Permit, PermitClaim, TurnSlots, owner},
    mcp::host::{ToolHost, ToolRoom},
    tasks::Tasks,
};

/// How long an evicted turn may take to release its slot.
const LEAVING: Duration = Duration::from_secs(3);
/// The pause before another turn is evicted.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Kit {
    pub(super) settings: CursorAgent,
    pub(super) workspaces: Arc<Workspaces>,
    /// One slot for each process.
    pub(super) places: TurnSlots,
    pub(super) queue: Duration,
    pub(super) tasks: Tasks,
    finder: Finder,
    folders: Option<PathBuf>,
    chats: StoredChats,
    host: ToolHost,
    make_room: OnceLock<MakeRoom>,
    /// The warning that the program ignores its tools has been given.
    pub(super) warned: AtomicBool,
}

impl Kit {
    pub(super) fn new(config: ChildConfig, tasks: &Tasks) -> Self {
        let ChildConfig { agent, queue, program, folders, chats, .. } = config;
        let named = program.or_else(|| agent.bin.as_ref().map(Program::at));
        Self {
            workspaces: Arc::new(Workspaces::new(folders.clone())),
            // The turn slots bound how many wait.
            places: TurnSlots::new(GateRules {
                total: agent.children.max(1),
                reserve: 0,
                waiting: usize::MAX,
            }),
            queue,
            tasks: tasks.clone(),
            finder: Finder::new(named, folders.clone(), tasks),
            folders,
            chats,
            host: ToolHost::new(tasks, agent.children),
            make_room: OnceLock::new(),
            warned: AtomicBool::new(false),
            settings: agent,
        }
    }

    /// Running processes, with or without a turn.
    pub(super) fn running(&self) -> usize {
        self.settings.children.max(1).saturating_sub(self.places.free())
    }

    pub(super) async fn program(&self) -> Result<&Program, TurnError> {
        self.finder.find().await
    }

    /// What the program prints for these arguments.
    pub(super) async fn ask(&self, args: &[&str], limit: Duration) -> Result<Captured, TurnError> {
        let program = self.program().await?;
        let asking = Asking { program, folders: self.folders.as_deref(), tasks: &self.tasks };
        capture(asking.known(), args, limit).await
    }

    /// A process slot; waits for one if need be.
    pub(super) async fn place(&self, owner: ChildOwner) -> Result<Permit, TurnError> {
        tokio::select! {
            biased;
            place = self.next_place(owner) => place.ok_or_else(|| self.full(owner)),
            () = self.crowded(owner, Instant::now() + self.queue) => Err(self.full(owner)),
        }
    }

    /// A place for a process, however long that takes. Owners get them in turn.
    pub(super) async fn next_place(&self, owner: ChildOwner) -> Option<Permit> {
        self.places.queue(claim(owner), SlotRequest::New).await
    }

    pub(super) fn on_crowded(&self, make_room: MakeRoom) {
        // The program has one registry.
        let _ = self.make_room.set(make_room);
    }

    /// Makes room for a waiting turn: evicts turns that wait for their tools, one by one. They lose
    /// only time, and may never be resumed. Returns when the wait must end.
    pub(super) async fn crowded(&self, owner: ChildOwner, until: Instant) {
        info!(
            children = self.settings.children,
            "all `cursor-agent` processes are in use; a request waits (cursor_agent.max_processes)"
        );
        while Instant::now() < until {
            // One that has its share only makes room for itself.
            let any = self.places.why(claim(owner)) == Some(Why::Total);
            let made = self.make_room.get().is_some_and(|make_room| {
                make_room.now(Some(owner.scope)) || (any && make_room.now(None))
            });
            let pause = if made { LEAVING } else { LOOK_AGAIN };
            sleep_until(until.min(Instant::now() + pause)).await;
        }
    }

    pub(super) fn full(&self, owner: ChildOwner) -> TurnError {
        if self.places.why(claim(owner)) == Some(Why::Share) {
            let text = "This key has used its share of the `cursor-agent` processes; the \
                        remaining ones are reserved for other keys. Try again shortly, or raise \
                        `cursor_agent.max_processes`.";
            return TurnError::new(ErrorCode::Overloaded, text);
        }
        let text = format!(
            "All {} `cursor-agent` processes are in use, parked turns included. Try again shortly, \
             or raise `cursor_agent.max_processes`.",
            self.settings.children
        );
        TurnError::new(ErrorCode::Overloaded, text)
    }

    /// A room for these tools, if there are any.
    pub(super) async fn room(&self, tools: &Arc<[Tool]>) -> Result<Option<ToolRoom>, TurnError> {
        if tools.is_empty() {
            return Ok(None);
        }
        let room = self.host.open(Arc::clone(tools)).await;
        room.map(Some).map_err(|error| failed("Cannot host the tools for it", &error))
    }

    /// Warns if a turn is over and its child never looked at the tools it was offered.
    pub(super) fn look_back(&self, room: Option<&ToolRoom>) {
        let Some(room) = room.filter(|room| !room.seen()) else { return };
        let crowded = room.was_crowded();
        // A property of the program is reported once; other causes are reported each time.
        if crowded || !self.warned.swap(true, Ordering::Relaxed) {
            warn!("{}", unseen(crowded));
        }
    }

    /// A new folder: that of the conversation, if it is free.
    pub(super) async fn workspace(&self, of: Option<&str>) -> Result<Workspace, TurnError> {
        let (workspaces, of) = (Arc::clone(&self.workspaces), of.map(str::to_owned));
        let made = self.tasks.spawn_blocking(move || workspaces.open(of.as_deref())).await;
        flat(made).map_err(|error| failed("Cannot create its working folder", &error))
    }

    /// Whether the program may have this conversation for that folder.
    pub(super) async fn may_have(&self, id: &str, workspace: &Workspace) -> bool {
        let (chats, id, path) = (self.chats.clone(), id.to_owned(), workspace.path().to_owned());
        let look = move || chats.may_have(&id, &path);
        self.tasks.spawn_blocking(look).await.unwrap_or(true)
    }

    /// Writes the settings of the tools into the child's folder.
    pub(super) async fn furnish(
        &self,
        workspace: &Arc<Workspace>,
        host: Option<HostAddress>,
    ) -> Result<(), TurnError> {
        let (workspace, own_tools) = (Arc::clone(workspace), self.settings.own_tools);
        let work = move || workspace.furnish(host.as_ref(), own_tools);
        let written = self.tasks.spawn_blocking(work).await;
        flat(written).map_err(|error| failed("Cannot write to its working folder", &error))
    }

    /// Removes a folder off the event loop.
    pub(super) async fn remove(&self, workspace: Arc<Workspace>) {
        let _ = self.tasks.spawn_blocking(move || drop(workspace)).await;
    }

    /// Removes what killed programs left behind.
    pub(super) fn sweep(&self) {
        let workspaces = Arc::clone(&self.workspaces);
        self.tasks.spawn_blocking(move || workspaces.sweep());
    }

    /// The user's folder that the turn works on.
    pub(super) fn beside(&self, start: &ChildStart) -> Option<PathBuf> {
        let asked = start.workspace.as_ref().map(PathBuf::from);
        asked.or_else(|| self.settings.workspace.clone())
    }

    pub(super) fn terms(&self, workspace: &Workspace, beside: Option<PathBuf>) -> Terms {
        let own_tools = self.settings.own_tools;
        Terms { workspace: workspace.path().to_path_buf(), beside, own_tools }
    }
}

/// How a process counts for an owner.
pub(super) fn claim(of: ChildOwner) -> PermitClaim {
    let quota = Quota { limit: usize::MAX, assured: of.assured };
    PermitClaim { owner: owner(&of.scope), quota }
}

/// How a process counts that has no turn: for none of those who share the places.
pub(super) const UNUSED: PermitClaim =
    PermitClaim { owner: SlotOwner(0), quota: Quota::alone(usize::MAX) };

/// Possible reasons why a child did not look at its tools, the fixable ones first.
const fn unseen(crowded: bool) -> &'static str {
    if crowded {
        "other programs on this machine took the connections to the hosted tools, so that of \
         `cursor-agent` may have been closed; it answered without the tools of the client"
    } else {
        "`cursor-agent` answered without listing the tools of the client: this build seems to \
         ignore MCP servers. Update it with `cursor-agent update`, check `cursor-agent mcp list`, \
         or use `--backend agent`."
    }
}

/// Identifies a set of tools.
pub(super) fn digest(tools: &[Tool]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tool in tools {
        let schema = tool.schema.as_ref().map_or("", |schema| schema.get());
        for part in [tool.name.as_str(), tool.description.as_str(), schema] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().into()
}

fn flat<T>(done: Result<io::Result<T>, tokio::task::JoinError>) -> io::Result<T> {
    done.map_err(io::Error::other).flatten()
}

fn failed(what: &str, error: &io::Error) -> TurnError {
    let text = format!("{what}: {error}.");
    TurnError::new(ErrorCode::Unavailable, format!("`cursor-agent` cannot be run. {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_unseen_tools_is_named_first() {
        let (crowded, ignored) = (unseen(true), unseen(false));
        let cause = "other programs on this machine took the connections to the hosted tools";
        assert!(crowded.starts_with(cause), "{crowded}");
        assert!(crowded.ends_with("it answered without the tools of the client"), "{crowded}");
        // Another build would not help here.
        assert!(!crowded.contains("update") && !crowded.contains("build"), "{crowded}");
        let cause = "`cursor-agent` answered without listing the tools of the client";
        assert!(ignored.starts_with(cause), "{ignored}");
        assert!(ignored.contains("`cursor-agent update`") && ignored.contains("--backend agent"));
        assert!(!crowded.contains("  ") && !ignored.contains("  "));
    }
}
