//! Requests that reach a running turn: with results, to read along, or to end it.

use ibeam_core::{
    error::{ErrorCode, TurnError},
    history,
    leg::LegRecord,
    model::{Item, ToolResult, TurnRequest},
    turn::TurnState,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tracing::debug;

use super::Task;
use crate::driver::LinkPeer;
use crate::session::{
    SessionMatch, TurnStream,
    hub::millis_since,
    registry::Fates,
    visit::{self, Attached, LegRequest, ParkedEnding, Resume, Visit},
};

/// How requests reach a turn that exists.
pub(super) struct Visits {
    pub(super) sender: mpsc::Sender<Visit>,
    pub(super) mailbox: mpsc::Receiver<Visit>,
    /// No more visits are accepted.
    pub(super) retired: bool,
    /// Notified once the turn is over.
    ended: Vec<oneshot::Sender<()>>,
    /// Requests that wait for the conversation.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Visits {
    pub(super) fn new() -> Self {
        let (sender, mailbox) = visit::mailbox();
        Self { sender, mailbox, retired: false, ended: Vec::new(), waiting: Vec::new() }
    }
}

impl<W: LinkPeer> Task<W> {
    pub(super) fn on_visit(&mut self, visit: Visit) {
        match visit {
            Visit::Resume(resume) => self.resume(*resume),
            Visit::Attach { leg, reply } => {
                // The reader may have left; then the stream reports that soon.
                let _ = reply.send(self.attach(leg));
            }
            Visit::End { why, done } => {
                if self.parked.is_some() {
                    match why {
                        ParkedEnding::Evicted => {
                            self.end_parked(|fates| fates.evicted += 1, "no room")
                        }
                        ParkedEnding::Superseded => self.end_parked(
                            |fates| fates.superseded += 1,
                            "the client continued without it",
                        ),
                    }
                }
                match done {
                    // The backend must be stopped first.
                    Some(done) if self.leg.turn().state() == TurnState::Done => {
                        self.visits.ended.push(done)
                    }
                    Some(done) => {
                        let _ = done.send(());
                    }
                    None => {}
                }
            }
            Visit::Yield { waiting } => {
                self.visits.waiting.push(waiting);
                self.yield_if_unread();
            }
        }
    }

    /// Ends a turn that is not read while a request waits for its conversation.
    pub(super) fn yield_if_unread(&mut self) {
        self.visits.waiting.retain(|waiting| !waiting.is_closed());
        if self.visits.waiting.is_empty() {
            return;
        }
        if self.parked.is_some() {
            let why = "the client continued without it";
            self.end_parked(|fates| fates.superseded += 1, why);
        } else if self.audience.abandoned.is_some() {
            self.cancel_leg();
        }
    }

    fn resume(&mut self, resume: Resume) {
        let Some(resume) = self.hold_back(resume) else { return };
        let Resume {
            leg: LegRequest { request, said, permit, leg_entry, controls, retry },
            asked,
            reply,
        } = resume;
        if reply.is_closed() {
            // The reader has left, and the results can be sent again.
            return;
        }
        // What arrived during its sleep comes before the results, and is read before them.
        self.catch_up();
        let next = self.writer.peek(said.clone());
        let ignored = results(&request).any(|result| !self.leg.turn().awaits(&result.call_id));
        let given = if self.parked.is_some() {
            let (bytes, now) = (request.bytes(), millis_since(self.started));
            self.hub.large_work.in_place(bytes, || self.leg.resume(request, now))
        } else {
            Err(Box::new(request))
        };
        match given {
            Ok(()) => {
                self.parked = None;
                self.audience.permit = permit;
                self.writer.go_on(next);
                self.entry.unpark();
                // The failures of this leg are those of the request that it answers.
                self.retry_key = retry.key;
                self.leg.turn_mut().allow_retries(self.hub.retries.left(retry));
                debug!("the results are there");
                let stream = self.begin_leg(leg_entry, asked, controls);
                let stream = self.matched(stream, SessionMatch::Resumed);
                let _ = reply.send(Ok(stream.ignoring_results(ignored)));
            }
            Err(request) => {
                if self.parked.is_some() && self.is_for(&request) {
                    // It cannot be served here, and nothing else can bring these results.
                    self.end_parked(|fates| fates.superseded += 1, "the client wants more");
                }
                let leg =
                    LegRequest { request: *request, said, permit, leg_entry, controls, retry };
                let _ = reply.send(Err(Box::new(leg)));
            }
        }
    }

    /// Whether the request brings an awaited result.
    fn is_for(&self, request: &TurnRequest) -> bool {
        results(request).any(|result| self.leg.turn().awaits(&result.call_id))
    }

    fn attach(&mut self, number: u32) -> Attached {
        let present = self.leg.record().filter(|_| self.leg.number() == Some(number));
        // A truncated record cannot be replayed.
        let Some(said) = present.and_then(LegRecord::events) else { return Attached::Over };
        let Some(stream) = self.audience.readers.attach(said) else { return Attached::Full };
        self.audience.abandoned = None;
        self.audience.permit.reacquire();
        Attached::Stream(self.matched(stream, SessionMatch::Attached))
    }

    fn matched(&self, stream: TurnStream, how: SessionMatch) -> TurnStream {
        self.entry.count(|fates| fates.note(how));
        stream.matched_as(how, self.leg.turn().conversation_id().to_owned())
    }

    /// Notes when the last reader has left.
    pub(super) fn look_for_readers(&mut self) {
        if let Some(served) = &self.audience.served
            && self.audience.readers.count() == 0
            && self.audience.abandoned.is_none()
        {
            debug!("the client left");
            served.entry.reclaim();
            self.audience.abandoned = Some(Instant::now());
            self.audience.permit.release();
            self.yield_if_unread();
        }
    }

    /// Ends a turn without readers.
    pub(super) fn end_parked(&mut self, count: impl FnOnce(&mut Fates), why: &str) {
        debug!("a parked turn ends: {why}");
        self.parked = None;
        self.entry.count(count);
        self.leg
            .turn_mut()
            .abort(TurnError::new(ErrorCode::Cancelled, "No client is waiting for the answer."));
        self.writer.leave();
        self.retire();
    }

    /// The turn is over: it is no longer found, and waiting visitors get their requests back.
    pub(super) fn retire(&mut self) {
        if self.parked.take().is_some() && self.leg.turn().state() == TurnState::Done {
            debug!("the backend closed a parked run");
            self.entry.count(|fates| fates.died_parked += 1);
        }
        if !self.visits.retired {
            self.visits.retired = true;
            self.entry.retire();
            self.visits.mailbox.close();
        }
        while let Ok(visit) = self.visits.mailbox.try_recv() {
            self.on_visit(visit);
        }
    }

    /// The backend was stopped as well: the conversation is free.
    pub(super) async fn dissolve(&mut self) {
        self.retire();
        // A visitor may have arrived at the last moment.
        while let Some(visit) = self.visits.mailbox.recv().await {
            self.on_visit(visit);
        }
        self.writer.release();
        for done in self.visits.ended.drain(..) {
            let _ = done.send(());
        }
    }
}

/// The results that a request brings.
fn results(request: &TurnRequest) -> impl Iterator<Item = &ToolResult> {
    let new = request.items.iter().skip(history::split(&request.items));
    new.filter_map(|item| match item {
        Item::ToolResult(result) => Some(result),
        Item::Message(_) | Item::ToolCall(_) | Item::Reasoning(_) => None,
    })
}
