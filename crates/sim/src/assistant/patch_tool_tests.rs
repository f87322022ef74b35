use super::*;

fn seen(text: &str) -> HistoryMessage {
    HistoryMessage { role: "tool".to_owned(), text: text.to_owned(), ..HistoryMessage::default() }
}

fn edit() -> Intent {
    Intent::Edit { path: "a/f.txt".into(), old: "alpha".into(), new: "beta".into() }
}

#[test]
fn patch_changes_the_lines_that_were_read() {
    let changed = "*** Begin Patch\n*** Update File: a/f.txt\n@@\n-the alpha  here\n+the beta  \
                   here\n*** End Patch";
    for shown in [
        "first\nthe alpha  here\nlast",
        "    1→first\n    2→the alpha  here",
        "1: first\n2: the alpha  here",
        "00002| the alpha  here",
        "2\tthe alpha  here",
    ] {
        // An older result, which is out of date.
        let results = [seen("old alpha"), seen(shown), seen("nothing of it")];
        assert_eq!(write(&edit(), &results).as_deref(), Some(changed), "{shown}");
    }
    assert_eq!(write(&edit(), &[seen("something else")]), None);
    // A number that belongs to the line itself.
    assert_eq!(lines_with("alpha", &[seen("12 alpha")]), ["12 alpha"]);
}

#[test]
fn patch_can_add_a_file() {
    let intent = Intent::Write { path: "n.txt".into(), text: "one\ntwo".into() };
    let patch = "*** Begin Patch\n*** Add File: n.txt\n+one\n+two\n*** End Patch";
    assert_eq!(write(&intent, &[]).as_deref(), Some(patch));
    assert_eq!(write(&Intent::Read("n.txt".into()), &[]), None);
}

#[test]
fn patch_goes_into_the_argument_of_the_schema() {
    for name in ["input", "patchText"] {
        let schema = json!({
            "type": "object", "properties": { name: {"type": "string"} }, "required": [name],
        });
        let tool = OfferedTool {
            name: "apply_patch".to_owned(),
            tool_name: "apply_patch".to_owned(),
            schema,
            ..OfferedTool::default()
        };
        let tools = [tool];
        let (found, args) = call(&tools, &edit(), &[seen("alpha")]).unwrap();
        assert_eq!(found.tool_name, "apply_patch");
        let text = args.get(name).and_then(Value::as_str).unwrap();
        assert!(text.contains("-alpha\n+beta"), "{text}");
        assert!(call(&[], &edit(), &[seen("alpha")]).is_none());
    }
}
