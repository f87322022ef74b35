use super::*;

#[test]
fn escape_sequences_are_removed() {
    assert_eq!(plain("\x1b[32m✓\x1b[0m Logged in"), "✓ Logged in");
    assert_eq!(plain("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "alink");
    assert_eq!(plain("\x1b[2K\x1b[1Gdone\x1b7\x07"), "done");
    assert_eq!(plain("cut \x1b["), "cut ");
    assert_eq!(plain("\x1b"), "");
}

#[test]
fn carriage_return_ends_a_line() {
    assert_eq!(plain("Loading\rReady\r\nend"), "Loading\nReady\nend");
}

#[test]
fn one_line_joins_and_shortens_text() {
    assert_eq!(one_line("  a\n\tb\x1b[1m  c\x1b[0m ", 200), "a b c");
    assert_eq!(one_line("grüße", 3), "grü…");
    assert_eq!(one_line("grü", 3), "grü");
    let long = "x ".repeat(100_000);
    assert_eq!(one_line(&long, 5), "x x x…");
    assert_eq!(one_line(&" ".repeat(5000), 5), "…");
}

#[test]
fn tail_keeps_the_end() {
    let mut tail = NoiseTail::default();
    tail.push_line("first");
    assert_eq!(tail.as_str(), "first\n");
    for _ in 0..5000 {
        tail.push_line("ü and more");
    }
    tail.push_line(&"é".repeat(3 * TAIL));
    tail.push_line("last");
    assert!(tail.as_str().len() <= TAIL && tail.as_str().ends_with("é\nlast\n"));
}
