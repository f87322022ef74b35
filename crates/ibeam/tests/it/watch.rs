//! Writes down what leaves the program while the suite runs, so that the step `secrets` of
//! `cargo xtask test` can look for secrets in it. Nothing is written unless the variable
//! `IBEAM_TEST_WATCH` names a folder.
//!
//! Tests take the program and their folders from here; the step refuses the suite if one
//! does not.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
};

use axum::body::Body;
use http_body_util::BodyExt as _;
use ibeam::telemetry::Redacting;
use ibeam_sim::Sim;
use parking_lot::Mutex;
use tracing::Level;
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// The key of a client, where a test does not create one.
pub(crate) const CLIENT_KEY: &str = "ibk_m4rkedClientKeyThatMustNeverBeSeenAnywhere1";

/// Where it is written down.
pub(crate) fn record() -> Option<&'static Path> {
    static RECORD: OnceLock<Option<PathBuf>> = OnceLock::new();
    let record = RECORD.get_or_init(|| {
        let record = PathBuf::from(std::env::var_os("IBEAM_TEST_WATCH")?);
        let claims = Sim::TOKEN.split('.').nth(1).unwrap();
        for mark in [Sim::SIGNATURE, claims, Sim::API_KEY, CLIENT_KEY] {
            note(&record, mark);
        }
        Some(record)
    });
    record.as_deref()
}

/// The program; if watched, by way of a script that copies its output.
pub(crate) fn program() -> PathBuf {
    match record() {
        Some(record) => record.join("ibeam"),
        None => env!("CARGO_BIN_EXE_ibeam").into(),
    }
}

/// For a test that reads every line of stderr: no more of them than usual.
pub(crate) fn usual_log(command: &mut Command) -> &mut Command {
    match record() {
        Some(_) => command.env("WATCH_USUAL_LOG", "1"),
        None => command,
    }
}

/// A folder that goes with its test; if watched, it stays.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().disable_cleanup(record().is_some()).tempdir().unwrap()
}

/// One more secret to look for. Its prefix, if it has one, is none.
pub(crate) fn secret(text: &str) {
    if let Some(record) = record() {
        note(record, text);
    }
}

fn note(record: &Path, mark: &str) {
    let mut line =
        mark.strip_prefix("ibk_").or(mark.strip_prefix("crsr_")).unwrap_or(mark).to_owned();
    line.push('\n');
    append(&record.join("marks")).write_all(line.as_bytes()).unwrap();
}

/// An answer: status, headers and body.
pub(crate) fn heard(bytes: impl AsRef<[u8]>) {
    static ANSWERS: OnceLock<Mutex<File>> = OnceLock::new();
    if let Some(record) = record() {
        let file = ANSWERS.get_or_init(|| Mutex::new(append(&own(record, "answers"))));
        file.lock().write_all(bytes.as_ref()).unwrap();
    }
}

/// The same for an answer that is yet to be read.
pub(crate) fn hearing(answer: http::Response<Body>) -> http::Response<Body> {
    if record().is_none() {
        return answer;
    }
    heard(format!("{:?}\n", answer.status()));
    for (name, value) in answer.headers() {
        heard([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"].concat());
    }
    answer.map(|body| {
        Body::new(body.map_frame(|frame| {
            frame.data_ref().inspect(|data| heard(data));
            frame
        }))
    })
}

/// Logs of a gateway in this process: as they would be shown, and before secrets are made
/// out, so that nothing hides behind that. What the libraries below say of each frame is
/// left to the tests that start the program: here it would take hours.
pub(crate) fn logs() {
    static STARTED: OnceLock<()> = OnceLock::new();
    let Some(record) = record() else { return };
    STARTED.get_or_init(|| {
        let path = own(record, "logs");
        let (bare, all) = (append(&path.with_extension("bare")), Arc::new(append(&path)));
        let bare = fmt::layer().with_ansi(false).with_writer(Arc::new(bare));
        let all = fmt::layer().with_ansi(false).with_writer(move || Redacting(Arc::clone(&all)));
        let level = || {
            let ours = ["ibeam", "ibeam_core"].map(|name| (name, Level::TRACE));
            Targets::new().with_default(Level::INFO).with_targets(ours)
        };
        tracing_subscriber::registry()
            .with(bare.with_filter(level()))
            .with(all.with_filter(level()))
            .init();
    });
}

/// A file of this process.
fn own(record: &Path, kind: &str) -> PathBuf {
    let folder = record.join(kind);
    fs::create_dir_all(&folder).unwrap();
    folder.join(std::process::id().to_string())
}

fn append(path: &Path) -> File {
    let file: io::Result<File> = OpenOptions::new().create(true).append(true).open(path);
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
