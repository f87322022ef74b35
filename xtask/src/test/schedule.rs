//! Which step starts next. It starts nothing itself and reads no clock.

use super::steps::{Step, Weight};

pub(super) struct Plan {
    jobs: Vec<Job>,
    /// How many steps that are not light run at a time.
    lanes: usize,
}

struct Job {
    step: &'static Step,
    state: State,
    /// Seconds until the last step that waits for this one can be done: the longest way first.
    urgency: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Passed,
    Failed,
}

pub(super) enum Next {
    Start(&'static Step),
    /// It cannot run, because the step of this name did not pass.
    Skip(&'static Step, &'static str),
    /// Something has to end first, or all is done.
    Nothing,
}

impl Plan {
    pub(super) fn new(steps: &[&'static Step], lanes: usize) -> Self {
        let job = |step: &&'static Step| Job {
            step,
            state: State::Waiting,
            urgency: urgency(step, steps),
        };
        let mut jobs: Vec<Job> = steps.iter().map(job).collect();
        if lanes > 1 {
            jobs.sort_by_key(|job| std::cmp::Reverse(job.urgency));
        }
        Self { jobs, lanes }
    }

    /// Call it until there is nothing.
    pub(super) fn next(&mut self) -> Next {
        for job in &self.jobs {
            if job.state == State::Waiting
                && let Some(name) = job.step.needs
                && self.state(name) == Some(State::Failed)
            {
                let step = job.step;
                self.done(step, false);
                return Next::Skip(step, name);
            }
        }
        // Measuring steps come first where nothing else runs, so that the others need not be
        // waited for in the middle.
        let ready = |job: &&Job| self.is_ready(job);
        let alone = |job: &&Job| self.lanes > 1 && job.step.weight == Weight::Alone && ready(job);
        let found = self.jobs.iter().find(alone).or_else(|| self.jobs.iter().find(ready));
        let Some(step) = found.map(|job| job.step) else { return Next::Nothing };
        self.set(step, State::Running);
        Next::Start(step)
    }

    pub(super) fn done(&mut self, step: &Step, passed: bool) {
        self.set(step, if passed { State::Passed } else { State::Failed });
    }

    pub(super) fn is_finished(&self) -> bool {
        self.jobs.iter().all(|job| matches!(job.state, State::Passed | State::Failed))
    }

    fn is_ready(&self, job: &Job) -> bool {
        let passed = |name| matches!(self.state(name), None | Some(State::Passed));
        let over = |name| !matches!(self.state(name), Some(State::Waiting | State::Running));
        job.state == State::Waiting
            && job.step.needs.is_none_or(passed)
            && job.step.after.is_none_or(over)
            && self.has_room(job.step.weight)
    }

    fn has_room(&self, weight: Weight) -> bool {
        let running = |weight: Weight| {
            let running = self.jobs.iter().filter(|job| job.state == State::Running);
            running.filter(|job| job.step.weight == weight).count()
        };
        let [light, beside, busy, alone] =
            [Weight::Light, Weight::Beside, Weight::Busy, Weight::Alone].map(running);
        let idle = light + beside + busy + alone == 0;
        let lane = alone == 0 && beside + busy < self.lanes;
        match weight {
            _ if self.lanes == 1 => idle,
            Weight::Light => light < self.lanes,
            Weight::Beside => lane,
            Weight::Busy => lane && busy == 0,
            Weight::Alone => idle,
        }
    }

    /// None if the step is not part of this run.
    fn state(&self, name: &str) -> Option<State> {
        self.jobs.iter().find(|job| job.step.name == name).map(|job| job.state)
    }

    fn set(&mut self, step: &Step, state: State) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.step.name == step.name) {
            job.state = state;
        }
    }
}

fn urgency(step: &Step, all: &[&'static Step]) -> u32 {
    let waits = |one: &&&Step| one.needs == Some(step.name) || one.after == Some(step.name);
    let later = all.iter().filter(waits).map(|one| urgency(one, all)).max();
    step.seconds + later.unwrap_or_default()
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
