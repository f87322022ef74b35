use super::*;

#[test]
fn arguments_grow_as_a_model_writes_them() {
    let args = json!({"a": "x", "b": [1, {"c": null}]});
    let text = written(args.as_object().unwrap());
    assert_eq!(text, r#"{"b": [1, {"c": null}], "a": "x"}"#);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), args);
    assert_eq!(growing("äbcde", Some(2)), ["äb", "äbcd", "äbcde"]);
    assert_eq!(growing("abcd", Some(2)), ["ab", "abcd"]);
    assert_eq!(growing("abcd", None), ["abcd"]);
    assert_eq!(growing("abcd", Some(0)), Vec::<&str>::new());
}
