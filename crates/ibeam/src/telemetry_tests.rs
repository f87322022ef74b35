use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn capture(json: bool, log: impl FnOnce()) -> String {
    let captured = Captured::default();
    let writer = {
        let captured = captured.clone();
        move || Redacting(captured.clone())
    };
    let registry = tracing_subscriber::registry();
    if json {
        let layer = fmt::layer().json().flatten_event(true).with_writer(writer);
        tracing::subscriber::with_default(registry.with(layer), log);
    } else {
        let layer = fmt::layer().with_ansi(false).with_writer(writer);
        tracing::subscriber::with_default(registry.with(layer), log);
    }
    let bytes = captured.0.lock().clone();
    String::from_utf8(bytes).unwrap()
}

fn leak() {
    let token = ibeam_sim::Sim::TOKEN;
    let span = tracing::info_span!("request", authorization = %format!("Bearer {token}"));
    let _in = span.enter();
    tracing::info!(header = %format!("authorization: Bearer {token}"), "sent");
    tracing::warn!("the backend said: {{\"accessToken\":\"{token}\",\"n\":1}}");
    tracing::warn!(api_key = "crsr_0123456789abcdef0123456789", "odd");
}

#[test]
fn no_secret_reaches_a_log_line() {
    for json in [false, true] {
        let text = capture(json, leak);
        assert!(!text.contains(ibeam_sim::Sim::TOKEN), "{text}");
        assert!(!text.contains("0123456789abcdef"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}

#[test]
fn redacted_json_is_still_json() {
    for line in capture(true, leak).lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(value.get("message").is_some(), "{line}");
    }
}

/// Paths and names come from clients: they must not turn a line around or break it in two.
#[test]
fn hidden_characters_are_shown_in_a_log_line() {
    let path = "/v1/\u{202e}slem\u{2028}\u{9b}31m\u{85}\u{200b}é";
    for json in [false, true] {
        let text = capture(json, || tracing::info!(path = %path, model = path, "{path}"));
        assert!(
            !text.contains(['\u{202e}', '\u{2028}', '\u{9b}', '\u{85}', '\u{200b}']),
            "{text:?}"
        );
        assert!(text.contains("u202e") && text.contains('é'), "{text}");
        if json {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["path"], path);
        }
    }
}

#[test]
fn libraries_are_quiet_unless_named() {
    let with = |text: &str, timing| {
        filter(&LogConfig { filter: text.to_owned(), json: false, timing, file: None })
    };
    let debug = with("debug", false);
    assert!(debug.would_enable("ibeam_server::driver", &tracing::Level::DEBUG));
    assert!(!debug.would_enable("h2::proto", &tracing::Level::DEBUG));
    assert!(with("info,h2=trace", false).would_enable("h2::proto", &tracing::Level::TRACE));
    assert!(with("info", true).would_enable("ibeam::timing", &tracing::Level::DEBUG));
    assert!(!with("info", true).would_enable("ibeam_server::app", &tracing::Level::DEBUG));
    assert!(!with("info", false).would_enable("ibeam::timing", &tracing::Level::DEBUG));
}

/// Takes nothing until it is let go.
struct Stuck(mpsc::Receiver<()>, Captured);

impl Write for Stuck {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        self.1.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn unread_log_does_not_block() {
    let (go, held) = mpsc::channel();
    let captured = Captured::default();
    let mut lines = LogLines::start(Stuck(held, captured.clone())).unwrap();
    for _ in 0..LINES + 100 {
        lines.write_all(b"line\n").unwrap();
    }
    lines.wait(Duration::from_millis(1));
    drop(go);
    let written = || String::from_utf8(captured.0.lock().clone()).unwrap();
    while written().matches("line\n").count() < LINES {
        std::thread::yield_now();
    }
    // There is room again.
    lines.wait(Duration::from_secs(10));
    assert!(written().contains("log lines were dropped"), "{}", written().len());
}
