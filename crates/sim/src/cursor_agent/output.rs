//! Lines for stdout, and every way in which they can be wrong (§9.4).

use std::io::{self, Write};

use serde_json::{Value, json};

use super::switches::{FakeSwitch, FakeSwitches};

/// The length of the line of `huge-line`.
const HUGE: usize = 8 * 1024 * 1024;

/// Why the output stops.
#[derive(Debug)]
pub(super) enum OutputHalt {
    /// The reader has closed it.
    Gone,
    /// The switch `crash-after`.
    Crash,
}

impl From<io::Error> for OutputHalt {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

pub(super) struct OutputLines {
    out: Box<dyn Write + Send>,
    switches: FakeSwitches,
    written: u64,
}

impl std::fmt::Debug for OutputLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("written", &self.written).finish_non_exhaustive()
    }
}

impl OutputLines {
    pub(super) fn new(out: Box<dyn Write + Send>, switches: &FakeSwitches) -> Self {
        Self { out, switches: switches.clone(), written: 0 }
    }

    /// Writes one object.
    ///
    /// # Errors
    /// The reader has closed the output, or it is time to crash.
    pub(super) fn object(&mut self, object: &Value) -> Result<(), OutputHalt> {
        if self.switches.crash_after().is_some_and(|lines| self.written >= lines) {
            return Err(OutputHalt::Crash);
        }
        if self.switches.has(&FakeSwitch::Noise) && self.written.is_multiple_of(3) {
            self.bytes(b"(node:1) Warning: this line is not JSON {\n")?;
        }
        let mut line = object.to_string();
        if self.switches.has(&FakeSwitch::Ansi) {
            line = format!("\x1b[0m{line}\x1b[0m");
        }
        line.push_str(if self.switches.has(&FakeSwitch::Crlf) { "\r\n" } else { "\n" });
        self.bytes(line.as_bytes())?;
        self.written += 1;
        if self.switches.has(&FakeSwitch::HugeLine) && self.written == 1 {
            let huge = json!({ "type": "debug", "data": "x".repeat(HUGE) });
            self.bytes(format!("{huge}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Writes a text unchanged.
    ///
    /// # Errors
    /// The reader has closed the output.
    pub(super) fn text(&mut self, text: &str) -> Result<(), OutputHalt> {
        Ok(self.bytes(text.as_bytes())?)
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.switches.has(&FakeSwitch::SplitUtf8) {
            // After the first byte of every multi-byte character.
            while let Some(at) = bytes.iter().position(|byte| *byte >= 0xc0) {
                let (head, tail) = bytes.split_at(at + 1);
                self.out.write_all(head)?;
                self.out.flush()?;
                bytes = tail;
            }
        }
        self.out.write_all(bytes)?;
        self.out.flush()
    }
}

#[cfg(test)]
pub(super) mod testing {
    use std::{
        io::{self, Write},
        sync::Arc,
    };

    use parking_lot::Mutex;

    /// Records what is written. Every write is kept separately.
    #[derive(Clone, Debug, Default)]
    pub(in super::super) struct Paper(pub(in super::super) Arc<Mutex<Vec<Vec<u8>>>>);

    impl Paper {
        pub(in super::super) fn text(&self) -> String {
            String::from_utf8(self.0.lock().concat()).unwrap()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{FakeSwitches, OutputHalt, OutputLines, testing::Paper};

    fn written(words: &str) -> (Vec<Vec<u8>>, String) {
        let paper = Paper::default();
        let mut lines =
            OutputLines::new(Box::new(paper.clone()), &FakeSwitches::parse(words).unwrap());
        lines.object(&json!({ "a": "é" })).unwrap();
        let pieces = paper.0.lock().clone();
        (pieces, paper.text())
    }

    #[test]
    fn switches_change_lines() {
        assert_eq!(written("").1, "{\"a\":\"é\"}\n");
        assert_eq!(written("crlf").1, "{\"a\":\"é\"}\r\n");
        assert_eq!(written("ansi").1, "\x1b[0m{\"a\":\"é\"}\x1b[0m\n");
        assert!(written("noise").1.starts_with("(node:1)"));
        assert!(written("huge-line").1.len() > super::HUGE);
    }

    #[test]
    fn split_utf8_splits_characters() {
        let (pieces, text) = written("split-utf8");
        assert_eq!(text, "{\"a\":\"é\"}\n");
        assert_eq!(pieces.len(), 2);
        assert!(std::str::from_utf8(&pieces[0]).is_err());
    }

    #[test]
    fn crash_after_counts_lines() {
        let switches = FakeSwitches::parse("crash-after:1").unwrap();
        let mut lines = OutputLines::new(Box::new(Paper::default()), &switches);
        lines.object(&json!({})).unwrap();
        assert!(matches!(lines.object(&json!({})), Err(OutputHalt::Crash)));
    }
}
