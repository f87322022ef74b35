use super::*;

#[test]
fn accounts_secrets_and_home_are_hidden() {
    let veil = Veil::new(Some(Path::new("/home/jane")), ["Jane Doe".to_owned()]);
    for (text, want) in [
        ("file /home/jane/.config/ibeam", "file ~/.config/ibeam"),
        ("signed in as Jane Doe", "signed in as (account)"),
        ("mail jane.doe+x@mail.example.com, and", "mail (account), and"),
        ("sub auth0|user_01ABC is", "sub (account) is"),
        ("npm install -g opencode-ai@latest", "npm install -g opencode-ai@latest"),
        ("opencode-ai@1.18.33", "opencode-ai@1.18.33"),
        ("a | b @ c", "a | b @ c"),
        ("Bearer abcdefghijklmnop", "Bearer ***"),
        ("http://me:pass@proxy.test:1", "http://***@proxy.test:1"),
    ] {
        assert_eq!(veil.over(text), want);
    }
}

#[test]
fn long_log_is_cut_at_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    let line = "0123456789 some words of a log\n";
    std::fs::write(&path, line.repeat(20_000)).unwrap();
    let text = tail(&path).unwrap();
    assert!(text.len() as u64 <= LOG && text.len() as u64 > LOG - 100);
    assert!(text.lines().all(|line| line.starts_with("0123456789")), "{}", &text[..80]);
    std::fs::write(&path, "short").unwrap();
    assert_eq!(tail(&path).unwrap(), "short");
}

#[test]
fn secrets_of_any_form_are_masked() {
    let secrets = ["correct horse", "correct horse battery", "pa\"ss/wörd", "plain-word"];
    let veil = Veil::new(None, []).masking(secrets.map(SecretString::from));
    for (text, want) in [
        ("key=plain-word.", "key=***."),
        ("the correct horse battery of", "the *** of"),
        (r#"{"a":"pa\"ss/wörd"}"#, r#"{"a":"***"}"#),
        ("?p=pa%22ss%2Fw%C3%B6rd&x", "?p=***&x"),
        ("plain word", "plain word"),
    ] {
        assert_eq!(veil.over(text), want);
    }
    assert!(!format!("{veil:?}").contains("horse"), "{veil:?}");
}
