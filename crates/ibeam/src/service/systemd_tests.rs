use std::{fs, process::Command};

use super::{super::tests::service, *};
use crate::service::{ServiceStamp, tests::Recorder};

fn systemd(folder: &Path) -> Systemd {
    Systemd::new(folder, SystemdPaths::default())
}

#[test]
fn units_match_their_snapshots() {
    let drafts = systemd(Path::new("/home/me/.config")).drafts(&service());
    assert_eq!(drafts[0].path, Path::new("/home/me/.config/systemd/user/ibeam.socket"));
    assert_eq!(drafts[1].path, Path::new("/home/me/.config/systemd/user/ibeam.service"));
    let stamp = ServiceStamp { folders: 2, urls: service().urls() };
    insta::assert_snapshot!("socket", drafts[0].text(&stamp));
    insta::assert_snapshot!("service", drafts[1].text(&stamp));
}

/// By systemd itself, where it is installed.
#[test]
fn systemd_accepts_the_units() {
    let there = Command::new("systemd-analyze").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: systemd-analyze is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // It wants a program that is there.
    let tools = folder.path().join("my tools");
    fs::create_dir(&tools).unwrap();
    let program = tools.join("50%");
    fs::copy("/bin/true", &program).unwrap();
    let service = ServiceSpec { program: program.to_str().unwrap().to_owned(), ..service() };
    for draft in systemd(folder.path()).drafts(&service) {
        fs::create_dir_all(draft.path.parent().unwrap()).unwrap();
        fs::write(&draft.path, draft.bytes(&ServiceStamp::default())).unwrap();
        let units = draft.path.parent().unwrap().display().to_string();
        let verify = |path: &Path| {
            let mut command = Command::new("systemd-analyze");
            command.args(["verify", "--user", "--man=no"]).arg(path);
            // Only these units: those of the machine are its own affair.
            command.env("SYSTEMD_UNIT_PATH", format!("{units}:/usr/lib/systemd/user"));
            command.env("XDG_RUNTIME_DIR", folder.path()).env("HOME", folder.path());
            command.output().unwrap()
        };
        if draft.path.ends_with(SERVICE) {
            for file in systemd(folder.path()).files() {
                let output = verify(&file);
                let words = String::from_utf8_lossy(&output.stderr);
                let ours: Vec<_> = words.lines().filter(|line| line.contains("ibeam")).collect();
                assert!(output.status.success() && ours.is_empty(), "{words}");
            }
            // And it would complain.
            let text = fs::read_to_string(&draft.path).unwrap();
            fs::write(&draft.path, text.replace("KillMode=mixed", "KillMode=gently")).unwrap();
            let words = verify(&draft.path);
            assert!(String::from_utf8_lossy(&words.stderr).contains("ibeam.service"), "{words:?}");
        }
    }
}

#[test]
fn words_are_quoted() {
    for (word, want) in [
        ("/usr/bin/ibeam", "/usr/bin/ibeam"),
        ("--set=a=b", "--set=a=b"),
        ("", "\"\""),
        ("a b", "\"a b\""),
        ("a\"b\\c", "\"a\\\"b\\\\c\""),
        ("a\nExecStart=b", "\"a\\nExecStart=b\""),
        ("a;b", "\"a;b\""),
    ] {
        assert_eq!(quoted(word), want);
    }
}

#[test]
fn systemd_state_is_parsed() {
    let shown = "Result=success\nId=ibeam.socket\nUnitFileState=enabled\nActiveState=active\n\
                 SubState=listening\n\nMainPID=0\nResult=success\nId=ibeam.service\n\
                 UnitFileState=static\nActiveState=inactive\nSubState=dead";
    let runner = Recorder { says: shown.to_owned(), ..Recorder::default() };
    let waiting = ServiceState {
        enabled: true,
        running: Some(false),
        waiting: true,
        pid: None,
        trouble: None,
    };
    assert_eq!(systemd(Path::new("/")).state(&runner), waiting);
    let line = &runner.taken()[0];
    assert!(line.starts_with("systemctl --user show --property=Id,"), "{line}");
    let runs = shown.replace("MainPID=0", "MainPID=7").replace("=inactive", "=active");
    assert_eq!(state(&runs), ServiceState { running: Some(true), pid: Some(7), ..waiting });
    let failed = shown
        .replace("=inactive", "=failed")
        .replace("=success\nId=ibeam.service", "=start-limit-hit\nId=ibeam.service");
    let trouble = state(&failed).trouble.unwrap();
    assert!(trouble.starts_with("ibeam.service failed (start-limit-hit)"), "{trouble}");
    assert_eq!(state(""), ServiceState { running: Some(false), ..ServiceState::default() });
}

#[test]
fn missing_service_manager_suggests_alternatives() {
    let runner = Recorder { fails: "systemctl", ..Recorder::default() };
    let hints = |surroundings| {
        let manager = Systemd::new(Path::new("/"), surroundings);
        let (what, hints) = manager.missing(&runner).unwrap();
        assert!(what.contains("no such thing"), "{what}");
        hints.join("\n")
    };
    let usual = hints(SystemdPaths::default());
    assert!(usual.contains("`ibeam serve`") && !usual.contains("WSL"), "{usual}");
    assert!(hints(SystemdPaths { wsl: true, ..SystemdPaths::default() }).contains("systemd=true"));
    let container = SystemdPaths { container: true, no_runtime_dir: true, wsl: false };
    let text = hints(container);
    assert!(text.contains("its command") && !text.contains("sudo"), "{text}");
    let su = SystemdPaths { no_runtime_dir: true, ..SystemdPaths::default() };
    assert!(hints(su).contains("machinectl"));
    assert_eq!(systemd(Path::new("/")).missing(&Recorder::default()), None);
}

#[test]
fn logs_come_from_the_journal() {
    let manager = systemd(Path::new("/"));
    let line = |follow| match manager.logs(follow, 20) {
        ServiceLogs::By(line) => line.to_string(),
        ServiceLogs::In(path) => panic!("{}", path.display()),
    };
    assert_eq!(line(false), "journalctl --user --unit ibeam.service --lines 20 --no-pager");
    assert_eq!(line(true), "journalctl --user --unit ibeam.service --lines 20 --follow");
}
