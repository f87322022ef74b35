use super::*;

#[test]
fn each_refusal_suggests_a_fix() {
    let of = |code: i32| refused(&io::Error::from_raw_os_error(code), &Program::at("/x/agent"));
    // ENOENT, EACCES, E2BIG, EAGAIN.
    for (code, want, words) in [
        (2, ErrorCode::Unavailable, "no longer exists"),
        (13, ErrorCode::Unavailable, "not allowed to run"),
        (7, ErrorCode::RequestTooLarge, "command line"),
        (11, ErrorCode::Unavailable, "cursor_agent.max_processes"),
        (5, ErrorCode::Unavailable, "cannot be started"),
    ] {
        let error = of(code);
        assert_eq!(error.code, want);
        assert!(error.message.contains(words) && error.message.contains("/x/agent"), "{error}");
    }
}

#[tokio::test]
async fn dropped_child_is_dead() {
    let tasks = Tasks::new();
    let args = ["-c", "sleep 1000"].map(OsString::from);
    let program = Program::at("/bin/sh");
    let folder = std::env::temp_dir();
    let start = Spawn { program: &program, folder: &folder, name: "test", sight: Sight::Full };
    let (child, pipes) = spawn(start, &args, &tasks).unwrap();
    drop(child);
    // The other end of its streams is closed only by its death.
    let mut rest = Vec::new();
    let mut stdout = pipes.stdout.unwrap();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stdout, &mut rest);
    assert_eq!(timeout(Duration::from_secs(10), read).await.unwrap().unwrap(), 0);
}

/// As if another user had been let into the folder after the program was found.
#[tokio::test]
async fn a_program_is_checked_again_before_each_start() {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    let base = tempfile::tempdir().unwrap();
    let (bin, work) = (base.path().join("bin"), base.path().join("work"));
    for folder in [&bin, &work] {
        fs::create_dir(folder).unwrap();
    }
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let program = Program::at(bin.join("agent"));
    fs::write(&program.path, "#!/bin/sh\ntouch started\n").unwrap();
    mode(&program.path, 0o755);
    let tasks = Tasks::new();
    let start = Spawn { program: &program, folder: &work, name: "test", sight: Sight::Bare };
    mode(&bin, 0o777);
    let error = spawn(start, &[], &tasks).unwrap_err();
    assert!(error.message.contains("other users may write to"), "{error}");
    assert!(!work.join("started").exists());

    mode(&bin, 0o755);
    let (mut child, _pipes) = spawn(start, &[], &tasks).unwrap();
    assert!(child.wait().await.unwrap().success() && work.join("started").exists());
    fs::remove_file(&program.path).unwrap();
    let error = spawn(start, &[], &tasks).unwrap_err();
    assert!(error.message.contains("no longer exists"), "{error}");
}
