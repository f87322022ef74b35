//! The racers' processes, and what the kernel knows about them.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::Instant,
};

const START_LIMIT: Duration = Duration::from_secs(20);
/// The kernel's unit in `/proc/<pid>/stat`, fixed for programs since 2.6.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process that ends with its handle, with an empty home folder of its own.
pub(crate) struct Racer {
    child: Child,
    pub(crate) address: SocketAddr,
    _home: tempfile::TempDir,
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Racer {
    /// Starts a process and waits until its port is open. None: the program chooses its port and
    /// prints `PORT <n>`.
    pub(crate) async fn start(mut command: Command, port: Option<u16>) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let mut child = command
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(if port.is_none() { Stdio::piped() } else { Stdio::null() })
            .stderr(fs::File::create(home.path().join("log"))?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", command.as_std().get_program().display()))?;
        let port = match port {
            Some(port) => port,
            None => printed_port(child.stdout.take().context("its output")?).await?,
        };
        let racer = Self { child, address: (Ipv4Addr::LOCALHOST, port).into(), _home: home };
        racer.listening().await?;
        Ok(racer)
    }

    async fn listening(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(self.address).await.is_err() {
            if Instant::now() > deadline {
                let words = fs::read_to_string(self._home.path().join("log")).unwrap_or_default();
                bail!("nothing listens on {}: {words}", self.address);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// CPU seconds so far, of the process and of the children it has buried.
    pub(crate) fn cpu(&self) -> f64 {
        self.pid().map_or(0.0, cpu_seconds)
    }

    /// Resident memory in MB, of the process and its living children.
    pub(crate) fn rss(&self) -> f64 {
        self.pid().map_or(0.0, |pid| family(pid).into_iter().map(resident).sum())
    }

    fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) async fn stop(mut self) {
        self.child.kill().await.ok();
    }
}

/// CPU seconds of a process so far, and of the children it has buried.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold spaces; the numbers start after its bracket.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: f64 = fields.skip(11).take(4).filter_map(|text| text.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}

async fn printed_port(out: tokio::process::ChildStdout) -> anyhow::Result<u16> {
    let mut lines = BufReader::new(out).lines();
    let search = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(port) = line.strip_prefix("PORT ") {
                return Ok(port.trim().parse()?);
            }
        }
        bail!("the program ended without naming its port")
    };
    tokio::time::timeout(START_LIMIT, search).await.context("no port in time")?
}

fn family(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| child));
        at += 1;
    }
    found
}

pub(crate) fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
