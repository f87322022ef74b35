//! Writing a recording while its turn runs.

use super::{
    event::{EventRecord, FailureRecord, LinkErrorRecord, UsageRecord},
    frame::{self, FrameReader},
    line::{self, Header, LineBody, RecordingLine},
    mask::Mask,
    request::RequestRecord,
    start::{StartRecord, TurnStart},
};
use crate::{model::Millis, turn::TapeEntry};

/// Makes the lines of one recording, each with its end.
#[derive(Debug)]
pub struct RecordingWriter {
    mask: Mask,
    link: FrameReader,
    /// The newest request: the next one has most of it, too.
    request: Option<RequestRecord>,
    /// How much there may be.
    room: usize,
    full: bool,
}

impl RecordingWriter {
    /// `most`: how many bytes a recording may have. Gives its first lines, too.
    #[must_use]
    pub fn begin(header: &Header, start: &TurnStart, mask: Mask, most: usize) -> (Self, String) {
        let link = FrameReader::default();
        let mut writer = Self { mask, link, request: None, room: most, full: false };
        let mut text = line::to_text(header, writer.mask.keeps_texts());
        text.push('\n');
        writer.room = writer.room.saturating_sub(text.len());
        let start = StartRecord::of(start, &mut writer.mask);
        writer.request = Some(start.request.clone());
        writer.line(Millis(0), LineBody::Start(Box::new(start)), &mut text);
        (writer, text)
    }

    /// The lines about what happened.
    pub fn note(&mut self, at: Millis, entry: &TapeEntry) -> String {
        let mut text = String::new();
        if self.full {
            return text;
        }
        for body in self.bodies(entry) {
            self.line(at, body, &mut text);
        }
        text
    }

    /// So many entries were lost before this.
    pub fn lost(&mut self, at: Millis, lines: u64) -> String {
        let mut text = String::new();
        self.line(at, LineBody::Lost { lines }, &mut text);
        text
    }

    /// The turn is over.
    pub fn end(&mut self, at: Millis) -> String {
        let mut text = String::new();
        self.line(at, LineBody::End, &mut text);
        text
    }

    fn line(&mut self, at: Millis, body: LineBody, text: &mut String) {
        if self.full {
            return;
        }
        let keeps_texts = self.mask.keeps_texts();
        let mut line = line::to_text(&RecordingLine { t: at.0, body }, keeps_texts);
        if line.len() > self.room {
            self.full = true;
            line = line::to_text(&RecordingLine { t: at.0, body: LineBody::Full }, keeps_texts);
        }
        self.room = self.room.saturating_sub(line.len() + 1);
        text.push_str(&line);
        text.push('\n');
    }

    fn bodies(&mut self, entry: &TapeEntry) -> Vec<LineBody> {
        let mask = &mut self.mask;
        vec![match entry {
            TapeEntry::Heard(message) => {
                return self.link.heard(message, mask).into_iter().map(LineBody::In).collect();
            }
            TapeEntry::Send(message) => {
                return frame::sent(message, mask).into_iter().map(LineBody::Out).collect();
            }
            TapeEntry::Opened => {
                self.link = FrameReader::default();
                LineBody::Opened
            }
            TapeEntry::LinkError(error) => {
                LineBody::LinkError { error: LinkErrorRecord::of(error, mask) }
            }
            TapeEntry::Eof => LineBody::Eof,
            TapeEntry::Timeout => LineBody::Timeout,
            TapeEntry::Reading(reading) => LineBody::Reading { reading: *reading },
            TapeEntry::Aborted(error) => LineBody::Aborted(FailureRecord::of(error, mask)),
            TapeEntry::Resumed(request) => {
                let whole = RequestRecord::of(request, mask);
                let mut record = whole.clone();
                if let Some(before) = self.request.replace(whole) {
                    record.shorten(&before);
                }
                LineBody::Resumed(Box::new(record))
            }
            TapeEntry::Retries(left) => LineBody::Retries { left: *left },
            TapeEntry::Relieved => LineBody::Relieved,
            TapeEntry::Cut(shown) => {
                LineBody::Cut { shown: shown.as_deref().map(|text| mask.said(text)) }
            }
            TapeEntry::AskedAgain(text) => LineBody::AskedAgain { text: mask.whole(text) },
            TapeEntry::Shown(text) => {
                LineBody::Shown { text: text.as_deref().map(|text| mask.said(text)) }
            }
            TapeEntry::UsageNoted(usage) => LineBody::UsageNoted(UsageRecord::of(usage)),
            TapeEntry::Open { fresh_token, open } => LineBody::Open {
                fresh_token: *fresh_token,
                prefer_h1: open.prefer_h1,
                allowed_tools: open.allowed_tools.as_deref().map(|list| tools(list, mask)),
                model: open.model.as_deref().map(|model| mask.model(model)),
                resumes: open.resumes,
                tools: open.tools,
            },
            TapeEntry::Close { cancel } => LineBody::Close { cancel: *cancel },
            TapeEntry::Event(event) => LineBody::Event(EventRecord::of(event, mask)),
            TapeEntry::Client(event) => LineBody::Client(EventRecord::of(event, mask)),
        }]
    }
}

/// The list of allowed tools: our own names, and what the backend asked for.
fn tools(list: &str, mask: &Mask) -> String {
    mask.error(list)
}
