use serde_json::json;

use super::*;

fn set(text: &str, path: &[&str], value: &Value) -> String {
    let mut document = JsonDocument::parse(text).unwrap();
    document.set(path, value).unwrap();
    let once = document.to_string();
    let mut again = JsonDocument::parse(&once).unwrap();
    assert_eq!(again.get(path).as_ref(), Some(value), "{once}");
    again.set(path, value).unwrap();
    assert_eq!(again.to_string(), once, "twice is once");
    once
}

#[test]
fn comments_order_and_layout_are_kept() {
    let text = "// mine\n{\n\t\"b\": 1, // one\n\t/* two */ \"a\": [1, 2,],\n}\n";
    let after = set(text, &["env", "URL"], &json!("http://x"));
    let wanted = "// mine\n{\n\t\"b\": 1, // one\n\t/* two */ \"a\": [1, 2,],\n\t\"env\": {\n\t\t\"URL\": \"http://x\"\n\t},\n}\n";
    assert_eq!(after, wanted);
}

#[test]
fn line_endings_are_kept() {
    let after = set("{\r\n  \"a\": 1\r\n}\r\n", &["b", "c"], &json!(true));
    assert_eq!(after, "{\r\n  \"a\": 1,\r\n  \"b\": {\r\n    \"c\": true\r\n  }\r\n}\r\n");
}

#[test]
fn byte_order_mark_is_kept() {
    let after = set("\u{feff}{}", &["a"], &json!(1));
    assert!(after.starts_with("\u{feff}{"), "{after:?}");
    assert_eq!(after.matches('\u{feff}').count(), 1);
}

#[test]
fn empty_text_becomes_an_object() {
    for text in ["", "  \n", "// nothing yet\n"] {
        let after = set(text, &["a"], &json!({ "b": [1] }));
        assert!(after.contains(text.trim()), "{after:?}");
    }
}

#[test]
fn value_is_replaced_in_place() {
    let after = set("{ \"model\": \"old\", \"x\": 1 } // end", &["model"], &json!("new"));
    assert_eq!(after, "{ \"model\": \"new\", \"x\": 1 } // end");
}

#[test]
fn items_are_pushed_once() {
    let mut document = JsonDocument::parse("{\"plugin\": [\"a\"]}").unwrap();
    document.push_unique(&["plugin"], &json!("b")).unwrap();
    document.push_unique(&["plugin"], &json!("b")).unwrap();
    assert_eq!(document.get(&["plugin"]), Some(json!(["a", "b"])));
    document.push_unique(&["x", "y"], &json!(1)).unwrap();
    assert_eq!(document.get(&["x", "y"]), Some(json!([1])));
    assert!(document.push_unique(&["plugin", "c"], &json!(1)).is_err());
}

#[test]
fn set_value_can_be_removed() {
    let mut document =
        JsonDocument::parse("{\n  \"a\": 1, // one\n  \"b\": {\n    \"c\": 2\n  }\n}").unwrap();
    document.remove(&["b", "c"]);
    assert_eq!(document.get(&["b"]), Some(json!({})));
    document.remove(&["b"]);
    document.remove(&["nobody", "there"]);
    assert_eq!(document.get(&[]), Some(json!({ "a": 1 })));
    assert!(document.to_string().contains("// one"));
}

#[test]
fn conflicting_values_are_refused() {
    let mut document = JsonDocument::parse("{\"env\": [1]}").unwrap();
    let refused = document.set(&["env", "A"], &json!(1)).unwrap_err();
    assert_eq!(refused.why, "`env` is not an object");
    let mut document = JsonDocument::parse("{\"a\": {}, \"a\": {\"b\": 1}}").unwrap();
    let refused = document.set(&["a", "b"], &json!(1)).unwrap_err();
    assert_eq!(refused.why, "`a` appears twice");
}

#[test]
fn malformed_text_is_refused_with_its_line() {
    let line = |text: &str| JsonDocument::parse(text).unwrap_err().line;
    assert_eq!(line("{\n  \"a\": 1\n  \"b\": 2\n}"), Some(2));
    assert_eq!(line("{\n  \"a\": tru\n}"), Some(2));
    for text in ["{", "{\"a\": 'b'}", "{a: 1}", "{} {}", "{\"a\": 0x1}", "{\"a\": \"b", "[1]", "1"]
    {
        assert!(JsonDocument::parse(text).is_err(), "{text}");
    }
    let deep = "[".repeat(200_000);
    assert_eq!(JsonDocument::parse(&deep).unwrap_err().why, "it is nested too deeply");
    // Brackets in strings and comments are none.
    let flat = format!("{{\"a\": \"{0}\" // {0}\n /* {0} */}}", "[".repeat(300));
    assert!(JsonDocument::parse(&flat).is_ok());
}

/// Some clients drop the whole file for a comment.
#[test]
fn comments_and_trailing_commas_are_detected() {
    for text in ["", "{}", "{\n \"a\": [1, \"// no comment, ]\"]\n}\n", "\u{feff}{\"a\": 1}"] {
        assert_eq!(JsonDocument::parse_strict(text).unwrap().to_string(), text);
    }
    for (text, line) in
        [("{\n// mine\n}", 2), ("{\"a\": 1,\n}", 2), ("{\"a\": [1,]}", 1), ("{} /* x */", 1)]
    {
        let refused = JsonDocument::parse_strict(text).unwrap_err();
        assert!(refused.why.contains("plain JSON"), "{text}: {refused}");
        assert!(refused.line.is_some_and(|at| at.abs_diff(line) <= 1), "{text}: {refused:?}");
        assert!(JsonDocument::parse(text).is_ok());
    }
}
