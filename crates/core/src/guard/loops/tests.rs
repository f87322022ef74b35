#[path = "patience_tests.rs"]
mod patience;

use proptest::prelude::*;

use super::{
    LoopGuard, LoopVerdict, PENDING_CAP, REFUSED_CAP, SEEN_CAP,
    classify::{OutcomeClass, ToolKind, repeat_note, without_note},
};
use crate::model::{Item, Message, Part, Role, ToolCall, ToolResult};

/// What a step of a table should lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum See {
    Pass,
    Note,
    Stop,
}
use See::{Note, Pass, Stop};

fn result(id: &str, text: &str, is_error: bool) -> ToolResult {
    let content = vec![Part::Text(text.to_owned())];
    ToolResult { call_id: id.to_owned(), content, is_error }
}

struct Run {
    guard: LoopGuard,
    next: usize,
}

impl Run {
    fn new(max_repeat: u32) -> Self {
        Self { guard: LoopGuard::new(max_repeat), next: 0 }
    }

    fn step(&mut self, tool: &str, arguments: &str, outcome: &str) -> See {
        self.next += 1;
        let id = format!("c{}", self.next);
        if let LoopVerdict::Stop(message) = self.guard.on_call(&id, tool, arguments) {
            assert!(message.contains(&format!("`{tool}`")), "{message}");
            assert!(message.contains("tools.max_repeat"), "{message}");
            assert!(message.contains("TOOL_LOOP_MAX_REPEAT"), "{message}");
            return Stop;
        }
        match self.guard.on_result(&id, &result(&id, outcome, false)) {
            Some(note) => {
                assert_eq!(without_note(&format!("{outcome}\n\n{note}")), outcome);
                Note
            }
            None => Pass,
        }
    }
}

#[track_caller]
fn table(max_repeat: u32, steps: &[(&str, &str, &str, See)]) {
    let mut run = Run::new(max_repeat);
    for (at, (tool, arguments, outcome, expect)) in steps.iter().enumerate() {
        assert_eq!(run.step(tool, arguments, outcome), *expect, "step {at} of {steps:?}");
    }
}

#[test]
fn third_identical_call_is_stopped() {
    table(
        2,
        &[
            ("bash", r#"{"command":"make","n":1}"#, "done", Pass),
            ("bash", r#"{ "n": 1.0, "command": "make" }"#, "done", Note),
            ("bash", r#"{"command":"make","n":1}"#, "done", Stop),
            ("bash", r#"{"command":"make","n":1}"#, "done", Stop),
        ],
    );
    table(2, &[("x", "", "error: a", Pass), ("x", "", "error: a", Note), ("x", "", "", Stop)]);
    table(1, &[("x", "{}", "a", Note), ("x", "{}", "a", Stop)]);
    table(3, &[("x", "{}", "a", Pass), ("x", "{}", "a", Pass), ("x", "{}", "a", Note)]);
}

#[test]
fn stop_message_has_the_count() {
    let mut run = Run::new(2);
    run.step("bash", "{}", "a");
    run.step("bash", "{}", "a");
    let LoopVerdict::Stop(message) = run.guard.on_call("x", "bash", "{}") else { panic!() };
    assert!(message.contains("twice"), "{message}");
}

#[test]
fn other_tools_and_other_arguments_are_different_calls() {
    table(
        2,
        &[
            ("a", r#"{"n":1}"#, "same", Pass),
            ("b", r#"{"n":1}"#, "same", Pass),
            ("a", r#"{"n":2}"#, "same", Pass),
            ("a", r#"{"n":"1"}"#, "same", Pass),
            ("a", r#"{"n":1}"#, "same", Pass),
        ],
    );
}

#[test]
fn different_outcome_resets_the_count() {
    table(
        2,
        &[
            ("bash", "status", "1 %", Pass),
            ("bash", "status", "2 %", Pass),
            ("bash", "status", "3 %", Pass),
            ("bash", "status", "3 %", Note),
            ("bash", "other", "x", Pass),
            ("bash", "status", "4 %", Pass),
            ("bash", "status", "4 %", Note),
            ("bash", "status", "4 %", Stop),
        ],
    );
}

#[test]
fn same_text_as_an_error_is_a_different_outcome() {
    let mut guard = LoopGuard::new(2);
    for (id, is_error) in [("1", false), ("2", true), ("3", false)] {
        assert_eq!(guard.on_call(id, "x", "{}"), LoopVerdict::Allow);
        assert_eq!(guard.on_result(id, &result(id, "a", is_error)), None);
    }
}

#[test]
fn work_between_failing_tests_is_progress() {
    let mut run = Run::new(2);
    for n in 0..600 {
        let edit = format!(r#"{{"file":"a.rs","new":"{n}"}}"#);
        assert_eq!(run.step("edit", &edit, "ok"), Pass, "{n}");
        let test = run.step("bash", "cargo test", "1 failed\nexit code: 101");
        assert_eq!(test, Pass, "{n}");
        assert_eq!(run.step("bash", "cargo clippy", "clean"), Pass, "{n}");
    }
}

#[test]
fn failed_and_repeated_edits_are_not_progress() {
    table(
        2,
        &[
            ("bash", "test", "error: 1", Pass),
            ("edit", "1", "Error: not found", Pass),
            ("bash", "test", "error: 1", Note),
            ("edit", "2", "Error: not found", Pass),
            ("bash", "test", "", Stop),
        ],
    );
    table(
        2,
        &[
            ("edit", "1", "ok", Pass),
            ("bash", "test", "error: 1", Pass),
            ("edit", "1", "ok", Note),
            ("bash", "test", "error: 1", Note),
            ("bash", "test", "", Stop),
        ],
    );
}

#[test]
fn reads_may_be_repeated_after_new_information() {
    let mut run = Run::new(2);
    for n in 0..50 {
        assert_eq!(run.step("Read", "main.rs", "fn main"), Pass, "{n}");
        assert_eq!(run.step("Grep", &format!("{n}"), "nothing"), Pass, "{n}");
    }
    // Two files in turn, and nothing new.
    table(
        2,
        &[
            ("read", "a", "A", Pass),
            ("read", "b", "B", Pass),
            ("read", "a", "A", Pass),
            ("read", "b", "B", Note),
            ("read", "a", "A", Note),
            ("read", "c", "C", Pass),
            ("read", "a", "A", Pass),
            ("read", "b", "B", Pass),
            ("read", "a", "A", Note),
            ("read", "a", "A", Stop),
        ],
    );
}

#[test]
fn reads_do_not_reset_failing_commands() {
    table(
        2,
        &[
            ("bash", "make", "error: x", Pass),
            ("read", "a", "A", Pass),
            ("bash", "make", "error: x", Note),
            ("read", "b", "B", Pass),
            ("bash", "make", "", Stop),
        ],
    );
}

#[test]
fn refused_arguments_count_for_the_whole_tool() {
    let refused = "The edit tool was called with invalid arguments: [...]";
    table(
        2,
        &[
            ("edit", "1", refused, Pass),
            ("edit", "2", refused, Note),
            ("edit", "3", refused, Note),
            ("edit", "4", refused, Note),
            ("write", "1", "ok", Pass),
            ("edit", "5", refused, Pass),
        ],
    );
    table(
        2,
        &[
            ("edit", "1", refused, Pass),
            ("edit", "2", refused, Note),
            ("read", "1", "text", Pass),
            ("edit", "3", refused, Note),
            ("edit", "4", refused, Note),
            ("edit", "5", "", Stop),
        ],
    );
    // The tool took its arguments once.
    table(
        2,
        &[
            ("edit", "1", refused, Pass),
            ("edit", "2", refused, Note),
            ("edit", "3", "Error: not found", Pass),
            ("edit", "4", refused, Pass),
        ],
    );
}

#[test]
fn alternating_edits_are_stopped() {
    let mut run = Run::new(2);
    let mut seen = Vec::new();
    for n in 0..6 {
        // News in between forgives the repeats, and not this.
        seen.push(run.step("edit", if n % 2 == 0 { "a to b" } else { "b to a" }, "ok"));
        assert_eq!(run.step("bash", &format!("try {n}"), "ok"), Pass);
        run.step("read", &format!("{n}"), "ok");
    }
    assert_eq!(seen, [Pass, Pass, Pass, Note, Note, Stop]);

    let mut run = Run::new(2);
    for n in 0..40 {
        let edit = ["a to b", "b to a", "c"][n % 3];
        assert_eq!(run.step("edit", edit, &format!("ok {n}")), Pass);
    }
    let mut run = Run::new(2);
    for n in 0..40 {
        // Another outcome each time.
        assert_eq!(run.step("edit", ["a", "b"][n % 2], &format!("{n}")), Pass);
    }
    let mut run = Run::new(4);
    let allowed = (0..40).take_while(|n| {
        run.step("bash", &format!("{n}"), "ok");
        run.step("edit", ["a", "b"][n % 2], "ok") != Stop
    });
    assert_eq!(allowed.count(), 9, "who allows more repeats allows more of this");
}

#[test]
fn user_message_resets_the_guard() {
    let mut run = Run::new(2);
    for _ in 0..3 {
        assert_eq!(run.step("x", "{}", "a"), Pass);
        assert_eq!(run.step("x", "{}", "a"), Note);
        run.guard.on_user_message();
    }
    // A result that comes beside the message still counts afterwards.
    run.guard.on_call("late", "x", "{}");
    run.guard.on_user_message();
    run.guard.on_result("late", &result("late", "a", false));
    assert_eq!(run.step("x", "{}", "a"), Note);
}

#[test]
fn zero_disables_the_guard() {
    let mut run = Run::new(0);
    for _ in 0..100 {
        assert_eq!(run.step("x", "{}", "a"), Pass);
    }
    assert!(run.guard.seen.is_empty() && run.guard.pending.is_empty());
}

#[test]
fn unknown_and_second_results_are_ignored() {
    let mut guard = LoopGuard::new(2);
    guard.on_call("1", "x", "{}");
    assert_eq!(guard.on_result("2", &result("2", "a", false)), None);
    for _ in 0..5 {
        assert_eq!(guard.on_result("1", &result("1", "a", false)), None);
    }
    assert_eq!(guard.on_call("3", "x", "{}"), LoopVerdict::Allow);
}

#[test]
fn guard_is_rebuilt_from_the_history() {
    let user = |text: &str| {
        let parts = vec![Part::Text(text.to_owned())];
        Item::Message(Message { role: Role::User, parts })
    };
    let round = |id: &str, text: &str| {
        let (id, name) = (id.to_owned(), "x".to_owned());
        let call = ToolCall { id: id.clone(), name, arguments: "{}".to_owned() };
        [Item::ToolCall(call), Item::ToolResult(result(&id, text, false))]
    };
    let noted = format!("same\n\n{}", repeat_note(2));
    let past = [vec![user("go")], round("1", "same").into(), round("2", &noted).into()].concat();
    let stops = |items: &[Item]| {
        let mut guard = LoopGuard::from_history(2, items);
        guard.on_call("n", "x", "{}") != LoopVerdict::Allow
    };
    assert!(stops(&past));
    assert!(stops(&[past.clone(), vec![user(" ")]].concat()));
    assert!(!stops(&[past.clone(), vec![user("again")]].concat()));
    assert!(!stops(&[past.clone(), round("3", "new").into()].concat()));
    assert!(!stops(&past[..3]));

    // A call without its result waits for it.
    let mut guard = LoopGuard::from_history(2, &past[..4]);
    assert!(guard.on_result("2", &result("2", "same", false)).is_some());
}

#[test]
fn memory_is_bounded() {
    let mut guard = LoopGuard::new(2);
    for n in 0..2000 {
        let (tool, id) = (format!("tool{n}"), format!("{n}"));
        guard.on_call(&id, &tool, "{}");
        if n % 2 == 0 {
            guard.on_result(&id, &result(&id, "error: missing required x", false));
        }
        guard.on_call(&format!("e{n}"), "edit", &id);
        guard.on_result(&format!("e{n}"), &result("", "error: no", false));
    }
    assert_eq!(guard.seen.len(), SEEN_CAP);
    // The last edit pushed one out and was answered.
    assert_eq!(guard.pending.len(), PENDING_CAP - 1);
    assert_eq!(guard.refused.len(), REFUSED_CAP);
    assert_eq!(guard.edits.len(), 6);
}

#[test]
fn tools_are_classified_by_name() {
    for (kind, names) in [
        (
            ToolKind::Read,
            &[
                "read",
                "Read",
                "read_file",
                "readFile",
                "mcp__fs__list_directory",
                "LS",
                "Glob",
                "grep",
                "codebase_search",
                "WebFetch",
                "webfetch",
                "web_search",
                "view",
                "cat",
                "file.find",
            ][..],
        ),
        (
            ToolKind::Edit,
            &[
                "write",
                "Edit",
                "MultiEdit",
                "apply_patch",
                "str_replace_editor",
                "search_replace",
                "NotebookEdit",
                "delete_file",
            ],
        ),
        (ToolKind::Plan, &["TodoWrite", "todowrite", "todo_read", "update_plan", "todoread"]),
        (ToolKind::Other, &["bash", "shell", "run_terminal_cmd", "task", "deploy", "", "ready"]),
    ] {
        for name in names {
            assert_eq!(ToolKind::of(name), kind, "{name}");
        }
    }
}

#[test]
fn outcomes_are_classified_by_text() {
    for (class, texts) in [
        (
            OutcomeClass::Success,
            &[
                "",
                "ok",
                "1| fn validation_failed() { /* invalid arguments */ }",
                "no errors",
                "exit code: 0",
                "Found 3 matches for 'missing required'",
            ][..],
        ),
        (
            OutcomeClass::Error,
            &[
                "Error: oldString not found",
                "error[E0502]: x",
                "fatal: not a git repository",
                "Traceback (most recent call last):\n  File",
                "Exit code: 1\nWall time: 2",
                "out\nProcess exited with code 2",
                r#"{"output":"","metadata":{"exit_code":127}}"#,
            ],
        ),
        (
            OutcomeClass::Refused,
            &[
                "The read tool was called with invalid arguments: [{\"code\":\"invalid_type\"}]",
                "<tool_use_error>InputValidationError: Edit failed due to: x</tool_use_error>",
                "Error: Invalid arguments for tool x",
                "MCP error -32602: bad",
                "failed to parse function arguments: missing field `command`",
                "Error: must have required property 'path'",
                "Validation error: Additional properties are not allowed",
            ],
        ),
    ] {
        for text in texts {
            assert_eq!(OutcomeClass::of(text, false), class, "{text}");
        }
    }
    assert_eq!(OutcomeClass::of("anything", true), OutcomeClass::Error);
    assert_eq!(OutcomeClass::of("1 validation error for Edit", true), OutcomeClass::Refused);
}

proptest! {
    /// Whatever happens, no call is stopped that was not seen with one outcome at least
    /// as often as allowed, unless its tool refuses everything.
    #[test]
    fn only_repeats_are_stopped(
        steps in prop::collection::vec((0_usize..3, 0_usize..3, 0_usize..3), 0..60),
    ) {
        let mut run = Run::new(2);
        let mut done: Vec<(usize, usize, usize)> = Vec::new();
        for (tool, arguments, outcome) in steps {
            let name = ["read", "edit", "bash"][tool];
            let text = ["ok", "error: no", "fine"][outcome];
            if run.step(name, &arguments.to_string(), text) == Stop {
                let times = (0..3)
                    .map(|outcome| {
                        done.iter().filter(|step| **step == (tool, arguments, outcome)).count()
                    })
                    .max();
                prop_assert!(times >= Some(2), "{} {}", name, arguments);
            } else {
                done.push((tool, arguments, outcome));
            }
        }
    }
}
