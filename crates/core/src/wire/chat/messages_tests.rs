use crate::{
    error::ErrorCode::{InvalidValue, UnsupportedParameter},
    model::{Item, Part},
    wire::chat::testing::{messages, ok, refused},
};

fn user(part: &str) -> String {
    messages(&format!(r#"{{"role":"user","content":[{part}]}}"#))
}

fn parts(body: &str) -> Vec<Part> {
    match ok(body).items.remove(0) {
        Item::Message(message) => message.parts,
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_files_are_inlined() {
    let file = |fields: &str| user(&format!(r#"{{"type":"file","file":{{{fields}}}}}"#));
    let text = |text: &str| vec![Part::Text(text.to_owned())];
    let named = r#""filename":"a.md","file_data":"data:text/markdown;base64,aGVsbG8=""#;
    assert_eq!(parts(&file(named)), text("File `a.md`:\nhello"));
    let bare = r#""file_data":"data:text/plain;base64,aGVsbG8=""#;
    assert_eq!(parts(&file(bare)), text("hello"));
    // As Responses writes it.
    assert_eq!(parts(&user(&format!(r#"{{"type":"input_file",{bare}}}"#))), text("hello"));
    let image = file(r#""file_data":"data:image/png;base64,iVBORw==""#);
    assert!(matches!(parts(&image).as_slice(), [Part::Image(_)]));

    let at = |field: &str| format!("messages[0].content[0].file.{field}");
    let pdf = file(r#""filename":"a.pdf","file_data":"data:application/pdf;base64,aGVsbG8=""#);
    refused(&pdf, UnsupportedParameter, Some(&at("file_data")));
    refused(&file(r#""file_id":"file-1""#), UnsupportedParameter, Some(&at("file_id")));
    refused(&file(r#""filename":"a.txt""#), InvalidValue, Some(&at("file_data")));
    let broken = file(r#""file_data":"data:text/plain;base64,!!""#);
    refused(&broken, InvalidValue, Some(&at("file_data")));
    refused(&user(r#"{"type":"file"}"#), InvalidValue, Some("messages[0].content[0].file"));
}

#[test]
fn tool_results_may_contain_files() {
    let request = ok(&messages(
        r#"{"role":"user","content":"go"},
        {"role":"assistant","tool_calls":[{"id":"1","function":{"name":"read","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"1","content":[
            {"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGVsbG8="}}]}"#,
    ));
    let Some(Item::ToolResult(result)) = request.items.last() else { panic!() };
    assert_eq!(result.content, [Part::Text("File `a.txt`:\nhello".to_owned())]);
}
