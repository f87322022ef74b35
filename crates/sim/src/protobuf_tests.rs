use ibeam_proto::agent::{McpArgs, PiBashExecArgs, ShellArgs};
use prost::Message as _;
use serde_json::json;

use super::*;

fn table(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(table) => table,
        other => panic!("not a table: {other}"),
    }
}

#[test]
fn names_and_values_become_typed_messages() {
    let bytes = encode(
        message("agent.v1.ShellArgs").unwrap(),
        &table(json!({
            "command": "ls", "timeout": 30000, "simple_commands": ["ls", "cat"],
            "close_stdin": true, "requested_sandbox_policy": {"type": 2},
        })),
    )
    .unwrap();
    let shell = ShellArgs::decode(bytes).unwrap();
    assert_eq!(shell.command, "ls");
    assert_eq!(shell.timeout, 30_000);
    assert_eq!(shell.simple_commands, ["ls", "cat"]);
    assert!(shell.close_stdin);
    assert_eq!(shell.requested_sandbox_policy.unwrap().r#type, 2);
}

#[test]
fn fractions_are_doubles_and_maps_have_values() {
    let bytes =
        encode(message("agent.v1.PiBashExecArgs").unwrap(), &table(json!({"timeout": 1.5})));
    assert_eq!(PiBashExecArgs::decode(bytes.unwrap()).unwrap().timeout, Some(1.5));
    let bytes = encode(
        message("agent.v1.McpArgs").unwrap(),
        &table(json!({"name": "w", "args": {"city": "Oslo", "n": [1, null]}})),
    );
    let mcp = McpArgs::decode(bytes.unwrap()).unwrap();
    assert_eq!(&mcp.args["city"][..], b"\x1a\x04Oslo");
    assert_eq!(value_from_proto(&mcp.args["n"]), Some(json!([1, null])));
}

#[test]
fn unknown_field_error_lists_the_known_fields() {
    let error = encode(message("agent.v1.FetchArgs").unwrap(), &table(json!({"uri": "x"})));
    assert_eq!(
        error.unwrap_err().to_string(),
        "`agent.v1.FetchArgs` has no field `uri`; it has url, tool_call_id"
    );
}

#[test]
fn arms_are_found_by_their_short_name() {
    let exec = message("agent.v1.ExecServerMessage").unwrap();
    for (short, number) in
        [("shell_stream", 14), ("mcp", 11), ("background_shell", 16), ("git_diff", 44)]
    {
        assert_eq!(field(exec, short).unwrap().0, number, "{short}");
    }
}

#[test]
fn value_round_trips_and_a_struct_is_rejected() {
    let schema = json!({"type": "object", "properties": {"a": {"enum": [1.5, true, "x"]}}});
    let bytes = value_to_proto(&schema);
    assert_eq!(value_from_proto(&bytes), Some(schema));
    assert_eq!(
        hex(&value_to_proto(&json!({"type": "object"}))),
        "2a120a100a047479706512081a066f626a656374"
    );
    // The same without the outer `struct_value`.
    let bare = unhex("0a100a047479706512081a066f626a656374").unwrap();
    assert_eq!(value_from_proto(&bare), None);
}
