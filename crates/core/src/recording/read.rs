//! Reading a recording.

use serde_json::Value;

use super::{
    line::{self, Header, HeaderRefused, LineBody, RecordingLine, VERSION},
    request::RequestRecord,
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
        let mut request: Option<RequestRecord> = None;
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty()).peekable();
        while let Some((at, text)) = lines.next() {
            let line = match read_line(text, header.texts) {
                Ok(line) => line,
                Err(_) if lines.peek().is_none() => {
                    if let Some(recording) = &mut recording {
                        recording.truncated = true;
                    }
                    break;
                }
                Err(why) => return Err(RecordingError::Line { line: at + 1, why }),
            };
            let Some(recording) = &mut recording else {
                let LineBody::Start(start) = line.body else { return Err(RecordingError::NoStart) };
                request = Some(start.request.clone());
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
            recording.take(line, &mut request);
        }
        recording.ok_or(RecordingError::NoStart)
    }

    fn take(&mut self, mut line: RecordingLine, request: &mut Option<RequestRecord>) {
        match &mut line.body {
            LineBody::Unknown => {
                self.unknown += 1;
                return;
            }
            LineBody::Resumed(resumed) => {
                if let Some(before) = request.as_ref() {
                    resumed.complete(before);
                }
                *request = Some(RequestRecord::clone(resumed));
            }
            _ => {}
        }
        self.lines.push(line);
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

fn read_line(text: &str, texts: bool) -> Result<RecordingLine, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if !texts {
        line::lengthen(&mut value).ok_or("its placeholders are too long")?;
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}
