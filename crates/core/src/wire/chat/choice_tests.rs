use super::{
    super::types::{AllowedTool, AllowedTools, NamedFunction},
    select,
};
use crate::{
    error::ErrorCode::InvalidValue,
    model::{Tool, ToolChoice},
    wire::{
        chat::testing::{ok, refused, with},
        lenient::Object,
        testing::finishes,
    },
};

#[test]
fn tool_choices_are_passed_to_the_backend() {
    let tools = r#""tools":[{"function":{"name":"a"}},{"function":{"name":"b"}}]"#;
    let request =
        ok(&with(&format!(r#"{tools},"tool_choice":"required","parallel_tool_calls":false"#)));
    assert_eq!(request.tool_choice, ToolChoice::Required);
    assert!(!request.parallel_tool_calls);
    assert_eq!(request.sampling.params.ignored, [""; 0]);
    assert_eq!(request.sampling.params.native, ["tools", "tool_choice", "parallel_tool_calls"]);
    let plain = ok(&with(&format!(r#"{tools},"reasoning_effort":"low""#)));
    assert!(plain.parallel_tool_calls);
    assert_eq!(plain.sampling.params.native, ["reasoning_effort", "tools"]);
}

#[test]
fn allowed_tools_selects_a_subset() {
    let given = |allowed: &str| {
        with(&format!(
            r#""tools":[{{"function":{{"name":"a"}}}},{{"function":{{"name":"b"}}}}],
            "tool_choice":{{"type":"allowed_tools","allowed_tools":{allowed}}}"#
        ))
    };
    let one = r#"[{"type":"function","function":{"name":"b"}}]"#;
    for (mode, choice) in [("auto", ToolChoice::Auto), ("required", ToolChoice::Required)] {
        let request = ok(&given(&format!(r#"{{"mode":"{mode}","tools":{one}}}"#)));
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((request.tool_choice, names), (choice, vec!["b"]));
    }
    let path = "tool_choice.allowed_tools";
    for (allowed, param) in [
        ("null".to_owned(), path.to_owned()),
        (format!(r#"{{"mode":"none","tools":{one}}}"#), format!("{path}.mode")),
        (r#"{"mode":"required","tools":[]}"#.to_owned(), "tool_choice".to_owned()),
        (
            r#"{"tools":[{"function":{"name":"c"}}]}"#.to_owned(),
            format!("{path}.tools[0].function.name"),
        ),
        (r#"{"tools":[{}]}"#.to_owned(), format!("{path}.tools[0].function.name")),
    ] {
        refused(&given(&allowed), InvalidValue, Some(&param));
    }
}

#[test]
fn selecting_tools_takes_linear_time() {
    const MANY: usize = 100_000;
    finishes("a selection of 100,000 out of 100,000 tools", || {
        let name = |number: usize| format!("t{number}");
        let tool = |number| Tool { name: name(number), description: String::new(), schema: None };
        let mut tools: Vec<Tool> = (0..MANY).map(tool).collect();
        let function = |number| {
            let function = Some(Object(NamedFunction { name: Some(name(number)) }));
            Object(AllowedTool { function, custom: None })
        };
        let selected = Some((1..MANY).map(function).collect());
        let choice = select(AllowedTools { mode: None, tools: selected }, &mut tools);
        assert_eq!((choice.unwrap(), tools.len()), (ToolChoice::Auto, MANY - 1));
    });
}
