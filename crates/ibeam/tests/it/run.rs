//! `ibeam run`: a program with a gateway that is there for as long as it runs.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::{
    instance::{User, json, words},
    watch,
};

/// What ibeam forbids itself is not forbidden to the user's programs.
#[test]
fn started_program_keeps_its_core_dump_limit() {
    let user = User::new();
    user.program("limit", "ulimit -S -c");
    let ibeam = user.ibeam("run --sim limit");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "ulimit -S -c \"$(ulimit -H -c)\"; ulimit -S -c; exec \"$@\"", "sh"]);
    shell.arg(ibeam.get_program()).args(ibeam.get_args()).stdin(Stdio::null());
    for (name, value) in ibeam.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let [before, after] = text.lines().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(before, after);
}

#[test]
fn program_gets_its_variables_and_files() {
    let user = User::new();
    user.program("greet", "echo \"$OPENAI_BASE_URL $ANTHROPIC_BASE_URL $*\"; exit 7");
    for line in ["run --sim greet --sim -x", "run --sim env greet --sim -x"] {
        let output = user.run(line);
        assert_eq!(output.status.code(), Some(7), "{}", words(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let running = user.json("start --sim --json");
        let url = running["url"].as_str().unwrap();
        assert_eq!(text, format!("{url}/v1 {url} --sim -x\n"));
    }
    user.program("end", "kill -TERM $$");
    let output = user.run("run --sim end");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(15));
    let output = user.run("run --sim no-such-program");
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("is neither a client"), "{}", words(&output));
    let output = user.run("run --sim claude");
    assert!(words(&output).contains("Claude Code is not installed"), "{}", words(&output));
    // There is no terminal to sign in from.
    let output = user.run("run greet");
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("not signed in"), "{}", words(&output));
}

/// A client that needs a file gets one of its own, for as long as it runs.
#[test]
fn temporary_files_of_a_client_are_removed() {
    let user = User::new();
    let own = user.0.0.path().join(".claude/settings.json");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    let before = r#"{ "env": { "ANTHROPIC_BASE_URL": "https://example.com" } } // mine"#;
    fs::write(&own, before).unwrap();
    user.program(
        "claude",
        "[ \"$1\" = --settings ] || exit 9
         stat -c %a \"$2\" \"$(dirname \"$2\")\"
         grep -c 127.0.0.1 \"$2\"
         echo \"$2\" >&3
         shift 2; echo \"$*\"
         sleep 60 & trap \"kill $!; exit 3\" TERM; kill -TERM $PPID; wait",
    );
    let place = user.0.0.path().join("place");
    let mut command = user.ibeam("run --sim claude -p hi");
    let script = format!("exec \"$@\" 3>{}", place.display());
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    command = shell;
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "600\n700\n1\n-p hi\n");
    let place = fs::read_to_string(place).unwrap();
    assert!(place.trim().ends_with("settings.json") && !fs::exists(place.trim()).unwrap());
    assert_eq!(fs::read_to_string(own).unwrap(), before);
}

/// A client may be quiet for longer than a gateway waits.
#[test]
fn gateway_stays_while_a_client_runs() {
    let user = User::new();
    let ibeam = watch::program();
    user.program("ponder", &format!("sleep 5; {} status --json", ibeam.display()));
    let output = user.run("run --sim --set idle_exit=2s ponder");
    assert_eq!(json(&output)[0]["shared"], true);
    user.all_end();
    assert_eq!(user.run("status").status.code(), Some(1));
}
