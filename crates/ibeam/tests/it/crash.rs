//! What is left of a process that crashes: no secret. The test binary plays it itself.

use std::{
    env,
    process::{Command, Output, Stdio},
};

use ibeam::{harden::harden, telemetry};
use ibeam_server::{config::LogConfig, tasks::Tasks};

use crate::cli::{Home, Server};

const ROLE: &str = "IBEAM_TEST_ROLE";
const KEY: &str = "ibk_0123456789abcdef0123456789abcdef0123456789abcdef";
const WORD: &str = "opaque-5e1f";

/// Begins when a test starts this binary with a role.
#[test]
#[ignore = "a part of other tests"]
fn child() {
    let Ok(role) = env::var(ROLE) else { return };
    harden();
    let message = format!("{} no such key: {KEY}, access_token={WORD}", "é".repeat(100));
    match role.as_str() {
        "main" => panic!("{message}"),
        "task" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            runtime.block_on(async {
                let task = Tasks::new().spawn("doomed", async move { panic!("{message}") });
                assert!(task.await.unwrap_err().is_panic());
            });
        }
        "logging" => {
            telemetry::init(&LogConfig {
                filter: "info".to_owned(),
                json: true,
                timing: false,
                file: None,
            });
            panic!("{message}");
        }
        "long" => panic!("{}{KEY}", "x ".repeat(254)),
        #[cfg(target_os = "linux")]
        "limits" => {
            use rustix::process::{Resource, dumpable_behavior, getrlimit};
            let core = getrlimit(Resource::Core).current;
            println!("{core:?} {:?}", dumpable_behavior().unwrap());
        }
        role => panic!("no role {role}"),
    }
}

fn play(role: &str) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn panics_show_no_secret() {
    for role in ["main", "task", "logging"] {
        let output = play(role);
        let text = words(&output);
        assert!(text.contains("no such key: ibk_***, access_token=***"), "{role}: {text}");
        // The test's own report may repeat a panic of its own thread, but not this.
        assert!(!text.contains("0123456789abcdef") && !text.contains(WORD), "{role}: {text}");
        assert!(text.contains("crash.rs:"), "it says where: {text}");
    }
    let text = words(&play("logging"));
    let line = text.lines().find(|line| line.contains("no such key")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["level"], "ERROR");
}

#[test]
fn cut_message_leaves_no_part_of_a_secret() {
    let text = words(&play("long"));
    assert!(text.contains("x x") && !text.contains("ibk_0"), "{text}");
    assert!(text.lines().all(|line| line.len() < 700), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn crash_leaves_no_core_dump() {
    let output = String::from_utf8(play("limits").stdout).unwrap();
    // A debugger around the tests is let in.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let traced = !status.contains("TracerPid:\t0\n");
    let expect = if traced { "Some(0) " } else { "Some(0) NotDumpable" };
    assert!(output.contains(expect), "{output}");
}

/// The real program, on the real way in.
#[cfg(target_os = "linux")]
#[test]
fn the_program_itself_is_hardened() {
    let home = Home::new();
    let server = Server::start(home.ibeam("serve --sim --port 0"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
