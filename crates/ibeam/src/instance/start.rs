//! Starts the gateway in the background, once, however many ask for it.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    time::timeout,
};

use super::{
    InstanceError, LivingInstance, OURS, PortOwner, PortTaken, RunningInstance, WantedInstance,
    all, find, folder, living_of, log_file, search,
};
use ibeam_server::{
    files::{lock, private},
    net::probe::{self, GatewayHealth, ProbeError},
};

/// For a new gateway to listen. It may ask Cursor's CLI first who is signed in.
const START: Duration = Duration::from_secs(30);

/// For others who start one.
const TURN: Duration = Duration::from_secs(60);

/// For an old one without anything to do to end.
const END: Duration = Duration::from_secs(10);

/// One that the system starts for the question may first have to ask Cursor's CLI who is signed in.
const WAKING: Duration = Duration::from_secs(10);

/// Of what a gateway said that did not start.
const LAST_WORDS: u64 = 4096;

/// The port that a new gateway would get.
enum PortUse {
    Free,
    /// A service was waiting there, and fits.
    Awake(RunningInstance),
    Taken(PortOwner),
}

/// A gateway that fits: one that runs, or a new one in the background. One of an older
/// version that has nothing to do makes room for a new one, if it is in the background.
///
/// # Errors
/// It does not start, or another program has the port that it must be on.
pub async fn ensure(wanted: &WantedInstance) -> Result<RunningInstance, InstanceError> {
    if let Some(running) = find(wanted).await.filter(|running| !gives_way(running)) {
        return Ok(running);
    }
    let folder = folder().ok_or(InstanceError::NoHome)?;
    private::make_secret_dir(&folder)?;
    // The right to start one.
    let _turn = lock::acquire(&folder.join("start.lock"), TURN).await?;
    // Another process may have started one in the meantime.
    let stranger = match search(wanted).await {
        Ok(running) if gives_way(&running) => {
            if let Some(old) = living_of(&running) {
                old.stop(END).await?;
            }
            running.stranger
        }
        Ok(running) => return Ok(running),
        Err(stranger) => stranger,
    };
    let taken = |by| PortTaken { port: wanted.port, by };
    match port_use(wanted).await {
        PortUse::Awake(running) => return Ok(running),
        PortUse::Taken(by) if wanted.stays => return Err(taken(by).into()),
        PortUse::Taken(_) | PortUse::Free => {}
    }
    let new = start(wanted).await?;
    if wanted.stays && !wanted.is_at_port(&new.url) {
        // Another program took the port in between.
        end(new.pid)?;
        return Err(taken(PortOwner::Other).into());
    }
    Ok(RunningInstance { stranger, ..new })
}

/// The gateway that fits, if one runs, also where the system has to start it first. None:
/// none runs, and the port of the settings is free.
///
/// # Errors
/// Another program has the port.
pub async fn ready(wanted: &WantedInstance) -> Result<Option<RunningInstance>, PortTaken> {
    if let Some(running) = find(wanted).await {
        return Ok(Some(running));
    }
    match port_use(wanted).await {
        PortUse::Free => Ok(None),
        PortUse::Awake(running) => Ok(Some(running)),
        PortUse::Taken(by) => Err(PortTaken { port: wanted.port, by }),
    }
}

/// What is at the port. A service that the system starts at the first request has no record before
/// that, so it is asked.
async fn port_use(wanted: &WantedInstance) -> PortUse {
    let address = at(wanted.port);
    if is_free(address) {
        return PortUse::Free;
    }
    let own = || all().into_iter().find(|one| wanted.is_at_port(&one.url));
    if let Some(own) = own() {
        return PortUse::Taken(match own.prove().await {
            Err(ProbeError::Stranger) => PortOwner::Stranger,
            Ok(_) | Err(_) => PortOwner::Own(Box::new(own)),
        });
    }
    let health = probe::health(&format!("http://{address}"), WAKING).await;
    if let Some(running) = find(wanted).await {
        return PortUse::Awake(running);
    }
    PortUse::Taken(match (own(), health) {
        (Some(own), _) => PortOwner::Own(Box::new(own)),
        (None, Ok(GatewayHealth { version, .. })) => PortOwner::Gateway(version),
        (None, _) => PortOwner::Other,
    })
}

/// One that a client still needs does not: the new one would have another key.
fn gives_way(running: &RunningInstance) -> bool {
    is_outdated(running) && !living_of(running).is_some_and(|one| one.is_held())
}

fn is_outdated(running: &RunningInstance) -> bool {
    running.shared && running.active + running.parked == 0 && is_older(&running.version)
}

/// Whether that version came before this one.
fn is_older(version: &str) -> bool {
    let numbers = |version: &str| -> Option<[u64; 3]> {
        let numbers = version.split(['-', '+']).next()?;
        let mut numbers = numbers.splitn(3, '.').map(|number| number.parse().ok());
        Some([numbers.next()??, numbers.next()??, numbers.next()??])
    };
    numbers(version) < numbers(OURS)
}

/// Its stdout is a pipe to us until it says where it listens, or ends. What it says on
/// stderr goes to a file without a name, since later there is no reader of a pipe.
async fn start(wanted: &WantedInstance) -> Result<RunningInstance, InstanceError> {
    let program =
        std::env::current_exe().map_err(InstanceError::io("find the path of this program"))?;
    let temporary = || InstanceError::io("create a temporary file");
    let mut words = tempfile::tempfile().map_err(temporary())?;
    let stderr = words.try_clone().map_err(temporary())?;
    let mut command = tokio::process::Command::new(program);
    command.arg(DETACH).args(["serve", "--shared", "--unattended"]);
    if let Some(log) = log_file().filter(|_| !wanted.logs_elsewhere) {
        command.arg("--log-file").arg(log);
    }
    command.args(&wanted.args);
    // Not the folder of the program that came first.
    if let Ok(home) = etcetera::home_dir() {
        command.current_dir(home);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let mut child = command.spawn().map_err(InstanceError::io("start the gateway"))?;
    let group = child.id();
    let mut url = String::new();
    let waiting = async {
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout.take(LAST_WORDS)).read_line(&mut url).await?;
        }
        child.wait().await
    };
    let why = match timeout(START, waiting).await {
        Ok(Ok(_)) => {
            let new = all().into_iter().find(|one| one.url == url.trim());
            if let Some(running) = ask(new).await {
                return Ok(RunningInstance { started: true, ..running });
            }
            last_words(&mut words).unwrap_or_default()
        }
        Ok(Err(error)) => error.to_string(),
        Err(_elapsed) => {
            // The next one who asks starts another.
            abandon(group);
            format!("it did not listen within {} s", START.as_secs())
        }
    };
    let why = if why.is_empty() { "it printed nothing".to_owned() } else { why };
    Err(InstanceError::NotStarted(why))
}

async fn ask(new: Option<LivingInstance>) -> Option<RunningInstance> {
    new?.ask().await
}

/// The end of what it said.
fn last_words(file: &mut File) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
    let mut words = Vec::new();
    file.take(LAST_WORDS).read_to_end(&mut words)?;
    Ok(String::from_utf8_lossy(&words).trim().to_owned())
}

/// The hidden command of [`detach`].
pub(crate) const DETACH: &str = "detach";

/// Starts this program again, in a session of its own and without a parent, so that it outlives the
/// terminal.
///
/// # Errors
/// The system does not start it.
pub(crate) fn detach(args: &[OsString]) -> io::Result<()> {
    // Fails for the head of a group, which has what it is about.
    #[cfg(unix)]
    let _ = rustix::process::setsid();
    let mut command = Command::new(std::env::current_exe()?);
    #[cfg(windows)]
    {
        use std::os::windows::process::CommandExt as _;
        const DETACHED_PROCESS: u32 = 0x8;
        const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
        command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP);
    }
    command.args(args).spawn().map(drop)
}

/// Ends what [`detach`] started, by its group: that has the number of the process that
/// went away.
fn abandon(group: Option<u32>) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        let group = group.and_then(|group| i32::try_from(group).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
    #[cfg(not(unix))]
    let _ = group;
}

/// Asks a process to end. One that is gone has.
pub(super) fn end(pid: u32) -> Result<(), InstanceError> {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process};
        let failed = InstanceError::io("ask it to end");
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        match pid.map(|pid| kill_process(pid, Signal::TERM)) {
            Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(error)) => Err(failed(error.into())),
            None => Err(failed(io::Error::other("not a valid process id"))),
        }
    }
    #[cfg(not(unix))]
    {
        let status = Command::new("taskkill")
            .args(["/F", "/PID", &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(InstanceError::io("end it")(io::Error::other("taskkill failed"))),
            Err(error) => Err(InstanceError::io("end it")(error)),
        }
    }
}

/// That port of this machine, or a free one if another program has it.
pub(super) fn local(port: u16) -> SocketAddr {
    if is_free(at(port)) { at(port) } else { at(0) }
}

const fn at(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn only_an_older_idle_gateway_is_replaced() {
        for older in ["0.0.9", "0.0.9-rc.1", "nonsense", ""] {
            assert!(is_older(older), "{older}");
        }
        for newer in [OURS, "99.0.0", "99.0.0-rc.1+build"] {
            assert!(!is_older(newer), "{newer}");
        }
        let old = RunningInstance {
            url: String::new(),
            key: "ibi_0".into(),
            pid: 1,
            version: "0.0.9".to_owned(),
            profile: String::new(),
            backend: String::new(),
            sim: false,
            shared: true,
            authenticated: true,
            active: 0,
            parked: 0,
            uptime: Duration::ZERO,
            started: false,
            stranger: None,
        };
        assert!(is_outdated(&old));
        assert!(!is_outdated(&RunningInstance { active: 1, ..old.clone() }));
        assert!(!is_outdated(&RunningInstance { parked: 1, ..old.clone() }));
        assert!(!is_outdated(&RunningInstance { shared: false, ..old.clone() }));
        assert!(!is_outdated(&RunningInstance { version: OURS.to_owned(), ..old }));
    }

    /// One that ended by itself is no failure; one that is there ends, with all that is its.
    #[cfg(unix)]
    #[test]
    fn process_that_is_asked_to_end_ends() {
        use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        abandon(Some(child.id()));
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        end(child.id()).unwrap();
        abandon(Some(child.id()));
    }

    #[test]
    fn end_of_the_output_is_kept() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'x'; 10_000]).unwrap();
        file.write_all(b"\nerror: no\n").unwrap();
        let words = last_words(&mut file).unwrap();
        assert!(words.len() <= 4096 && words.ends_with("\nerror: no"), "{words}");
    }
}
