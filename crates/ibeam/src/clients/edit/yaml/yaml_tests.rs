use serde_json::json;

use super::*;

fn push(text: &str, path: &[&str], value: &Value) -> String {
    let mut document = YamlDocument::parse(text).unwrap();
    document.push_unique(path, value).unwrap();
    let once = document.to_string();
    let mut again = YamlDocument::parse(&once).unwrap();
    let there = again.get(path).unwrap();
    assert!(there.as_array().unwrap().contains(value), "{once}");
    again.push_unique(path, value).unwrap();
    assert_eq!(again.to_string(), once, "twice is once");
    once
}

fn set(text: &str, path: &[&str], value: &Value) -> String {
    let mut document = YamlDocument::parse(text).unwrap();
    document.set(path, value).unwrap();
    let once = document.to_string();
    let mut again = YamlDocument::parse(&once).unwrap();
    assert_eq!(again.get(path).as_ref(), Some(value), "{once}");
    again.set(path, value).unwrap();
    assert_eq!(again.to_string(), once, "twice is once");
    once
}

#[test]
fn items_are_added_after_the_last_one() {
    let text = "# mine\nname: x # a\nmodels:\n  - name: a\n    roles: [chat]\n\n# end\nlast: 1\n";
    let after = push(text, &["models"], &json!({ "name": "b", "roles": ["chat", "edit"] }));
    let new = "  - name: b\n    roles:\n      - chat\n      - edit\n";
    assert_eq!(after, text.replace("[chat]\n", &format!("[chat]\n{new}")));
}

#[test]
fn lists_without_indent_and_at_the_top_are_extended() {
    assert_eq!(push("a:\n- x\nb: 1\n", &["a"], &json!("z")), "a:\n- x\n- z\nb: 1\n");
    assert_eq!(push("- id: a\n", &[], &json!({ "id": "b" })), "- id: a\n- id: b\n");
    assert_eq!(push("", &[], &json!({ "id": "b", "k": 1 })), "- id: b\n  k: 1\n");
    assert_eq!(push("- a", &[], &json!("b")), "- a\n- b");
    assert_eq!(push("a: [1, 2] # x\n", &["a"], &json!(3)), "a: [1, 2, 3] # x\n");
    assert_eq!(push("a: []\n", &["a"], &json!("é: y")), "a: [\"é: y\"]\n");
    assert_eq!(push("a:\nb: 1\n", &["a"], &json!("x")), "a:\n  - x\nb: 1\n");
    assert_eq!(push("b: 1\n", &["a"], &json!("x")), "b: 1\na:\n  - x\n");
}

#[test]
fn settings_are_replaced_or_added() {
    assert_eq!(set("model: a # b\nx: 1\n", &["model"], &json!("c/d")), "model: c/d # b\nx: 1\n");
    assert_eq!(set("ü: 'é' # b\nx: 1\n", &["x"], &json!("true")), "ü: 'é' # b\nx: \"true\"\n");
    assert_eq!(set("# only\n", &["x"], &json!(false)), "# only\nx: false\n");
    assert_eq!(set("a:\n    b: 1\n", &["a", "c"], &json!(2)), "a:\n    b: 1\n    c: 2\n");
    assert_eq!(set("a:\nb: 1\n", &["a"], &json!("x")), "a: x\nb: 1\n");
    assert_eq!(set("{a: 1}\n", &["b"], &json!("x")), "{a: 1, b: x}\n");
    assert_eq!(
        set("x: |\n  a\n  b\n\ny: 1\n", &["z"], &json!(1)),
        "x: |\n  a\n  b\n\ny: 1\nz: 1\n"
    );
    let crlf = set("a: 1\r\n", &["b", "c"], &json!("d"));
    assert_eq!(crlf, "a: 1\r\nb:\r\n  c: d\r\n");
    let marked = set("\u{feff}a: 1\n", &["a"], &json!(2));
    assert_eq!(marked, "\u{feff}a: 2\n");
}

#[test]
fn scalars_are_typed_like_in_yaml() {
    let document = YamlDocument::parse("a: yes\nb: '1'\nc: 1.5\nd: ~\ne: True\n").unwrap();
    let all = json!({ "a": "yes", "b": "1", "c": 1.5, "d": null, "e": true });
    assert_eq!(document.get(&[]), Some(all));
    // Words that old readers take for a switch, and numbers, are quoted.
    assert_eq!(set("", &["a"], &json!("yes")), "a: \"yes\"\n");
    assert_eq!(set("", &["a"], &json!("null")), "a: \"null\"\n");
}

#[test]
fn malformed_or_conflicting_text_is_refused() {
    let refused = YamlDocument::parse("a: 1\nb: [1\n").unwrap_err();
    assert!(refused.line.is_some());
    for text in ["a: b: c", "a: 1\n---\nb: 1\n", "a: 1\na: 2\n", "a: 'b", "? [a]\n: b\n"] {
        assert!(YamlDocument::parse(text).is_err(), "{text}");
    }
    assert!(YamlDocument::parse(&"[".repeat(5000)).is_err());
    let mut document = YamlDocument::parse("a: 1\nb: 2\n").unwrap();
    assert_eq!(document.push_unique(&["a"], &json!(1)).unwrap_err().why, "`a` is not a list");
    assert_eq!(document.set(&["a", "c"], &json!(1)).unwrap_err().why, "`a` is not a mapping");
    let before = document.to_string();
    assert_eq!(before, "a: 1\nb: 2\n", "what is refused changes nothing");
}
