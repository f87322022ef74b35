//! The task that owns one turn: it carries out what the turn machine asks for and
//! passes events on, leg after leg. It decides nothing about the protocol.

mod bridged;
mod doze;
mod legs;
mod link;
mod visits;

use std::{pin::Pin, sync::Arc, time::Duration};

use ibeam_core::{
    agent::AgentPeer,
    child::ChildPeer,
    controls::Controls,
    error::{ErrorCode, TurnError},
    leg::Leg,
    model::{ToolResult, ids::SessionId},
    models::Family,
    peer::{InMessage as _, LinkError},
    turn::{Command, TurnState},
};
use secrecy::SecretString;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, Sleep, sleep},
};
use tracing::{Instrument as _, warn};

pub(crate) use self::bridged::Bridged;
use self::{
    doze::{Doze, LOOK_AFTER},
    legs::ServedLeg,
    link::{OpenFuture, Opened},
};
use super::{
    TurnStream,
    hub::{Hub, millis_since},
    leg_index::LegEntry,
    parked::TurnIdentity,
    readers::LegReaders,
    registry::RegistryEntry,
    retries::RetryKey,
    send_queue::SendQueue,
    visit::{self, Visit},
    writer::ConversationWriter,
};
use crate::{
    driver::{Dial, Link, LinkPeer, LinkReceiver as _, LinkSender as _},
    limits::Permit,
};

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Nothing more is read while this much waits to be sent: every message may ask
/// for an answer, and a peer that takes none must not fill our memory.
const SEND_QUEUE_BYTES: usize = 4 << 20;

/// A turn, and the driver that opens its links.
#[derive(Debug)]
pub(crate) struct Machine<W: LinkPeer> {
    pub(crate) leg: Box<Leg<W>>,
    pub(crate) driver: Arc<dyn Dial<W>>,
}

#[derive(Debug)]
pub(crate) enum AnyMachine {
    Agent(Machine<AgentPeer>),
    Child(Machine<ChildPeer>),
}

/// Everything one turn needs to run, beside its machine.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) session: SessionId,
    pub(crate) identity: TurnIdentity,
    pub(crate) family: Family,
    pub(crate) controls: Option<Box<Controls>>,
    /// Its id at the backend.
    pub(crate) model: String,
    pub(crate) writer: ConversationWriter,
    /// Under which the first leg is found by those who ask again.
    pub(crate) leg_entry: LegEntry,
    /// When the client's request came; it may have waited since.
    pub(crate) asked: Instant,
    /// Held while a reader is attached and the turn generates.
    pub(crate) permit: Permit,
    /// There when tools are offered that we execute.
    pub(crate) bridged: Option<Box<Bridged>>,
    /// What the retries of the first leg are counted under.
    pub(crate) retry_key: RetryKey,
}

impl Actor {
    /// Starts the turn. From here on every failure is an event.
    pub(crate) fn start(self, machine: AnyMachine, hub: &Arc<Hub>) -> TurnStream {
        match machine {
            AnyMachine::Agent(machine) => self.run(machine, hub),
            AnyMachine::Child(machine) => self.run(machine, hub),
        }
    }

    fn run<W: LinkPeer>(self, machine: Machine<W>, hub: &Arc<Hub>) -> TurnStream {
        let Machine { leg, driver } = machine;
        let Self {
            session,
            identity,
            family,
            model,
            controls,
            writer,
            leg_entry,
            asked,
            permit,
            bridged,
            retry_key,
        } = self;
        let (sender, mailbox) = visit::mailbox();
        let entry = hub.registry.enter(session, identity, sender.clone());
        let mut task = Task {
            leg,
            driver,
            token: None,
            family,
            model,
            started: Instant::now(),
            writer: Box::new(writer),
            permit,
            bridged,
            readers: LegReaders::default(),
            served: None,
            parked: None,
            weight: 0,
            unweighed: 0,
            doze: None,
            abandoned: None,
            ended: Vec::new(),
            sender,
            mailbox,
            stop: Box::pin(hub.stop.clone().cancelled_owned()),
            drain: Box::pin(hub.drain.clone().cancelled_owned()),
            link: None,
            opening: None,
            send_queue: SendQueue::default(),
            opens: 0,
            retry_key,
            timer: Box::pin(sleep(Duration::ZERO)),
            retired: false,
            entry,
            hub: Arc::clone(hub),
        };
        let stream = task.begin_leg(leg_entry, asked, controls);
        hub.tasks.spawn("turn", async move { task.run().await }.in_current_span());
        stream
    }
}

struct Task<W: LinkPeer> {
    hub: Arc<Hub>,
    leg: Box<Leg<W>>,
    driver: Arc<dyn Dial<W>>,
    /// What the newest stream was opened with.
    token: Option<SecretString>,
    family: Family,
    model: String,
    started: Instant,
    writer: Box<ConversationWriter>,
    permit: Permit,
    bridged: Option<Box<Bridged>>,
    readers: LegReaders,
    /// `None` between legs.
    served: Option<Box<ServedLeg>>,
    /// Since when tool results are waited for.
    parked: Option<Instant>,
    /// What the parked turn held when it was last looked at, and what came since.
    weight: usize,
    unweighed: usize,
    doze: Option<Doze>,
    /// Since when the leg has no reader.
    abandoned: Option<Instant>,
    /// Who waits for the turn to be over.
    ended: Vec<oneshot::Sender<()>>,
    sender: mpsc::Sender<Visit>,
    mailbox: mpsc::Receiver<Visit>,
    /// Both are made once: waiting anew for each event would take locks that all
    /// turns share.
    stop: Wait,
    drain: Wait,
    link: Option<Link<W>>,
    opening: Option<OpenFuture<W>>,
    send_queue: SendQueue<W::Out>,
    /// Streams asked for so far.
    opens: u32,
    /// What the retries of the present leg are counted under.
    retry_key: RetryKey,
    timer: Pin<Box<Sleep>>,
    /// No more visits are accepted.
    retired: bool,
    entry: RegistryEntry,
}

/// What woke the task.
enum Wake<W: LinkPeer> {
    /// The error: there is no token to open anything with.
    Opened(Result<Opened<W>, TurnError>),
    Heard(Option<Result<W::In, LinkError>>),
    Sent(Result<(), LinkError>),
    /// A reader made room or left.
    Readers,
    /// There is something to read for a turn that dozes.
    Called,
    Visit(Option<Visit>),
    /// A tool that we executed is done.
    Bridged(ToolResult),
    Timer,
    Drain,
    Stop,
}

impl<W: LinkPeer> Task<W> {
    async fn run(&mut self) {
        loop {
            self.carry_out();
            self.pass_on().await;
            if self.leg.turn().state() == TurnState::Done {
                if self.served.is_some() && !self.readers.is_blocked() {
                    self.leg.fail(self.unended());
                    self.pass_on().await;
                }
                // The client has its ending; the backend's goodbye must not delay it
                // nor hold a place among the turns.
                self.permit.release();
                self.last_words().await;
                // A reader that is slow still has a leg, which can be attached to.
                if self.served.is_none() {
                    self.dissolve().await;
                    if self.readers.is_empty() {
                        break;
                    }
                }
            }
            self.arm();
            let wake = self.wait().await;
            self.handle(wake);
        }
        let drift = self.leg.turn().drift();
        if !drift.is_empty() {
            self.entry.drifted(&drift);
            warn!(?drift, "Cursor sent unknown protocol messages; the answer is not affected");
        }
    }

    /// Does what the machine asks for.
    fn carry_out(&mut self) {
        while let Some(command) = self.leg.turn_mut().poll_command() {
            match command {
                Command::Open(spec) => self.open(spec),
                Command::Send(message) => self.send_queue.push(message),
                // The last stream gets its last words once the client was served.
                Command::Close { cancel: true } if self.leg.turn().state() == TurnState::Done => {}
                Command::Close { .. } => self.drop_link(),
            }
        }
    }

    /// Sets the timer to the earliest thing that is due.
    fn arm(&mut self) {
        let patience = self.hub.patience;
        let turn =
            self.leg.turn().poll_deadline().map(|at| self.started + Duration::from_millis(at.0));
        let readers = self.readers.deadline(patience.client_stall);
        let abandoned = self.abandoned.map(|since| since + patience.cancel_grace);
        let parked = self.parked.map(|since| since + patience.parked);
        // With no deadline at all the other branches wake us.
        let far = || Instant::now() + Duration::from_secs(3600);
        let look = self.doze.as_ref().map(|doze| doze.looked + LOOK_AFTER);
        let due = [turn, readers, abandoned, parked, look].into_iter().flatten().min();
        let due = due.unwrap_or_else(far);
        if self.timer.deadline() != due || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
    }

    /// Whether more may be read: the readers have room for it, and the backend takes what we
    /// answer.
    fn reads(&self) -> bool {
        !self.readers.is_blocked() && self.send_queue.bytes < SEND_QUEUE_BYTES
    }

    /// The order matters: what is to be sent goes before what is to be read, and
    /// the common before the rare.
    async fn wait(&mut self) -> Wake<W> {
        let (reads, dozes) = (self.reads(), self.doze.is_some());
        let (tx, rx) = match self.link.as_mut() {
            Some(Link { tx, rx }) => (Some(&*tx), Some(rx)),
            None => (None, None),
        };
        let opening = self.opening.as_mut();
        let bridged = self.bridged.as_mut();
        let next = self.send_queue.messages.front().cloned();
        tokio::select! {
            biased;
            sent = async {
                match (tx, next) {
                    (Some(tx), Some(message)) => tx.send(message).await,
                    _ => std::future::pending().await,
                }
            } => Wake::Sent(sent),
            chunk = async {
                match rx {
                    Some(rx) if reads && !dozes => rx.next().await,
                    Some(rx) if !dozes => match rx.hold().await {},
                    _ => std::future::pending().await,
                }
            } => Wake::Heard(chunk),
            () = self.readers.changed() => Wake::Readers,
            () = async {
                match &self.doze {
                    Some(doze) => doze.called.notified().await,
                    None => std::future::pending().await,
                }
            } => Wake::Called,
            visit = self.mailbox.recv(), if !self.retired => Wake::Visit(visit),
            opened = async {
                match opening {
                    Some(opening) => opening.await,
                    None => std::future::pending().await,
                }
            } => Wake::Opened(opened),
            result = async {
                match bridged {
                    Some(bridged) => bridged.next().await,
                    None => std::future::pending().await,
                }
            } => Wake::Bridged(result),
            () = self.timer.as_mut() => Wake::Timer,
            () = self.drain.as_mut(), if self.parked.is_some() => Wake::Drain,
            () = self.stop.as_mut(), if self.leg.turn().state() != TurnState::Done => Wake::Stop,
        }
    }

    fn handle(&mut self, wake: Wake<W>) {
        let now = millis_since(self.started);
        match wake {
            Wake::Opened(Ok(Opened { token, link })) => {
                self.opening = None;
                self.token = Some(token);
                match link {
                    Ok(link) => {
                        self.link = Some(link);
                        self.mark(|timing| &mut timing.opened);
                        self.leg.turn_mut().on_opened(now);
                    }
                    Err(error) => self.leg.turn_mut().on_link_error(&error, now),
                }
            }
            Wake::Opened(Err(error)) => {
                self.opening = None;
                self.leg.turn_mut().abort(error);
            }
            Wake::Heard(Some(Ok(message))) => {
                self.entry.heard();
                self.mark(|timing| &mut timing.first_frame);
                let size = message.bytes();
                self.leg.turn_mut().on_message(message, now);
                self.weigh(size);
            }
            Wake::Heard(Some(Err(error))) => {
                self.link = None;
                self.leg.turn_mut().on_link_error(&error, now);
            }
            Wake::Heard(None) => {
                self.link = None;
                self.leg.turn_mut().on_eof(now);
            }
            Wake::Sent(Ok(())) => self.send_queue.sent(),
            // The reading half reports why; it has the status and the reset reason.
            Wake::Sent(Err(_)) => self.send_queue = SendQueue::default(),
            Wake::Readers => self.look_for_readers(),
            Wake::Called => self.catch_up(),
            Wake::Visit(Some(visit)) => self.on_visit(visit),
            Wake::Visit(None) => self.retired = true,
            Wake::Bridged(result) => self.on_bridged(result),
            Wake::Timer => self.on_timer(),
            Wake::Drain => self.end_parked(|_| (), "ibeam is shutting down"),
            Wake::Stop if self.parked.is_some() => {
                self.end_parked(|_| (), "ibeam is shutting down");
            }
            Wake::Stop => {
                let text = "ibeam is shutting down. Send the request again once it is back.";
                self.leg.turn_mut().abort(TurnError::new(ErrorCode::Unavailable, text));
            }
        }
    }

    fn on_timer(&mut self) {
        let (at, patience) = (Instant::now(), self.hub.patience);
        if self.readers.cut_stalled(patience.client_stall) && self.served.is_some() {
            // There is no hurry with someone who left, but this one had its time. Calls
            // that it did not take yet can still be asked for.
            if self.readers.count() == 0 && self.leg.turn().state() != TurnState::AwaitingTools {
                self.leg.turn_mut().cancel();
            }
        }
        if self.abandoned.is_some_and(|since| at >= since + patience.cancel_grace) {
            self.leg.turn_mut().cancel();
        }
        if self.parked.is_some_and(|since| at >= since + patience.parked) {
            self.end_parked(|fates| fates.expired += 1, "no tool results arrived in time");
        }
        self.catch_up();
        let now = millis_since(self.started);
        if self.leg.turn().poll_deadline().is_some_and(|due| now >= due) {
            self.leg.turn_mut().on_timeout(now);
        }
        self.fall_asleep();
    }
}

#[cfg(test)]
mod child_tests;

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand of them may be parked.
    #[test]
    fn a_task_is_small() {
        let size = size_of::<Task<AgentPeer>>().max(size_of::<Task<ChildPeer>>());
        assert!(size <= 640, "{size}");
    }
}
