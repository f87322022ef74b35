//! Where the time of a turn went, for `log.timing`.

use tokio::time::Instant;

/// When a turn got how far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub(super) asked: Instant,
    pub(super) opened: Option<Instant>,
    pub(super) first_frame: Option<Instant>,
    pub(super) first_piece: Option<Instant>,
}

impl Marks {
    pub(super) fn new(asked: Instant) -> Self {
        Self { asked, opened: None, first_frame: None, first_piece: None }
    }

    /// The line that `log.timing` asks for; each number counts from the request.
    pub(super) fn log(&self, started: Instant) {
        let since = |mark: Option<Instant>| {
            mark.map(|mark| mark.duration_since(self.asked).as_secs_f64() * 1000.0)
        };
        tracing::debug!(
            target: "ibeam::timing",
            started_ms = since(Some(started)),
            opened_ms = since(self.opened),
            first_frame_ms = since(self.first_frame),
            first_piece_ms = since(self.first_piece),
            total_ms = since(Some(Instant::now())),
            "where the time of the turn went"
        );
    }
}
