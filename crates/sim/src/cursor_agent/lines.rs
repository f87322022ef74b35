//! Lines on their way to stdout, with all that can be wrong with them (§9.4).

use std::io::{self, Write};

use serde_json::{Value, json};

use super::manners::{Manner, Manners};

/// The length of a line that nobody expects.
const HUGE: usize = 8 * 1024 * 1024;

/// Why there are no more lines.
#[derive(Debug)]
pub(super) enum Halt {
    /// Nobody reads them.
    Gone,
    /// It is told to crash here.
    Crash,
}

impl From<io::Error> for Halt {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

pub(super) struct Lines {
    out: Box<dyn Write + Send>,
    manners: Manners,
    written: u64,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("written", &self.written).finish_non_exhaustive()
    }
}

impl Lines {
    pub(super) fn new(out: Box<dyn Write + Send>, manners: &Manners) -> Self {
        Self { out, manners: manners.clone(), written: 0 }
    }

    /// Writes one object.
    ///
    /// # Errors
    /// Nobody reads any more, or it is time to crash.
    pub(super) fn object(&mut self, object: &Value) -> Result<(), Halt> {
        if self.manners.crash_after().is_some_and(|lines| self.written >= lines) {
            return Err(Halt::Crash);
        }
        if self.manners.has(&Manner::Noise) && self.written.is_multiple_of(3) {
            self.bytes(b"(node:1) Warning: this line is not JSON {\n")?;
        }
        let mut line = object.to_string();
        if self.manners.has(&Manner::Ansi) {
            line = format!("\x1b[0m{line}\x1b[0m");
        }
        line.push_str(if self.manners.has(&Manner::Crlf) { "\r\n" } else { "\n" });
        self.bytes(line.as_bytes())?;
        self.written += 1;
        if self.manners.has(&Manner::HugeLine) && self.written == 1 {
            let huge = json!({ "type": "debug", "data": "x".repeat(HUGE) });
            self.bytes(format!("{huge}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Writes a text as it is.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Halt> {
        Ok(self.bytes(text.as_bytes())?)
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.manners.has(&Manner::SplitUtf8) {
            // Behind the first byte of every character that has more of them.
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

    /// A place to write to, and to look at afterwards. Every write is kept apart.
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

    use super::{Halt, Lines, Manners, testing::Paper};

    fn written(words: &str) -> (Vec<Vec<u8>>, String) {
        let paper = Paper::default();
        let mut lines = Lines::new(Box::new(paper.clone()), &Manners::parse(words).unwrap());
        lines.object(&json!({ "a": "é" })).unwrap();
        let pieces = paper.0.lock().clone();
        (pieces, paper.text())
    }

    #[test]
    fn a_line_is_bent_as_told() {
        assert_eq!(written("").1, "{\"a\":\"é\"}\n");
        assert_eq!(written("crlf").1, "{\"a\":\"é\"}\r\n");
        assert_eq!(written("ansi").1, "\x1b[0m{\"a\":\"é\"}\x1b[0m\n");
        assert!(written("noise").1.starts_with("(node:1)"));
        assert!(written("huge-line").1.len() > super::HUGE);
    }

    #[test]
    fn a_character_may_come_in_two_pieces() {
        let (pieces, text) = written("split-utf8");
        assert_eq!(text, "{\"a\":\"é\"}\n");
        assert_eq!(pieces.len(), 2);
        assert!(std::str::from_utf8(&pieces[0]).is_err());
    }

    #[test]
    fn it_crashes_after_so_many_lines() {
        let manners = Manners::parse("crash-after:1").unwrap();
        let mut lines = Lines::new(Box::new(Paper::default()), &manners);
        lines.object(&json!({})).unwrap();
        assert!(matches!(lines.object(&json!({})), Err(Halt::Crash)));
    }
}
