//! Cursor's own tools, as far as the turn has to do with them.

use ibeam_proto::agent::{ReadArgs, ReadResult, ReadSuccess, ShellArgs, WriteArgs, read_result};

use super::*;

#[test]
fn partially_read_file_is_not_written_back() {
    for (text, whole) in [
        ("<file>\n00001| a\n</file>", true),
        ("<file>\n00001| a\n\n(Output capped at 50 KB. Use offset to read more)\n</file>", false),
    ] {
        let mut request = request(&[]);
        request.tools = ["read", "write"].map(file_tool).to_vec();
        let mut bench = Bench::of(request.clone(), Settings::default());
        bench.opened();
        let (path, id) = ("a.txt".to_owned(), "edit_1".to_owned());
        let read = ReadArgs { path: path.clone(), tool_call_id: id.clone(), ..ReadArgs::default() };
        bench.say(exec(1, Ask::ReadArgs(read)));
        bench.wait(WINDOW);
        assert_eq!(bench.ending(), &CALLS, "{:?}", bench.sent());
        request.items.extend([made(1, "read"), result(1, text)]);
        assert!(bench.resume_with(request));
        let write =
            WriteArgs { path, file_text: "b".into(), tool_call_id: id, ..WriteArgs::default() };
        bench.say(exec(2, Ask::WriteArgs(write)));
        bench.wait(WINDOW);
        let refused = format!("{:?}", bench.results()).contains("read only in part");
        assert_eq!(refused, !whole, "{text}: {:?}", bench.results());
        assert_eq!(bench.turn.calls().len(), usize::from(whole));
        // Only the text of the result says that it is a part.
        bench.taped.check_with_texts();
    }
}

#[test]
fn newest_partially_read_files_are_remembered() {
    let success = ReadSuccess { truncated: true, ..ReadSuccess::default() };
    let result = Some(read_result::Result::Success(success));
    let part = [Reply::ReadResult(ReadResult { result })];
    let mut half_read = HalfRead::default();
    for n in 0..1000 {
        half_read.note(&format!("edit_{n}"), &part);
    }
    let writes = |n: u32| {
        let args = WriteArgs { tool_call_id: format!("edit_{n}"), ..WriteArgs::default() };
        ExecServerMessage { message: Some(Ask::WriteArgs(args)), ..ExecServerMessage::default() }
    };
    assert!(half_read.refusal(&writes(999)).is_some());
    assert!(half_read.refusal(&writes(0)).is_none(), "the oldest goes first");
}

#[test]
fn streamed_command_starts_when_the_client_gets_it() {
    let mut request = request(&[]);
    request.tools = vec![shell_tool()];
    let mut bench = Bench::of(request.clone(), Settings::default());
    bench.opened();
    let shell = ShellArgs { command: "ls".into(), ..ShellArgs::default() };
    bench.say(exec(1, Ask::ShellStreamArgs(shell)));
    bench.wait(WINDOW);
    assert_eq!(bench.results().len(), 1, "{:?}", bench.results());
    assert!(bench.results()[0].1.contains("Start"), "{:?}", bench.results());
    request.items.extend([made(1, "bash"), result(1, "a.txt")]);
    assert!(bench.resume_with(request));
    let all = format!("{:?}", bench.results());
    assert_eq!(all.matches("Start(").count(), 1, "{all}");
    assert!(all.contains("a.txt") && all.contains("Exit("), "{all}");
}

pub(super) fn shell_tool() -> Tool {
    tool("bash", r#"{"type":"object","properties":{"command":{"type":"string"}}}"#)
}

fn file_tool(name: &str) -> Tool {
    let schema = r#"{"type":"object","properties":{"filePath":{"type":"string"},
        "content":{"type":"string"},"offset":{"type":"number"},"limit":{"type":"number"}},
        "required":["filePath"]}"#;
    tool(name, schema)
}

fn tool(name: &str, schema: &str) -> Tool {
    let schema = serde_json::from_str(schema).ok();
    Tool { name: name.into(), description: String::new(), schema }
}
