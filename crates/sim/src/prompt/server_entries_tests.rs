use super::*;

#[test]
fn system_entry_is_always_the_same_2262_bytes() {
    assert_eq!(system_entry().len(), 2262);
    assert_eq!(system_entry(), system_entry());
    let entry: serde_json::Value = serde_json::from_slice(&system_entry()).unwrap();
    assert_eq!(entry["content"], system_text());
}

#[test]
fn rules_are_found_in_their_entry_and_in_the_context() {
    assert_eq!(rules_in("<rules>\nBe brief\n</rules>"), Some("Be brief"));
    let context = context_text(&["Be brief".to_owned()], &["peer"]);
    assert!(is_context(&context));
    assert_eq!(rules_in(&context), Some("Be brief"));
    assert!(names_namespace(&context, "peer") && !names_namespace(&context, "other"));
    assert_eq!(rules_in("what is <rules>this</rules>?"), None);
}

#[test]
fn query_tags_are_removed_with_a_timestamp_before_them() {
    assert_eq!(without_query_tags(&query("hello")), "hello");
    let stamped = format!("<timestamp>Monday</timestamp>\n{}", query("hello"));
    assert_eq!(without_query_tags(&stamped), "hello");
    assert_eq!(without_query_tags("plain <user_query>"), "plain <user_query>");
}
