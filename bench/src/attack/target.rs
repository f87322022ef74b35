//! The gateway that is attacked: a process of its own, with its simulator and two keys.

use std::{fs, net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

const START: Duration = Duration::from_secs(30);

/// `quick` is answered at once and `flood` as fast as it is read; anything else ticks. The flood is
/// some megabytes as events, more than sockets hold; the simulator, which is in the same process,
/// remembers its text.
const SCENARIO: &str = "\
[[rule]]\nwhen = { contains = \"quick\" }\nsteps = [{ text = \"done\" }]\n\
[[rule]]\nwhen = { contains = \"flood\" }\n\
steps = [{ text = { text = \"FLOOD \", repeat = 100000, pace_ms = 0 } }]\n\
[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 1000000, pace_ms = 10 } }]\n";

/// Short enough to see within an attack that they hold.
const CLOCKS: [&str; 3] = ["clocks.client_idle=2s", "clocks.client_stall=2s", "clocks.body=1s"];

pub(super) struct Target {
    child: Child,
    address: Address,
    pub(super) honest_key: String,
    /// It writes its address there, and must be able to.
    _stdout: BufReader<ChildStdout>,
    _home: tempfile::TempDir,
}

/// All that an attacker knows.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) socket: SocketAddr,
    /// A key of its own.
    pub(super) key: String,
}

impl Target {
    pub(super) async fn start(program: &Path) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let scenario = home.path().join("scenario.toml");
        fs::write(&scenario, SCENARIO)?;
        let ibeam = || {
            let mut command = Command::new(program);
            command.env_clear().env("HOME", home.path()).current_dir(home.path());
            command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            command
        };
        let key = async |name: &str| -> anyhow::Result<String> {
            let made = ibeam().args(["keys", "add", name]).output().await?;
            ensure!(made.status.success(), "`ibeam keys add` failed");
            Ok(String::from_utf8(made.stdout)?.trim().to_owned())
        };
        let (honest_key, attacker) = (key("honest").await?, key("attacker").await?);
        let mut serve = ibeam();
        serve.args(["serve", "--sim", "--port", "0", "--log-level", "off", "--scenario"]);
        serve.arg(&scenario).args(CLOCKS.iter().flat_map(|clock| ["--set", clock]));
        let mut child = serve.stdout(Stdio::piped()).spawn().context("start the gateway")?;
        let mut stdout = BufReader::new(child.stdout.take().context("its output")?);
        let mut line = String::new();
        timeout(START, stdout.read_line(&mut line)).await.context("it does not listen")??;
        let address = line.trim().strip_prefix("http://").context("its address")?;
        let address = Address { socket: address.parse()?, key: attacker };
        Ok(Self { child, address, honest_key, _stdout: stdout, _home: home })
    }

    pub(super) fn socket(&self) -> SocketAddr {
        self.address.socket
    }

    pub(super) fn clone_address(&self) -> Address {
        self.address.clone()
    }

    /// Resident memory in MB.
    pub(super) fn memory(&self) -> f64 {
        self.child.id().map_or(0.0, crate::child::resident)
    }

    /// CPU seconds so far.
    pub(super) fn cpu(&self) -> f64 {
        self.child.id().map_or(0.0, crate::child::cpu_seconds)
    }

    /// Connections that its side has not closed.
    pub(super) fn connections(&self) -> usize {
        let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        open_at(&text, self.address.socket.port())
    }

    pub(super) async fn stop(mut self) {
        self.child.kill().await.ok();
    }
}

/// Counts the connections of a local port in the kernel's table that are established, or that
/// only the other side has closed.
fn open_at(table: &str, port: u16) -> usize {
    let port = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace());
    rows.filter(|row| {
        let mut row = row.clone().skip(1);
        let (local, state) = (row.next().unwrap_or_default(), row.nth(1).unwrap_or_default());
        local.ends_with(&port) && matches!(state, "01" | "08")
    })
    .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_on_the_side_of_the_gateway() {
        let table = "  sl  local_address rem_address   st\n\
             0: 0100007F:4935 00000000:0000 0A 0\n\
             1: 0100007F:4935 0100007F:C350 01 0\n\
             2: 0100007F:C350 0100007F:4935 01 0\n\
             3: 0100007F:4935 0100007F:C351 08 0\n\
             4: 0100007F:4935 0100007F:C352 04 0\n";
        assert_eq!(open_at(table, 0x4935), 2);
        assert_eq!(open_at(table, 0xC350), 1);
    }
}
