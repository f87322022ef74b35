//! Turns that run in a child process: Cursor's CLI.
//!
//! A turn gets a [`Link`] to a task that runs one process. The task carries messages both ways
//! ([`process`]) and ends the process, with everything that it started, when the turn no longer
//! needs it. Over stream-json each turn has a process of its own ([`cli`]); over ACP a process
//! serves one turn after another ([`acp`]).
//!
//! *Invariant:* a process, its folder and its room never outlive the task. Dropping any of them
//! ends it.

pub(super) mod acp;
mod arguments;
mod capture;
mod chats;
pub(super) mod cli;
mod environment;
mod find;
mod kit;
mod process;
mod spawn;
mod status;
mod tail;
mod tree;
mod trust;
mod workspace;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use ibeam_core::{
    backend::{BackendKind, Capability},
    error::{ErrorCode, TurnError},
    model::TurnRequest,
    models::ModelInfo,
    peer::LinkError,
    peer::child::{ChildPeer, ChildPlan, ChildStart, FromChild, Speaker, ToChild},
    peer::cli::listing,
};
use secrecy::SecretString;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{chats::StoredChats, kit::Kit};
pub use self::{
    find::{Program, likely},
    status::SignInGate,
    trust::check_program,
};
use super::{
    BoxFuture, Dial, Driver, DriverStats, Link, LinkPeer, LinkReceiver, LinkSender, MakeRoom, Open,
    TurnSetup,
};
use crate::{
    auth::AccessTokens,
    config::{self, Backend, Config, CursorAgent},
    tasks::Tasks,
};

/// Messages to or from a child. Few, so that a child that is not read stops writing.
const MESSAGES: usize = 16;

/// The time limit for the list of models, which the program gets from Cursor.
const MODELS_TIME: Duration = Duration::from_secs(20);

/// A protocol of the CLI, and how its processes are used.
pub(super) trait ChildProtocol: fmt::Debug + Send + Sync + 'static {
    fn kind(&self) -> BackendKind;

    /// Makes the speaker of each run.
    fn speaker(&self) -> fn() -> Box<dyn Speaker>;

    /// Gives the turn a process.
    ///
    /// # Errors
    /// No process can be started, or too many are running.
    fn open(&self, start: ChildStart) -> BoxFuture<'_, Result<ChildLink, TurnError>>;

    /// Starts processes in advance.
    fn warm_up(&self) {}

    /// Idle processes.
    #[cfg(test)]
    fn idle(&self) -> usize {
        0
    }
}

type MakeProtocol = fn(&Arc<Kit>) -> Box<dyn ChildProtocol>;

#[derive(Clone, Debug)]
pub struct ChildConfig {
    pub agent: CursorAgent,
    /// How long a turn waits for a process.
    pub queue: Duration,
    /// The configured program; without one it is searched.
    pub program: Option<Program>,
    /// The folder for the folders of children.
    pub folders: Option<PathBuf>,
    /// The limit for the text of one result.
    pub result_bytes: usize,
    /// Where the program keeps its conversations.
    chats: StoredChats,
}

impl ChildConfig {
    /// How Cursor's CLI, or its simulator, is run.
    fn of(config: &Config, simulated: bool) -> Self {
        Self {
            agent: config.cursor_agent.clone(),
            queue: config.clocks.queue,
            program: simulated.then(|| {
                let scenario = match &config.backend {
                    Backend::Sim { scenario } => scenario.as_deref(),
                    Backend::Cursor => None,
                };
                Program::simulated(scenario, &config.simulator)
            }),
            folders: config::runs_dir(),
            result_bytes: config.tools.result_bytes,
            chats: StoredChats::of(|name| std::env::var_os(name), simulated),
        }
    }
}

/// Cursor's CLI on this machine: the program, and its own sign-in. Clones share it.
#[derive(Clone, Debug)]
pub struct CursorCli {
    kit: Arc<Kit>,
    gate: SignInGate,
}

impl CursorCli {
    /// The CLI of these settings, or its simulator.
    #[must_use]
    pub fn of(config: &Config, simulated: bool, tasks: &Tasks) -> Self {
        Self::new(ChildConfig::of(config, simulated), tasks)
    }

    fn new(config: ChildConfig, tasks: &Tasks) -> Self {
        let kit = Arc::new(Kit::new(config, tasks));
        let gate = SignInGate::new(&kit);
        Self { kit, gate }
    }

    /// The program that is run.
    ///
    /// # Errors
    /// It was not found; the error suggests a fix.
    pub async fn program(&self) -> Result<Program, TurnError> {
        self.kit.program().await.cloned()
    }

    /// The account that it is signed in to.
    ///
    /// # Errors
    /// It is not signed in, or does not report it.
    pub async fn account(&self) -> Result<String, TurnError> {
        self.gate.account().await
    }
}

/// Runs turns in Cursor's CLI.
#[derive(Debug)]
pub(super) struct ChildDriver {
    cli: CursorCli,
    protocol: Box<dyn ChildProtocol>,
    result_bytes: usize,
}

impl ChildDriver {
    fn new(config: ChildConfig, protocol: MakeProtocol, tasks: &Tasks) -> Self {
        let result_bytes = config.result_bytes;
        let cli = CursorCli::new(config, tasks);
        Self { protocol: protocol(&cli.kit), cli, result_bytes }
    }

    /// The driver, and the sign-in of the CLI.
    fn open(
        config: &Config,
        protocol: MakeProtocol,
        simulated: bool,
        tasks: &Tasks,
    ) -> (Self, AccessTokens) {
        let driver = Self::new(ChildConfig::of(config, simulated), protocol, tasks);
        let tokens = AccessTokens::delegated(driver.cli.gate.clone(), tasks);
        (driver, tokens)
    }

    async fn list(&self) -> Result<Vec<ModelInfo>, TurnError> {
        let said = self.cli.kit.ask(&["models"], MODELS_TIME).await?;
        let models = listing::models(&said.stdout, self.takes_images()).list.models().to_vec();
        if said.code != Some(0) || models.is_empty() {
            let text = "`cursor-agent models` gave no list. Run it by hand to see why.";
            return Err(TurnError::new(ErrorCode::UpstreamError, text).cause(said.stderr));
        }
        Ok(models)
    }

    fn takes_images(&self) -> bool {
        self.kind().has(Capability::Images)
    }
}

pub(crate) type ChildLink = Link<ChildPeer>;

impl LinkPeer for ChildPeer {
    type Sender = ChildSender;
    type Receiver = ChildReceiver;
}

impl Dial for ChildDriver {
    type Peer = ChildPeer;

    fn plan(&self, _: &TurnRequest, turn: TurnSetup) -> ChildPlan {
        let TurnSetup { model, models, conversation_id, kept, setup: _, owner } = turn;
        ChildPlan {
            speaker: self.protocol.speaker(),
            model: listing::spelled(&model, models.as_deref()),
            conversation_id,
            images: self.takes_images(),
            result_bytes: self.result_bytes,
            kept,
            owner,
        }
    }

    fn open(&self, open: Open<Box<ChildStart>>) -> BoxFuture<'_, Result<ChildLink, LinkError>> {
        Box::pin(async {
            self.protocol.open(*open.peer).await.map_err(|error| LinkError::Fault(Box::new(error)))
        })
    }
}

impl Driver for ChildDriver {
    fn models(&self, _: SecretString) -> BoxFuture<'_, Result<Vec<ModelInfo>, TurnError>> {
        Box::pin(self.list())
    }

    fn kind(&self) -> BackendKind {
        self.protocol.kind()
    }

    fn warm_up(&self) {
        self.cli.kit.sweep();
        self.cli.gate.look();
        self.protocol.warm_up();
    }

    fn on_crowded(&self, make_room: MakeRoom) {
        self.cli.kit.on_crowded(make_room);
    }

    fn stats(&self) -> DriverStats {
        DriverStats { children: self.cli.kit.running(), ..DriverStats::default() }
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
    /// The turn no longer needs the child.
    pub(crate) kill: CancellationToken,
}

impl ChildEnd {
    /// Sends the turn a message, unless it is gone.
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
