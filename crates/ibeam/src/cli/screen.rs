//! What a sign-in shows in a terminal: the link as a picture, and the time that is left.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use qrcode::{QrCode, render::unicode::Dense1x2};
use terminal_size::{Height, Width, terminal_size_of};
use tokio::time::{Instant, sleep, sleep_until};

use super::say;

/// The size of most terminals, for those that do not report theirs.
const USUAL: ScreenSize = ScreenSize { columns: 80, rows: 24 };

/// Rows below the picture: the time that is left, and the cursor's.
const BELOW: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScreenSize {
    columns: usize,
    rows: usize,
}

/// The terminal that words go to, if it is one.
pub(super) fn size() -> Option<ScreenSize> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    Some(terminal_size_of(std::io::stderr()).map_or(USUAL, |(Width(columns), Height(rows))| {
        ScreenSize { columns: columns.into(), rows: rows.into() }
    }))
}

/// A QR code of the link, or the size of the window that it needs: a code that is cut or
/// wrapped cannot be scanned.
pub(super) fn picture(url: &str, size: ScreenSize) -> Option<String> {
    let code = QrCode::with_error_correction_level(url, qrcode::EcLevel::L).ok()?;
    // A filled cell is light: most terminals are dark.
    let mut picture = code.render::<Dense1x2>();
    let picture = picture.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    let columns = picture.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    let rows = picture.lines().count() + BELOW;
    Some(if columns <= size.columns && rows <= size.rows {
        picture
    } else {
        format!("(A window of {columns} columns and {rows} rows has room for a QR code, too.)")
    })
}

/// Whether a line can be written over.
pub(super) fn is_live() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Shows how much time is left.
#[derive(Clone, Copy)]
pub(super) struct WaitingLine {
    deadline: Instant,
    live: bool,
}

impl WaitingLine {
    pub(super) fn until(deadline: Instant) -> Self {
        Self { deadline, live: is_live() }
    }

    pub(super) async fn show(&self) {
        const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        let mut frames = FRAMES.iter().cycle();
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The login itself has the last word on this.
                sleep_until(self.deadline + Duration::from_secs(60)).await;
                return;
            }
            if self.live {
                let frame = frames.next().copied().unwrap_or_default();
                // Asked each time: windows change their size.
                let columns = size().unwrap_or(USUAL).columns;
                write_over(&live_line(frame, left, columns));
                sleep(Duration::from_millis(120).min(left)).await;
            } else {
                say(&format!("Waiting for you to sign in, {} left.", clock_face(left)));
                sleep(Duration::from_secs(60).min(left)).await;
            }
        }
    }

    pub(super) fn clear(&self) {
        if self.live {
            write_over("");
        }
    }
}

/// The longest form that fits. One that fills the line would wrap, and what is wrapped
/// cannot be written over.
fn live_line(frame: &str, left: Duration, columns: usize) -> String {
    let time = clock_face(left);
    let forms = [
        format!("{frame} Waiting for you to sign in, {time} left. Ctrl-C stops."),
        format!("{frame} Sign in, {time} left. Ctrl-C stops."),
        format!("{frame} {time} left"),
    ];
    forms.into_iter().find(|form| form.chars().count() < columns).unwrap_or_default()
}

/// A text that leaves the last column free: what is wrapped cannot be written over.
pub(super) fn cut(text: &str) -> String {
    let columns = size().unwrap_or(USUAL).columns;
    text.chars().take(columns.saturating_sub(1)).collect()
}

/// The width of the terminal that data goes to, if it is one.
pub(super) fn columns_of_stdout() -> Option<usize> {
    let is_terminal = std::io::stdout().is_terminal();
    let size = is_terminal.then(|| terminal_size_of(std::io::stdout())).flatten();
    size.map(|(Width(columns), _)| columns.into())
}

/// Puts a text in place of the line that is there.
pub(super) fn write_over(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
}

/// `23:05`. A second that has begun counts as one that is left.
fn clock_face(left: Duration) -> String {
    let seconds = left.as_millis().div_ceil(1_000);
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> String {
        format!("https://cursor.com/loginDeepControl?challenge={}", "x".repeat(120))
    }

    #[test]
    fn qr_code_is_shown_if_it_fits() {
        let shown = |columns, rows| picture(&link(), ScreenSize { columns, rows }).unwrap();
        let whole = shown(80, 40);
        assert!(whole.starts_with("████"), "the margin is light: {whole}");
        let (columns, rows) =
            (whole.lines().next().unwrap().chars().count(), whole.lines().count());
        assert!(whole.lines().all(|line| line.chars().count() == columns), "{whole}");
        assert!(columns < 80 && rows < 40, "{whole}");
        assert_eq!(shown(columns, rows + BELOW), whole);
        for (columns, rows) in [(columns - 1, rows + BELOW), (columns, rows + 1), (40, 12)] {
            let text = shown(columns, rows);
            assert!(text.contains("QR code") && text.lines().count() == 1, "{text}");
        }
    }

    #[test]
    fn waiting_line_is_shorter_than_its_row() {
        let left = Duration::from_secs(1385);
        for columns in 0..120 {
            let line = live_line("⠋", left, columns);
            assert!(line.is_empty() || line.chars().count() < columns, "{columns}: {line}");
            assert_eq!(line.contains("23:05"), columns > 12, "{columns}: {line}");
            assert_eq!(line.contains("Ctrl-C"), columns > 36, "{columns}: {line}");
        }
        assert!(live_line("⠋", left, 80).contains("Waiting for you to sign in, 23:05 left."));
    }

    #[test]
    fn time_is_formatted_as_minutes_and_seconds() {
        assert_eq!(clock_face(Duration::from_secs(1385)), "23:05");
        assert_eq!(clock_face(Duration::from_millis(8_001)), "0:09");
        assert_eq!(clock_face(Duration::from_millis(1)), "0:01");
        assert_eq!(clock_face(Duration::ZERO), "0:00");
    }
}
