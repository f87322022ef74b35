//! One run of `cursor-agent --print`: the prompt goes in, events come out.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{
    event::{CliEvent, MessagePart},
    failure,
    plain::NoiseTail,
    recap::{RecapFilter, TextMark},
    tool::CliCall,
};
use crate::{
    codec::ndjson::Lines,
    model::FinishReason,
    peer::PeerFailure,
    peer::child::{self, ChildEvent, ChildRequest, Exit, Ready, ReportedTokens, ToChild},
};

/// The prompt goes out in pieces of this many bytes.
const PIECE: usize = 64 * 1024;

/// Speaks with a child that runs with `--print --output-format stream-json
/// --stream-partial-output` and reads its prompt from standard input.
#[derive(Debug, Default)]
pub struct CliSpeaker {
    input: Bytes,
    /// The input is still to be closed.
    closes: bool,
    lines: Lines,
    heard: VecDeque<ChildEvent>,
    answer: RecapFilter,
    thoughts: RecapFilter,
    session: Option<String>,
    /// The last lines that were no events.
    noise: NoiseTail,
    /// The run resumes a session.
    resumed: bool,
    /// It called a tool.
    acted: bool,
    cancelled: bool,
    /// The last word was heard.
    over: bool,
    unknown: u64,
    /// Lines that were too long, up to the last one that was not.
    dropped: u64,
}

impl child::Speaker for CliSpeaker {
    fn begin(&mut self, _ready: &Ready, ask: &ChildRequest) {
        self.input = Bytes::from(ask.prompt.text.clone());
        self.closes = true;
        self.resumed = ask.resume.is_some();
    }

    fn on_output(&mut self, bytes: Bytes) {
        if !self.over {
            self.lines.push(bytes);
            self.read_lines();
        }
    }

    fn on_exit(&mut self, exit: &Exit) {
        self.lines.finish();
        self.read_lines();
        if self.over {
            return;
        }
        // The last event repeats the whole answer. One that is longer than a line may be was
        // dropped, and nothing is missing without it.
        let dropped = self.lines.dropped() > self.dropped;
        if dropped && exit.code == Some(0) && self.answer.any() && !self.cancelled {
            self.over = true;
            self.heard.push_back(ChildEvent::Ended(FinishReason::Stop));
            return;
        }
        let failure = if self.cancelled {
            failure::of_cancel()
        } else {
            failure::of_exit(exit, self.noise.as_str(), self.resumed)
        };
        self.fail(failure);
    }

    /// This protocol has no word for it: only what was not said yet need not be.
    fn cancel(&mut self) {
        self.cancelled = true;
        self.input = Bytes::new();
    }

    fn poll_send(&mut self) -> Option<ToChild> {
        if !self.input.is_empty() {
            let piece = self.input.len().min(PIECE);
            return Some(ToChild::Input(self.input.split_to(piece)));
        }
        std::mem::take(&mut self.closes).then_some(ToChild::CloseInput)
    }

    fn poll_heard(&mut self) -> Option<ChildEvent> {
        self.heard.pop_front()
    }

    fn unknown(&self) -> u64 {
        self.unknown.saturating_add(self.lines.dropped())
    }
}

impl CliSpeaker {
    fn read_lines(&mut self) {
        while !self.over
            && let Some(line) = self.lines.next()
        {
            self.dropped = self.lines.dropped();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
            match CliEvent::read(line) {
                Some(event) => self.on_event(&event),
                None if line.is_empty() => {}
                None => {
                    self.unknown += 1;
                    self.noise.push_line(line);
                }
            }
        }
    }

    fn on_event(&mut self, event: &CliEvent<'_>) {
        let before = self.heard.len();
        if let Some(session) = event.session()
            && self.session.as_deref() != Some(session)
        {
            self.session = Some(session.to_owned());
            self.heard.push_back(ChildEvent::Session(session.to_owned()));
        }
        match (event.kind(), event.subtype()) {
            ("system", "init") | ("user", _) => {}
            ("assistant", _) => self.on_message(event),
            ("thinking", subtype) => {
                // The end of a thought says nothing new, unless it is all there is of it.
                let mark = match subtype {
                    "completed" => TextMark::Flush,
                    "" => TextMark::Piece,
                    _ => TextMark::Delta,
                };
                self.think(event.text().unwrap_or_default(), mark);
            }
            ("tool_call", subtype) => self.on_tool(event, subtype),
            ("result", _) => self.on_result(event),
            ("error", _) => {
                self.fail(failure::of_complaint(&event.complaint(), self.resumed));
            }
            _ => self.unknown += 1,
        }
        if self.heard.len() == before {
            self.heard.push_back(ChildEvent::Alive);
        }
    }

    fn on_message(&mut self, event: &CliEvent<'_>) {
        let mark = event.mark();
        for part in event.parts() {
            match part {
                MessagePart::Text(text) => self.speak(&text, mark),
                MessagePart::Thought(text) => self.think(&text, mark),
                MessagePart::Unknown => self.unknown += 1,
            }
        }
        let mark = if mark == TextMark::Bare { TextMark::Piece } else { mark };
        self.speak(event.text().unwrap_or_default(), mark);
    }

    fn speak(&mut self, text: &str, mark: TextMark) {
        let new = self.answer.pass(text, mark);
        if !new.is_empty() {
            self.heard.push_back(ChildEvent::Text(new.to_owned()));
        }
    }

    fn think(&mut self, text: &str, mark: TextMark) {
        let new = self.thoughts.pass(text, mark);
        if !new.is_empty() {
            self.heard.push_back(ChildEvent::Thought(new.to_owned()));
        }
    }

    fn on_tool(&mut self, event: &CliEvent<'_>, subtype: &str) {
        let Some(call) = event.tool_call.and_then(CliCall::read) else {
            self.unknown += 1;
            return;
        };
        self.acted = true;
        if subtype == "completed" {
            // Of a hosted tool we gave the result ourselves.
            let failure = call.failure().filter(|_| !call.hosted);
            self.heard.extend(failure.map(ChildEvent::Did));
            return;
        }
        // Calls may end while the next message is written; they only begin before it.
        self.answer.next_message();
        self.thoughts.next_message();
        self.heard.push_back(if call.hosted {
            ChildEvent::Announced
        } else {
            ChildEvent::Did(call.line())
        });
    }

    fn on_result(&mut self, event: &CliEvent<'_>) {
        self.heard.extend(event.usage.and_then(ReportedTokens::usage).map(ChildEvent::Usage));
        if event.is_error() {
            self.fail(failure::of_complaint(&event.complaint(), self.resumed));
            return;
        }
        if !self.answer.any() {
            self.speak(event.result(), TextMark::Flush);
        }
        if self.answer.any() || self.thoughts.any() || self.acted {
            self.over = true;
            self.heard.push_back(ChildEvent::Ended(FinishReason::Stop));
        } else {
            self.fail(failure::of_nothing());
        }
    }

    fn fail(&mut self, failure: PeerFailure) {
        self.over = true;
        self.heard.push_back(ChildEvent::Failed(failure));
    }
}

#[cfg(test)]
#[path = "speaker_tests.rs"]
mod tests;
