//! Finds out which conversation a child has open, from the first line that names one. The turn
//! parses the output too; this serves only to find the child again.

use bytes::Bytes;
use ibeam_core::codec::ndjson;
use serde_json::Value;

/// Longer lines do not name a conversation.
const LONGEST: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Session {
    name: Option<String>,
    /// The line so far. `None`: it is too long.
    line: Option<Vec<u8>>,
}

impl Session {
    /// Starts with this name, or without one.
    pub(super) fn of(name: Option<String>) -> Self {
        Self { name, line: Some(Vec::new()) }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Reads some output. Cheap once the name is known.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.name.is_some() {
                self.line = None;
                return;
            }
            if let Some(line) = &mut self.line {
                line.extend_from_slice(part);
                if line.len() > LONGEST {
                    self.line = None;
                }
            }
            if part.ends_with(b"\n") {
                self.name = self.line.take().and_then(|line| named(&line));
                self.line = Some(Vec::new());
            }
        }
    }
}

/// `session_id` of stream-json, or `sessionId` in ACP's answer to `session/new`. Its notifications
/// may still be about the conversation before.
fn named(line: &[u8]) -> Option<String> {
    let line = ndjson::uncoloured(Bytes::copy_from_slice(line));
    let line: Value = serde_json::from_slice(&line).ok()?;
    let places = ["/session_id", "/result/sessionId"];
    let name = places.iter().find_map(|place| line.pointer(place)?.as_str())?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&[u8]]) -> Option<String> {
        let mut session = Session::of(None);
        for piece in pieces {
            session.hear(piece);
        }
        session.name
    }

    #[test]
    fn both_protocols_name_it() {
        let init = br#"{"type":"system","subtype":"init","session_id":"chat-1"}"#;
        assert_eq!(heard(&[b"noise\n", init, b"\n"]).as_deref(), Some("chat-1"));
        let late = b"{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\"}}\n";
        assert_eq!(heard(&[late]), None);
        let acp = b"{\"id\":1,\"result\":{}}\n{\"id\":2,\"result\":{\"sessionId\":\"s2\"}}\n";
        for cut in 0..acp.len() {
            let (one, two) = acp.split_at(cut);
            assert_eq!(heard(&[one, two]).as_deref(), Some("s2"), "cut at {cut}");
        }
    }

    #[test]
    fn only_whole_lines_count_and_long_ones_do_not() {
        let line = br#"{"session_id":"chat-1"}"#;
        assert_eq!(heard(&[line]), None);
        let long = vec![b' '; LONGEST + 1];
        assert_eq!(heard(&[&long, line, b"\n"]), None);
        assert_eq!(heard(&[&long, b"\n", line, b"\n"]).as_deref(), Some("chat-1"));
    }
}
