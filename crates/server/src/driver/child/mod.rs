//! Turns that run in a child process: Cursor's CLI.
//!
//! A turn gets a [`Link`] to a task that looks after one process: it carries what the two
//! say to each other ([`process`]), and ends the process with everything it started when
//! the turn wants no more of it. Over stream-json each turn has a process of its own
//! ([`run`]); over ACP a process serves one turn after another ([`pool`]).
//!
//! *Invariant:* a process, its folder and its room outlive the task by nothing. Whoever
//! drops any of them ends it.

mod arguments;
mod capture;
mod environment;
mod find;
mod kit;
mod pool;
mod process;
mod run;
mod session;
mod spawn;
mod status;
mod tail;
mod tree;
mod trust;
mod workspace;

use std::{path::PathBuf, sync::Arc, time::Duration};

use ibeam_core::{
    backend::BackendKind,
    error::{ErrorCode, TurnError},
    models::ModelInfo,
    peer::LinkError,
    peer::child::{ChildPeer, ChildStart, FromChild, ToChild},
    peer::cli::listing,
};
use secrecy::SecretString;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::{
    find::{Program, likely},
    status::SignInGate,
    trust::check_program,
};
use self::{kit::Kit, pool::ChildPool};
use super::{
    BoxFuture, Dial, Driver, DriverStats, Link, LinkPeer, LinkReceiver, LinkSender, MakeRoom, Open,
};
use crate::{config::CursorAgent, tasks::Tasks};

/// Messages on their way to or from a child. Few: a child that is not read stops writing.
const MESSAGES: usize = 16;

/// For the list of models. The program asks Cursor for it.
const MODELS_TIME: Duration = Duration::from_secs(20);

/// How the child is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// One process for each turn, which answers in stream-json.
    Cli,
    /// Processes that stay.
    Acp,
}

#[derive(Clone, Debug)]
pub struct ChildConfig {
    pub kind: ChildKind,
    pub agent: CursorAgent,
    /// How long a turn waits for a process.
    pub queue: Duration,
    /// In place of the one that would be looked for.
    pub program: Option<Program>,
    /// Where the children's folders are.
    pub folders: Option<PathBuf>,
}

/// Runs turns in Cursor's CLI.
#[derive(Debug)]
pub struct ChildDriver {
    kit: Arc<Kit>,
    kind: ChildKind,
    pool: ChildPool,
    gate: SignInGate,
}

impl ChildDriver {
    #[must_use]
    pub fn new(config: ChildConfig, tasks: &Tasks) -> Self {
        let kind = config.kind;
        let kit = Arc::new(Kit::new(config, tasks));
        let (pool, gate) = (ChildPool::new(&kit), SignInGate::new(&kit));
        Self { kit, kind, pool, gate }
    }

    /// The program that is run.
    ///
    /// # Errors
    /// It is nowhere. Says what helps.
    pub async fn program(&self) -> Result<Program, TurnError> {
        self.kit.program().await.cloned()
    }

    /// Who is signed in to the CLI.
    #[must_use]
    pub fn gate(&self) -> SignInGate {
        self.gate.clone()
    }

    async fn start(&self, start: ChildStart) -> Result<ChildLink, TurnError> {
        match self.kind {
            ChildKind::Cli => run::open(&self.kit, start).await,
            ChildKind::Acp => self.pool.open(start).await,
        }
    }

    async fn list(&self) -> Result<Vec<ModelInfo>, TurnError> {
        let said = self.kit.ask(&["models"], MODELS_TIME).await?;
        // Over stream-json the prompt is text, over ACP it is not only that.
        let images = self.kind == ChildKind::Acp;
        let models = listing::models(&said.stdout, images).list.models().to_vec();
        if said.code != Some(0) || models.is_empty() {
            let text = "`cursor-agent models` gave no list. Run it by hand to see why.";
            return Err(TurnError::new(ErrorCode::UpstreamError, text).cause(said.stderr));
        }
        Ok(models)
    }
}

pub(crate) type ChildLink = Link<ChildPeer>;

impl LinkPeer for ChildPeer {
    type Sender = ChildSender;
    type Receiver = ChildReceiver;
}

impl Dial<ChildPeer> for ChildDriver {
    fn open(&self, open: Open<Box<ChildStart>>) -> BoxFuture<'_, Result<ChildLink, LinkError>> {
        Box::pin(async {
            self.start(*open.peer).await.map_err(|error| LinkError::Fault(Box::new(error)))
        })
    }
}

impl Driver for ChildDriver {
    fn models(&self, _: SecretString) -> BoxFuture<'_, Result<Vec<ModelInfo>, TurnError>> {
        Box::pin(self.list())
    }

    fn kind(&self) -> BackendKind {
        match self.kind {
            ChildKind::Cli => BackendKind::Cli,
            ChildKind::Acp => BackendKind::Acp,
        }
    }

    fn warm_up(&self) {
        self.kit.sweep();
        self.gate.look();
        if self.kind == ChildKind::Acp {
            self.pool.warm_up();
        }
    }

    fn on_crowded(&self, make_room: MakeRoom) {
        self.kit.on_crowded(make_room);
    }

    fn stats(&self) -> DriverStats {
        DriverStats { children: self.kit.running(), ..DriverStats::default() }
    }
}

#[derive(Debug)]
pub struct ChildSender {
    messages: mpsc::Sender<ToChild>,
    kill: CancellationToken,
}

#[derive(Debug)]
pub struct ChildReceiver(mpsc::Receiver<FromChild>);

/// The end of a link that the task of a child holds.
#[derive(Debug)]
pub(crate) struct ChildEnd {
    /// Closed once the turn has dropped its half.
    pub(crate) told: mpsc::Receiver<ToChild>,
    pub(crate) heard: mpsc::Sender<FromChild>,
    /// The turn wants no more of the child.
    pub(crate) kill: CancellationToken,
}

impl ChildEnd {
    /// Tells the turn something, unless it is gone.
    async fn tell(&self, message: FromChild) {
        tokio::select! {
            _ = self.heard.send(message) => {}
            () = self.kill.cancelled() => {}
        }
    }
}

/// The two ends of a link to a child.
pub(crate) fn link() -> (ChildLink, ChildEnd) {
    let (to_child, told) = mpsc::channel(MESSAGES);
    let (heard, from_child) = mpsc::channel(MESSAGES);
    let kill = CancellationToken::new();
    let sender = ChildSender { messages: to_child, kill: kill.clone() };
    let link = Link { tx: sender, rx: ChildReceiver(from_child) };
    (link, ChildEnd { told, heard, kill })
}

impl LinkSender<ToChild> for ChildSender {
    async fn send(&self, message: ToChild) -> Result<(), LinkError> {
        let gone = |_| LinkError::Reset("the child is gone".to_owned());
        self.messages.send(message).await.map_err(gone)
    }

    fn hand_over(&self, message: ToChild) -> bool {
        self.messages.try_send(message).is_ok()
    }

    fn cancel(&self) {
        self.kill.cancel();
    }
}

impl LinkReceiver<FromChild> for ChildReceiver {
    async fn next(&mut self) -> Option<Result<FromChild, LinkError>> {
        self.0.recv().await.map(Ok)
    }
}

#[cfg(test)]
#[cfg(unix)]
#[path = "child_tests/mod.rs"]
mod tests;
