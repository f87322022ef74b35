//! How each racer is started.

use std::{ffi::OsString, net::SocketAddr, path::Path};

use ibeam_sim::Sim;
use tokio::process::Command;

use crate::{
    child::{Racer, free_port},
    rules::Size,
};

/// What is started, again and again.
pub(crate) struct Recipe {
    program: OsString,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    port_by: PortBy,
}

/// How a program gets its port, or reports it.
enum PortBy {
    Flag,
    Env,
    Prints,
}

impl Recipe {
    /// The same with one more variable.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    pub(crate) async fn start(&self) -> anyhow::Result<Racer> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.envs(self.env.iter().map(|(name, value)| (*name, value)));
        let port = free_port()?;
        match self.port_by {
            PortBy::Flag => drop(command.args(["--port", &port.to_string()])),
            PortBy::Env => drop(command.env("PORT", port.to_string())),
            PortBy::Prints => return Racer::start(command, None).await,
        }
        Racer::start(command, Some(port)).await
    }
}

pub(crate) async fn simulator(size: Size) -> anyhow::Result<Racer> {
    let args = [
        "simulator".to_owned(),
        format!("--fast-events={}", size.fast_events),
        format!("--paced-events={}", size.paced_events),
        format!("--pace-ms={}", size.pace_ms),
        format!("--hold-ms={}", size.hold_ms),
    ];
    let program = std::env::current_exe()?.into();
    Recipe { program, args: args.into(), env: Vec::new(), port_by: PortBy::Flag }.start().await
}

pub(crate) fn relay_start(simulator: SocketAddr) -> Recipe {
    let args = vec!["relay".to_owned(), format!("--simulator={simulator}")];
    let program = std::env::current_exe().unwrap_or_default().into();
    Recipe { program, args, env: Vec::new(), port_by: PortBy::Flag }
}

/// The product's simulator, for what needs its counters.
pub(crate) fn sim_start(ibeam: &Path, args: Vec<String>) -> Recipe {
    let args = std::iter::once("sim".to_owned()).chain(args).collect();
    Recipe { program: ibeam.into(), args, env: Vec::new(), port_by: PortBy::Flag }
}

pub(crate) fn ibeam_start(ibeam: &Path, simulator: SocketAddr) -> Recipe {
    let env = vec![
        ("CURSOR_API_URL", format!("http://{simulator}")),
        ("CURSOR_ACCESS_TOKEN", Sim::TOKEN.to_owned()),
        // The product's own limits protect a user's plan; here they are in the way.
        ("IBEAM_LIMITS_TURNS", "4096".to_owned()),
        ("IBEAM_LIMITS_TURNS_PER_KEY", "4096".to_owned()),
    ];
    Recipe { program: ibeam.into(), args: vec!["serve".to_owned()], env, port_by: PortBy::Env }
}

/// ibeam with a simulated backend of this name.
pub(crate) fn backend_start(ibeam: &Path, backend: &str, scenario: &Path) -> Recipe {
    let scenario = scenario.display().to_string();
    let args = ["serve", "--sim", "--backend", backend, "--scenario", &scenario];
    let args = args.map(str::to_owned).to_vec();
    let env = vec![("IBEAM_CURSOR_AGENT_MAX_PROCESSES", "64".to_owned())];
    Recipe { program: ibeam.into(), args, env, port_by: PortBy::Env }
}

pub(crate) fn peer_start(folder: &Path, simulator: SocketAddr) -> Recipe {
    let script = folder.join("opencode-cursor-oauth/proxy.mjs");
    let env = vec![
        ("CURSOR_API_URL", format!("http://{simulator}")),
        ("PEER_TOKEN", Sim::TOKEN.to_owned()),
    ];
    Recipe {
        program: folder.join("node_modules/.bin/bun").into(),
        args: vec!["run".to_owned(), script.display().to_string()],
        env,
        port_by: PortBy::Prints,
    }
}
