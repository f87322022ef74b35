use super::*;

#[test]
fn each_refusal_says_what_helps() {
    let of = |code: i32| refused(&io::Error::from_raw_os_error(code), &Program::at("/x/agent"));
    // ENOENT, EACCES, E2BIG, EAGAIN.
    for (code, want, words) in [
        (2, ErrorCode::Unavailable, "not there any more"),
        (13, ErrorCode::Unavailable, "may not be run"),
        (7, ErrorCode::RequestTooLarge, "command line"),
        (11, ErrorCode::Unavailable, "cursor_agent.children"),
        (5, ErrorCode::Unavailable, "cannot be started"),
    ] {
        let error = of(code);
        assert_eq!(error.code, want);
        assert!(error.message.contains(words) && error.message.contains("/x/agent"), "{error}");
    }
}

#[tokio::test]
async fn a_child_that_is_dropped_is_dead() {
    let tasks = Tasks::new();
    let args = ["-c", "sleep 1000"].map(OsString::from);
    let program = Program::at("/bin/sh");
    let folder = std::env::temp_dir();
    let start = Start { program: &program, folder: &folder, name: "test", sight: Sight::Full };
    let (child, pipes) = spawn(start, &args, &tasks).unwrap();
    drop(child);
    // The other end of its streams is closed only by its death.
    let mut rest = Vec::new();
    let mut stdout = pipes.stdout.unwrap();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stdout, &mut rest);
    assert_eq!(timeout(Duration::from_secs(10), read).await.unwrap().unwrap(), 0);
}
