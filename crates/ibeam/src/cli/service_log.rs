//! Shows the log of the service: by the system's own tool, or from its file.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use super::{Refusal, block_on, print};
use crate::{service::ServiceLogs, telemetry};

/// How much of the end of a file is looked at.
const TAIL: u64 = 1 << 20;

/// Between two looks at a file that may have grown.
const LOOK: Duration = Duration::from_millis(500);

pub(super) fn show(logs: &ServiceLogs, follow: bool, lines: u32) -> anyhow::Result<ExitCode> {
    match logs {
        ServiceLogs::By(line) => {
            let status = Command::new(line.program).args(&line.args).status().map_err(|error| {
                Refusal::new(format!("cannot run `{line}`: {error}")).hint(
                    "without a journal a service cannot be installed either; see `ibeam help \
                           service`",
                )
            })?;
            // Ctrl-C is how one leaves.
            let well = status.success() || (follow && status.code().is_none());
            Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ServiceLogs::In(path) => {
            let (text, at) = last(path, lines).map_err(|error| {
                Refusal::new(format!("cannot read {}: {error}", path.display()))
                    .hint("`ibeam service install` installs the service, which writes it")
            })?;
            if !text.is_empty() {
                print(&text)?;
            }
            if follow {
                match block_on(watch(path, at))? {}
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Shows what comes, until Ctrl-C.
async fn watch(path: &Path, mut at: u64) -> anyhow::Result<Infallible> {
    loop {
        tokio::time::sleep(LOOK).await;
        if let Some(more) = grown(path, &mut at)? {
            print(&more)?;
        }
    }
}

/// The last lines of the log, and where the file ends now.
fn last(path: &Path, lines: u32) -> io::Result<(String, u64)> {
    let (text, end) = tail(path)?;
    // A file that was just rotated continues the older one.
    let older = tail(&telemetry::older(path)).map(|(text, _)| text).unwrap_or_default();
    let text = older + &text;
    let count = usize::try_from(lines).unwrap_or(usize::MAX);
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(count);
    Ok((all.get(from..).unwrap_or_default().join("\n"), end))
}

fn tail(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), end))
}

/// The whole lines that came since.
fn grown(path: &Path, at: &mut u64) -> io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    if end < *at {
        // It was rotated.
        *at = 0;
    }
    file.seek(SeekFrom::Start(*at))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let Some(whole) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Ok(None) };
    *at += whole as u64 + 1;
    bytes.truncate(whole);
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    #[test]
    fn end_of_a_log_and_new_lines_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("service.log");
        fs::write(telemetry::older(&path), "one\ntwo\n").unwrap();
        fs::write(&path, "three\nfour\n").unwrap();
        let (text, mut at) = last(&path, 3).unwrap();
        assert_eq!(text, "two\nthree\nfour");
        assert_eq!(grown(&path, &mut at).unwrap(), None);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"five\nhal").unwrap();
        assert_eq!(grown(&path, &mut at).unwrap().as_deref(), Some("five"));
        file.write_all(b"f\n").unwrap();
        assert_eq!(grown(&path, &mut at).unwrap().as_deref(), Some("half"));
        // A new file takes its place.
        fs::write(&path, "six\n").unwrap();
        assert_eq!(grown(&path, &mut at).unwrap().as_deref(), Some("six"));
        assert!(last(&folder.path().join("none"), 3).is_err());
    }
}
