//! What the child says.

use super::{Link, Turn};
use crate::{
    child::{Ask, Heard, Ready, prompt},
    model::Millis,
    turn::Command,
};

impl Turn {
    /// The child is there: it is told what it is there for.
    pub(super) fn begin_run(&mut self, ready: &Ready, now: Millis) {
        let (Link::Open(run), Some(request)) = (&mut self.link, &self.request) else { return };
        let ask = Ask {
            prompt: prompt::write(request, &self.telling, self.rules),
            model: self.model.clone(),
            resume: self.telling.resume.clone(),
        };
        run.speaker.begin(ready, &ask);
        self.hear(now);
    }

    /// Takes everything that the speaker has to say, to either side.
    pub(super) fn hear(&mut self, now: Millis) {
        loop {
            self.say();
            let Link::Open(run) = &mut self.link else { return };
            let Some(heard) = run.speaker.poll_heard() else { return };
            run.spoke = true;
            self.on_heard(heard, now);
        }
    }

    /// Passes on what the speaker tells the child.
    pub(super) fn say(&mut self) {
        if let Link::Open(run) = &mut self.link {
            while let Some(message) = run.speaker.poll_send() {
                self.commands.push_back(Command::Tell(message));
            }
        }
    }

    fn on_heard(&mut self, heard: Heard, now: Millis) {
        match heard {
            Heard::Session(name) => self.name = Some(name),
            Heard::Text(text) => {
                self.answer.started();
                self.answer.text(text);
            }
            Heard::Thought(text) => {
                self.answer.started();
                self.answer.reasoning(text);
            }
            Heard::Did(line) => {
                self.answer.started();
                self.answer.did(&line);
            }
            Heard::Announced => {
                if let Link::Open(run) = &mut self.link {
                    run.announced += 1;
                }
            }
            Heard::Usage(usage) => self.answer.run_ended(usage.into()),
            Heard::Alive => {}
            Heard::Ended(reason) => self.on_ended(reason, now),
            Heard::Failed(failure) => self.on_failed(failure, now),
        }
        self.bound_parked();
    }

    /// More than is kept for a client that may never come back is let go of.
    pub(super) fn bound_parked(&mut self) {
        let held = self.answer.waiting() + self.held_bytes();
        if self.awaiting && held > self.settings.parked_bytes {
            self.let_go(true);
        }
    }
}
