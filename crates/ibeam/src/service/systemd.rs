//! systemd's manager of the user: a socket that it listens on, and the service that it starts
//! for the first client.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use super::{
    ABOUT, CommandLine, CommandRunner, CommentStyle, FileEncoding, PAGE, ServiceFile, ServiceLogs,
    ServiceManager, ServiceSpec, ServiceState, ServiceStep,
};
use ibeam_server::config::Listen;

const SOCKET: &str = "ibeam.socket";
const SERVICE: &str = "ibeam.service";

/// All of these work without privileges and without user namespaces, which many systems do
/// not give. `cursor-agent` and MCP servers run under them, too: they may translate code as
/// they go, and have sandboxes of their own, so nothing here forbids that.
const HARDENING: &str = "\
UMask=0077
LimitCORE=0
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
";

#[derive(Clone, Debug)]
pub(crate) struct Systemd {
    /// Where units of the user are.
    folder: PathBuf,
    surroundings: SystemdPaths,
}

/// Why there may be no such manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SystemdPaths {
    pub(crate) wsl: bool,
    pub(crate) container: bool,
    /// The variable that leads to the manager is missing.
    pub(crate) no_runtime_dir: bool,
}

impl SystemdPaths {
    pub(crate) fn here() -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let there = |path: &str| Path::new(path).exists();
        Self {
            wsl: kernel.to_ascii_lowercase().contains("microsoft"),
            container: there("/.dockerenv") || there("/run/.containerenv"),
            no_runtime_dir: std::env::var_os("XDG_RUNTIME_DIR").is_none(),
        }
    }
}

impl Systemd {
    /// `settings`: `$XDG_CONFIG_HOME`, or what stands for it.
    pub(crate) fn new(settings: &Path, surroundings: SystemdPaths) -> Self {
        Self { folder: settings.join("systemd").join("user"), surroundings }
    }

    fn draft(&self, name: &str, body: String) -> ServiceFile {
        let path = self.folder.join(name);
        ServiceFile {
            path,
            head: "",
            body,
            comment: CommentStyle::Hash,
            encoding: FileEncoding::Utf8,
        }
    }
}

impl ServiceManager for Systemd {
    fn name(&self) -> &'static str {
        "systemd"
    }

    fn missing(&self, runner: &dyn CommandRunner) -> Option<(String, Vec<String>)> {
        let why = match runner.run(&user(["show", "--property=Version"])) {
            Ok(ran) if ran.ok => return None,
            Ok(ran) => ran.stderr.lines().next().unwrap_or_default().to_owned(),
            Err(error) => format!("systemctl: {error}"),
        };
        Some((format!("systemd does not manage user services here ({why})"), self.ways_out()))
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.folder.join(SOCKET), self.folder.join(SERVICE)]
    }

    fn drafts(&self, service: &ServiceSpec) -> Vec<ServiceFile> {
        vec![self.draft(SOCKET, socket(service)), self.draft(SERVICE, unit(service))]
    }

    fn install(&self, again: bool) -> Vec<ServiceStep> {
        let mut steps = vec![ServiceStep::must(user(["daemon-reload"]))];
        if again {
            steps.push(ServiceStep::may(user(["stop", SOCKET, SERVICE])));
            steps.push(ServiceStep::may(user(["reset-failed", SOCKET, SERVICE])));
        }
        steps.push(ServiceStep::must(user(["enable", "--now", SOCKET])));
        steps
    }

    fn uninstall(&self) -> (Vec<ServiceStep>, Vec<ServiceStep>) {
        let first = vec![
            ServiceStep::may(user(["disable", "--now", SOCKET])),
            ServiceStep::may(user(["stop", SERVICE])),
        ];
        let last = vec![
            ServiceStep::may(user(["daemon-reload"])),
            ServiceStep::may(user(["reset-failed", SOCKET, SERVICE])),
        ];
        (first, last)
    }

    fn state(&self, runner: &dyn CommandRunner) -> ServiceState {
        let what = "--property=Id,UnitFileState,ActiveState,SubState,MainPID,Result";
        let ran = runner.run(&user(["show", what, SOCKET, SERVICE])).unwrap_or_default();
        state(&ran.stdout)
    }

    fn logs(&self, follow: bool, lines: u32) -> ServiceLogs {
        let lines = lines.to_string();
        let mut line =
            CommandLine::new("journalctl", ["--user", "--unit", SERVICE, "--lines", &lines]);
        line.args.push(if follow { "--follow" } else { "--no-pager" }.to_owned());
        ServiceLogs::By(line)
    }

    fn log_file(&self) -> Option<&Path> {
        None
    }

    fn starts_on_demand(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "It is listening now, and starts with the first request.".to_owned(),
            "It runs while you are logged in; `loginctl enable-linger` keeps it beyond that."
                .to_owned(),
        ]
    }
}

impl Systemd {
    fn ways_out(&self) -> Vec<String> {
        let SystemdPaths { wsl, container, no_runtime_dir } = self.surroundings;
        let mut ways = Vec::new();
        if wsl {
            ways.push(
                "in WSL, put `systemd=true` below `[boot]` in /etc/wsl.conf, then run \
                 `wsl --shutdown` in Windows"
                    .to_owned(),
            );
        }
        if container {
            ways.push("in a container, make `ibeam serve` its command".to_owned());
        }
        if no_runtime_dir && !container {
            ways.push(
                "after `su` or `sudo`, log in as that user instead, by ssh or \
                 `machinectl shell USER@`"
                    .to_owned(),
            );
        }
        ways.push("or start it yourself, when you need it: `ibeam serve`".to_owned());
        ways.push(
            "`ibeam service install --dry-run` shows the units for another machine".to_owned(),
        );
        ways
    }
}

fn user<const N: usize>(args: [&str; N]) -> CommandLine {
    let mut line = CommandLine::new("systemctl", ["--user"]);
    line.args.extend(args.map(str::to_owned));
    line
}

fn socket(service: &ServiceSpec) -> String {
    let mut out = format!(
        "[Unit]
Description={ABOUT} (socket)
Documentation={PAGE}

[Socket]
"
    );
    for place in &service.places {
        let place = match place {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix(path) => specifiers(&path.to_string_lossy()),
        };
        let _ = writeln!(out, "ListenStream={place}");
    }
    if service.places.iter().any(|place| matches!(place, Listen::Unix(_))) {
        out.push_str("SocketMode=0600\nRemoveOnStop=yes\n");
    }
    out + "
[Install]
WantedBy=sockets.target
"
}

fn unit(service: &ServiceSpec) -> String {
    let mut command = quoted(&specifiers(&service.program));
    for arg in &service.args {
        // A dollar begins a variable, anywhere but in the program's name.
        command.push(' ');
        command.push_str(&quoted(&specifiers(arg).replace('$', "$$")));
    }
    let mut env = String::new();
    for (name, value) in &service.env {
        let _ = writeln!(env, "Environment={}", quoted(&specifiers(&format!("{name}={value}"))));
    }
    let patience = service.patience();
    format!(
        "[Unit]
Description={ABOUT}
Documentation={PAGE}
Requires={SOCKET}
After={SOCKET}
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
ExecStart={command}
{env}Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStopSec={patience}
{HARDENING}"
    )
}

fn specifiers(text: &str) -> String {
    text.replace('%', "%%")
}

/// One word, whatever is in it.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@+%$[]".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Nothing of ours has any.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Of `systemctl show`: blocks of lines, with an empty one between them.
fn state(shown: &str) -> ServiceState {
    let units: HashMap<&str, HashMap<&str, &str>> = shown
        .split("\n\n")
        .map(|block| block.lines().filter_map(|line| line.split_once('=')).collect())
        .filter_map(|unit: HashMap<&str, &str>| Some((*unit.get("Id")?, unit)))
        .collect();
    let value = |unit: &str, name: &str| {
        units.get(unit).and_then(|unit| unit.get(name)).copied().unwrap_or_default()
    };
    let failed = [SERVICE, SOCKET].into_iter().find(|unit| value(unit, "ActiveState") == "failed");
    ServiceState {
        enabled: value(SOCKET, "UnitFileState") == "enabled",
        running: Some(matches!(value(SERVICE, "ActiveState"), "active" | "reloading")),
        waiting: value(SOCKET, "ActiveState") == "active",
        pid: value(SERVICE, "MainPID").parse().ok().filter(|pid| *pid != 0),
        trouble: failed.map(|unit| {
            let result = value(unit, "Result");
            format!("{unit} failed ({result}); `ibeam service logs` shows why")
        }),
    }
}

#[cfg(test)]
#[path = "systemd_tests.rs"]
mod tests;
