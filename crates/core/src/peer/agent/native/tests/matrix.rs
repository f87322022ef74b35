use ibeam_proto::{
    agent::{
        DeleteArgs, ExecServerMessage, ExecuteHookArgs, ExecuteHookRequest, FetchArgs, GrepArgs,
        LsArgs, PiBashExecArgs, PiEditExecArgs, PiEditReplacement, PiFindExecArgs, PiGrepExecArgs,
        PiLsExecArgs, PiReadExecArgs, PiWriteExecArgs, ReadArgs, RequestContext, ShellArgs,
        WriteArgs,
    },
    fields,
};
use prost::Message as _;

use super::{clients::FAMILIES, *};
use crate::peer::agent::{
    exec::{Verdict, judge},
    request::Permissions,
    tools::Toolbox,
};

const DOCUMENT: &str = include_str!("../../../../../../../docs/sessions.md");

/// One row of the document's table.
struct Row {
    arm: String,
    /// The tool that takes it, by family.
    tools: [Option<String>; 4],
    success: String,
    error: String,
    refusal: String,
    /// What the gateway answers without a tool for it.
    alone: String,
}

fn rows() -> Vec<Row> {
    let section = DOCUMENT.split("\n### ").find(|part| part.starts_with("The table\n"));
    section
        .expect("the page has the table")
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<String> = line
                .trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().replace('`', ""))
                .collect();
            assert_eq!(cells.len(), 9, "{line}");
            let tool = |at: usize| Some(cells[at].clone()).filter(|name| name != "–");
            Row {
                arm: cells[0].clone(),
                tools: [tool(1), tool(2), tool(3), tool(4)],
                success: cells[5].clone(),
                error: cells[6].clone(),
                refusal: cells[7].clone(),
                alone: cells[8].clone(),
            }
        })
        .collect()
}

/// The arms of the schema: their numbers and names.
fn arms() -> Vec<(u32, &'static str)> {
    let message = fields::MESSAGES
        .iter()
        .find(|message| message.name.ends_with("ExecServerMessage"))
        .expect("the schema has it");
    let other = ["id", "exec_id", "span_context", "accept_hook_additional_contexts", "machine_id"];
    message
        .fields
        .iter()
        .filter(|field| !other.contains(&field.name))
        .map(|field| (field.number, field.name))
        .collect()
}

/// An arm as the wire brings it when nothing is set.
fn empty(number: u32) -> Ask {
    let mut bytes = Vec::new();
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut bytes);
    bytes.push(0);
    ExecServerMessage::decode(&bytes[..]).unwrap().message.expect("an arm of the schema")
}

/// The same arm with what a model would ask for, where a client's tool may take it. One
/// that is missing here is not handed on, and its row in the document then says so.
fn filled(ask: Ask) -> Ask {
    let path = || "/w/a".to_owned();
    let shell = || ShellArgs {
        command: "make".into(),
        working_directory: "/w".into(),
        timeout: 30_000,
        ..ShellArgs::default()
    };
    let read = || ReadArgs { path: path(), ..ReadArgs::default() };
    match ask {
        Ask::ShellArgs(_) => Ask::ShellArgs(shell()),
        Ask::ShellStreamArgs(_) => Ask::ShellStreamArgs(shell()),
        Ask::MiniSweAgentBashArgs(_) => Ask::MiniSweAgentBashArgs(shell()),
        Ask::ReadArgs(_) => Ask::ReadArgs(read()),
        Ask::RedactedReadArgs(_) => Ask::RedactedReadArgs(read()),
        Ask::WriteArgs(_) => Ask::WriteArgs(WriteArgs {
            path: path(),
            file_text: "one\n".into(),
            ..WriteArgs::default()
        }),
        Ask::DeleteArgs(_) => Ask::DeleteArgs(DeleteArgs { path: path(), ..DeleteArgs::default() }),
        Ask::LsArgs(_) => Ask::LsArgs(LsArgs { path: "/w".into(), ..LsArgs::default() }),
        Ask::GrepArgs(_) => Ask::GrepArgs(GrepArgs {
            pattern: "one".into(),
            path: Some("/w".into()),
            ..GrepArgs::default()
        }),
        Ask::FetchArgs(_) => {
            Ask::FetchArgs(FetchArgs { url: "https://example.com".into(), ..FetchArgs::default() })
        }
        Ask::PiReadArgs(_) => {
            Ask::PiReadArgs(PiReadExecArgs { path: path(), ..PiReadExecArgs::default() })
        }
        Ask::PiBashArgs(_) => {
            Ask::PiBashArgs(PiBashExecArgs { command: "make".into(), timeout: None })
        }
        Ask::PiEditArgs(_) => Ask::PiEditArgs(PiEditExecArgs {
            path: path(),
            edits: vec![PiEditReplacement { old_text: "one".into(), new_text: "two".into() }],
        }),
        Ask::PiWriteArgs(_) => {
            Ask::PiWriteArgs(PiWriteExecArgs { path: path(), content: "one\n".into() })
        }
        Ask::PiGrepArgs(_) => {
            Ask::PiGrepArgs(PiGrepExecArgs { pattern: "one".into(), ..PiGrepExecArgs::default() })
        }
        Ask::PiFindArgs(_) => {
            Ask::PiFindArgs(PiFindExecArgs { pattern: "*.rs".into(), ..PiFindExecArgs::default() })
        }
        Ask::PiLsArgs(_) => {
            Ask::PiLsArgs(PiLsExecArgs { path: Some("/w".into()), ..PiLsExecArgs::default() })
        }
        Ask::ExecuteHookArgs(_) => {
            let request = ExecuteHookRequest::decode(&[0x0a, 0x00][..]).unwrap();
            Ask::ExecuteHookArgs(ExecuteHookArgs { request: Some(request) })
        }
        same => same,
    }
}

pub(super) fn asks() -> Vec<Ask> {
    arms().into_iter().map(|(number, _)| filled(empty(number))).collect()
}

fn verdict(ask: Option<Ask>, tools: &[Tool]) -> Verdict {
    let exec = ExecServerMessage { id: 7, message: ask, ..ExecServerMessage::default() };
    judge(
        &exec,
        &Toolbox::new(tools),
        &Equipment::of(tools),
        &RequestContext::default(),
        Permissions::default(),
    )
}

/// What kind of tool an arm needs, and what it says on success and on failure.
fn stories(arm: &str) -> (Capability, &'static str, &'static str) {
    let missing = "Error: /w/a: No such file or directory";
    match arm {
        "shell_args" | "shell_stream_args" | "mini_swe_agent_bash_args" | "pi_bash_args" => {
            (Capability::Shell, "made", "make: *** no rule")
        }
        "read_args" | "redacted_read_args" | "pi_read_args" => (Capability::Read, "one", missing),
        "write_args" | "pi_write_args" => {
            (Capability::Write, "Wrote file successfully.", "Error: input/output error")
        }
        "pi_edit_args" => (Capability::Edit, "Edit applied.", "Error: old text is not unique"),
        "delete_args" => (Capability::Delete, "", missing),
        "ls_args" | "pi_ls_args" => (Capability::List, "a\nsrc/", missing),
        "grep_args" | "pi_grep_args" => {
            (Capability::Grep, "/w/a:1:one", "Error: regex parse error")
        }
        "pi_find_args" => (Capability::Glob, "/w/b.rs", missing),
        "fetch_args" => (Capability::Fetch, "# A page", "Request failed with status code: 404"),
        other => panic!("{other} has no story"),
    }
}

/// The kind of the tool that takes the call, which may be another one.
fn kind_of(name: &str, wanted: Capability) -> Capability {
    match name {
        "bash" | "Bash" | "exec_command" => Capability::Shell,
        "apply_patch" => Capability::Patch,
        _ => wanted,
    }
}

/// All that is sent for a call.
fn stream(back: &Back, result: &ToolResult) -> Vec<Reply> {
    [back.opening(), back.replies(result)].concat()
}

#[test]
fn document_has_exactly_one_row_for_every_arm() {
    let mut documented: Vec<String> = rows().into_iter().map(|row| row.arm).collect();
    let mut known: Vec<&str> = arms().into_iter().map(|(_, name)| name).collect();
    documented.sort();
    known.sort_unstable();
    assert_eq!(documented, known);
}

#[test]
fn client_with_the_tool_gets_the_call_and_its_result_is_returned() {
    let mut mapped = 0;
    for (row, family, at) in
        rows().iter().flat_map(|row| FAMILIES.iter().enumerate().map(move |(at, f)| (row, *f, at)))
    {
        let label = format!("{} {family:?}", row.arm);
        let (number, _) = *arms().iter().find(|(_, name)| *name == row.arm).unwrap();
        let verdict = verdict(Some(filled(empty(number))), &family.tools());
        let Some(name) = &row.tools[at] else {
            assert!(!matches!(verdict, Verdict::ClientTool(_)), "{label}: {verdict:?}");
            continue;
        };
        let Verdict::ClientTool(call) = verdict else { panic!("{label}: {verdict:?}") };
        assert_eq!(call.name, *name, "{label}");
        assert!(arguments(&call).is_object() && !call.back.is_mcp(), "{label}");
        mapped += 1;

        let (wanted, done, failed) = stories(&row.arm);
        let kind = kind_of(name, wanted);
        let says = |text: &str, failed: bool| {
            let marked = failed && family.marks_errors();
            let result = answer(&family.says(kind, text, failed), marked);
            // Remarks of the client next to the output come as an event of their own.
            variants(&stream(&call.back, &result)).replace(" + Stderr", "")
        };
        assert_eq!(says(done, false), row.success, "{label}: success");
        // In the words of the command that stands in for the tool.
        let by_command = kind == Capability::Shell && wanted != Capability::Shell;
        let failed = if by_command { failed.replace("Error: ", "grep: ") } else { failed.into() };
        assert_eq!(says(&failed, true), row.error, "{label}: error");
        let refusal = answer(family.refusal(), family.marks_errors());
        assert_eq!(variants(&stream(&call.back, &refusal)), row.refusal, "{label}: refusal");
        let unanswered = call.back.unanswered("the client gave no result");
        assert!(!variants(&unanswered).contains("Success"), "{label}: {unanswered:?}");
        assert!(format!("{unanswered:?}").contains("gave no result"), "{label}");
    }
    assert_eq!(mapped, 17 * 4 - 2, "all but fetching and editing with Codex");
}

#[test]
fn without_the_tool_the_arm_is_refused_in_its_own_words() {
    let unrelated = [tool("now", r#"{"type":"object","properties":{}}"#)];
    for row in rows() {
        let (number, _) = *arms().iter().find(|(_, name)| *name == row.arm).unwrap();
        for tools in [&unrelated[..], &[]] {
            let said = match verdict(Some(filled(empty(number))), tools) {
                Verdict::Reply(reply) | Verdict::Refuse(reply) => {
                    let text = format!("{reply:?}");
                    let speaks = text.contains("This tool is not available here");
                    let names = text.contains(" now.") != tools.is_empty();
                    assert!(!speaks || names, "{}: {text}", row.arm);
                    match variants(&[*reply]) {
                        // A message without a choice of outcomes.
                        other if other.is_empty() || other.contains('{') => "answered".to_owned(),
                        variant => variant,
                    }
                }
                Verdict::Throw(_) => "thrown".to_owned(),
                Verdict::ClientTool(call) => panic!("{}: {call:?}", row.arm),
            };
            assert_eq!(said, row.alone, "{}", row.arm);
        }
    }
}

#[test]
fn unknown_arm_is_answered_with_an_exception_for_every_client() {
    for family in FAMILIES {
        assert!(matches!(verdict(None, &family.tools()), Verdict::Throw(_)));
    }
}
