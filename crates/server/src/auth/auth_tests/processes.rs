//! What other processes do at the same time, and what is left when one is killed. The
//! test binary plays them itself.

use std::{
    env,
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use super::*;

const ROLE: &str = "IBEAM_TEST_ROLE";
const HOME: &str = "IBEAM_TEST_HOME";
const READY: &str = "-- ready --";

/// Two credentials of very different length, so that a mixture of both shows.
pub(super) fn long_and_short() -> [Credential; 2] {
    [credential(&"l".repeat(20_000)), credential("s")]
}

/// Begins when a test starts this binary with a role.
#[tokio::test]
#[ignore = "a part of other tests"]
async fn child() {
    let (Ok(role), Ok(home)) = (env::var(ROLE), env::var(HOME)) else { return };
    let config = CredentialPaths::of(&Env::new(), Path::new(&home)).config().to_path_buf();
    let file = CredentialFile::at(&config, &Profile::default());
    match role.as_str() {
        "save" => match file.lock(SHORT).await.unwrap().save(&long_and_short()[0]) {
            Ok(_) => println!("saved"),
            Err(error) => println!("{}", words(&error)),
        },
        "save for ever" => loop {
            for credential in long_and_short() {
                file.lock(SHORT).await.unwrap().save(&credential).unwrap();
                println!("{READY}");
            }
        },
        "count" => {
            let lock = file.lock(Duration::from_secs(60)).await.unwrap();
            let inside = config.join("inside");
            fs::File::create_new(&inside).expect("no other process is inside");
            let expires = lock.load().unwrap().and_then(|c| c.expires).unwrap_or(1);
            let next = Credential { expires: Some(expires + 1), ..credential("n") };
            lock.save(&next).unwrap();
            fs::remove_file(inside).unwrap();
        }
        "hold" => {
            let _lock = file.lock(SHORT).await.unwrap();
            println!("{READY}");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        role => panic!("no role {role}"),
    }
}

/// This binary in a role, started by a shell that did something before.
pub(super) fn start(before: &str, role: &str, home: &Home) -> Child {
    let script = format!("{before}\nexec \"$0\" \"$@\"");
    let arguments = ["auth::tests::processes::child", "--exact", "--ignored", "--nocapture"];
    Command::new("sh")
        .args([OsStr::new("-c"), script.as_ref(), env::current_exe().unwrap().as_ref()])
        .args(arguments)
        .env(ROLE, role)
        .env(HOME, home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Waits until the process says that it is ready.
fn ready(child: &mut Child) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains(READY)), "it ended before it was ready");
}

pub(super) fn said(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn entries(file: &CredentialFile) -> Vec<String> {
    let entries = file.path().parent().unwrap().read_dir().unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn killed_save_leaves_the_old_or_the_new_file() {
    let home = Home::new();
    let file = home.file("default");
    let whole = long_and_short().map(|credential| plain(&credential));
    let mut seen = [0, 0];
    let mut halves = 0;
    for round in 0..40_u64 {
        let mut child = start("", "save for ever", &home);
        ready(&mut child);
        // Anywhere within the next few saves.
        tokio::time::sleep(Duration::from_micros(round * 977 % 9000)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let found = plain(&file.load().unwrap().expect("one of them is there"));
        let which = whole.iter().position(|credential| *credential == found);
        seen[which.expect("it is one of the two, whole")] += 1;
        halves += entries(&file).iter().filter(|name| name.ends_with(".tmp")).count();
        // Nothing has to be cleaned up after it.
        home.file("default").lock(Duration::ZERO).await.unwrap();
    }
    println!("long: {}, short: {}, killed within a write: {halves}", seen[0], seen[1]);
    home.save("default", &credential("a")).await;
    assert_eq!(entries(&file), ["default.json", "default.lock"]);
}

#[tokio::test]
async fn fifty_processes_save_one_after_the_other() {
    let home = Home::new();
    let children: Vec<_> = (0..50).map(|_| start("", "count", &home)).collect();
    for child in children {
        said(child);
    }
    let counted = home.file("default").load().unwrap().unwrap().expires;
    assert_eq!(counted, Some(51));
}

#[tokio::test]
async fn lock_is_released_when_its_process_ends() {
    let home = Home::new();
    let mut child = start("", "hold", &home);
    ready(&mut child);
    let file = home.file("default");
    let error = file.lock(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, AuthFileError::File(FileError::Locked { .. })), "{error:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    file.lock(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn full_disk_is_reported_and_the_old_file_kept() {
    let home = Home::new();
    home.save("default", &credential("old")).await;
    let file = home.file("default");
    // No file may grow beyond a few blocks, and that is an error, not the end.
    let output = said(start("trap '' XFSZ; ulimit -f 4", "save", &home));
    let text = format!("no space is left to write {}", file.path().display());
    assert!(output.contains(&text), "{output}");
    assert!(output.contains("the previous content is kept"), "{output}");
    assert_eq!(plain(&file.load().unwrap().unwrap()), plain(&credential("old")));
    assert_eq!(entries(&file), ["default.json", "default.lock"]);
    // With room again it works.
    assert!(said(start("", "save", &home)).contains("saved"));
    assert_eq!(plain(&file.load().unwrap().unwrap()), plain(&long_and_short()[0]));
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_error_is_recognized() {
    use std::io::Write as _;
    let mut full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = full.write_all(b"x").unwrap_err();
    let error = FileError::io("write", Path::new("/p"))(error);
    assert!(matches!(error, FileError::Full { .. }), "{error:?}");
}

#[tokio::test]
async fn credential_modes_do_not_depend_on_the_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    assert!(said(start("umask 000", "save", &home)).contains("saved"));
    let file = home.file("default");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let lock = file.path().with_extension("lock");
    assert_eq!([mode(file.path()), mode(&lock)], [0o600, 0o600]);
    let dirs = [file.path().parent().unwrap(), &home.config(), &home.at(".config")];
    assert_eq!(dirs.map(mode), [0o700; 3]);
}
