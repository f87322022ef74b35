use super::*;

#[test]
fn every_native_tool_has_an_exec_arm() {
    let intent = |text: &str| crate::assistant::intent::all(text, &[]).into_iter().next().unwrap();
    for (text, field) in [
        ("run `ls`", 14),
        ("read file x.txt", 7),
        ("write x to y.txt", 3),
        ("list files", 8),
        ("find files matching `*`", 5),
        ("search for `x`", 5),
        ("fetch http://x", 20),
    ] {
        assert_eq!(exec_of(&intent(text), "call_1").unwrap().field, field, "{text}");
    }
    // An edit is two execs, and only the updates call it an edit.
    let edit = intent("replace `a` with `b` in `f.txt`");
    assert_eq!((exec_of(&edit, "call_1"), name_of(&edit)), (None, Some("search_replace")));
}
