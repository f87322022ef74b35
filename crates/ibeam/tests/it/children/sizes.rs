//! Very long prompts, results and answers.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    time::Duration,
};

use tokio::time::Instant;

use super::{BACKENDS, Gateway, body, machine::memory, pause, tell, user};
use crate::{client::ask, lab::chat};

const MB: usize = 1_000_000;

#[test]
fn five_megabyte_prompt_passes_stream_json() {
    long_prompt("cli");
}

#[test]
fn five_megabyte_prompt_passes_acp() {
    long_prompt("acp");
}

fn long_prompt(backend: &str) {
    let prompt = "All work and no play".repeat(5 * MB / 20);
    let gateway = Gateway::start(backend, "", &[]);
    let said = ask(gateway.url(), &[], &chat(&prompt, true));
    assert_eq!(said.finish, "stop");
    assert!(said.text.contains("(5000000 characters)"), "{backend}: {}", said.text);
}

/// The child learns how much is missing, and continues with the rest.
#[test]
fn a_result_of_twenty_megabytes_is_cut_with_a_note() {
    let result = "0123456789".repeat(2 * MB);
    let scenario = r#"
        [[rule]]
        steps = [
            { exec = { arm = "mcp", args = { name = "get_weather", args = { city = "Oslo" } } } },
            { text = { text = "It said: {result}", chunk = 65536 } },
        ]
    "#;
    for backend in BACKENDS {
        let folder = crate::watch::folder();
        let file = folder.path().join("scenario.toml");
        std::fs::write(&file, scenario).unwrap();
        let words = format!("scenario={}", file.display());
        // The stand-in's model looks at no more than 256 KiB.
        let gateway = Gateway::start(backend, &words, &["cursor_agent.result_bytes=200KiB"]);
        let mut messages = vec![user("What is the weather?")];
        let said = ask(gateway.url(), &[], &body(&messages));
        assert_eq!(said.finish, "tool_calls", "{backend}");
        messages.extend([said.message(), said.calls[0].result(&result)]);
        let said = ask(gateway.url(), &[], &body(&messages));
        assert_eq!(said.finish, "stop", "{backend}");
        let (kept, note) = said.text.split_once("\n[Cut here: ").unwrap_or_else(|| {
            panic!("{backend}: no note in {} bytes: {:.300}", said.text.len(), said.text)
        });
        assert_eq!(kept.len(), "It said: ".len() + (200 << 10), "{backend}");
        assert!(kept.ends_with("56789"), "{backend}");
        assert!(note.starts_with("the first 204800 of 20000000 bytes"), "{backend}: {note}");
    }
}

/// A piece of a long answer.
const PIECE: usize = 60_000;

#[test]
fn answer_of_42_megabytes_needs_little_memory_over_stream_json() {
    slowly("cli", 700, 150);
}

#[test]
fn answer_of_42_megabytes_needs_little_memory_over_acp() {
    slowly("acp", 700, 150);
}

#[test]
#[ignore = "takes a minute; `cargo xtask test --only children-500` runs it"]
fn answer_of_210_megabytes_needs_less_than_200() {
    for backend in BACKENDS {
        slowly(backend, 3_500, 200);
    }
}

/// A client that reads slowly slows the child down. Nothing piles up between the two, and
/// nothing is lost. `most` is in MiB.
fn slowly(backend: &str, pieces: usize, most: usize) {
    let piece: String = (0..PIECE / 10).map(|line| format!("{line:09} ")).collect();
    let text = format!("{{ text = {piece:?}, chunk = 0, repeat = {pieces}, pace_ms = 0 }}");
    let folder = crate::watch::folder();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, format!("[[rule]]\nsteps = [{{ text = {text} }}]\n")).unwrap();
    let words = format!("no-thinking,scenario={}", file.display());
    let gateway = Gateway::start(backend, &words, &[]);
    let began = Instant::now();
    let mut heard = Heard::default();
    let mut answer = open(&gateway, "Tell me everything");
    // A second of nothing, and then one piece at a time.
    pause(Duration::from_secs(1));
    for _ in 0..100 {
        heard.read_line(&mut answer);
        pause(Duration::from_millis(20));
    }
    let slow = memory(gateway.id(), "VmHWM:");
    while heard.read_line(&mut answer) {}
    let peak = memory(gateway.id(), "VmHWM:");
    tell(&format!("{backend}: {slow} MiB while slow, {peak} MiB at most, {:?}", began.elapsed()));
    assert!(heard.done, "{backend}: {} bytes, no end: {}", heard.text, heard.last);
    assert_eq!(heard.text, PIECE * pieces, "{backend}");
    assert!(peak < most, "{backend}: {peak} MiB");
}

/// What came of the answer. It is looked at and let go.
#[derive(Default)]
struct Heard {
    line: String,
    /// Bytes of the answer's text.
    text: usize,
    done: bool,
    last: String,
}

impl Heard {
    /// False: that was all.
    fn read_line(&mut self, answer: &mut BufReader<TcpStream>) -> bool {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let read = answer.read_line(&mut line).unwrap();
        // There is nothing in the text that JSON would write differently.
        if let Some((_, rest)) = line.split_once("\"content\":\"") {
            let text = rest.split('"').next().unwrap();
            for part in text.as_bytes().chunks(PIECE) {
                self.check(part);
            }
        } else if !line.trim().is_empty() {
            self.done = line.trim() == "data: [DONE]";
            self.last = line.chars().take(1000).collect();
        }
        self.line = line;
        read > 0
    }

    /// It continues where it stopped: every line of ten bytes is its own number.
    fn check(&mut self, part: &[u8]) {
        let at = self.text % PIECE;
        let first: String =
            (at / 10..at / 10 + 2).map(|line| format!("{:09} ", line % (PIECE / 10))).collect();
        let want = first.get(at % 10..).unwrap().as_bytes();
        let length = want.len().min(part.len());
        assert_eq!(part.get(..length), want.get(..length), "after {} bytes", self.text);
        self.text += part.len();
    }
}

fn open(gateway: &Gateway, question: &str) -> BufReader<TcpStream> {
    let address = gateway.url().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let body = chat(question, true).to_string();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.0\r\nhost: {address}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    BufReader::new(stream)
}
