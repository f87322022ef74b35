use super::*;

/// As a client writes it that offers its tools to scripts only.
const DESCRIPTION: &str = r#"Runs a script.

### `apply_patch`
```ts
declare const tools: { apply_patch(input: string): Promise<unknown>; };
```

### `exec_command`
```ts
declare const tools: { exec_command(args: {
  // The command: all of it.
  cmd: string;
  login?: boolean;
  prefix?: Array<string>;
  wait_ms?: number;
}): Promise<{
  output: string;
}>; };
```
"#;

fn offered() -> Vec<OfferedTool> {
    let schema = json!({
        "type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
    });
    let exec = OfferedTool {
        name: "exec".to_owned(),
        tool_name: "exec".to_owned(),
        description: DESCRIPTION.to_owned(),
        schema,
        ..OfferedTool::default()
    };
    vec![OfferedTool { tool_name: "wait".to_owned(), ..OfferedTool::default() }, exec]
}

#[test]
fn functions_are_parsed_from_the_description() {
    let found = functions(DESCRIPTION);
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].tool_name, "exec_command");
    assert_eq!(
        found[1].schema,
        json!({
            "type": "object",
            "properties": {
                "cmd": {"type": "string"}, "login": {"type": "boolean"},
                "prefix": {"type": "array"}, "wait_ms": {"type": "number"},
            },
            "required": ["cmd"],
        })
    );
    assert!(functions("Runs a script.").is_empty());
}

#[test]
fn script_calls_the_function_for_the_intent() {
    let script = |intent: &Intent, seen: &[HistoryMessage]| {
        let (tool, args) = tool_choice::call(&offered(), intent, seen)?;
        assert_eq!(tool.tool_name, "exec");
        args.get("input")?.as_str().map(str::to_owned)
    };
    let ends = ";\ntext(result?.output ?? result);\n";
    assert_eq!(
        script(&Intent::Shell("echo \"hi\"".into()), &[]),
        Some(format!(
            "const result = await tools.exec_command({{\"cmd\":\"echo \\\"hi\\\"\"}}){ends}"
        ))
    );
    let write = Intent::Write { path: "n.txt".into(), text: "new".into() };
    assert_eq!(
        script(&write, &[]),
        Some(format!(
            "const result = await tools.apply_patch(\"*** Begin Patch\\n*** Add File: \
             n.txt\\n+new\\n*** End Patch\"){ends}"
        ))
    );
    // An intent that no function can carry out.
    let named = Intent::Named { tool: "other".into(), args: Map::new(), words: Vec::new() };
    assert_eq!(script(&named, &[]), None);
}
