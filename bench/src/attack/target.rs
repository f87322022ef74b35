//! The gateway that is attacked, and the simulator that it asks: two processes, so that what is
//! measured of the gateway is the gateway's.

use std::{
    fs, io::Write as _, net::SocketAddr, path::Path, process::Stdio, sync::Arc, time::Duration,
};

use anyhow::{Context as _, ensure};
use flate2::{Compression, write::GzEncoder};
use ibeam_sim::Sim;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::{child::Racer, http::Http, recipe::sim_start};

const START: Duration = Duration::from_secs(30);

/// `quick` is answered at once, `flood` as fast as it is read (megabytes, more than sockets hold),
/// `brief` within a second and `go on` with a tick every 10 ms. Anything else is a question for
/// the simulator's assistant.
const RULES: &str = "\
[[rule]]\nwhen = { contains = \"quick\" }\nsteps = [{ text = \"done\" }]\n\
[[rule]]\nwhen = { contains = \"flood\" }\n\
steps = [{ text = { text = \"FLOOD \", repeat = 100000, pace_ms = 0 } }]\n\
[[rule]]\nwhen = { contains = \"brief\" }\n\
steps = [{ text = { text = \"tick \", repeat = 10, pace_ms = 100 } }]\n\
[[rule]]\nwhen = { contains = \"go on\" }\n\
steps = [{ text = { text = \"tick \", repeat = 1000000, pace_ms = 10 } }]\n";

/// What a message of a hostile backend becomes when it is inflated, a little less than the gateway
/// accepts, and how much of it does not shrink, so that it is not refused for its ratio.
const INFLATED: usize = 33 << 20;
const SOLID: usize = INFLATED / 100;

/// The same for the last frame of a stream, whose limit before it is inflated is 256 KiB.
const LAST_INFLATED: usize = 24 << 20;
const LAST_SOLID: usize = LAST_INFLATED / 120;

/// The rules, and two more that are answered with compressed kilobytes: `bomb` with a message of
/// millions of fields that no schema has, `last frame` with an error of millions of details.
fn scenario() -> anyhow::Result<String> {
    let mut state = 1_u32;
    let mut noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    // Field 127, a number, 0.
    let mut message = [0xF8, 0x07, 0x00].repeat(INFLATED / 3);
    message.extend(noise.by_ref().take(SOLID));
    let details = "{},".repeat(LAST_INFLATED / 3);
    let error = format!(
        "{{\"error\":{{\"code\":\"internal\",\"message\":\"{}\",\"details\":[{details}{{}}]}}}}",
        hex(noise.take(LAST_SOLID))
    );
    let mut rules = RULES.to_owned();
    for (name, flags, frame) in [("bomb", 1, message), ("last frame", 3, error.into_bytes())] {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&frame)?;
        let hex = hex(gzip.finish()?);
        let steps = format!("steps = [{{ frame = {{ flags = {flags}, hex = \"{hex}\" }} }}]");
        rules.push_str(&format!("[[rule]]\nwhen = {{ contains = \"{name}\" }}\n{steps}\n"));
    }
    Ok(rules)
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The honest stream runs for long.
const TURN: &str = "clocks.turn=3h";

/// Short enough to see within an attack that they hold.
const PATIENCE: [&str; 3] = ["clocks.client_idle", "clocks.client_stall", "clocks.body"];

pub(super) struct AttackTarget {
    child: Child,
    /// None: it is a part of the gateway.
    simulator: Option<Racer>,
    address: TargetAddress,
    /// Keys of the honest clients.
    pub(super) honest: Arc<[String]>,
    /// It writes its address there, and must be able to.
    _stdout: BufReader<ChildStdout>,
    _home: tempfile::TempDir,
}

/// Everything that an attacker knows.
#[derive(Clone, Debug)]
pub(super) struct TargetAddress {
    pub(super) socket: SocketAddr,
    /// A key of its own.
    pub(super) key: String,
    /// The gateway's process.
    pub(super) pid: u32,
}

impl AttackTarget {
    /// A gateway with this number of keys for honest clients, and one for an attacker. It waits
    /// this long for slow clients.
    pub(super) async fn start(
        program: &Path,
        keys: usize,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let rules = home.path().join("scenario.toml");
        fs::write(&rules, scenario()?)?;
        let rules = vec!["--pace-ms=0".to_owned(), format!("--scenario={}", rules.display())];
        let simulator = sim_start(program, rules).start().await.context("the simulator")?;
        let mut args = vec![format!("--api-url=http://{}", simulator.address)];
        args.extend(PATIENCE.map(|clock| format!("--set={clock}={}s", patience.as_secs())));
        Self::serve(program, home, keys, Some(simulator), args).await
    }

    /// The same with turns in Cursor's CLI, or rather its stand-in, and without a hurry.
    pub(super) async fn with_hosted_tools(program: &Path, keys: usize) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let rules = home.path().join("scenario.toml");
        fs::write(&rules, RULES)?;
        let scenario = format!("--scenario={}", rules.display());
        let args = ["--sim", "--backend=cli", &scenario].map(str::to_owned).to_vec();
        Self::serve(program, home, keys, None, args).await
    }

    async fn serve(
        program: &Path,
        home: tempfile::TempDir,
        keys: usize,
        simulator: Option<Racer>,
        args: Vec<String>,
    ) -> anyhow::Result<Self> {
        let ibeam = || {
            let mut command = Command::new(program);
            command.env_clear().env("HOME", home.path()).current_dir(home.path());
            command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            command
        };
        let key = async |name: String| -> anyhow::Result<String> {
            let made = ibeam().args(["keys", "add", &name]).output().await?;
            ensure!(made.status.success(), "`ibeam keys add` failed");
            Ok(String::from_utf8(made.stdout)?.trim().to_owned())
        };
        let mut honest = Vec::new();
        for at in 1..=keys {
            honest.push(key(format!("honest-{at}")).await?);
        }
        let attacker = key("attacker".to_owned()).await?;
        let mut serve = ibeam();
        if simulator.is_some() {
            serve.env("CURSOR_ACCESS_TOKEN", Sim::TOKEN);
        }
        serve.args(["serve", "--port", "0", "--log-level", "off", "--set", TURN]).args(args);
        let mut child = serve.stdout(Stdio::piped()).spawn().context("start the gateway")?;
        let mut stdout = BufReader::new(child.stdout.take().context("its output")?);
        let mut line = String::new();
        timeout(START, stdout.read_line(&mut line)).await.context("it does not listen")??;
        let address = line.trim().strip_prefix("http://").context("its address")?;
        let pid = child.id().context("the gateway has ended")?;
        let address = TargetAddress { socket: address.parse()?, key: attacker, pid };
        let honest = honest.into();
        Ok(Self { child, simulator, address, honest, _stdout: stdout, _home: home })
    }

    /// The first of the honest clients' keys.
    pub(super) fn honest_key(&self) -> &str {
        self.honest.first().map_or("", String::as_str)
    }

    /// Turns that run.
    pub(super) async fn turns(&self) -> anyhow::Result<u64> {
        let health = Http::open(self.address.socket).await?.get("/health").await?;
        let active = health.pointer("/sessions/active").and_then(serde_json::Value::as_u64);
        active.context("`/health` does not say how many turns run")
    }

    pub(super) fn socket(&self) -> SocketAddr {
        self.address.socket
    }

    pub(super) fn clone_address(&self) -> TargetAddress {
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

    /// Connections that the gateway has not closed.
    pub(super) fn connections(&self) -> usize {
        let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        open_at(&text, self.address.socket.port())
    }

    pub(super) async fn stop(mut self) {
        self.child.kill().await.ok();
        if let Some(simulator) = self.simulator {
            simulator.stop().await;
        }
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
    fn open_connections_of_the_gateway_are_counted() {
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
