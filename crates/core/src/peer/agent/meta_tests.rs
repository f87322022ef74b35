use super::*;
use crate::{model::Tool, peer::agent::tools::arguments_map};

fn toolbox() -> Toolbox {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
    let tool = |name: &str, schema: Option<&str>| Tool {
        name: name.into(),
        description: format!("Does {name}."),
        schema: schema.map(|raw| serde_json::from_str(raw).unwrap()),
    };
    Toolbox::new(&[tool("open_file", Some(schema)), tool("search", None)])
}

fn listed(query: &str) -> Result<Value, String> {
    let Some(MetaCall::List(query)) = read("GetDynamicTools", &arguments_map(query)) else {
        panic!("not read as a list");
    };
    catalogue(&toolbox(), &query).map(|text| serde_json::from_str(&text).unwrap())
}

#[test]
fn section_2_1_the_catalogue_has_whole_schemas_and_can_be_narrowed() {
    let all = listed(r#"{"namespace":"ibeam"}"#).unwrap();
    assert_eq!(all["tools"].as_array().unwrap().len(), 2);
    assert_eq!(all["tools"][0]["inputSchema"]["properties"]["path"]["type"], "string");
    for query in [
        r#"{"namespace":"ibeam","toolName":"search"}"#,
        r#"{"pattern":"sea*"}"#,
        r#"{"pattern":"DOES SEARCH"}"#,
    ] {
        let found = listed(query).unwrap();
        assert_eq!(found["tools"].as_array().unwrap().len(), 1, "{query}");
        assert_eq!(found["tools"][0]["toolName"], "search", "{query}");
    }
    assert!(listed(r#"{"namespace":"other"}"#).unwrap_err().contains("Available: ibeam"));
}

#[test]
fn section_2_1_a_wrapped_call_is_unwrapped_under_both_names_and_spellings() {
    for (name, args) in [
        ("CallDynamicTool", r#"{"namespace":"ibeam","toolName":"t","arguments":{"n":3}}"#),
        ("CallMcpTool", r#"{"server":"ibeam","toolName":"t","arguments":"{\"n\":3}"}"#),
    ] {
        let call = read(name, &arguments_map(args));
        let want = MetaCall::Call { tool: "t".into(), arguments: r#"{"n":3}"#.into() };
        assert_eq!(call, Some(want), "{name}");
    }
    assert_eq!(read("open_file", &arguments_map("{}")), None);
}

/// JSON in a string is as large as its backend likes, and a tree a hundred times as large.
#[test]
fn arguments_of_too_many_values_are_not_parsed() {
    let text = |values: usize| format!(r#"{{"a":[{}]}}"#, vec!["0"; values].join(","));
    let inner = |values| inner_arguments(Some(Value::String(text(values))));
    assert_eq!(inner(1000)["a"].as_array().unwrap().len(), 1000);
    assert_eq!(inner(200_000), json!({}));
    assert_eq!(object(&text(1000))["a"][999], 0);
    let text = text(1_000_000);
    assert_eq!(object(&text), json!({ "input": text }));
}
