use super::*;

fn tool(name: &str, schema: Value) -> OfferedTool {
    OfferedTool {
        name: name.to_owned(),
        tool_name: name.to_owned(),
        schema,
        ..OfferedTool::default()
    }
}

#[test]
fn tools_are_found_by_the_names_clients_use() {
    let names = [
        "todo_write",
        "web_search",
        "tool_search",
        "Bash",
        "Read",
        "mcp_fs_write_file",
        "my-webfetch",
    ];
    let tools: Vec<_> = names.iter().map(|name| tool(name, Value::Null)).collect();
    let found = |kind: ToolPurpose| kind.find(&tools).map(|t| t.tool_name.as_str());
    assert_eq!(found(ToolPurpose::Shell), Some("Bash"));
    assert_eq!(found(ToolPurpose::Read), Some("Read"));
    assert_eq!(found(ToolPurpose::Write), Some("mcp_fs_write_file"));
    assert_eq!(found(ToolPurpose::Fetch), Some("my-webfetch"));
    assert_eq!(found(ToolPurpose::Grep), None);
}

#[test]
fn a_name_that_says_tool_is_understood() {
    let tools = [tool("Read_tool", Value::Null), tool("todo_write_tool", Value::Null)];
    assert_eq!(ToolPurpose::Read.find(&tools), Some(&tools[0]));
    assert_eq!(ToolPurpose::Write.find(&tools), None);
}

#[test]
fn arguments_fit_the_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "filePath": {"type": "string"}, "content": {"type": "string"},
            "mode": {"enum": ["a", "b"]}, "limit": {"type": "integer", "minimum": 3},
            "description": {"type": "string"}, "nested": {
                "type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"],
            },
            "spare": {"type": "string"},
        },
        "required": ["filePath", "content", "mode", "limit", "description", "nested"],
    });
    let wants: [(&[&str], Value); 2] =
        [(&["file_path", "path"], json!("a.txt")), (&["content"], json!("hi"))];
    assert_eq!(
        Value::Object(fit(&schema, &wants)),
        json!({
            "filePath": "a.txt", "content": "hi", "mode": "a", "limit": 3,
            "description": "As the user asked", "nested": {"x": false},
        })
    );
    // A command as a list of words.
    let schema = json!({"properties": {"command": {"type": "array"}}, "required": ["command"]});
    let wants: [(&[&str], Value); 1] = [(&["command"], json!("ls"))];
    assert_eq!(Value::Object(fit(&schema, &wants)), json!({"command": ["bash", "-lc", "ls"]}));
}
