//! Which step starts next. It starts nothing itself and reads no clock.

use super::steps::{StepWeight, TestStep};

pub(super) struct StepPlan {
    jobs: Vec<StepJob>,
    /// How many steps that are not light run at a time.
    lanes: usize,
}

struct StepJob {
    step: &'static TestStep,
    state: StepState,
    /// Seconds until the last step that waits for this one can be done: the longest way first.
    urgency: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StepState {
    Waiting,
    Running,
    Passed,
    Failed,
}

pub(super) enum NextStep {
    Start(&'static TestStep),
    /// It cannot run, because the step of this name did not pass.
    Skip(&'static TestStep, &'static str),
    /// Something has to end first, or all is done.
    Nothing,
}

impl StepPlan {
    pub(super) fn new(steps: &[&'static TestStep], lanes: usize) -> Self {
        let job = |step: &&'static TestStep| StepJob {
            step,
            state: StepState::Waiting,
            urgency: urgency(step, steps),
        };
        let mut jobs: Vec<StepJob> = steps.iter().map(job).collect();
        if lanes > 1 {
            jobs.sort_by_key(|job| std::cmp::Reverse(job.urgency));
        }
        Self { jobs, lanes }
    }

    /// Call it until there is nothing.
    pub(super) fn next(&mut self) -> NextStep {
        for job in &self.jobs {
            if job.state == StepState::Waiting
                && let Some(name) = job.step.needs
                && self.state(name) == Some(StepState::Failed)
            {
                let step = job.step;
                self.done(step, false);
                return NextStep::Skip(step, name);
            }
        }
        // Measuring steps come first where nothing else runs, so that the others need not be
        // waited for in the middle.
        let ready = |job: &&StepJob| self.is_ready(job);
        let alone =
            |job: &&StepJob| self.lanes > 1 && job.step.weight == StepWeight::Alone && ready(job);
        let found = self.jobs.iter().find(alone).or_else(|| self.jobs.iter().find(ready));
        let Some(step) = found.map(|job| job.step) else { return NextStep::Nothing };
        self.set(step, StepState::Running);
        NextStep::Start(step)
    }

    pub(super) fn done(&mut self, step: &TestStep, passed: bool) {
        self.set(step, if passed { StepState::Passed } else { StepState::Failed });
    }

    pub(super) fn is_finished(&self) -> bool {
        self.jobs.iter().all(|job| matches!(job.state, StepState::Passed | StepState::Failed))
    }

    fn is_ready(&self, job: &StepJob) -> bool {
        let passed = |name| matches!(self.state(name), None | Some(StepState::Passed));
        let over =
            |name| !matches!(self.state(name), Some(StepState::Waiting | StepState::Running));
        job.state == StepState::Waiting
            && job.step.needs.is_none_or(passed)
            && job.step.after.is_none_or(over)
            && self.has_room(job.step.weight)
    }

    fn has_room(&self, weight: StepWeight) -> bool {
        let running = |weight: StepWeight| {
            let running = self.jobs.iter().filter(|job| job.state == StepState::Running);
            running.filter(|job| job.step.weight == weight).count()
        };
        let [light, beside, busy, alone] =
            [StepWeight::Light, StepWeight::Beside, StepWeight::Busy, StepWeight::Alone]
                .map(running);
        let idle = light + beside + busy + alone == 0;
        let lane = alone == 0 && beside + busy < self.lanes;
        match weight {
            _ if self.lanes == 1 => idle,
            StepWeight::Light => light < self.lanes,
            StepWeight::Beside => lane,
            StepWeight::Busy => lane && busy == 0,
            StepWeight::Alone => idle,
        }
    }

    /// None if the step is not part of this run.
    fn state(&self, name: &str) -> Option<StepState> {
        self.jobs.iter().find(|job| job.step.name == name).map(|job| job.state)
    }

    fn set(&mut self, step: &TestStep, state: StepState) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.step.name == step.name) {
            job.state = state;
        }
    }
}

fn urgency(step: &TestStep, all: &[&'static TestStep]) -> u32 {
    let waits = |one: &&&TestStep| one.needs == Some(step.name) || one.after == Some(step.name);
    let later = all.iter().filter(waits).map(|one| urgency(one, all)).max();
    step.seconds + later.unwrap_or_default()
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
