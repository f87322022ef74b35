//! Events on their way past the controls of the request: what the client asked for and
//! the backend does not do.

use ibeam_core::{
    controls::{Controls, Verdict},
    error::{ErrorCode, TurnError},
    model::{FinishReason, TurnEvent, UsageSource},
};
use tracing::debug;

use super::Task;

impl Task {
    /// Takes an event of a leg that has controls.
    pub(super) async fn control(&mut self, event: TurnEvent) {
        let Some(verdict) = self.judge(event).await else {
            let text = "The controls of the request were lost. This is a bug in ibeam.";
            return self.give_up(TurnError::new(ErrorCode::Internal, text));
        };
        while let Some(event) = self.controls().and_then(Controls::pop) {
            self.take(event).await;
        }
        match verdict {
            Verdict::Go => {}
            Verdict::End(reason) => self.end_early(reason).await,
            Verdict::Fail(error) => self.give_up(error),
            Verdict::Again(text, error) => self.ask_again(&text, error).await,
        }
    }

    fn controls(&mut self) -> Option<&mut Controls> {
        self.leg.as_mut().and_then(|leg| leg.controls.as_deref_mut())
    }

    /// What is to be done about the turn. What takes a while is found out off the async
    /// threads. `None`: nobody can say any more.
    async fn judge(&mut self, event: TurnEvent) -> Option<Verdict> {
        let controls = self.controls()?;
        if !controls.is_slow(&event) {
            return Some(controls.on_event(event));
        }
        let checks = controls.is_check(&event);
        let mut controls = self.leg.as_mut()?.controls.take()?;
        let judge = move || {
            let verdict = controls.on_event(event);
            (controls, verdict)
        };
        let judged = if checks {
            let Some(judged) = self.hub.checks.run(judge).await else {
                let text = "Checking the answer against its JSON Schema took too long.";
                return Some(Verdict::Fail(TurnError::new(ErrorCode::FormatUnmet, text)));
            };
            judged
        } else {
            self.hub.tasks.spawn_blocking(judge).await
        };
        let (controls, verdict) = judged.ok()?;
        self.leg.as_mut()?.controls = Some(controls);
        Some(verdict)
    }

    /// The answer is over before the backend thinks so. That is told at once.
    async fn end_early(&mut self, reason: FinishReason) {
        debug!(?reason, "the client wants no more than this");
        let shown = self.leg.as_ref().and_then(|leg| leg.record.text());
        let counted = self.turn.cut(shown);
        self.carry_out();
        if self.leg.as_ref().is_some_and(|leg| !leg.usage_told) {
            let usage = match counted {
                Some(usage) if usage.source == UsageSource::Backend => usage,
                // Running counters lag behind what was delivered.
                running => running.unwrap_or_default().at_least(self.estimate().await),
            };
            if let Some(leg) = &mut self.leg {
                leg.usage_told = true;
                let controls = leg.controls.as_ref();
                let usage = controls.map_or(usage, |all| all.whole_usage(usage, reason));
                self.tell(TurnEvent::Usage(usage));
            }
        }
        self.finish(reason).await;
    }

    pub(super) fn give_up(&mut self, error: TurnError) {
        self.turn.cut(None);
        self.carry_out();
        self.fail(error);
    }

    /// Asks the model once more, for an answer in place of the one that just ended.
    async fn ask_again(&mut self, text: &str, error: TurnError) {
        if self.controls().is_some_and(|controls| controls.lacks_usage()) {
            let counted = self.estimate().await;
            self.turn.note_usage(&counted);
            if let Some(controls) = self.controls() {
                controls.add_usage(counted);
            }
        }
        if self.turn.ask_again(text) {
            debug!("asking again: the answer does not have the requested format");
            self.carry_out();
        } else {
            self.fail(error);
        }
    }
}
