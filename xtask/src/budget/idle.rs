//! The memory of a gateway that has nothing to do.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};

use crate::{command::command, scratch::Scratch};

/// In megabytes.
pub(super) struct Memory {
    pub(super) all: f64,
    /// Not backed by a file.
    pub(super) own: f64,
    pub(super) files: f64,
}

/// How long it may take to answer, and how long it then rests before it is looked at.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);
const REST: Duration = Duration::from_secs(2);

/// None where the system does not tell.
pub(super) fn memory(program: &Path) -> anyhow::Result<Option<Memory>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let home = Scratch::new("idle")?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    // As a user starts it, with a backend that is not there.
    let child = command(program)
        .arg("serve")
        .env_clear()
        .env("HOME", home.path())
        .env("PORT", port.to_string())
        .env("CURSOR_API_URL", "http://127.0.0.1:1")
        .env("CURSOR_ACCESS_TOKEN", "x")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut running = Running(child);
    for attempt in 0.. {
        if is_healthy(port).unwrap_or(false) {
            break;
        }
        if let Some(status) = running.0.try_wait()? {
            bail!("{} serve ended: {status}", program.display());
        }
        if attempt == TRIES {
            bail!("{} serve did not answer in {:?}", program.display(), TRIES * PAUSE);
        }
        sleep(PAUSE);
    }
    sleep(REST);
    let status = fs::read_to_string(format!("/proc/{}/status", running.0.id()))?;
    let of = |name: &str| field(&status, name).with_context(|| format!("the kernel has no {name}"));
    Ok(Some(Memory { all: of("VmRSS:")?, own: of("RssAnon:")?, files: of("RssFile:")? }))
}

/// Ends the program, whatever comes of the measurement.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn is_healthy(port: u16) -> anyhow::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let host = format!("127.0.0.1:{port}");
    write!(stream, "GET /health HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

/// A line such as `VmRSS:    20060 kB`, in megabytes.
fn field(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

#[expect(clippy::disallowed_methods, reason = "a task runner has nothing else to do meanwhile")]
fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
#[path = "idle_tests.rs"]
mod tests;
