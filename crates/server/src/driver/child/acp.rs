//! The backend `acp`: processes that serve one turn after another.
//!
//! Each process has a task of its own for as long as it lives. Between turns it waits on a shelf. A
//! turn prefers the process that has its conversation open, and otherwise takes one that has none.
//! A process that crashed is no longer on the shelf.
//!
//! The tools' MCP server belongs to a conversation and is announced when the conversation is
//! opened. So an open conversation keeps its room. A turn with other tools gets a new room and
//! opens the conversation again.

use std::{
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ibeam_core::{
    backend::BackendKind,
    error::TurnError,
    model::AgentMode,
    peer::acp,
    peer::child::{ChildOwner, ChildStart, FromChild, Ready, Speaker},
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep},
};
use tracing::debug;

use super::{
    ChildDriver, ChildEnd, ChildLink, ChildProtocol, arguments,
    kit::{Kit, LOOK_AGAIN, UNUSED, claim, digest},
    link,
    process::{Over, Process},
    spawn::spawn,
    workspace::Workspace,
};
use crate::{
    auth::AccessTokens,
    config::Config,
    driver::BoxFuture,
    limits::{Permit, PermitClaim},
    mcp::host::ToolRoom,
    tasks::Tasks,
};

/// The driver, and the sign-in of the CLI.
pub(in crate::driver) fn open(
    config: &Config,
    simulated: bool,
    tasks: &Tasks,
) -> (ChildDriver, AccessTokens) {
    ChildDriver::open(config, protocol, simulated, tasks)
}

pub(super) fn protocol(kit: &Arc<Kit>) -> Box<dyn ChildProtocol> {
    Box::new(ChildPool { kit: Arc::clone(kit), shelf: Arc::default() })
}

#[derive(Clone, Debug)]
struct ChildPool {
    kit: Arc<Kit>,
    shelf: Arc<Shelf>,
}

/// Idle processes, the one that has been idle longest first.
#[derive(Debug, Default)]
struct Shelf {
    idle: Mutex<Vec<IdleChild>>,
    returned: Notify,
    /// Processes that are being started in advance.
    coming: AtomicUsize,
}

/// An idle process. Dropping it ends the process.
#[derive(Debug)]
struct IdleChild {
    place: PoolPlace,
    slot: ProcessSlot,
    job: oneshot::Sender<PoolJob>,
}

/// The permit of a process, which counts for the owner of its turn.
type ProcessSlot = Arc<Mutex<Permit>>;

/// What a turn needs of a process.
#[derive(Clone, Debug)]
struct PoolPlace {
    workspace: Arc<Workspace>,
    beside: Option<PathBuf>,
    open: Option<OpenConversation>,
}

/// What a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenConversation {
    session: String,
    tools: [u8; 32],
    /// A conversation keeps its mode. In another one it is opened again.
    mode: AgentMode,
}

/// A turn for an idle process.
#[derive(Debug)]
struct PoolJob {
    end: ChildEnd,
    /// `None`: the process has the right room, and the conversation is open.
    room: Option<Option<ToolRoom>>,
    tools: [u8; 32],
    mode: AgentMode,
}

impl ChildProtocol for ChildPool {
    fn kind(&self) -> BackendKind {
        BackendKind::Acp
    }

    fn speaker(&self) -> fn() -> Box<dyn Speaker> {
        match self.kit.settings.own_tools {
            true => || Box::new(acp::AcpSpeaker::new(acp::ToolPolicy { own_tools: true })),
            false => || Box::<acp::AcpSpeaker>::default(),
        }
    }

    fn open(&self, start: ChildStart) -> BoxFuture<'_, Result<ChildLink, TurnError>> {
        Box::pin(self.serve(start))
    }

    fn warm_up(&self) {
        self.keep_ready();
    }

    #[cfg(test)]
    fn idle(&self) -> usize {
        self.shelf.idle.lock().len()
    }
}

impl ChildPool {
    async fn serve(&self, start: ChildStart) -> Result<ChildLink, TurnError> {
        let beside = self.kit.beside(&start);
        let wanted = start.resume.clone().map(|session| {
            let tools = digest(&start.tools);
            OpenConversation { session, tools, mode: start.mode }
        });
        let link = match self.find(start.owner, beside.as_ref(), wanted.as_ref()).await? {
            FoundPlace::Idle(idle) => self.assign(idle, start, wanted.as_ref()).await?,
            FoundPlace::Room(place) => self.fresh(place, beside, start).await?,
        };
        self.keep_ready();
        Ok(link)
    }

    /// Starts processes in advance, as far as there is room for them.
    fn keep_ready(&self) {
        let beside = self.kit.settings.workspace.clone();
        if self.shelf.ready() >= self.kit.settings.warm || self.kit.tasks.is_stopping() {
            return;
        }
        let Some(place) = self.kit.places.try_acquire(UNUSED) else { return };
        let coming = Coming::new(&self.shelf);
        let pool = self.clone();
        self.kit.tasks.spawn("cursor-agent warm-up", async move {
            match pool.process(place, beside, None).await {
                Ok(worker) => {
                    pool.kit.tasks.spawn("cursor-agent acp", worker.work(None, Some(coming)));
                }
                Err(error) => debug!("cannot keep a process ready: {error}"),
            }
        });
    }

    /// A process, or room for a new one.
    async fn find(
        &self,
        owner: ChildOwner,
        beside: Option<&PathBuf>,
        wanted: Option<&OpenConversation>,
    ) -> Result<FoundPlace, TurnError> {
        let mut crowded = pin!(self.kit.crowded(owner, Instant::now() + self.kit.queue));
        let claim = claim(owner);
        loop {
            let mut returned = pin!(self.shelf.returned.notified());
            // Subscribed before the search, so that a process that becomes idle meanwhile is
            // noticed.
            returned.as_mut().enable();
            if let Some(idle) = self.shelf.take(beside, wanted, claim) {
                return Ok(FoundPlace::Idle(idle));
            }
            if let Some(place) = self.kit.places.try_acquire(claim) {
                return Ok(FoundPlace::Room(place));
            }
            // A process with another conversation can begin a new one; a process in another folder
            // must make room.
            let leaves = match self.shelf.oldest(beside, claim) {
                Some(idle) if idle.place.beside.as_ref() == beside => {
                    return Ok(FoundPlace::Idle(idle));
                }
                other => other.is_some(),
            };
            tokio::select! {
                biased;
                place = self.kit.next_place(owner) => {
                    return place.map(FoundPlace::Room).ok_or_else(|| self.kit.full(owner));
                }
                () = returned => {}
                () = async {
                    // Its slot is free in a moment, unless another turn takes it first.
                    if leaves {
                        sleep(LOOK_AGAIN).await;
                    }
                    crowded.as_mut().await;
                } => return Err(self.kit.full(owner)),
            }
        }
    }

    /// Gives a turn to an idle process.
    async fn assign(
        &self,
        idle: IdleChild,
        start: ChildStart,
        wanted: Option<&OpenConversation>,
    ) -> Result<ChildLink, TurnError> {
        let IdleChild { place, slot: _, job } = idle;
        let same = wanted.is_some() && place.open.as_ref() == wanted;
        let room = match same {
            true => None,
            false => {
                let room = self.kit.room(&start.tools).await?;
                self.kit.furnish(&place.workspace, room.as_ref().map(ToolRoom::address)).await?;
                Some(room)
            }
        };
        let (link, end) = link();
        // If the process crashed at this moment, the turn gets the error of any other crash.
        let tools = digest(&start.tools);
        let job_of_turn = PoolJob { end, room, tools, mode: start.mode };
        if job.send(job_of_turn).is_err() {
            debug!("a process exited before its turn");
        }
        Ok(link)
    }

    /// A new process for a turn.
    async fn fresh(
        &self,
        place: Permit,
        beside: Option<PathBuf>,
        start: ChildStart,
    ) -> Result<ChildLink, TurnError> {
        let room = self.kit.room(&start.tools).await?;
        let worker = self.process(place, beside, Some(&start.conversation)).await?;
        self.kit.furnish(&worker.place.workspace, room.as_ref().map(ToolRoom::address)).await?;
        let (link, end) = link();
        let tools = digest(&start.tools);
        let job = PoolJob { end, room: Some(room), tools, mode: start.mode };
        self.kit.tasks.spawn("cursor-agent acp", worker.work(Some(job), None));
        Ok(link)
    }

    async fn process(
        &self,
        permit: Permit,
        beside: Option<PathBuf>,
        conversation: Option<&str>,
    ) -> Result<Worker, TurnError> {
        let program = self.kit.program().await?;
        let workspace = Arc::new(self.kit.workspace(conversation).await?);
        self.kit.furnish(&workspace, None).await?;
        let args = arguments::acp(&self.kit.terms(&workspace, beside.clone()));
        let tasks = &self.kit.tasks;
        let start = workspace.start(program);
        let (child, pipes) = spawn(start, &args, tasks)?;
        Ok(Worker {
            kit: Arc::clone(&self.kit),
            shelf: Arc::clone(&self.shelf),
            process: Process::new(child, pipes, tasks),
            place: PoolPlace { workspace, beside, open: None },
            room: None,
            greeted: false,
            slot: Arc::new(Mutex::new(permit)),
        })
    }
}

enum FoundPlace {
    Idle(IdleChild),
    Room(Permit),
}

/// A process that is about to be idle. Dropped once it is, or when it fails to start.
struct Coming(Arc<Shelf>);

impl Coming {
    fn new(shelf: &Arc<Shelf>) -> Self {
        shelf.coming.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shelf))
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.coming.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shelf {
    /// Processes that any turn can have, now or in a moment.
    fn ready(&self) -> usize {
        let idle = self.idle.lock();
        let free = idle.iter().filter(|idle| idle.place.open.is_none()).count();
        free + self.coming.load(Ordering::Relaxed)
    }

    /// The process that has the turn's conversation open, or one with no open conversation. It
    /// counts for the turn's owner, if that may have one.
    fn take(
        &self,
        beside: Option<&PathBuf>,
        wanted: Option<&OpenConversation>,
        claim: PermitClaim,
    ) -> Option<IdleChild> {
        let mut idle = self.idle.lock();
        let fits = |idle: &IdleChild| idle.place.beside.as_ref() == beside;
        let session = |idle: &IdleChild| idle.place.open.as_ref().map(|open| open.session.clone());
        let wanted = wanted.map(|wanted| wanted.session.clone());
        let at = match &wanted {
            Some(_) => idle.iter().position(|idle| fits(idle) && session(idle) == wanted),
            None => None,
        };
        let at =
            at.or_else(|| idle.iter().position(|idle| fits(idle) && idle.place.open.is_none()));
        at.and_then(|at| claimed(&mut idle, at, claim))
    }

    /// The process that has been idle longest, preferably one that fits.
    fn oldest(&self, beside: Option<&PathBuf>, claim: PermitClaim) -> Option<IdleChild> {
        let mut idle = self.idle.lock();
        let at = idle.iter().position(|idle| idle.place.beside.as_ref() == beside).unwrap_or(0);
        claimed(&mut idle, at, claim)
    }

    fn put(&self, place: PoolPlace, slot: &ProcessSlot) -> oneshot::Receiver<PoolJob> {
        let (job, jobs) = oneshot::channel();
        // Nothing is wanted of the other keys for it: this is always granted.
        slot.lock().give_to(UNUSED);
        self.idle.lock().push(IdleChild { place, slot: Arc::clone(slot), job });
        self.returned.notify_waiters();
        jobs
    }

    /// Takes the process off the shelf. False: a turn was faster.
    fn withdraw(&self, workspace: &Arc<Workspace>) -> bool {
        let mut idle = self.idle.lock();
        let at = idle.iter().position(|idle| Arc::ptr_eq(&idle.place.workspace, workspace));
        at.map(|at| idle.remove(at)).is_some()
    }
}

/// Takes one off the shelf for that owner.
fn claimed(idle: &mut Vec<IdleChild>, at: usize, claim: PermitClaim) -> Option<IdleChild> {
    let given = idle.get(at)?.slot.lock().give_to(claim);
    given.then(|| idle.remove(at))
}

/// Runs one process. If the task is dropped, the fields go in this order.
struct Worker {
    kit: Arc<Kit>,
    shelf: Arc<Shelf>,
    process: Process,
    place: PoolPlace,
    room: Option<ToolRoom>,
    greeted: bool,
    slot: ProcessSlot,
}

impl Worker {
    async fn work(mut self, first: Option<PoolJob>, mut coming: Option<Coming>) {
        let mut next = first;
        while let Some(job) = match next.take() {
            Some(job) => Some(job),
            None => self.idle(coming.take()).await,
        } {
            if !self.turn(job).await {
                break;
            }
        }
        let Self { kit, mut process, place, room, slot, .. } = self;
        // A waiting turn need not wait until this process is gone.
        drop((slot, room));
        process.end().await;
        drop(process);
        kit.remove(place.workspace).await;
    }

    /// Waits for a turn. `None`: no turn can come any more.
    async fn idle(&mut self, coming: Option<Coming>) -> Option<PoolJob> {
        let mut jobs = self.shelf.put(self.place.clone(), &self.slot);
        drop(coming);
        tokio::select! {
            biased;
            job = &mut jobs => return job.ok(),
            () = self.kit.tasks.stopped() => {}
            () = self.process.rest() => debug!("an idle process exited"),
            () = sleep(self.kit.settings.idle) => debug!("ending an idle process"),
        }
        match self.shelf.withdraw(&self.place.workspace) {
            true => None,
            false => jobs.await.ok(),
        }
    }

    /// Serves one turn. False: the process cannot be used again.
    async fn turn(&mut self, job: PoolJob) -> bool {
        let PoolJob { mut end, room, tools, mode } = job;
        let open = match room {
            Some(room) => {
                self.room = room;
                None
            }
            None => self.place.open.take().map(|open| open.session),
        };
        let ready = Ready {
            workspace: self.place.workspace.path().to_string_lossy().into_owned(),
            host: self.room.as_ref().map(ToolRoom::address),
            greeted: self.greeted,
            session: open,
        };
        end.tell(FromChild::Ready(ready)).await;
        match self.process.serve(&mut end, &mut self.room).await {
            Over::Released(session) => {
                self.kit.look_back(self.room.as_ref());
                self.greeted = true;
                self.place.open = session.map(|session| OpenConversation { session, tools, mode });
                true
            }
            Over::Exited(exit) => {
                end.tell(FromChild::Exited(exit)).await;
                false
            }
            Over::Left => false,
        }
    }
}
