//! The task that owns one turn: it carries out what the turn machine asks for and
//! passes events on, leg after leg. It decides nothing about the protocol.

mod bridged;
mod doze;
mod legs;
mod link;
mod visits;

use std::{pin::Pin, sync::Arc, time::Duration};

use ibeam_core::{
    controls::Controls,
    error::{ErrorCode, TurnError},
    leg::Leg,
    model::{ToolResult, Usage, ids::SessionId},
    models::Family,
    peer::{InMessage as _, LinkError},
    turn::{Command, TurnState},
};
use tokio::time::{Instant, Sleep, sleep};
use tracing::Instrument as _;

pub(crate) use self::bridged::Bridged;
use self::{
    doze::{LOOK_AFTER, Parking},
    legs::Audience,
    link::{Opened, Upstream},
    visits::Visits,
};
use super::{
    TurnStream,
    hub::{Hub, millis_since},
    leg_index::LegEntry,
    parked::TurnIdentity,
    registry::RegistryEntry,
    retries::RetryKey,
    send_queue::SendQueue,
    visit::Visit,
    writer::ConversationWriter,
};
use crate::{
    driver::{Link, LinkPeer, LinkReceiver as _, LinkSender as _, Machine, RunMachine},
    limits::Permit,
};

type Counting = Pin<Box<dyn Future<Output = Usage> + Send>>;
type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// While this much waits to be sent, nothing is read and no more is queued: every message may need
/// an answer, and a peer that reads none must not fill our memory.
const SEND_QUEUE_BYTES: usize = 4 << 20;

/// Everything a turn needs to run, besides its machine.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) hub: Arc<Hub>,
    pub(crate) session: SessionId,
    pub(crate) identity: TurnIdentity,
    pub(crate) family: Family,
    pub(crate) controls: Option<Box<Controls>>,
    /// Its id at the backend.
    pub(crate) model: String,
    pub(crate) writer: ConversationWriter,
    /// The entry under which retries find the first leg.
    pub(crate) leg_entry: LegEntry,
    /// When the client's request came; it may have waited since.
    pub(crate) asked: Instant,
    /// Held while a reader is attached and the turn generates.
    pub(crate) permit: Permit,
    /// Present when tools are offered that ibeam executes.
    pub(crate) bridged: Option<Box<Bridged>>,
    /// What the retries of the first leg are counted under.
    pub(crate) retry_key: RetryKey,
}

impl RunMachine for Actor {
    type Running = TurnStream;

    /// Starts the turn. From here on every failure is an event.
    fn run<W: LinkPeer>(self, machine: Machine<W>) -> TurnStream {
        let Machine { leg, driver } = machine;
        let Self {
            hub,
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
        let visits = Visits::new();
        let entry = hub.registry.enter(session, identity, visits.sender.clone());
        let mut task = Task {
            leg,
            started: Instant::now(),
            model: CountedModel { family, id: model },
            writer: Box::new(writer),
            bridged,
            retry_key,
            counting: None,
            audience: Audience::new(permit),
            upstream: Upstream::new(driver),
            parked: None,
            visits,
            alarms: Alarms::new(&hub),
            entry,
            hub: Arc::clone(&hub),
        };
        let stream = task.begin_leg(leg_entry, asked, controls);
        hub.tasks.spawn("turn", async move { task.run().await }.in_current_span());
        stream
    }
}

struct Task<W: LinkPeer> {
    hub: Arc<Hub>,
    leg: Box<Leg<W>>,
    started: Instant,
    model: CountedModel,
    writer: Box<ConversationWriter>,
    bridged: Option<Box<Bridged>>,
    /// What the retries of the present leg are counted under.
    retry_key: RetryKey,
    /// There while the tokens of the leg are counted.
    counting: Option<Counting>,
    audience: Audience,
    upstream: Upstream<W>,
    /// Present while tool results are awaited.
    parked: Option<Parking>,
    visits: Visits,
    alarms: Alarms,
    entry: RegistryEntry,
}

/// What tokens are counted for.
struct CountedModel {
    family: Family,
    /// Its id at the backend.
    id: String,
}

/// What ends a wait, besides the two sides of the turn. All three are made once: making them again
/// for each event would take locks that all turns share.
struct Alarms {
    timer: Pin<Box<Sleep>>,
    stop: Wait,
    drain: Wait,
}

impl Alarms {
    fn new(hub: &Hub) -> Self {
        Self {
            timer: Box::pin(sleep(Duration::ZERO)),
            stop: Box::pin(hub.stop.clone().cancelled_owned()),
            drain: Box::pin(hub.drain.clone().cancelled_owned()),
        }
    }
}

/// What woke the task.
enum Wake<W: LinkPeer> {
    /// The error: there is no token for a link.
    Opened(Result<Opened<W>, TurnError>),
    Heard(Option<Result<W::In, LinkError>>),
    Sent(Result<(), LinkError>),
    /// A reader has room again, or left.
    Readers,
    /// There is something to read for a sleeping turn.
    Called,
    Visit(Option<Visit>),
    /// A bridged tool has finished.
    Bridged(ToolResult),
    Counted(Usage),
    Timer,
    Drain,
    Stop,
}

impl<W: LinkPeer> Task<W> {
    async fn run(&mut self) {
        loop {
            self.carry_out();
            self.pass_on().await;
            if self.leg.turn().state() == TurnState::Done && self.counting.is_none() {
                if self.audience.served.is_some() && !self.audience.readers.is_blocked() {
                    self.leg.fail(self.unended());
                    self.pass_on().await;
                }
                // The client has its ending; closing the link must not delay it nor keep its slot.
                self.audience.permit.release();
                self.last_words().await;
                // A slow reader still has a leg, which can be attached to.
                if self.audience.served.is_none() {
                    self.dissolve().await;
                    if self.audience.readers.is_empty() {
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
        }
    }

    /// Does what the machine asks for. While much waits to be sent, further messages stay where
    /// they are, and the machine makes no more of them.
    fn carry_out(&mut self) {
        while self.upstream.send_queue.bytes < SEND_QUEUE_BYTES || self.leg.turn().is_leaving() {
            let Some(command) = self.leg.turn_mut().poll_command() else { return };
            match command {
                Command::Open(spec) => self.open(spec),
                Command::Send(message) => self.upstream.send_queue.push(message),
                // The last stream is closed once the client was served.
                Command::Close { cancel: true } if self.leg.turn().state() == TurnState::Done => {}
                Command::Close { .. } => self.drop_link(),
            }
        }
    }

    /// Sets the timer to the earliest deadline.
    fn arm(&mut self) {
        let patience = self.hub.patience;
        let turn =
            self.leg.turn().poll_deadline().map(|at| self.started + Duration::from_millis(at.0));
        let readers = self.audience.readers.deadline(patience.client_stall);
        let abandoned = self.audience.abandoned.map(|since| since + patience.cancel_grace);
        let parked = self.parked.as_ref().map(|parked| parked.since + patience.parked);
        // Without a deadline, the other branches wake the task.
        let far = || Instant::now() + Duration::from_secs(3600);
        let look = self.doze().map(|doze| doze.looked + LOOK_AFTER);
        let due = [turn, readers, abandoned, parked, look].into_iter().flatten().min();
        let due = due.unwrap_or_else(far);
        if self.alarms.timer.deadline() != due || self.alarms.timer.is_elapsed() {
            self.alarms.timer.as_mut().reset(due);
        }
    }

    /// Whether more may be read: the readers have room for it, the backend accepts our answers,
    /// and the leg does not end just now.
    fn reads(&self) -> bool {
        self.counting.is_none()
            && !self.audience.readers.is_blocked()
            && self.upstream.send_queue.bytes < SEND_QUEUE_BYTES
            && !self.leg.turn().is_congested()
    }

    /// The order matters: sending comes before reading, and the common before the rare.
    async fn wait(&mut self) -> Wake<W> {
        let reads = self.reads();
        let doze = self.parked.as_ref().and_then(|parked| parked.doze.as_ref());
        let dozes = doze.is_some();
        let (tx, rx) = match self.upstream.link.as_mut() {
            Some(Link { tx, rx }) => (Some(&*tx), Some(rx)),
            None => (None, None),
        };
        let opening = self.upstream.opening.as_mut();
        let bridged = self.bridged.as_mut();
        let counting = self.counting.as_mut();
        let stops = self.leg.turn().state() != TurnState::Done || counting.is_some();
        // What the backend is told at the end of a leg is sent with its last words.
        let next = match counting {
            Some(_) => None,
            None => self.upstream.send_queue.messages.front().cloned(),
        };
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
            () = self.audience.readers.changed() => Wake::Readers,
            () = async {
                match doze {
                    Some(doze) => doze.called.notified().await,
                    None => std::future::pending().await,
                }
            } => Wake::Called,
            visit = self.visits.mailbox.recv(), if !self.visits.retired => Wake::Visit(visit),
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
            usage = async {
                match counting {
                    Some(counting) => counting.await,
                    None => std::future::pending().await,
                }
            } => Wake::Counted(usage),
            () = self.alarms.timer.as_mut() => Wake::Timer,
            () = self.alarms.drain.as_mut(), if self.parked.is_some() => Wake::Drain,
            () = self.alarms.stop.as_mut(), if stops => Wake::Stop,
        }
    }

    fn handle(&mut self, wake: Wake<W>) {
        let now = millis_since(self.started);
        match wake {
            Wake::Opened(Ok(Opened { token, link })) => {
                self.upstream.opening = None;
                self.upstream.token = Some(token);
                match link {
                    Ok(link) => {
                        self.upstream.link = Some(link);
                        self.mark(|timing| &mut timing.opened);
                        // A retry writes the first message again.
                        let bytes = self.leg.turn().memory();
                        let opened = || self.leg.turn_mut().on_opened(now);
                        self.hub.large_work.in_place(bytes, opened);
                    }
                    Err(error) => self.leg.turn_mut().on_link_error(&error, now),
                }
            }
            Wake::Opened(Err(error)) => {
                self.upstream.opening = None;
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
                self.upstream.link = None;
                self.leg.turn_mut().on_link_error(&error, now);
            }
            Wake::Heard(None) => {
                self.upstream.link = None;
                self.leg.turn_mut().on_eof(now);
            }
            Wake::Sent(Ok(())) => self.upstream.send_queue.sent(),
            // The reading half reports why; it has the status and the reset reason.
            Wake::Sent(Err(_)) => self.upstream.send_queue = SendQueue::default(),
            Wake::Readers => self.look_for_readers(),
            Wake::Called => self.catch_up(),
            Wake::Visit(Some(visit)) => self.on_visit(visit),
            Wake::Visit(None) => self.visits.retired = true,
            Wake::Bridged(result) => self.on_bridged(result),
            Wake::Counted(usage) => {
                self.counting = None;
                self.leg.on_estimate(usage);
            }
            Wake::Timer => self.on_timer(),
            Wake::Drain => self.end_parked(|_| (), "ibeam is shutting down"),
            Wake::Stop if self.parked.is_some() => {
                self.end_parked(|_| (), "ibeam is shutting down");
            }
            Wake::Stop => {
                self.stop_counting();
                let text = "ibeam is shutting down. Send the request again once it is back.";
                self.leg.turn_mut().abort(TurnError::new(ErrorCode::Unavailable, text));
            }
        }
    }

    fn on_timer(&mut self) {
        let (at, patience) = (Instant::now(), self.hub.patience);
        if self.audience.readers.cut_stalled(patience.client_stall)
            && self.audience.served.is_some()
        {
            // A reader that left gets a grace period, which is over. It can still request calls
            // that it did not get.
            if self.audience.readers.count() == 0
                && self.leg.turn().state() != TurnState::AwaitingTools
            {
                self.cancel_leg();
            }
        }
        if self.audience.abandoned.is_some_and(|since| at >= since + patience.cancel_grace) {
            self.cancel_leg();
        }
        if self.parked.as_ref().is_some_and(|parked| at >= parked.since + patience.parked) {
            self.end_parked(|fates| fates.expired += 1, "no tool results arrived in time");
        }
        self.catch_up();
        let now = millis_since(self.started);
        if self.leg.turn().poll_deadline().is_some_and(|due| now >= due) {
            // A retry may write the whole conversation again.
            let backoff = matches!(self.leg.turn().state(), TurnState::Backoff { .. });
            let bytes = if backoff { self.leg.turn().memory() } else { 0 };
            self.hub.large_work.in_place(bytes, || self.leg.turn_mut().on_timeout(now));
        }
        self.fall_asleep();
    }
}

#[cfg(test)]
mod child_tests;

#[cfg(test)]
mod tests {
    use ibeam_core::peer::{agent::AgentPeer, child::ChildPeer};

    use super::*;

    /// There may be ten thousand parked ones.
    #[test]
    fn task_future_is_small() {
        let size = size_of::<Task<AgentPeer>>().max(size_of::<Task<ChildPeer>>());
        assert!(size <= 640, "{size}");
    }
}
