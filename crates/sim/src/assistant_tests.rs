use super::*;

#[test]
fn every_native_tool_has_its_arm() {
    let wish = |text: &str| intent::all(text, &[]).into_iter().next().unwrap();
    for (text, field) in [
        ("run `ls`", 14),
        ("read file x.txt", 7),
        ("write x to y.txt", 3),
        ("list files", 8),
        ("find files matching `*`", 5),
        ("search for `x`", 5),
        ("fetch http://x", 20),
    ] {
        assert_eq!(native(&wish(text)).unwrap().1, field, "{text}");
    }
}
