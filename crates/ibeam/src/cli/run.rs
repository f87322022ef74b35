//! `ibeam run`: a client, already wired. No file of the user's is changed.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

use anyhow::Context as _;
use clap::Args;

use super::{
    Global, Refusal, UpstreamOptions, block_on, require_account, say, start, up::login_first,
};
use crate::{
    clients::{
        self, AUTO, CLIENTS, ClientSpec, Launch, UserMachine, Wiring, verify::GatewayClient,
    },
    harden,
    instance::{self, RunningInstance},
};
use ibeam_server::{
    config::RawConfig,
    files::private,
    net::{connect::Host, tls::Tls},
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam run claude                      Claude Code, with the models of your plan
  ibeam run opencode run 'fix the tests'
  ibeam run --sim claude -p hi          no account needed
  ibeam run --model gpt-5.4 codex       start with this model
  ibeam run python chat.py              any program that reads OPENAI_BASE_URL or
                                        ANTHROPIC_BASE_URL and their keys

Options of ibeam come before the client's name; everything after it is passed to the client.
The exit code is the client's. In a terminal it signs you in first if needed, and it starts the
gateway in the background if none is running: see `ibeam help start`.")]
pub(super) struct RunCommand {
    #[command(flatten)]
    upstream: UpstreamOptions,
    /// The model that the client starts with [default: depends on the client]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// The client, or any other program, and its arguments
    #[arg(value_name = "CLIENT", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// The client that stands for all other programs.
const ANY: &str = "env";

impl RunCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let (name, args) = self.command.split_first().context("no program to run was given")?;
        let machine = UserMachine::here().context("the home directory is unknown; set HOME")?;
        let found = LaunchedClient::of(name, &machine)?;
        let mut config = global.load_quietly(RawConfig::default(), &self.upstream)?;
        let wanted = start::wanted(global, &self.upstream, &config, Vec::new());
        if let Err(refused) = require_account(&mut config) {
            login_first(&config, refused)?;
        }
        let running = start::ensure(&wanted)?;
        start::other_version(&running).inspect(|line| say(line));
        let launch = found.launch(&machine, &self.wiring(&running)?)?;
        // A system without such locks has a gateway that may end too soon, and no worse.
        let held = instance::hold(&running).ok().flatten();
        let folder = launch.files.is_empty().then_some(Ok(None));
        let folder = folder.unwrap_or_else(|| written(&launch.files).map(Some))?;
        let place = folder.as_ref().map_or(Path::new(""), tempfile::TempDir::path);
        let mut command = found.command(&launch, place);
        command.args(args);
        match folder {
            None => replace(command, held.as_ref()),
            Some(_) => wait(command),
        }
    }

    fn wiring(&self, running: &RunningInstance) -> anyhow::Result<Wiring> {
        let host = Host::parse(&running.url)
            .map_err(|_| anyhow::anyhow!("{} is not a gateway address", running.url))?;
        let gateway = GatewayClient::new(host, running.key.clone(), Tls::new(None), &Tasks::new());
        let models = block_on(async { Ok(gateway.models().await) })?;
        let models = models.map_err(|error| Refusal::new(error.to_string()))?;
        Ok(Wiring {
            url: running.url.clone(),
            key: running.key.clone(),
            model: self.model.clone().unwrap_or_else(|| AUTO.to_owned()),
            models,
            asked: true,
            local: true,
            args: Vec::new(),
        })
    }
}

/// What is to be run.
struct LaunchedClient {
    client: &'static ClientSpec,
    program: PathBuf,
}

impl LaunchedClient {
    fn of(name: &OsStr, machine: &UserMachine) -> anyhow::Result<Self> {
        let text = name.to_string_lossy();
        let Some(client) = clients::named(&text) else { return Self::other(name, machine) };
        if client.launch.is_none() {
            let text = format!("{} cannot be started from the command line", client.title);
            let hint = format!("`ibeam setup {}` changes its settings instead", client.name);
            return Err(Refusal::new(text).hint(hint).into());
        }
        let programs = if client.name == ANY { &[ANY] } else { client.programs };
        match programs.iter().find_map(|program| machine.program(program)) {
            Some(program) => Ok(Self { client, program }),
            None => Err(Refusal::new(format!("{} is not installed", client.title))
                .hint(format!("install it: {}", client.install))
                .into()),
        }
    }

    /// Any other program gets the variables that most of them read.
    fn other(name: &OsStr, machine: &UserMachine) -> anyhow::Result<Self> {
        let client = clients::named(ANY)
            .context("running other programs is not supported on this system")?;
        let path = Path::new(name);
        let program = match path.components().count() {
            0 | 1 => machine.program(&name.to_string_lossy()),
            _ => Some(path.to_path_buf()),
        };
        program.map(|program| Self { client, program }).ok_or_else(|| {
            let name = name.to_string_lossy();
            let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
            Refusal::new(format!("`{name}` is neither a client nor a program in your PATH"))
                .hint(format!("clients are {}", known.join(", ")))
                .into()
        })
    }

    fn launch(&self, machine: &UserMachine, wiring: &Wiring) -> anyhow::Result<Launch> {
        let launch = self.client.launch.context("it cannot be started from the command line")?;
        launch(machine, wiring).map_err(|unfit| {
            let refusal = Refusal::new(unfit.to_string());
            refusal.hint(format!("more about it: {}", self.client.page)).into()
        })
    }

    fn command(&self, launch: &Launch, files: &Path) -> Command {
        let mut command = Command::new(&self.program);
        for name in &launch.without {
            command.env_remove(name);
        }
        for (name, value) in &launch.env {
            command.env(name, filled(value.as_ref(), files));
        }
        command.args(launch.args.iter().map(|arg| filled(arg, files)));
        command
    }
}

/// Puts the folder in.
fn filled(text: &OsStr, files: &Path) -> OsString {
    match text.to_str() {
        Some(text) => text.replace("{files}", &files.to_string_lossy()).into(),
        None => text.to_owned(),
    }
}

/// A folder with these files, for the user alone.
fn written(files: &[(String, String)]) -> anyhow::Result<tempfile::TempDir> {
    let write = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("ibeam-run-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.tempdir()?;
        for (name, text) in files {
            let mut options = OpenOptions::new();
            let options = private::owner_only(options.write(true).create_new(true));
            options.open(folder.path().join(name))?.write_all(text.as_bytes())?;
        }
        Ok(folder)
    };
    write().map_err(|error: io::Error| {
        anyhow::Error::new(error).context("cannot create a temporary folder")
    })
}

/// The client takes the place of this process: signals, terminal and exit code are its own.
#[cfg(unix)]
fn replace(mut command: Command, held: Option<&File>) -> anyhow::Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    if let Some(held) = held {
        // It stays open in the client, for as long as that runs.
        let _ = rustix::io::fcntl_setfd(held, rustix::io::FdFlags::empty());
    }
    let error = harden::as_found(|| command.exec());
    Err(anyhow::Error::new(error).context("cannot start the client"))
}

#[cfg(not(unix))]
fn replace(command: Command, _: Option<&File>) -> anyhow::Result<ExitCode> {
    wait(command)
}

/// Waits for the client, since there is something to clear away afterwards.
fn wait(command: Command) -> anyhow::Result<ExitCode> {
    block_on(async {
        // From here on no signal ends us before the client.
        #[cfg(unix)]
        let mut signals = ClientSignals::new()?;
        let spawned = harden::as_found(|| tokio::process::Command::from(command).spawn());
        let mut child = spawned.context("cannot start the client")?;
        let client = child.id();
        #[cfg(unix)]
        let passing = signals.pass_on(client);
        // Ctrl-C reaches the client by itself.
        #[cfg(not(unix))]
        let passing = async {
            let _ = client;
            while tokio::signal::ctrl_c().await.is_ok() {}
            std::future::pending::<()>().await
        };
        tokio::select! {
            status = child.wait() => Ok(code(status?)),
            () = passing => Ok(ExitCode::FAILURE),
        }
    })
}

/// The exit code, as a shell reports it.
fn code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal = None;
    let code = status.code().or_else(|| signal.map(|signal: i32| 128 + signal));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(code) => ExitCode::from(code),
        None => ExitCode::FAILURE,
    }
}

/// The signals of a terminal and of the system, from the moment when it was made.
#[cfg(unix)]
struct ClientSignals {
    keyboard: [tokio::signal::unix::Signal; 2],
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl ClientSignals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            keyboard: [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?],
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Passes signals on to the client until it is stopped. Those of the keyboard reach it directly, and
    /// must not arrive twice.
    async fn pass_on(&mut self, client: Option<u32>) {
        use rustix::process::{Pid, Signal, kill_process};
        let client = client.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let [interrupt, quit] = &mut self.keyboard;
        loop {
            let signal = tokio::select! {
                _ = interrupt.recv() => continue,
                _ = quit.recv() => continue,
                _ = self.terminate.recv() => Signal::TERM,
                _ = self.hang_up.recv() => Signal::HUP,
            };
            // The client may have ended already.
            let _ = client.map(|client| kill_process(client, signal));
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
