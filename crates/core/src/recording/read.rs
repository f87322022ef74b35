//! Reading a recording.

use serde_json::Value;

use super::{
    line::{self, Header, HeaderRefused, LONGEST, LineBody, RecordingLine, VERSION},
    start::StartRecord,
};

/// A recording that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    pub header: Header,
    pub start: StartRecord,
    /// Everything after the start.
    pub lines: Vec<RecordingLine>,
    /// Lines of kinds that a later version has.
    pub unknown: usize,
    /// The last line is not whole.
    pub truncated: bool,
}

/// Why a text is not a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    #[error(transparent)]
    Header(#[from] HeaderRefused),
    #[error("line {line} is not valid: {why}")]
    Line { line: usize, why: String },
    #[error("the recording has no beginning: its second line must be the start of the turn")]
    NoStart,
    #[error(
        "line {line} is too large: a recording may have {} MiB of placeholders and images",
        LONGEST >> 20
    )]
    TooLarge { line: usize },
}

impl Recording {
    /// Reads a recording. Kinds of lines that are not known are passed over, and so is a last line
    /// that is not whole: the program may have been killed.
    ///
    /// # Errors
    /// It is not a recording, or one of a newer format.
    pub fn read(text: &str) -> Result<Self, RecordingError> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().map(|(_, line)| line).unwrap_or_default();
        let header = header(first)?;
        let mut recording: Option<Self> = None;
        let mut room = LONGEST;
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty()).peekable();
        while let Some((at, text)) = lines.next() {
            let line = match read_line(text, header.texts, &mut room) {
                Ok(line) => line,
                Err(None) => return Err(RecordingError::TooLarge { line: at + 1 }),
                Err(Some(_)) if lines.peek().is_none() => {
                    if let Some(recording) = &mut recording {
                        recording.truncated = true;
                    }
                    break;
                }
                Err(Some(why)) => return Err(RecordingError::Line { line: at + 1, why }),
            };
            let Some(recording) = &mut recording else {
                let LineBody::Start(start) = line.body else { return Err(RecordingError::NoStart) };
                let header = header.clone();
                recording = Some(Self {
                    header,
                    start: *start,
                    lines: Vec::new(),
                    unknown: 0,
                    truncated: false,
                });
                continue;
            };
            if line.body == LineBody::Unknown {
                recording.unknown += 1;
            } else {
                recording.lines.push(line);
            }
        }
        recording.ok_or(RecordingError::NoStart)
    }

    /// Whether it has all of the turn.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let has = |kind: fn(&LineBody) -> bool| self.lines.iter().any(|line| kind(&line.body));
        let gap = has(|body| matches!(body, LineBody::Lost { .. } | LineBody::Full));
        has(|body| *body == LineBody::End) && !gap
    }
}

fn header(line: &str) -> Result<Header, HeaderRefused> {
    let value: Value = serde_json::from_str(line).map_err(|_| HeaderRefused::NoHeader)?;
    let version = value.get("ibeam_recording").and_then(Value::as_u64);
    let version = version.ok_or(HeaderRefused::NoHeader)?;
    if version > u64::from(VERSION) {
        let ibeam = value.get("ibeam").and_then(Value::as_str).unwrap_or("of a later version");
        return Err(HeaderRefused::Newer { found: version, ibeam: ibeam.to_owned() });
    }
    let header: Header = serde_json::from_value(value).map_err(|_| HeaderRefused::NoHeader)?;
    match header.backend() {
        Some(_) => Ok(header),
        None => Err(HeaderRefused::Backend(header.backend)),
    }
}

/// `Err(None)`: there is not so much room left.
fn read_line(text: &str, texts: bool, room: &mut usize) -> Result<RecordingLine, Option<String>> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| Some(error.to_string()))?;
    line::lengthen(&mut value, texts, room).ok_or(None)?;
    serde_json::from_value(value).map_err(|error| Some(error.to_string()))
}
