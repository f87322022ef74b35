//! The legs of a turn: from a client's request to the event that ends its answer.

use ibeam_core::{
    controls::Controls,
    error::{ErrorCode, TurnError},
    leg::{LegOutput, SlowCheck},
    model::{FinishReason, TurnEvent, Usage, UsageSource, ids::SessionId},
    turn::{TurnState, Uncounted},
};
use tokio::time::Instant;
use tracing::debug;

use super::{Parking, Task, TurnStream};
use crate::{
    driver::LinkPeer,
    limits::Permit,
    session::{
        hub::millis_since, leg_index::LegEntry, leg_timing::LegTiming, parked::ParkedCalls,
        readers::LegReaders,
    },
};

/// What a parked turn costs besides what the machine holds: its task, its stream, and its part of
/// the connection.
const PARKED_COST: usize = 16 << 10;

/// A parked turn that received this much is measured again. Heartbeats alone need minutes.
const WEIGH_AFTER: usize = 4 << 10;

/// Where the present leg is found, and how long its parts took.
pub(super) struct ServedLeg {
    /// The entry under which retries find it.
    pub(super) entry: LegEntry,
    timing: LegTiming,
    /// The link that it began on, by its number in the turn.
    first_open: u32,
}

/// The side of the client.
pub(super) struct Audience {
    pub(super) readers: LegReaders,
    /// `None` between legs.
    pub(super) served: Option<Box<ServedLeg>>,
    /// Since when the leg has no reader.
    pub(super) abandoned: Option<Instant>,
    /// Held while a reader is attached and the turn generates.
    pub(super) permit: Permit,
}

impl Audience {
    pub(super) fn new(permit: Permit) -> Self {
        Self { readers: LegReaders::default(), served: None, abandoned: None, permit }
    }
}

impl<W: LinkPeer> Task<W> {
    pub(super) fn begin_leg(
        &mut self,
        leg_entry: LegEntry,
        asked: Instant,
        controls: Option<Box<Controls>>,
    ) -> TurnStream {
        let number = self.leg.begin(controls);
        leg_entry.begin(self.visits.sender.clone(), number);
        self.audience.served = Some(Box::new(ServedLeg {
            entry: leg_entry,
            timing: LegTiming::new(asked),
            first_open: self.upstream.opens.max(1),
        }));
        self.audience.abandoned = None;
        self.entry.started();
        // Readers of an earlier leg do not count.
        self.audience.readers.open()
    }

    pub(super) fn mark(&mut self, which: impl FnOnce(&mut LegTiming) -> &mut Option<Instant>) {
        if let Some(served) = &mut self.audience.served {
            which(&mut served.timing).get_or_insert_with(Instant::now);
        }
    }

    /// Moves events to the readers until there are none or a reader is full.
    pub(super) async fn pass_on(&mut self) {
        while !self.audience.readers.is_blocked()
            && let Some(output) = self.leg.poll()
        {
            match output {
                LegOutput::Event(event) => self.tell(event),
                LegOutput::Save => self.writer.save(self.leg.turn_mut()).await,
                LegOutput::Estimate => {
                    // The backend is stopped first when an answer was cut.
                    self.carry_out();
                    let bytes = self.leg.turn().memory();
                    let uncounted = self.hub.large_work.in_place(bytes, || self.leg.uncounted());
                    self.estimate(uncounted);
                }
                LegOutput::Learn(sample) => {
                    self.hub.counter.learn((self.model.family, &self.model.id), sample);
                }
                LegOutput::Judge(check) => self.judge(*check).await,
                LegOutput::Execute(calls) => self.execute(calls),
            }
            self.carry_out();
        }
        // The controls may have requested another run without any output.
        self.carry_out();
        // A reader that has left is removed here and will not wake the task.
        self.look_for_readers();
        let reads = self.reads();
        self.leg.turn_mut().set_reading(reads, millis_since(self.started));
    }

    fn tell(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Finished(reason) => return self.finish(reason),
            TurnEvent::Failed(error) => return self.failed(error),
            TurnEvent::Text(_) | TurnEvent::Reasoning(_) | TurnEvent::ToolCallBegin { .. } => {
                self.entry.heard();
                self.mark(|timing| &mut timing.first_piece);
            }
            TurnEvent::Started
            | TurnEvent::Usage(_)
            | TurnEvent::ToolCallArgs { .. }
            | TurnEvent::ToolCallEnd { .. } => {}
        }
        self.writer.hear(&event);
        self.audience.readers.send(event);
    }

    /// Runs the controls over an event outside the event loop.
    async fn judge(&mut self, check: SlowCheck) {
        let is_check = check.is_check;
        let judge = move || check.judge();
        let judged = if is_check {
            let Some(judged) = self.hub.checks.run(judge).await else {
                let text = "Checking the answer against its JSON Schema took too long.";
                return self.leg.on_judge_lost(TurnError::new(ErrorCode::FormatUnmet, text));
            };
            judged
        } else {
            self.hub.tasks.spawn_blocking(judge).await
        };
        match judged {
            Ok((controls, verdict)) => self.leg.on_judged(controls, verdict),
            Err(_) => {
                let text = "The controls of the request were lost. This is a bug in ibeam.";
                self.leg.on_judge_lost(TurnError::new(ErrorCode::Internal, text));
            }
        }
    }

    fn finish(&mut self, reason: FinishReason) {
        let parks = self.leg.turn().state() == TurnState::AwaitingTools;
        if !parks {
            self.retire();
            if self.leg.turn().is_cut() {
                self.writer.leave();
            } else {
                // The client may continue its conversation as soon as it has the ending: the
                // backend is done with it, whichever side closes the link.
                self.writer.release();
            }
        }
        self.entry.finished();
        let record = self.leg.finish();
        if let (Some(served), Some(record)) = (self.audience.served.take(), record) {
            served.timing.log();
            served.entry.finish(record);
        }
        self.audience.abandoned = None;
        if parks {
            self.park();
        }
        self.audience.readers.send(TurnEvent::Finished(reason));
        self.audience.readers.end_leg();
        self.yield_if_unread();
    }

    fn failed(&mut self, error: TurnError) {
        self.entry.failed(&error);
        // Descriptions of a wrong answer quote the answer.
        let words = if error.code == ErrorCode::FormatUnmet { "" } else { &*error.message };
        debug!(
            code = error.code.row().code,
            cause = error.cause.as_deref(),
            "turn failed: {words}"
        );
        if error.code == ErrorCode::ModelNotFound {
            self.hub.catalog.doubt();
        }
        self.retire();
        self.writer.leave();
        self.audience.abandoned = None;
        self.leg.finish();
        if let Some(served) = self.audience.served.take() {
            served.timing.log();
            if error.code.row().retryable {
                let retries = self.upstream.opens.saturating_sub(served.first_open);
                self.hub.retries.failed(self.retry_key, retries);
            }
        }
        self.audience.readers.send(TurnEvent::Failed(error));
        self.audience.readers.end_leg();
    }

    /// Counts the tokens of the leg, where the backend reported none.
    fn estimate(&mut self, uncounted: Uncounted) {
        let counter = self.hub.counter.clone();
        let measure = counter.measure(self.model.family, &self.model.id);
        self.counting = Some(Box::pin(counter.estimate(measure, uncounted, self.writer.scope())));
    }

    /// Ends the leg of a client that is gone.
    pub(super) fn cancel_leg(&mut self) {
        self.stop_counting();
        self.leg.cancel(self.writer.keeps_interrupted());
    }

    /// No client waits for the number of tokens any more.
    pub(super) fn stop_counting(&mut self) {
        if self.counting.take().is_some() {
            self.leg.on_estimate(Usage { source: UsageSource::Estimate, ..Usage::default() });
        }
    }

    fn park(&mut self) {
        self.audience.permit.release();
        self.upstream.send_queue.shrink();
        // The reader took the stream; a new one has the clock of its own request.
        self.upstream.token = None;
        let calls = self.leg.turn().calls();
        let numbers = calls.iter().filter_map(|call| Some(SessionId::of_call(&call.id)?.1));
        let bytes = self.leg.turn().memory() + PARKED_COST;
        self.parked = Some(Parking::new(bytes));
        debug!(calls = calls.len(), bytes, "parked until the tool results arrive");
        let highest = self.leg.turn().highest_call();
        let calls = ParkedCalls { awaiting: numbers.collect(), highest };
        self.entry.park(bytes, self.leg.turn().conversation_id(), calls);
    }

    /// Measures a parked turn again when it may have grown much.
    pub(super) fn weigh(&mut self, more: usize) {
        let Some(parked) = &mut self.parked else { return };
        parked.unweighed += more;
        if parked.unweighed < WEIGH_AFTER {
            return;
        }
        let weight = self.leg.turn().memory() + PARKED_COST;
        // This may be the first half of a message: then the next piece decides.
        if weight != parked.weight {
            parked.unweighed = 0;
            parked.weight = weight;
            self.entry.reweigh(weight);
        }
    }
}
