use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    let compiled = Patterns::default().compile(pattern).unwrap();
    compiled.matches(text).unwrap()
}

#[test]
fn patterns_follow_ecmascript() {
    for (pattern, text, want) in [
        (r"^\d+$", "12", true),
        (r"^\d+$", "߀", false),
        (r"^\D$", "߀", true),
        (r"^\w+$", "aé", false),
        (r"^[\w.-]+@[\w-]+$", "a.b-c@d-e", true),
        (r"^[\W]$", "é", true),
        (r"^\s$", "\u{a0}", true),
        (r"^\s$", "\u{feff}", true),
        (r"^[^\s]$", "\u{2029}", false),
        (r"^\S$", "\u{2003}", false),
        (r"^abc$", "abc\n", false),
        (r"^.$", "\u{2028}", false),
        (r"^.$", "🐲", true),
        (r"^[^]$", "\n", true),
        (r"a[]|b", "a", false),
        (r"^\cC$", "\u{3}", true),
        (r"^\cc$", "\u{3}", true),
        (r"^https?:\/\/x\-y$", "https://x-y", true),
        (r"^\u0041\x42\u{43}\u{1F432}$", "ABC🐲", true),
        (r"^\ud83d\udc32*$", "🐲🐲", true),
        (r"^\p{Letter}+$", "é", true),
        (r"^\p{L}\P{L}$", "é1", true),
        (r"^\p{Script=Greek}$", "α", true),
        (r"^[[]$", "[", true),
        (r"^[a&&b]+$", "&a", true),
        (r"^[+--]$", ",", true),
        (r"^[a-]$", "-", true),
        (r"^[-a]$", "-", true),
        (r"^[\w-.]+$", "a-.", true),
        (r"^[a-c-e]+$", "b-e", true),
        (r"^[a-c-e]+$", "d", false),
        (r"^[!--]+$", "%-", true),
        (r"^[^-a]$", "-", false),
        (r"^[\b]$", "\u{8}", true),
        (r"\bfoo\b", "é foo", true),
        (r"\bfoo\b", "foot", false),
        (r"^{a}$", "{a}", true),
        (r"^a{2,3}$", "aaa", true),
        (r"^a{2}$", "aaa", false),
        (r"^(?!x)(?=.y)..$", "ay", true),
        (r"^(a+)\1$", "aaaa", true),
        (r"^(?<n>a|b)\k<n>$", "bb", true),
        (r"(?<=\$)\d", "$5", true),
        (r"^\$\.\*\^$", "$.*^", true),
        (r"^#\!$", "#!", true),
        (r"^\0$", "\0", true),
    ] {
        assert_eq!(matches(pattern, text), want, "{pattern} on {text:?}");
    }
}

#[test]
fn invalid_patterns_are_refused_by_name() {
    for pattern in ["(", "[a", "a**b\\", "(?<n", "[z-a]", "\\p{Nonsense}"] {
        let said = Patterns::default().compile(pattern).map(|_| ()).expect_err(pattern);
        assert!(said.contains("invalid") && said.contains(&format!("{pattern:?}")), "{said}");
    }
    let huge = Patterns::default().compile("(((a{1000}){1000}){1000})").map(|_| ());
    assert!(huge.unwrap_err().contains("too large"));
}

#[test]
fn backtracking_is_limited() {
    let hard = Patterns::default().compile(r"^(?=(a+)+$)(a|aa)+\1$").unwrap();
    assert_eq!(hard.matches(&format!("{}b", "a".repeat(5_000))), Some(false));
    let hard = Patterns::default().compile(r"^(a|aa)+(?!b)\1c$").unwrap();
    assert_eq!(hard.matches(&"a".repeat(5_000)), None);
    assert_eq!(hard.matches(&"a".repeat(10)), Some(false));
    // Far from endless, and more than a pattern is given.
    assert_eq!(hard.matches(&"a".repeat(22)), None);
    assert_eq!(hard.weight(), HARD);
    // Without looking around, no text is too hard.
    let easy = Patterns::default().compile(r"^(a+)+$").unwrap();
    assert_eq!(easy.matches(&format!("{}b", "a".repeat(50_000))), Some(false));
    assert_eq!(easy.weight(), EASY);
}

#[test]
fn repetitions_in_a_pattern_are_counted() {
    for (pattern, want) in [
        ("", 0),
        ("abc", 3),
        (r"\d{4}-\d{2}", 7),
        ("(ab){3}", 6),
        ("(ab){2,}", 4),
        ("((a{10}){10}b){10}", 1_010),
        (r"\p{L}", 100 + 3),
        ("a{99999999999999999999999}", u64::MAX),
    ] {
        assert_eq!(places(pattern), want, "{pattern}");
    }
    assert_eq!(weight(r"^\d{4}-\d{2}-\d{2}$"), EASY);
    assert_eq!(weight("((a{0,50}){0,50}b)"), EASY * (1 + 2_501 / PLACES));
}
