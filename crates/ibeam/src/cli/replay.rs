//! `ibeam replay`: runs the turn machine on a recording, and says where it does something else
//! than it did.

use std::{
    fmt::Write as _,
    io::Read as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, builder::styling};
use ibeam_core::recording::{
    EventRecord, FrameRecord, Header, LineBody, Recording, RecordingLine,
    replay::{Replay, ReplayStep, ReplayWhat, replay},
};
use serde::Serialize;

use super::{Refusal, STYLES, USAGE, print, say};

/// A recording is at most 16 MiB; one that was put together by hand may be larger.
const LARGEST: u64 = 256 << 20;

/// So many adjacent pieces of text are shown as one line.
const FOLDED: usize = 4;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam serve --record ./recordings        record each turn in a file of its own
  ibeam replay recordings/turn-…jsonl      show step by step what happened
  ibeam replay --json FILE | jq .steps     for programs

A replay runs this version's turn machine: it is given what the recorded one was given, at the
same times. The exit code is 0 if it does the same, 1 if it does something else, and 2 if FILE
is not a recording that this version can read.")]
pub(super) struct ReplayCommand {
    /// A recording; `-` reads it from standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Show every piece of text instead of folding them
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ReplayJson<'a> {
    header: &'a Header,
    steps: Vec<StepJson>,
    differences: usize,
    /// The recording has all of the turn.
    complete: bool,
    /// Lines that this version does not know.
    unknown_lines: usize,
}

#[derive(Serialize)]
struct StepJson {
    /// `given`, `did`, `missing`, `extra` or `note`.
    step: &'static str,
    #[serde(flatten)]
    line: RecordingLine,
}

impl ReplayCommand {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let text = read(&self.file)?;
        let name = self.file.display();
        let unreadable = |error: &dyn std::fmt::Display| Refusal {
            code: USAGE,
            ..Refusal::new(format!("cannot replay {name}: {}", harmless(&error.to_string())))
        };
        let recording = Recording::read(&text).map_err(|error| unreadable(&error))?;
        let replay = replay(&recording).map_err(|error| unreadable(&error))?;
        if self.json {
            print(&escaped_json(&recording, &replay)?)?;
        } else {
            print(shown(&recording, &replay, self.all).trim_end())?;
        }
        for warning in warnings(&recording) {
            say(&warning);
        }
        Ok(if replay.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(LARGEST).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(LARGEST).read_to_string(&mut text))
    };
    match read.with_context(|| format!("cannot read {}", file.display())) {
        Ok(_) => Ok(text),
        Err(error) => {
            Err(Refusal { code: USAGE, ..Refusal::new(ibeam_server::net::chain(error.as_ref())) }
                .into())
        }
    }
}

fn warnings(recording: &Recording) -> Vec<String> {
    let mut warnings = Vec::new();
    if !recording.is_complete() {
        warnings.push("note: the recording lacks a part of the turn".to_owned());
    }
    if recording.unknown > 0 {
        let count = recording.unknown;
        warnings.push(format!("note: {count} lines are of a kind that this version does not know"));
    }
    warnings
}

/// JSON for programs that harms no terminal either.
fn escaped_json(recording: &Recording, replay: &Replay) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(&json(recording, replay))?;
    // Outside of its strings there are only line breaks.
    Ok(escaped(&text, |c| c != '\n' && is_harmful(c)))
}

fn json<'a>(recording: &'a Recording, replay: &Replay) -> ReplayJson<'a> {
    let steps = replay.steps.iter().map(|step| {
        let (word, body) = parts(step);
        StepJson { step: word, line: RecordingLine { t: step.t, body: body.clone() } }
    });
    ReplayJson {
        header: &recording.header,
        steps: steps.collect(),
        differences: replay.differences,
        complete: recording.is_complete(),
        unknown_lines: recording.unknown,
    }
}

fn parts(step: &ReplayStep) -> (&'static str, &LineBody) {
    match &step.what {
        ReplayWhat::Given(body) => ("given", body),
        ReplayWhat::Did(body) => ("did", body),
        ReplayWhat::Missing(body) => ("missing", body),
        ReplayWhat::Extra(body) => ("extra", body),
        ReplayWhat::Note(body) => ("note", body),
    }
}

// === for people ===

fn shown(recording: &Recording, replay: &Replay, all: bool) -> String {
    let Header { ibeam, backend, time, texts, .. } = &recording.header;
    let texts = if *texts { "with texts" } else { "without texts" };
    let [ibeam, backend, time] = [ibeam, backend, time].map(|text| harmless(text));
    let mut out =
        format!("A turn on `{backend}`, recorded by ibeam {ibeam} at {time}, {texts}\n\n");
    // Where the leg changes what the turn gives, the client got something else.
    let is_changed = |step: &ReplayStep| {
        matches!(&step.what, ReplayWhat::Note(LineBody::Client(event))
            if !matches!(event, EventRecord::Usage(_)))
    };
    let gives = if replay.steps.iter().any(is_changed) { "gives" } else { "client" };
    let mut rest = replay.steps.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let run = rest.iter().take_while(|step| !all && is_chatter(step)).count();
        if run > FOLDED {
            let (folded, after) = rest.split_at(run);
            fold(folded, &mut out);
            rest = after;
        } else {
            line(first, gives, &mut out);
            rest = after;
        }
    }
    let (bold, end) = (STYLES.get_header(), styling::Reset);
    let _ = match replay.differences {
        0 => writeln!(out, "\n{bold}The replay does the same as the recording.{end}"),
        count => {
            let red = STYLES.get_error();
            let lines = if count == 1 { "line differs" } else { "lines differ" };
            writeln!(
                out,
                "\n{red}{count} {lines} from the recording{end}: `-` was recorded and is missing \
                 now, `+` is new."
            )
        }
    };
    out
}

/// Pieces of text and thoughts, on both sides of the machine.
fn is_chatter(step: &ReplayStep) -> bool {
    match &step.what {
        ReplayWhat::Given(LineBody::In(FrameRecord::Message { kind, .. })) => {
            ["text_delta", "thinking_delta", "token_delta", "heartbeat"]
                .iter()
                .any(|known| kind.ends_with(known))
        }
        ReplayWhat::Given(LineBody::In(FrameRecord::Part { .. })) => true,
        ReplayWhat::Did(LineBody::Event(event)) => {
            matches!(event, EventRecord::Text { .. } | EventRecord::Reasoning { .. })
        }
        _ => false,
    }
}

fn fold(steps: &[ReplayStep], out: &mut String) {
    let (mut frames, mut events, mut bytes) = (0, 0, 0);
    for step in steps {
        match &step.what {
            ReplayWhat::Did(LineBody::Event(
                EventRecord::Text { bytes: more, .. } | EventRecord::Reasoning { bytes: more, .. },
            )) => {
                events += 1;
                bytes += more;
            }
            _ => frames += 1,
        }
    }
    let last = steps.last().map_or(0, |step| step.t);
    let _ = writeln!(
        out,
        "{:>9}           … {frames} frames and {events} pieces of text ({bytes} bytes), until {last} \
         ms",
        ""
    );
}

/// `gives` is what an event of the turn is called.
fn line(step: &ReplayStep, gives: &str, out: &mut String) {
    let (word, body) = parts(step);
    let side = match body {
        LineBody::In(_) => "heard",
        LineBody::Out(_) => "sends",
        LineBody::Open { .. } | LineBody::Close { .. } => "does",
        LineBody::Event(_) => gives,
        LineBody::Client(_) => "client",
        LineBody::Lost { .. } | LineBody::Full | LineBody::End | LineBody::Unknown => "note",
        _ => "given",
    };
    let (style, mark) = match word {
        "missing" => (*STYLES.get_error(), "-"),
        "extra" => (*STYLES.get_header(), "+"),
        _ => (styling::Style::new(), " "),
    };
    let end = if mark == " " { "" } else { "\u{1b}[0m" };
    let body = harmless(&body.to_string());
    let _ = writeln!(out, "{:>6} ms {style}{mark} {side:<7} {body}{end}", step.t);
}

/// A text of a recording, which may be that of a stranger, without what a terminal obeys.
fn harmless(text: &str) -> String {
    escaped(text, is_harmful)
}

/// Control characters, and those that turn the direction of a text.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// With escapes as JSON has them. All of these characters have only four digits.
fn escaped(text: &str, is: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
