//! The task that owns one turn: it carries out what the turn machine asks for and
//! passes events on. It decides nothing about the protocol.

use std::{collections::VecDeque, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use ibeam_core::{
    agent::{Command, LinkError, OpenSpec, Phase, Turn, Uncounted},
    error::{ErrorCode, TurnError},
    model::{Millis, TurnEvent, Usage, UsageSource},
    models::Family,
    tokens,
};
use secrecy::SecretString;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    conversations::Memory,
    marks::Marks,
    outbox::Outbox,
    registry::{Entry, Registry},
};
use crate::{
    driver::{Driver, Link, Open},
    tasks::Tasks,
};

type OpenFuture = Pin<Box<dyn Future<Output = Result<Link, LinkError>> + Send>>;

/// How long the last words of a turn (its cancel message) may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Nothing more is read while this much waits to be sent: every message may ask
/// for an answer, and a peer that takes none must not fill our memory.
const OUTBOX_BYTES: usize = 4 << 20;

/// What an image costs when nobody counted it; providers charge about this for one
/// of ordinary size.
const IMAGE_TOKENS: u64 = 1000;

/// How long the actor waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// After the client left, the turn lives on this long before it is cancelled.
    pub cancel_grace: Duration,
    /// A client that takes no event for this long is given up.
    pub client_stall: Duration,
}

/// Everything one turn needs to run.
#[derive(Debug)]
pub struct Actor {
    pub turn: Turn,
    pub driver: Arc<dyn Driver>,
    pub token: SecretString,
    pub patience: Patience,
    pub family: Family,
    /// When the client's request came; it may have waited since.
    pub asked: Instant,
    pub started: Instant,
    pub memory: Memory,
    /// Ends the turn when the program does.
    pub stop: CancellationToken,
    /// Held while a client is attached and the turn generates.
    pub permit: OwnedSemaphorePermit,
    pub tasks: Tasks,
}

impl Actor {
    /// Runs the turn to its end. Never fails: every failure is an event.
    pub async fn run(self, events: mpsc::Sender<TurnEvent>, registry: Registry) {
        let Self {
            turn,
            driver,
            token,
            patience,
            family,
            asked,
            started,
            memory,
            stop,
            permit,
            tasks,
        } = self;
        let watched = events.clone();
        let mut task = Task {
            asked_id: turn.conversation_id().to_owned(),
            turn,
            driver,
            token,
            patience,
            family,
            started,
            memory,
            tasks,
            permit: Some(permit),
            // The channel is new, so there is room for this one.
            farewell: events.clone().try_reserve_owned().ok(),
            events: Some(events),
            left: Box::pin(async move { watched.closed().await }),
            stop: Box::pin(stop.cancelled_owned()),
            link: None,
            opening: None,
            outbox: Outbox::default(),
            queue: VecDeque::new(),
            usage_told: false,
            opens: 0,
            marks: Marks::new(asked),
            client: Client::Attached,
            timer: Box::pin(sleep(Duration::ZERO)),
            entry: registry.enter(),
        };
        task.run().await;
        task.marks.log(task.started);
        let drift = task.turn.drift();
        if !drift.is_empty() {
            task.entry.drifted(&drift);
            warn!(
                ?drift,
                "Cursor sent things that ibeam does not know; the answer is not affected"
            );
        }
    }
}

/// Whether anybody still listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Attached,
    /// Takes no events since then.
    Stalled(Instant),
    Left(Instant),
    /// Given up: events go nowhere.
    Gone,
}

struct Task {
    turn: Turn,
    driver: Arc<dyn Driver>,
    token: SecretString,
    patience: Patience,
    family: Family,
    started: Instant,
    memory: Memory,
    tasks: Tasks,
    permit: Option<OwnedSemaphorePermit>,
    /// The conversation id the turn began with; it may have to be renewed.
    asked_id: String,
    /// A place for the last word to a client that takes nothing else.
    farewell: Option<mpsc::OwnedPermit<TurnEvent>>,
    /// `None` once the client was given up.
    events: Option<mpsc::Sender<TurnEvent>>,
    /// Both are made once: waiting anew for each event would take locks that all
    /// turns share.
    left: Wait,
    stop: Wait,
    link: Option<Link>,
    opening: Option<OpenFuture>,
    outbox: Outbox,
    /// Events that found the channel full. Nothing is read while there are any.
    queue: VecDeque<TurnEvent>,
    usage_told: bool,
    /// Streams asked for so far.
    opens: u32,
    marks: Marks,
    client: Client,
    timer: Pin<Box<Sleep>>,
    entry: Entry,
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What woke the task.
enum Wake {
    Opened(Result<Link, LinkError>),
    Bytes(Option<Result<Bytes, LinkError>>),
    Sent(Result<(), LinkError>),
    Room(bool),
    ClientLeft,
    Timer,
    Stop,
}

impl Task {
    async fn run(&mut self) {
        loop {
            self.carry_out();
            self.pass_on().await;
            if self.turn.phase() == Phase::Done {
                // The client has its ending; the backend's goodbye must not delay it
                // nor hold a place among the turns.
                self.permit = None;
                self.last_words().await;
                if self.queue.is_empty() {
                    return;
                }
            }
            self.arm();
            let wake = self.wait().await;
            self.handle(wake);
        }
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Does what the machine asks for.
    fn carry_out(&mut self) {
        while let Some(command) = self.turn.poll_command() {
            match command {
                Command::Open(spec) => self.open(spec),
                Command::Send(frame) => self.outbox.push(frame),
                // The last stream gets its last words once the client was served.
                Command::Close { cancel: true } if self.turn.phase() == Phase::Done => {}
                Command::Close { .. } => self.drop_link(),
            }
        }
    }

    fn drop_link(&mut self) {
        self.link = None;
        self.opening = None;
        self.outbox = Outbox::default();
    }

    fn open(&mut self, spec: OpenSpec) {
        self.opens += 1;
        if self.opens == 1 {
            debug!(upstream_id = %spec.request_id, "opening an upstream stream");
        } else {
            info!(upstream_id = %spec.request_id, attempt = self.opens, "trying upstream again");
        }
        self.drop_link();
        let open = Open {
            token: self.token.clone(),
            request_id: spec.request_id,
            original_request_id: spec.original_request_id,
            prefer_h1: spec.prefer_h1,
        };
        let driver = Arc::clone(&self.driver);
        self.opening = Some(Box::pin(async move { driver.open(open).await }));
    }

    /// Sends what is left (the cancel message), lets the backend end the stream in
    /// its own way for a moment, and resets it if it does not.
    async fn last_words(&mut self) {
        self.opening = None;
        let Some(mut link) = self.link.take() else { return };
        let outbox = std::mem::take(&mut self.outbox);
        let _ = timeout(LAST_WORDS, async {
            for frame in outbox.frames {
                if link.tx.send(frame).await.is_err() {
                    return;
                }
            }
            while let Some(Ok(_)) = link.rx.next().await {}
        })
        .await;
        link.tx.cancel();
    }

    /// Moves events to the client until there are none or it is full.
    async fn pass_on(&mut self) {
        loop {
            while let Some(event) = self.queue.pop_front() {
                if let Some(back) = self.offer(event) {
                    self.queue.push_front(back);
                    return;
                }
            }
            let Some(event) = self.turn.poll_event() else { return };
            self.count(&event);
            if matches!(event, TurnEvent::Finished(_)) && !self.usage_told {
                let usage = estimate(self.turn.uncounted(), self.family, &self.tasks).await;
                self.queue.push_back(TurnEvent::Usage(usage));
            }
            self.queue.push_back(event);
        }
    }

    /// Gives the event back when the client has no room for it.
    fn offer(&mut self, event: TurnEvent) -> Option<TurnEvent> {
        let events = self.events.as_ref()?;
        match events.try_send(event) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(event)) => {
                if self.client == Client::Attached {
                    self.client = Client::Stalled(Instant::now());
                }
                let now = self.now();
                self.turn.set_reading(false, now);
                Some(event)
            }
            Err(mpsc::error::TrySendError::Closed(_)) => {
                self.client_left();
                None
            }
        }
    }

    fn client_left(&mut self) {
        if !matches!(self.client, Client::Left(_) | Client::Gone) {
            debug!("the client left");
            self.client = Client::Left(Instant::now());
            self.permit = None;
        }
    }

    fn count(&mut self, event: &TurnEvent) {
        self.memory.hear(event);
        match event {
            TurnEvent::Text(_) | TurnEvent::Reasoning(_) | TurnEvent::ToolCallBegin { .. } => {
                self.marks.first_piece.get_or_insert_with(Instant::now);
            }
            TurnEvent::Usage(_) => self.usage_told = true,
            TurnEvent::Finished(_) => {
                self.entry.finished();
                self.memory.keep(&self.asked_id, self.turn.conversation_id());
            }
            TurnEvent::Failed(error) => {
                self.entry.failed(error.code);
                debug!(
                    code = error.code.row().code,
                    cause = error.cause.as_deref(),
                    "turn failed: {error}"
                );
            }
            _ => {}
        }
    }

    /// Sets the timer to the earliest thing that is due.
    fn arm(&mut self) {
        let turn = self.turn.poll_deadline().map(|at| self.started + Duration::from_millis(at.0));
        let client = match self.client {
            Client::Attached | Client::Gone => None,
            Client::Stalled(since) => Some(since + self.patience.client_stall),
            Client::Left(since) => Some(since + self.patience.cancel_grace),
        };
        // With no deadline at all the other branches wake us.
        let far = Instant::now() + Duration::from_secs(3600);
        let due = [turn, client].into_iter().flatten().min().unwrap_or(far);
        if self.timer.deadline() != due || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
    }

    /// The order matters: what is to be sent goes before what is to be read, and
    /// the common before the rare.
    async fn wait(&mut self) -> Wake {
        let full = !self.queue.is_empty();
        let listening = matches!(self.client, Client::Attached | Client::Stalled(_));
        let read = !full && self.outbox.bytes < OUTBOX_BYTES;
        let (tx, rx) = match self.link.as_mut() {
            Some(Link { tx, rx }) => (Some(&*tx), Some(rx)),
            None => (None, None),
        };
        let opening = self.opening.as_mut();
        let next_frame = self.outbox.frames.front().cloned();
        let room = self.events.as_ref().filter(|_| full);
        tokio::select! {
            biased;
            sent = async {
                match (tx, next_frame) {
                    (Some(tx), Some(frame)) => tx.send(frame).await,
                    _ => std::future::pending().await,
                }
            } => Wake::Sent(sent),
            chunk = async {
                match rx {
                    Some(rx) if read => rx.next().await,
                    _ => std::future::pending().await,
                }
            } => Wake::Bytes(chunk),
            permit = async {
                match room {
                    Some(events) => events.reserve().await,
                    None => std::future::pending().await,
                }
            } => match (permit, self.queue.pop_front()) {
                (Ok(permit), Some(event)) => {
                    permit.send(event);
                    Wake::Room(true)
                }
                _ => Wake::Room(false),
            },
            opened = async {
                match opening {
                    Some(opening) => opening.await,
                    None => std::future::pending().await,
                }
            } => Wake::Opened(opened),
            () = self.timer.as_mut() => Wake::Timer,
            () = self.left.as_mut(), if listening => Wake::ClientLeft,
            () = self.stop.as_mut(), if self.turn.phase() != Phase::Done => Wake::Stop,
        }
    }

    fn handle(&mut self, wake: Wake) {
        let now = self.now();
        match wake {
            Wake::Opened(Ok(link)) => {
                self.opening = None;
                self.link = Some(link);
                self.marks.opened.get_or_insert_with(Instant::now);
                self.turn.on_opened(now);
            }
            Wake::Opened(Err(error)) => {
                self.opening = None;
                self.turn.on_link_error(&error, now);
            }
            Wake::Bytes(Some(Ok(bytes))) => {
                self.marks.first_frame.get_or_insert_with(Instant::now);
                self.turn.on_bytes(bytes, now);
            }
            Wake::Bytes(Some(Err(error))) => {
                self.link = None;
                self.turn.on_link_error(&error, now);
            }
            Wake::Bytes(None) => {
                self.link = None;
                self.turn.on_eof(now);
            }
            Wake::Sent(Ok(())) => self.outbox.sent(),
            // The reading half tells why; it has the status and the reset reason.
            Wake::Sent(Err(_)) => self.outbox = Outbox::default(),
            Wake::Room(true) => {
                self.client = Client::Attached;
                self.turn.set_reading(true, now);
            }
            Wake::Room(false) | Wake::ClientLeft => self.client_left(),
            Wake::Timer => self.on_timer(now),
            Wake::Stop => {
                let text = "ibeam is shutting down. Send the request again once it is back.";
                self.turn.abort(TurnError::new(ErrorCode::Unavailable, text));
            }
        }
    }

    fn on_timer(&mut self, now: Millis) {
        let at = Instant::now();
        match self.client {
            Client::Stalled(since) if at >= since + self.patience.client_stall => {
                warn!("the client takes no data; giving it up");
                self.give_up();
            }
            Client::Left(since) if at >= since + self.patience.cancel_grace => self.give_up(),
            _ => {}
        }
        if self.turn.poll_deadline().is_some_and(|due| now >= due) {
            self.turn.on_timeout(now);
        }
    }

    fn give_up(&mut self) {
        self.client = Client::Gone;
        self.queue.clear();
        self.events = None;
        if let Some(place) = self.farewell.take() {
            let text = "The client took no data for too long, so its turn was cancelled.";
            place.send(TurnEvent::Failed(TurnError::new(ErrorCode::Cancelled, text)));
        }
        self.turn.cancel();
    }
}

/// Counts what the backend did not. Off the async threads: loading the tokenizer
/// takes a moment the first time.
async fn estimate(uncounted: Uncounted, family: Family, tasks: &Tasks) -> Usage {
    let counted = tasks.spawn_blocking(move || {
        let texts: u64 = uncounted.prompt.iter().map(|text| tokens::count(text, family)).sum();
        let input = texts + uncounted.images as u64 * IMAGE_TOKENS;
        let output = uncounted.output.unwrap_or_else(|| tokens::count(&uncounted.answer, family));
        (input, output)
    });
    let (input, output) = counted.await.unwrap_or_default();
    info!(input, output, estimated = true, "the backend reported no usage");
    Usage { input, output, source: UsageSource::Estimate, ..Usage::default() }
}
