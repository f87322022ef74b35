use serde_json::json;

use super::*;

fn set(text: &str, path: &[&str], value: &Value) -> String {
    let mut document = TomlDocument::parse(text).unwrap();
    document.set(path, value).unwrap();
    let once = document.to_string();
    let mut again = TomlDocument::parse(&once).unwrap();
    assert_eq!(again.get(path).as_ref(), Some(value), "{once}");
    again.set(path, value).unwrap();
    assert_eq!(again.to_string(), once, "twice is once");
    once
}

#[test]
fn comments_order_and_layout_are_kept() {
    let text = "# mine\nmodel = \"o3\"   # why\n\n[a.b] # here\nx=[1,\n 2]\n";
    let after = set(text, &["model"], &json!("gpt"));
    assert_eq!(after, text.replace("\"o3\"", "\"gpt\""));
    let after = set(text, &["model_providers", "ibeam"], &json!({ "name": "ibeam" }));
    assert_eq!(after, format!("{text}\n[model_providers.ibeam]\nname = \"ibeam\"\n"));
    let after = set(text, &["model_provider"], &json!("ibeam"));
    assert_eq!(after, text.replace("why\n", "why\nmodel_provider = \"ibeam\"\n"));
}

#[test]
fn line_endings_are_kept() {
    let after = set("a = 1\r\n[b]\r\nc = 2\r\n", &["d", "e"], &json!({ "f": 1 }));
    assert_eq!(after, "a = 1\r\n[b]\r\nc = 2\r\n\r\n[d.e]\r\nf = 1\r\n");
}

#[test]
fn byte_order_mark_is_kept() {
    assert_eq!(set("\u{feff}a = 1\n", &["b"], &json!(2)), "\u{feff}a = 1\nb = 2\n");
}

#[test]
fn inline_tables_are_kept() {
    let after = set("p = { a = 1 }\n", &["p", "b"], &json!({ "c": 2 }));
    assert_eq!(after, "p = { a = 1 , b = { c = 2 } }\n");
}

#[test]
fn set_value_can_be_removed() {
    let mut document = TomlDocument::parse("a = 1 # one\n[b]\nc = 2\n").unwrap();
    document.remove(&["b", "c"]);
    assert_eq!(document.get(&["b"]), Some(json!({})));
    document.remove(&["b"]);
    document.remove(&["nobody", "there"]);
    assert_eq!(document.to_string(), "a = 1 # one\n");
}

#[test]
fn malformed_or_conflicting_text_is_refused() {
    let refused = TomlDocument::parse("a = 1\nb = \n").unwrap_err();
    assert_eq!(refused.line, Some(2));
    for text in ["[a", "a = 1\na = 2\n", "a = \"b\n", "[a]\n[a]\n", "{}"] {
        assert!(TomlDocument::parse(text).is_err(), "{text}");
    }
    let refused = TomlDocument::parse("a = 1").unwrap().set(&["a", "b"], &json!(1)).unwrap_err();
    assert_eq!(refused.why, "`a` is not a table");
}

#[test]
fn literal_is_one_line() {
    let value = json!({ "name": "a \"b\"", "n": 1, "list": [true, 1.5] });
    let text = literal(&value);
    assert!(!text.contains('\n'));
    let document = TomlDocument::parse(&format!("x = {text}")).unwrap();
    assert_eq!(document.get(&["x"]), Some(value));
}
