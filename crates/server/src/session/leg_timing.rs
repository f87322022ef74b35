//! How the time of a leg was spent, for `log.timing`.

use tokio::time::Instant;

/// When a leg reached each stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct LegTiming {
    asked: Instant,
    started: Instant,
    pub(super) opened: Option<Instant>,
    pub(super) first_frame: Option<Instant>,
    pub(super) first_piece: Option<Instant>,
}

impl LegTiming {
    /// `asked`: when the client's request came; it may have waited since.
    pub(super) fn new(asked: Instant) -> Self {
        let started = Instant::now();
        Self { asked, started, opened: None, first_frame: None, first_piece: None }
    }

    /// The line that `log.timing` asks for; each number counts from the request.
    pub(super) fn log(&self) {
        let since = |mark: Option<Instant>| {
            mark.map(|mark| mark.duration_since(self.asked).as_secs_f64() * 1000.0)
        };
        tracing::debug!(
            target: "ibeam::timing",
            started_ms = since(Some(self.started)),
            opened_ms = since(self.opened),
            first_frame_ms = since(self.first_frame),
            first_piece_ms = since(self.first_piece),
            total_ms = since(Some(Instant::now())),
            "turn timing"
        );
    }
}
