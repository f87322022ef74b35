use super::{IMAGE_TOKENS, of_text, quick_estimate};
use crate::wire::messages;

#[cfg(feature = "tokens")]
#[test]
fn the_estimate_is_near_the_tokenizers_count() {
    let texts = [
        (
            "prose",
            "The harbour was quiet that morning, and only two boats had gone out before dawn. ",
        ),
        ("code", "fn sum(list: &[u64]) -> u64 {\n    list.iter().filter(|n| **n > 3).sum()\n}\n"),
        (
            "schema",
            r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#,
        ),
        ("Chinese", "今天早上港口很安静，黎明之前只有两条船出海，其他人都留在岸上等待。"),
        ("Russian", "Утром в гавани было тихо, и до рассвета вышли только две лодки. "),
        ("German", "Am Morgen war es im Hafen still, und nur zwei Boote fuhren früh hinaus. "),
    ];
    for (kind, text) in texts {
        let text = text.repeat(20);
        let counted = super::super::Vocabulary::default().count(&text).tokens;
        let quick = of_text(&text);
        assert!(quick * 10 >= counted * 7, "{kind}: {quick} for {counted}");
        assert!(quick * 10 <= counted * 20, "{kind}: {quick} for {counted}");
    }
}

#[test]
fn everything_the_model_reads_is_estimated() {
    let request = |extra: &str, content: &str| {
        let body = format!(
            r#"{{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{{"role":"user","content":{content}}}]{extra}}}"#
        );
        quick_estimate(&messages::decode(body.as_bytes()).unwrap().turn)
    };
    let plain = request("", r#""hello""#);
    assert!(plain > 0);
    let long = "word ".repeat(700);
    for extra in [
        format!(r#","system":"{long}""#),
        format!(r#","tools":[{{"name":"a","description":"{long}"}}]"#),
        format!(r#","tools":[{{"name":"a","input_schema":{{"title":"{long}"}}}}]"#),
    ] {
        assert!(request(&extra, r#""hello""#) > plain + 700, "{extra}");
    }
    let image = r#"[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]"#;
    assert_eq!(request("", image), IMAGE_TOKENS);
}

#[test]
fn letters_of_every_width_are_counted_once() {
    for (text, tokens) in [("", 0), ("a", 1), ("abcdefg", 2), ("éé", 1), ("日本", 2), ("🙂", 1)]
    {
        assert_eq!(of_text(text), tokens, "{text}");
    }
    assert_eq!(of_text("abcdefgéé日本🙂"), 6);
}
