//! Repeats that are not loops.

use super::*;

#[test]
fn successful_call_may_be_repeated_after_new_reads() {
    let mut run = Run::new(2);
    for n in 0..20 {
        assert_eq!(run.step("bash", "git diff", "one line"), Pass, "{n}");
        assert_eq!(run.step("read", &format!("{n}"), "text"), Pass, "{n}");
    }
    // Nothing new was read.
    table(
        2,
        &[
            ("read", "a", "A", Pass),
            ("bash", "git diff", "one line", Pass),
            ("read", "a", "A", Pass),
            ("bash", "git diff", "one line", Note),
            ("bash", "git diff", "", Stop),
        ],
    );
}

#[test]
fn polling_is_not_a_loop() {
    for (tool, arguments, outcome) in [
        ("bash", r#"{"command":"gh run view"}"#, "build  in_progress"),
        ("bash", r#"{"command":"kubectl get pods"}"#, "web-1  0/1  Pending  0  4s"),
        ("get_job", r#"{"id":7}"#, r#"{"state":"queued"}"#),
        ("job_status", "{}", "The job is still running."),
        ("bash", r#"{"command":"sleep 5"}"#, ""),
        ("bash", r#"{"command":"sleep 5 && tail log"}"#, "no news"),
        ("wait", r#"{"seconds":5}"#, "done"),
        (
            "bash",
            r#"{"command":"curl localhost:80"}"#,
            "curl: (7) Connection refused\nexit code: 7",
        ),
        ("bash", r#"{"command":"timeout 5 tail -f log"}"#, "exit code: 124"),
    ] {
        let mut run = Run::new(2);
        for n in 0..30 {
            assert_eq!(run.step(tool, arguments, outcome), Pass, "{n}: {tool} {arguments}");
        }
        // It is over: this result counts from its first.
        let over = "finished: 3 problems\nexit code: 1";
        assert_eq!(run.step(tool, arguments, over), Pass, "{tool} {arguments}");
        assert_eq!(run.step(tool, arguments, over), Note, "{tool} {arguments}");
        assert_eq!(run.step(tool, arguments, over), Stop, "{tool} {arguments}");
    }
    for (tool, arguments, outcome) in [
        ("bash", "cargo test", "running 3 tests\n1 failed"),
        ("bash", "cargo run", "Running `target/debug/a`\nfine"),
        ("bash", "make", "error: tests still failing"),
        ("bash", "timeout 60 make", "error: x"),
        ("bash", "timeout 60 make", "all made"),
        ("bash", r#"{"command":"make","timeout": 9000}"#, "error: command timed out"),
        ("bash", "sleep 1 && make", "error: x"),
        ("bash", "psql", "connection refused"),
        ("edit", "a", "still running"),
    ] {
        table(
            2,
            &[
                (tool, arguments, outcome, Pass),
                (tool, arguments, outcome, Note),
                (tool, arguments, outcome, Stop),
            ],
        );
    }
}

#[test]
fn small_steps_may_be_repeated_more_often() {
    for (tool, outcome) in [
        ("press_key", "ok"),
        ("browser_click", "Done."),
        ("scrollDown", ""),
        ("next", r#"{"ok":true}"#),
    ] {
        let mut run = Run::new(2);
        let seen: Vec<See> = (0..9).map(|_| run.step(tool, "{}", outcome)).collect();
        assert_eq!(seen, [Pass, Pass, Pass, Pass, Pass, Pass, Pass, Note, Stop], "{tool}");
    }
    // It says more, or is not a step.
    table(2, &[("click", "{}", "no such button", Pass), ("click", "{}", "no such button", Note)]);
    table(2, &[("deploy", "{}", "ok", Pass), ("deploy", "{}", "ok", Note)]);
}

#[test]
fn todo_list_tools_are_ignored() {
    let mut run = Run::new(2);
    for _ in 0..20 {
        assert_eq!(run.step("todowrite", "[]", "ok"), Pass);
        assert_eq!(run.step("update_plan", "{}", "Plan updated"), Pass);
    }
    assert!(run.guard.seen.is_empty() && run.guard.edits.is_empty());
    // Nor does it forgive, and its arguments must fit.
    table(
        2,
        &[
            ("bash", "make", "error: x", Pass),
            ("todowrite", "1", "ok", Pass),
            ("bash", "make", "error: x", Note),
            ("todowrite", "2", "ok", Pass),
            ("bash", "make", "", Stop),
        ],
    );
    let refused = "The todowrite tool was called with invalid arguments: [...]";
    table(2, &[("todowrite", "1", refused, Pass), ("todowrite", "2", refused, Note)]);
}
