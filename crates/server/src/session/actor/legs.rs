//! The legs of a turn: from a client's request to the event that ends its answer.

use ibeam_core::{
    controls::Controls,
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, Usage, ids::SessionId},
    turn::Phase,
};
use tokio::time::Instant;
use tracing::debug;

use super::{Task, TurnStream};
use crate::session::{hub::millis_since, legs::Ticket, marks::Marks, record::Record};

/// What a parked turn costs beside what the machine holds: its task, its stream, and
/// what the connection keeps for it.
const PARKED_COST: usize = 16 << 10;

/// A parked turn that got so much is looked at again. Heartbeats alone need minutes.
const WEIGH_AFTER: usize = 4 << 10;

/// One request's share of the turn.
pub(super) struct Leg {
    number: u32,
    pub(super) record: Record,
    /// Under which it is found by those who ask again.
    pub(super) ticket: Ticket,
    pub(super) usage_told: bool,
    /// What the client asked for beside an answer.
    pub(super) controls: Option<Box<Controls>>,
    /// The conversation was written down before the first call went out.
    saved: bool,
    marks: Marks,
    /// The stream that it began on, by its number in the turn.
    first_open: u32,
}

impl Leg {
    pub(super) fn is(&self, number: u32) -> bool {
        self.number == number
    }
}

impl Task {
    pub(super) fn begin_leg(
        &mut self,
        ticket: Ticket,
        asked: Instant,
        controls: Option<Box<Controls>>,
    ) -> TurnStream {
        self.legs += 1;
        let number = self.legs;
        ticket.begin(self.sender.clone(), number);
        self.leg = Some(Box::new(Leg {
            number,
            record: Record::of(self.turn.conversation_id()),
            ticket,
            usage_told: false,
            controls,
            saved: false,
            marks: Marks::new(asked),
            first_open: self.opens.max(1),
        }));
        self.abandoned = None;
        self.entry.started();
        // Whoever reads an earlier leg still does not count.
        self.outlets.first()
    }

    pub(super) fn mark(&mut self, which: impl FnOnce(&mut Marks) -> &mut Option<Instant>) {
        if let Some(leg) = &mut self.leg {
            which(&mut leg.marks).get_or_insert_with(Instant::now);
        }
    }

    /// Moves events to the readers until there are none or somebody is full.
    pub(super) async fn pass_on(&mut self) {
        while !self.outlets.is_blocked()
            && let Some(event) = self.turn.poll_event()
        {
            if let Some(event) = self.sift(event).await {
                self.forward(event).await;
            }
        }
        // A reader whose place was found empty is gone from the list, and does not wake us.
        self.look_for_readers();
        self.turn.set_reading(self.reads(), millis_since(self.started));
    }

    pub(super) async fn forward(&mut self, event: TurnEvent) {
        if self.leg.as_ref().is_some_and(|leg| leg.controls.is_some()) {
            self.control(event).await;
        } else {
            self.take(event).await;
        }
    }

    pub(super) async fn take(&mut self, event: TurnEvent) {
        // Between legs the machine keeps what it hears.
        let Some(leg) = &mut self.leg else { return };
        match event {
            TurnEvent::Finished(reason) => return self.finish(reason).await,
            TurnEvent::Failed(error) => return self.fail(error),
            TurnEvent::Text(_) | TurnEvent::Reasoning(_) => {
                self.entry.heard();
                leg.marks.first_piece.get_or_insert_with(Instant::now);
            }
            TurnEvent::ToolCallBegin { .. } => {
                self.entry.heard();
                leg.marks.first_piece.get_or_insert_with(Instant::now);
                if !std::mem::replace(&mut leg.saved, true) {
                    self.keeper.save(&mut self.turn).await;
                }
            }
            TurnEvent::Usage(usage) => {
                leg.usage_told = true;
                if let Some(sample) = self.turn.sample(&usage) {
                    self.hub.counter.learn((self.family, &self.model), sample);
                }
                self.turn.note_usage(&usage);
                let controls = leg.controls.as_ref();
                let usage = controls.map_or(usage, |controls| controls.summed(usage));
                return self.tell(TurnEvent::Usage(usage));
            }
            TurnEvent::Started | TurnEvent::ToolCallArgs { .. } | TurnEvent::ToolCallEnd { .. } => {
            }
        }
        self.tell(event);
    }

    pub(super) fn tell(&mut self, event: TurnEvent) {
        let event = self.summed(event);
        self.keeper.hear(&event);
        if let Some(leg) = &mut self.leg {
            leg.record.push(&event);
        }
        self.outlets.offer(event);
    }

    pub(super) async fn finish(&mut self, reason: FinishReason) {
        if self.leg.as_ref().is_some_and(|leg| !leg.usage_told) {
            let counted = self.estimate().await;
            self.turn.note_usage(&counted);
            let controls = self.leg.as_ref().and_then(|leg| leg.controls.as_ref());
            let counted = controls.map_or(counted, |all| all.whole_usage(counted, reason));
            self.tell(TurnEvent::Usage(counted));
        }
        if let Some(leg) = self.leg.as_ref().filter(|_| !self.turn.is_cut())
            && leg.controls.as_ref().is_some_and(|controls| controls.asked_again())
        {
            self.turn.show_only(leg.record.text());
        }
        self.keeper.save(&mut self.turn).await;
        let parks = self.turn.phase() == Phase::AwaitingTools;
        if !parks {
            self.retire();
            if self.turn.is_cut() {
                self.keeper.leave();
            } else {
                // The client may go on with its conversation the moment it has the ending:
                // the backend is done with it, whoever closes the stream.
                self.keeper.release();
            }
        }
        self.entry.finished();
        let event = TurnEvent::Finished(reason);
        if let Some(mut leg) = self.leg.take() {
            leg.record.push(&event);
            leg.marks.log();
            leg.ticket.finish(leg.record);
        }
        self.abandoned = None;
        if parks {
            self.park();
        }
        self.outlets.offer(event);
        self.outlets.end();
    }

    pub(super) fn fail(&mut self, error: TurnError) {
        self.entry.failed(&error);
        // What is wrong with an answer is told in words of the answer.
        let words = if error.code == ErrorCode::FormatUnmet { "" } else { &*error.message };
        debug!(
            code = error.code.row().code,
            cause = error.cause.as_deref(),
            "turn failed: {words}"
        );
        self.retire();
        self.keeper.leave();
        self.abandoned = None;
        if let Some(leg) = self.leg.take() {
            leg.marks.log();
            if error.code.row().retryable {
                let retries = self.opens.saturating_sub(leg.first_open);
                self.hub.retries.failed(self.retry_key, retries);
            }
        }
        self.outlets.offer(TurnEvent::Failed(error));
        self.outlets.end();
    }

    /// The tokens of the leg, where the backend told none.
    pub(super) async fn estimate(&mut self) -> Usage {
        let uncounted = self.turn.uncounted();
        self.hub.counter.estimate((self.family, &self.model), uncounted).await
    }

    fn park(&mut self) {
        self.place.give_back();
        self.unweighed = 0;
        self.parked = Some(Instant::now());
        self.outbox.shrink();
        // Its stream was taken; a new one gets the token of its own time.
        self.token = None;
        let calls = self.turn.calls();
        let numbers = calls.iter().filter_map(|call| Some(SessionId::of_call(&call.id)?.1));
        let bytes = self.turn.memory() + PARKED_COST;
        self.weight = bytes;
        debug!(calls = calls.len(), bytes, "parked until the tool results arrive");
        self.entry.park(bytes, self.turn.conversation_id(), numbers.collect());
    }

    /// Looks again what a parked turn holds once that may have grown by much.
    pub(super) fn weigh(&mut self, more: usize) {
        if self.parked.is_none() {
            return;
        }
        self.unweighed += more;
        if self.unweighed < WEIGH_AFTER {
            return;
        }
        let weight = self.turn.memory() + PARKED_COST;
        // What came may be the first half of a message: then the next piece decides.
        if weight != self.weight {
            self.unweighed = 0;
            self.weight = weight;
            self.entry.reweigh(weight);
        }
    }
}
