//! Installing and removing, with every command written down instead of run.

use std::{cell::RefCell, fs, io, net::SocketAddr};

use super::{run::Ran, *};

/// Writes commands down; those that contain `fails` fail.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) lines: RefCell<Vec<String>>,
    pub(super) fails: &'static str,
    pub(super) says: String,
}

impl Recorder {
    pub(super) fn taken(&self) -> Vec<String> {
        self.lines.take()
    }
}

impl CommandRunner for Recorder {
    fn run(&self, line: &CommandLine) -> io::Result<Ran> {
        let line = line.to_string();
        let ok = self.fails.is_empty() || !line.contains(self.fails);
        self.lines.borrow_mut().push(line);
        let stderr = if ok { String::new() } else { "no such thing".to_owned() };
        Ok(Ran { ok, stdout: self.says.clone(), stderr })
    }
}

/// Unusual values, to see that they are escaped.
pub(super) fn service() -> ServiceSpec {
    ServiceSpec {
        program: "/opt/my tools/ibeam".to_owned(),
        args: ["serve", "--unattended", "--set=models.x=50% & \"more\"", "--profile=$HOME"]
            .map(str::to_owned)
            .to_vec(),
        env: vec![("PATH".to_owned(), "/usr/bin:/home/me/50% <mine>".to_owned())],
        places: vec![
            SocketAddr::from(([127, 0, 0, 1], 18741)).into(),
            Listen::Unix(PathBuf::from("/run/me/ibeam--100%.sock")),
        ],
        tls: false,
        drain: Duration::from_secs(30),
    }
}

fn systemd(folder: &Path) -> Systemd {
    Systemd::new(folder, SystemdPaths::default())
}

/// Every file below a folder, with what is in it; and every folder.
fn all(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => {
                    found.push((path.clone(), None));
                    left.push(path);
                }
                false => found.push((path.clone(), Some(fs::read(&path).unwrap()))),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn install_and_uninstall_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("systemd")).unwrap();
    let before = all(folder.path());
    let (manager, runner) = (systemd(folder.path()), Recorder::default());
    let files = install(&manager, &service(), &runner).unwrap();
    assert_eq!(files, manager.files());
    assert_eq!(
        runner.taken(),
        ["systemctl --user daemon-reload", "systemctl --user enable --now ibeam.socket"]
    );
    let Ok(FileOwner::Ours(stamp)) = read(&files[0]) else { panic!("{:?}", read(&files[0])) };
    assert_eq!(stamp.urls, ["http://127.0.0.1:18741", "unix:/run/me/ibeam--100%.sock"]);
    // The second time it is stopped first, and nothing else is different.
    let installed = all(folder.path());
    install(&manager, &service(), &runner).unwrap();
    assert_eq!(all(folder.path()), installed);
    assert_eq!(
        runner.taken(),
        [
            "systemctl --user daemon-reload",
            "systemctl --user stop ibeam.socket ibeam.service",
            "systemctl --user reset-failed ibeam.socket ibeam.service",
            "systemctl --user enable --now ibeam.socket",
        ]
    );
    uninstall(&manager, &runner, false).unwrap();
    assert_eq!(all(folder.path()), before, "a folder of the user's stays, ours does not");
    assert_eq!(
        runner.taken(),
        [
            "systemctl --user disable --now ibeam.socket",
            "systemctl --user stop ibeam.service",
            "systemctl --user daemon-reload",
            "systemctl --user reset-failed ibeam.socket ibeam.service",
        ]
    );
    let error = uninstall(&manager, &runner, false).unwrap_err();
    assert_eq!(error.what, "the service is not installed");
    assert!(runner.taken().is_empty());
}

#[test]
fn foreign_or_changed_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (manager, runner) = (systemd(folder.path()), Recorder::default());
    let [socket, unit] = <[PathBuf; 2]>::try_from(manager.files()).unwrap();
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    let before = all(folder.path());
    for failed in [
        install(&manager, &service(), &runner).unwrap_err(),
        uninstall(&manager, &runner, true).unwrap_err(),
    ] {
        assert!(failed.what.contains("not written by `ibeam service install`"), "{failed:?}");
    }
    assert_eq!(all(folder.path()), before);
    assert!(runner.taken().is_empty(), "nothing was run");

    fs::remove_file(&unit).unwrap();
    install(&manager, &service(), &runner).unwrap();
    runner.taken();
    let mine = fs::read_to_string(&socket).unwrap() + "# mine\n";
    fs::write(&socket, &mine).unwrap();
    assert_eq!(read(&socket).unwrap(), FileOwner::Changed);
    let failed = install(&manager, &service(), &runner).unwrap_err();
    assert!(failed.what.contains("was changed since"), "{failed:?}");
    assert!(failed.hints.concat().contains("uninstall --force"), "{failed:?}");
    uninstall(&manager, &runner, false).unwrap_err();
    assert_eq!(fs::read_to_string(&socket).unwrap(), mine);
    assert!(runner.taken().is_empty());
    uninstall(&manager, &runner, true).unwrap();
    assert!(!socket.exists() && !unit.exists());
}

#[test]
fn refused_install_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Recorder { fails: "enable --now", ..Recorder::default() };
    let manager = systemd(folder.path());
    let failed = install(&manager, &service(), &runner).unwrap_err();
    assert!(
        failed.what.contains("`systemctl --user enable --now ibeam.socket` failed: no such thing"),
        "{failed:?}"
    );
    assert_eq!(all(folder.path()), []);
    let lines = runner.taken();
    assert_eq!(lines.last().unwrap(), "systemctl --user reset-failed ibeam.socket ibeam.service");

    // One that was there before is there again, and runs.
    let well = Recorder::default();
    install(&manager, &service(), &well).unwrap();
    let installed = all(folder.path());
    let other =
        ServiceSpec { places: vec![SocketAddr::from(([127, 0, 0, 1], 1)).into()], ..service() };
    install(&manager, &other, &runner).unwrap_err();
    assert_eq!(all(folder.path()), installed);
    assert_eq!(runner.taken().last().unwrap(), "systemctl --user enable --now ibeam.socket");
}

#[test]
fn unwritable_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("systemd"), "a file where a folder should be").unwrap();
    let runner = Recorder::default();
    let failed = install(&systemd(folder.path()), &service(), &runner).unwrap_err();
    assert!(failed.what.contains("systemd"), "{failed:?}");
    assert!(!runner.taken().iter().any(|line| line.contains("enable")));
}

#[test]
fn each_system_has_its_own_commands() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Recorder::default();
    let agent = Launchd::new(folder.path(), 501);
    let plist = agent.files()[0].display().to_string();
    install(&agent, &service(), &runner).unwrap();
    uninstall(&agent, &runner, false).unwrap();
    let label = "io.github.ibeam-gateway.ibeam";
    assert_eq!(
        runner.taken(),
        [
            format!("launchctl enable gui/501/{label}"),
            format!("launchctl bootstrap gui/501 {plist}"),
            format!("launchctl bootout gui/501/{label}"),
        ]
    );
    let task = Schtasks::new(folder.path(), "HERE\\me");
    let xml = task.files()[0].display().to_string();
    install(&task, &service(), &runner).unwrap();
    install(&task, &service(), &runner).unwrap();
    uninstall(&task, &runner, false).unwrap();
    assert_eq!(
        runner.taken(),
        [
            // A task of that name that is not ours is not replaced.
            format!("schtasks /Create /TN ibeam /XML {xml}"),
            "schtasks /Run /TN ibeam".to_owned(),
            "schtasks /End /TN ibeam".to_owned(),
            format!("schtasks /Create /TN ibeam /XML {xml} /F"),
            "schtasks /Run /TN ibeam".to_owned(),
            "schtasks /End /TN ibeam".to_owned(),
            "schtasks /Delete /TN ibeam /F".to_owned(),
        ]
    );
    assert_eq!(all(folder.path()), []);
}
