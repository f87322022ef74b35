//! What a probe shows while it waits: a line that is written over in a terminal, a line for each
//! question elsewhere.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use ibeam_core::peer::agent::probe::ProbeItem;
use tokio::time::{Instant, sleep};

use super::super::{say, screen};

/// How often the time that has passed is shown.
const TICK: Duration = Duration::from_secs(1);
/// The same where lines cannot be written over.
const QUIET_TICK: Duration = Duration::from_secs(60);

pub(super) struct ProbeProgress {
    items: usize,
    live: bool,
    silent: bool,
    now: RefCell<String>,
    run: Cell<usize>,
    since: Cell<Instant>,
}

impl ProbeProgress {
    pub(super) fn new(items: usize, silent: bool) -> Self {
        Self {
            items,
            live: std::io::stderr().is_terminal() && screen::is_live(),
            silent,
            now: RefCell::default(),
            run: Cell::new(0),
            since: Cell::new(Instant::now()),
        }
    }

    /// The next question is asked.
    pub(super) fn begin(&self, number: usize, item: &ProbeItem) {
        let model = item.model.as_ref().map(|model| format!(" ({})", model.id));
        let question = item.question;
        let line = format!(
            "[{}/{}] {question}: {}{}",
            number + 1,
            self.items,
            question.text(),
            model.unwrap_or_default()
        );
        if !self.live && !self.silent {
            say(&line);
        }
        self.now.replace(line);
        self.since.set(Instant::now());
    }

    /// A run begins.
    pub(super) fn run(&self, number: usize) {
        self.run.set(number + 1);
        self.show();
    }

    /// Shows the time that passes. It has no end.
    pub(super) async fn tick(&self) -> Infallible {
        loop {
            sleep(if self.live { TICK } else { QUIET_TICK }).await;
            match self.live {
                true => self.show(),
                false if !self.silent => {
                    let passed = self.since.get().elapsed().as_secs();
                    say(&format!("  still waiting for run {}, {passed} s", self.run.get()));
                }
                false => {}
            }
        }
    }

    pub(super) fn clear(&self) {
        if self.live && !self.silent {
            screen::write_over("");
            let _ = std::io::stderr().flush();
        }
    }

    fn show(&self) {
        if self.live && !self.silent {
            let passed = self.since.get().elapsed().as_secs();
            let line = format!("{}, run {}, {passed} s", self.now.borrow(), self.run.get());
            screen::write_over(&screen::cut(&line));
        }
    }
}
