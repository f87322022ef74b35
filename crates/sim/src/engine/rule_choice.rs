//! Which rule of the scenario a run plays, and its settings for the stream.

use std::{sync::Arc, time::Duration};

use super::{
    conversations::RuleChoice,
    run::SimRun,
    run_io::{RunResult, RunStop},
};
use crate::{
    behaviour::Behaviour,
    scenario::{Refuse, ScenarioRule},
};

impl SimRun {
    /// Chooses the rule and applies its settings for the stream. Without effect when that
    /// depends on a history that was not read yet.
    pub(crate) fn choose(&mut self) {
        let verbatim = self.behaviour().roots_resume_verbatim;
        self.choose_with(!self.prompt.asks_by_history(verbatim));
    }

    fn choose_with(&mut self, read: bool) {
        let scenario = &self.io.sim.config.scenario;
        let facts = self.prompt.facts(self.number, self.http1, read);
        self.rule = match self.io.sim.conversations.choose(&scenario.rules, &facts) {
            RuleChoice::Rule(at) => Some(at),
            RuleChoice::Builtin => None,
            RuleChoice::Undecided => return,
        };
        self.decided = true;
        let Some(rule) = self.rule.and_then(|at| scenario.rules.get(at)).cloned() else { return };
        self.io.quirks.extend(rule.quirks.iter());
        if !rule.behaviour.is_empty() {
            let mut behaviour = Behaviour::clone(&self.io.behaviour);
            behaviour.apply(&rule.behaviour);
            self.io.behaviour = Arc::new(behaviour);
        }
        self.io.out.style.gzip |= rule.gzip;
        self.io.out.style.split = rule.split.or(self.io.out.style.split);
        if let Some(frames) = rule.frames_per_chunk {
            self.io.out.style.per_chunk = frames;
        }
        if rule.cut.is_some() {
            self.io.cut = rule.cut;
        }
    }

    /// Chooses the rule after the history was read. The response has begun, so that a refusal is
    /// an error in the stream.
    pub(super) async fn choose_late(&mut self) -> RunResult {
        if self.decided {
            return Ok(());
        }
        self.choose_with(true);
        match self.refusal().await {
            Some(refuse) => Err(RunStop::Fail(refuse.connect_error())),
            None => Ok(()),
        }
    }

    pub(super) fn chosen(&self) -> Option<&ScenarioRule> {
        self.sim().config.scenario.rules.get(self.rule?)
    }

    /// Waits for the delay of the chosen rule. Returns its refusal, if it has one.
    pub(crate) async fn refusal(&self) -> Option<Refuse> {
        let (delay, refuse) = self.chosen().map(|rule| (rule.delay_ms, rule.refuse.clone()))?;
        tokio::time::sleep(Duration::from_millis(delay)).await;
        refuse.inspect(|_| self.io.tally.ended("refused"))
    }
}
