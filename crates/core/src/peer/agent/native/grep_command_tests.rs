use super::*;

#[test]
fn patterns_that_posix_reads_differently_use_perl() {
    for pattern in [
        r"\d+", r"a.*?b", r"a+?", r"a??", r"a{2}?", "(?i)abc", "(?:a|b)c", r"[\w.]+", r"\tx",
        r"\'", r"[^\]]",
    ] {
        assert!(needs_perl(pattern), "{pattern}");
    }
    for pattern in [
        "abc",
        "a?",
        "(a|b)?",
        r"\.",
        r"\bword\b",
        r"\w+\s",
        r"\(x\)?",
        "[?*]?",
        "[]a?]",
        r"a\??",
        r"\\d",
    ] {
        assert!(!needs_perl(pattern), "{pattern}");
    }
}

#[test]
fn braces_are_expanded() {
    for (glob, want) in [
        ("*.{ts,tsx}", &["*.ts", "*.tsx"][..]),
        ("{a,b}/*.{c,d}", &["a/*.c", "a/*.d", "b/*.c", "b/*.d"]),
        ("*.rs", &["*.rs"]),
        ("a{b", &["a{b"]),
    ] {
        assert_eq!(braces(glob), want);
    }
    let many = "{a,b}".repeat(40);
    assert_eq!(braces(&many), [many.as_str()]);
}

#[test]
fn requested_directory_is_not_skipped() {
    let of = |path| command(&Query { pattern: "x", path, ..Query::default() }, Mode::Content);
    assert!(of("/w").contains("--exclude-dir=node_modules"));
    assert!(of("/w").contains("'--glob=!node_modules'"));
    let inside = of("/w/node_modules/a");
    assert!(!inside.contains("node_modules ") && inside.contains("--exclude-dir=.git"), "{inside}");
}

#[test]
fn path_pattern_matches_at_any_depth() {
    for (glob, want) in [
        ("*.rs", "*.rs"),
        ("src/**/*.ts", "**/src/**/*.ts"),
        ("!src/*.ts", "!**/src/*.ts"),
        ("./src/*.ts", "**/src/*.ts"),
        ("**/a/b", "**/a/b"),
        ("{a,b}/*.ts", "**/{a,b}/*.ts"),
        ("/a/b", "/a/b"),
    ] {
        assert_eq!(anywhere(glob), want);
    }
}
