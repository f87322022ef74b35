//! What one client request gets of a turn: its events past the controls of the request,
//! without the calls of bridged tools, with its tokens counted, and recorded for readers that
//! come later.
//!
//! Feed the turn below through [`Leg::turn_mut`], then carry out [`Leg::poll`] until it gives
//! `None`. Some outputs want an answer (`on_estimate`, `on_judged`); nothing else comes
//! before they have it.

mod bridged;
mod endings;
mod record;

use std::collections::VecDeque;

use self::bridged::{MOST_CALLS, Sifted};
pub use self::{bridged::BridgedTools, record::LegRecord};
use crate::{
    controls::{ControlVerdict, Controls},
    error::{ErrorCode, TurnError},
    model::{
        FinishReason, Millis, ToolCall, ToolResult, TurnEvent, TurnRequest, Usage, UsageSource,
    },
    peer::Peer,
    tokens::Sample,
    turn::{Turn, TurnState},
};

/// What the caller must do for a leg.
#[derive(Debug)]
pub enum LegOutput {
    /// Pass this on to the readers. After the last one, call [`Leg::finish`].
    Event(TurnEvent),
    /// Store the conversation before anything else goes out.
    Save,
    /// Count the tokens of [`Leg::uncounted`], and bring them with [`Leg::on_estimate`].
    Estimate,
    /// The backend's own count of a text, to learn from.
    Learn(Sample),
    /// Run the controls over the event outside the event loop, and return their verdict with
    /// [`Leg::on_judged`].
    Judge(Box<SlowCheck>),
    /// Execute these calls of bridged tools, and bring each result with
    /// [`Leg::on_tool_result`].
    Execute(Vec<ToolCall>),
}

/// An event that takes the controls a while.
#[derive(Debug)]
pub struct SlowCheck {
    pub controls: Box<Controls>,
    pub event: TurnEvent,
    /// It is held against a schema, which may take any time: there is a limit to that.
    pub is_check: bool,
}

impl SlowCheck {
    #[must_use]
    pub fn judge(self) -> (Box<Controls>, ControlVerdict) {
        let Self { mut controls, event, .. } = self;
        let verdict = controls.on_event(event);
        (controls, verdict)
    }
}

/// A turn, and the leg that is being answered.
#[derive(Debug)]
pub struct Leg<P: Peer> {
    turn: Turn<P>,
    /// `None` between legs.
    present: Option<Box<Present>>,
    /// How many legs there were.
    count: u32,
    bridged: Option<Box<BridgedTools>>,
    /// Events of the turn that are taken before further ones.
    waiting: VecDeque<TurnEvent>,
    output: VecDeque<LegOutput>,
    /// What the tokens that are being counted are for.
    counting: Option<Counting>,
    /// The controls are away.
    judging: bool,
}

/// The leg that is being answered.
#[derive(Debug)]
struct Present {
    record: LegRecord,
    /// What the client asked for besides an answer.
    controls: Option<Box<Controls>>,
    /// What the controls want done once their events are passed on.
    verdict: Option<ControlVerdict>,
    usage_told: bool,
    /// The conversation was stored before the first call went out.
    saved: bool,
    /// Its last event is among the outputs.
    ended: bool,
}

#[derive(Debug)]
enum Counting {
    Finish(FinishReason),
    EndEarly(FinishReason, Option<Usage>),
    AskAgain(String, TurnError),
    Work,
}

impl<P: Peer> Leg<P> {
    /// `bridged`: the tools of the request that are executed here and not by the client.
    #[must_use]
    pub fn new(turn: Turn<P>, bridged: Option<BridgedTools>) -> Self {
        Self {
            turn,
            present: None,
            count: 0,
            bridged: bridged.map(Box::new),
            waiting: VecDeque::new(),
            output: VecDeque::new(),
            counting: None,
            judging: false,
        }
    }

    #[must_use]
    pub fn turn(&self) -> &Turn<P> {
        &self.turn
    }

    pub fn turn_mut(&mut self) -> &mut Turn<P> {
        &mut self.turn
    }

    /// Begins the next leg. Returns its number.
    pub fn begin(&mut self, controls: Option<Box<Controls>>) -> u32 {
        self.count += 1;
        self.present = Some(Box::new(Present {
            record: LegRecord::of(self.turn.conversation_id()),
            controls,
            verdict: None,
            usage_told: false,
            saved: false,
            ended: false,
        }));
        if let Some(bridged) = &mut self.bridged
            && self.count > 1
        {
            bridged.begin_leg();
        }
        self.count
    }

    /// The number of the present leg, if there is one.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        self.present.as_ref().map(|_| self.count)
    }

    /// What the present leg said so far.
    #[must_use]
    pub fn record(&self) -> Option<&LegRecord> {
        self.present.as_ref().map(|present| &present.record)
    }

    /// Resumes the parked turn with the results that `request` brings, and those of bridged
    /// tools beside them.
    ///
    /// # Errors
    /// Returns the request if the turn cannot serve it.
    pub fn resume(&mut self, request: TurnRequest, now: Millis) -> Result<(), Box<TurnRequest>> {
        let Some(bridged) = &mut self.bridged else { return self.turn.resume(request, now) };
        let request = bridged.add_results(request);
        self.turn.resume(request, now).map_err(|brought| bridged.take_back().unwrap_or(brought))
    }

    /// Ends the leg with this error, and the turn.
    pub fn give_up(&mut self, error: TurnError) {
        self.turn.cut(None);
        self.fail(error);
    }

    /// Ends the leg of a turn that is over.
    pub fn fail(&mut self, error: TurnError) {
        if let Some(present) = self.present.as_mut().filter(|present| !present.ended) {
            present.ended = true;
            self.output.push_back(LegOutput::Event(TurnEvent::Failed(error)));
        }
    }

    /// The next thing that the caller must do.
    pub fn poll(&mut self) -> Option<LegOutput> {
        loop {
            if let Some(output) = self.output.pop_front() {
                // Recorded only now: a reader that attaches gets what the others were given.
                if let (LegOutput::Event(event), Some(present)) = (&output, &mut self.present) {
                    present.record.push(event);
                    let is_estimate = matches!(event, TurnEvent::Usage(usage)
                        if usage.source == UsageSource::Estimate);
                    if self.bridged.is_some() || present.controls.is_some() || is_estimate {
                        self.turn.record_client(event);
                    }
                }
                return Some(output);
            }
            if self.counting.is_some() || self.judging {
                return None;
            }
            if let Some(present) = &mut self.present {
                if present.ended {
                    return None;
                }
                if let Some(event) = present.controls.as_mut().and_then(|all| all.pop()) {
                    self.take(event);
                    continue;
                }
                if let Some(verdict) = present.verdict.take() {
                    self.obey(verdict);
                    continue;
                }
            }
            if let Some(event) = self.waiting.pop_front() {
                self.forward(event);
                continue;
            }
            let event = self.turn.poll_event()?;
            self.sift(event);
        }
    }
}

// === bridged tools ===

impl<P: Peer> Leg<P> {
    fn sift(&mut self, event: TurnEvent) {
        let Some(bridged) = &mut self.bridged else { return self.forward(event) };
        match bridged.sift(event) {
            Sifted::Drop => {}
            Sifted::Pass(event) => self.pass(event),
            Sifted::PassAndExecute(event) => {
                let calls = bridged.execute();
                if !calls.is_empty() {
                    self.output.push_back(LegOutput::Execute(calls));
                }
                self.pass(event);
            }
            Sifted::Work => match bridged.usage.take() {
                Some(usage) => self.work(usage),
                None => self.estimate(Counting::Work),
            },
        }
    }

    /// An event for the client; before an ending the tokens of the part.
    fn pass(&mut self, event: TurnEvent) {
        if event.is_terminal()
            && let Some(usage) = self.bridged.as_mut().and_then(|bridged| bridged.usage.take())
        {
            self.waiting.push_back(TurnEvent::Usage(usage));
        }
        self.waiting.push_back(event);
    }

    /// The model called only bridged tools: the leg continues with their results.
    fn work(&mut self, usage: Usage) {
        self.turn.note_usage(&usage);
        let Some(bridged) = &mut self.bridged else { return };
        bridged.before = Some(bridged.before.map_or(usage, |before| before.plus(usage)));
        if bridged.warned {
            let text = format!(
                "The model wanted to call more than {MOST_CALLS} tools of MCP servers in one \
                 turn."
            );
            return self.give_up(TurnError::new(ErrorCode::ToolLoop, text));
        }
        let calls = bridged.execute();
        // Even when none is left to execute: the caller says when it is time to continue.
        self.output.push_back(LegOutput::Execute(calls));
    }

    /// A bridged tool is done.
    pub fn on_tool_result(&mut self, result: ToolResult) {
        if let Some(bridged) = &mut self.bridged {
            bridged.on_result(result);
        }
    }

    /// Whether bridged tools are being executed.
    #[must_use]
    pub fn is_executing(&self) -> bool {
        self.bridged.as_ref().is_some_and(|bridged| bridged.is_running())
    }

    /// Whether the leg waits for bridged tools, and for nothing else.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.bridged.as_ref().is_some_and(|bridged| bridged.is_working())
    }

    /// Sends the results of bridged tools to the backend, once all are there. What follows belongs
    /// to the same leg.
    pub fn continue_with_results(&mut self, now: Millis) {
        if let Some(controls) = self.present.as_mut().and_then(|present| present.controls.as_mut())
        {
            controls.set_aside();
        }
        let Some(bridged) = &mut self.bridged else { return };
        let request = bridged.with_results();
        if self.turn.resume(request, now).is_ok() {
            bridged.begin_part();
        } else if self.turn.state() != TurnState::Done {
            let text = "The tool results could not be passed on. This is a bug in ibeam.";
            self.give_up(TurnError::new(ErrorCode::Internal, text));
        }
    }
}

// === controls ===

impl<P: Peer> Leg<P> {
    fn forward(&mut self, event: TurnEvent) {
        let Some(present) = &mut self.present else { return };
        let Some(controls) = &mut present.controls else { return self.take(event) };
        if !controls.is_slow(&event) {
            present.verdict = Some(controls.on_event(event));
            return;
        }
        if let Some(controls) = present.controls.take() {
            let is_check = controls.is_check(&event);
            self.judging = true;
            let check = SlowCheck { controls, event, is_check };
            self.output.push_back(LegOutput::Judge(Box::new(check)));
        }
    }

    /// The controls are back, with their verdict.
    pub fn on_judged(&mut self, controls: Box<Controls>, verdict: ControlVerdict) {
        self.judging = false;
        if let Some(present) = &mut self.present {
            present.controls = Some(controls);
            present.verdict = Some(verdict);
        }
    }

    /// The controls will not be back.
    pub fn on_judge_lost(&mut self, error: TurnError) {
        self.judging = false;
        self.give_up(error);
    }

    fn obey(&mut self, verdict: ControlVerdict) {
        match verdict {
            ControlVerdict::Go => {}
            ControlVerdict::End(reason) => self.end_early(reason),
            ControlVerdict::Fail(error) => self.give_up(error),
            ControlVerdict::Again(text, error) => {
                let lacks_usage = |present: &Present| {
                    present.controls.as_ref().is_some_and(|controls| controls.lacks_usage())
                };
                if self.present.as_deref().is_some_and(lacks_usage) {
                    self.estimate(Counting::AskAgain(text, error));
                } else {
                    self.ask_again(&text, error);
                }
            }
        }
    }

    /// The answer is over before the backend thinks so.
    fn end_early(&mut self, reason: FinishReason) {
        let Some(present) = &self.present else { return };
        let usage_told = present.usage_told;
        let counted = self.turn.cut(present.record.text());
        match counted {
            _ if usage_told => self.end(reason),
            Some(usage) if usage.source == UsageSource::Backend => {
                self.end_with_usage(reason, usage);
            }
            // Running counters lag behind what was delivered.
            running => self.estimate(Counting::EndEarly(reason, running)),
        }
    }

    /// Asks the model once more, for an answer in place of the one that just ended.
    fn ask_again(&mut self, text: &str, error: TurnError) {
        if !self.turn.ask_again(text) {
            self.fail(error);
        }
    }
}

#[cfg(test)]
#[path = "leg_tests.rs"]
mod tests;
