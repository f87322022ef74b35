use proptest::prelude::*;

use super::*;
use crate::{
    codec::connect::{Code, ConnectError},
    peer::{LinkError, classify},
    recording::event::LinkErrorRecord,
};

fn mask() -> Mask {
    Mask::redacted([7; 32])
}

#[test]
fn placeholders_have_the_length_of_the_text_and_depend_on_the_key() {
    let (one, other) = (mask(), Mask::redacted([8; 32]));
    for text in ["x", "hello", "Grüße aus Köln", &"long ".repeat(100)] {
        let masked = one.whole(text);
        assert_eq!(masked.len(), text.len(), "{text}");
        assert_eq!(masked, one.whole(text), "equal texts have equal placeholders");
        assert!(!masked.contains(text.trim()), "{masked}");
        assert!(text.len() < 8 || masked != other.whole(text));
    }
    assert_ne!(one.whole("one text that is long"), one.whole("two text that is long"));
    assert_eq!(one.whole(" \n"), " \n", "nothing stays nothing");
}

#[test]
fn a_text_that_repeats_the_stream_has_the_same_placeholder() {
    let mut mask = mask();
    let pieces: String = ["The ans", "wer is", " forty", "-two."]
        .map(|it| mask.streamed(TextStream::Answer, it))
        .concat();
    assert_eq!(mask.said("The answer is forty-two."), pieces);
    assert_eq!(mask.said("answer is forty"), pieces[4..19]);
    assert_eq!(mask.said("\nanswer is forty "), format!("\n{} ", &pieces[4..19]));
    assert_ne!(mask.said("answer is fifty"), pieces[4..19]);
    assert_eq!(mask.whole("ok"), mask.whole("ok"), "a result does not depend on the answer");
    mask.streamed(TextStream::Answer, "ok");
    let first = mask.history("ok");
    mask.streamed(TextStream::Answer, " ok");
    assert_eq!(mask.history("ok"), first);
}

#[test]
fn snapshots_of_a_growing_text_begin_alike() {
    let mut mask = mask();
    let first = mask.spoken(TextStream::Answer, "The answer", true);
    let second = mask.spoken(TextStream::Answer, "The answer is 42", true);
    let third = mask.spoken(TextStream::Answer, "The answer is 42, I think", true);
    assert!(second.starts_with(&first) && third.starts_with(&second), "{first} {second} {third}");
    assert_eq!(third.len(), "The answer is 42, I think".len());
    assert_eq!(mask.spoken(TextStream::Answer, "The answer is 42", true), second);
}

#[test]
fn tags_of_leaked_thinking_and_line_breaks_stay_in_the_stream() {
    let mut mask = mask();
    let masked: String = ["<th", "ink>secret", "</think>\n", "  <b>shown"]
        .map(|it| mask.streamed(TextStream::Answer, it))
        .concat();
    assert!(masked.starts_with("<think>") && masked.contains("</think>\n  <"), "{masked}");
    assert!(!masked.contains("secret") && !masked.contains("shown"), "{masked}");
}

#[test]
fn ids_keep_their_shape() {
    let mask = mask();
    let uuid = "5a7b45c0-0611-4b58-898e-02fec27f75b1";
    let masked = mask.id(uuid);
    assert_eq!(masked.len(), uuid.len());
    assert_eq!(masked.matches('-').count(), 4);
    assert_ne!(masked, uuid);
    let session = SessionId::from_random([3; 16]);
    let call = format!("sess_{session}__call_12");
    let masked = mask.id(&call);
    assert_eq!(SessionId::of_call(&masked), Some((mask.session(session), 12)));
    assert_ne!(mask.session(session), session);
}

#[test]
fn well_known_tools_stay_and_others_do_not() {
    let mask = mask();
    for known in ["bash", "read_file", "Edit", "ibeam-read_file", "CallDynamicTool", "mcp_bash"] {
        assert_eq!(mask.name(known), known);
    }
    // So are the names under which they are offered, which depend on what they are.
    for known in ["Read_tool", "ibeam-shell_tool2", "web_search", "Web-Search_tool", "grep"] {
        assert_eq!(mask.name(known), known);
    }
    for other in ["acme_tool", "read_tool4711", "read_tools"] {
        assert_ne!(mask.name(other), other);
    }
    assert_eq!(mask.name("acme_crm_2"), mask.name("acme.crm").replace('.', "_") + "_2");
    let masked = mask.name("mcp__acme-crm__search_customers");
    assert!(masked.starts_with("mcp_") && masked.contains("search_"), "{masked}");
    assert!(!masked.contains("acme") && !masked.contains("customers"), "{masked}");
    // As the wire spells it.
    assert_eq!(mask.name("acme.crm").replace('.', "_"), mask.name("acme_crm"));
}

#[test]
fn results_still_show_whether_they_failed() {
    let mask = mask();
    for (text, stays) in [
        ("Error: no file /home/alice/x", "Error:"),
        ("all is well here", ""),
        ("some output of alice\nexit code: 1", "exit code: 1"),
        ("Exit code: 2\nalice was here", "Exit code: 2"),
    ] {
        let masked = mask.result(text);
        assert_eq!(masked.len(), text.len());
        assert!(masked.contains(stays), "{masked}");
        assert!(!masked.contains("alice") && !masked.contains("well"), "{masked}");
        assert_eq!(
            guard::exit_code(masked.lines().next_back().unwrap()).is_some(),
            text.ends_with(": 1")
        );
    }
}

/// Errors of the backend, results of tools, and what a CLI prints: an address, a phone number or a
/// price in them does not stay.
#[test]
fn only_a_lone_status_or_exit_code_stays_of_the_numbers_in_an_error() {
    let mask = mask();
    let secrets = ["10", "23", "45", "67", "555", "123", "456", "42"];
    for text in [
        "connect to 10.23.45.67 failed",
        "http 10.23.45.67 refused",
        "http://10.23.45.67/ status unknown",
        "status: 10.23.45.67",
        "code 555-123-456",
        "exit code 555 123 456",
        "exit code: 10:23:45",
        "call 555-123-456",
        "your team has 42 seats and code of 42 more",
        "fe80::10:23",
        "error code of 42",
    ] {
        let error = LinkErrorRecord::of(&LinkError::Reset(text.into()), &mask);
        let connect = ConnectError::new(Code::Internal, text);
        let status = LinkError::Status { status: 500, error: Some(connect), retry_after: None };
        let stderr = mask.error(text);
        let result = mask.result(&format!("Error: {text}\nsome lines\n{text}, exit code: x"));
        let status = format!("{:?}", LinkErrorRecord::of(&status, &mask)).replace("500", "");
        for masked in [format!("{error:?}"), status, stderr, result, mask.status(text)] {
            for secret in secrets {
                assert!(!masked.contains(secret), "{secret} in {masked}");
            }
        }
    }
    for (text, stays) in [
        ("exit code: 1", "exit code: 1"),
        ("the process exited with code 137.", "code 137."),
        ("exit code: -1", "code: -1"),
        ("status 429: too many requests", "status 429: too many requests"),
        ("{\"exit_code\":127}", "exit_code\":127}"),
        ("status code: 503\n10 more", "status code: 503\n"),
    ] {
        let masked = mask.error(text);
        assert!(masked.contains(stays), "{masked}");
        assert_eq!(masked.len(), text.len());
    }
    assert_eq!((mask.status("429"), mask.status("x429").contains("429")), ("429".into(), false));
}

#[test]
fn numbers_keep_their_digits_only() {
    let mask = mask();
    assert_eq!((mask.number(0.0), mask.number(1.0)), (0.0, 1.0));
    let masked = mask.number(-4_721_553.0);
    assert!(masked < 0.0 && format!("{:.0}", masked.abs()).len() == 7 && masked != -4_721_553.0);
    assert_eq!(mask.number(555.0), mask.number(555.0));
}

/// What the backend says of a failure means the same without the words that ibeam does not know.
#[test]
fn errors_are_classified_as_before() {
    let mask = mask();
    for (code, words) in [
        (Code::ResourceExhausted, "You've hit your usage limit, alice@example.com"),
        (Code::ResourceExhausted, "Your team acme has an unpaid invoice"),
        (Code::FailedPrecondition, "Please update Cursor to the latest version"),
        (Code::InvalidArgument, "prompt is too long: 250000 tokens > 200000 maximum"),
        (Code::PermissionDenied, "This model is not supported in your country or region"),
        (Code::Internal, "Required tool EDIT not found in allTools"),
        (Code::Internal, "Blob not found: 5a7b45c0"),
        (Code::Unavailable, "We're experiencing high load"),
        (Code::NotFound, "model gpt-acme-secret does not exist"),
        (Code::PermissionDenied, "Named models are not available on the free plan, use Auto"),
        (Code::Unknown, "something went wrong"),
        (Code::Unauthenticated, "Your session expired"),
    ] {
        let error = ConnectError::new(code, words);
        let link = LinkError::Status { status: 429, error: Some(error), retry_after: None };
        let recorded = LinkErrorRecord::of(&link, &mask).error();
        let (was, is) = (classify::link_error(&link), classify::link_error(&recorded));
        assert_eq!((is.error.code, is.remedy), (was.error.code, was.remedy), "{words}");
        let text = format!("{recorded:?}");
        for secret in ["alice", "example", "acme", "5a7b45c0", "gpt-acme"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_do_not_become_one() {
    let mask = mask();
    let id = [0xc3, 0x28, 1, 2, 3, 4, 5, 6];
    let masked = mask.bytes(&id);
    assert!(masked.len() == id.len() && std::str::from_utf8(&masked).is_err());
    assert_eq!(masked, mask.bytes(&id));
    assert!(std::str::from_utf8(&mask.bytes("text".as_bytes())).is_ok());
}

#[test]
fn with_texts_only_what_looks_like_a_secret_is_masked() {
    let mut mask = Mask::with_texts();
    assert_eq!(mask.streamed(TextStream::Answer, "hello Alice"), "hello Alice");
    let key = "the key is sk-ant-1234567890abcdefghij";
    assert!(!mask.whole(key).contains("1234567890abcdefghij"));
    assert_eq!(mask.id("conv-1"), "conv-1");
}

proptest! {
    /// Whatever a text is, its placeholder has none of its words.
    #[test]
    fn no_word_of_a_text_is_in_its_placeholder(
        words in prop::collection::vec("[A-Z][a-z]{2,6}[0-9]{3,6}", 1..6),
        cut in 1_usize..9,
    ) {
        let mut mask = mask();
        let text = words.join(" ");
        let chunks: Vec<char> = text.chars().collect();
        let streamed: String = chunks
            .chunks(cut)
            .map(|piece| mask.streamed(TextStream::Answer, &piece.iter().collect::<String>()))
            .collect();
        let all = [
            mask.whole(&text), mask.result(&text), mask.error(&text), mask.id(&text),
            mask.name(&text), streamed,
        ];
        for masked in all {
            prop_assert_eq!(masked.len(), text.len());
            for word in &words {
                prop_assert!(!masked.contains(word.as_str()), "{} in {}", word, masked);
            }
        }
    }
}
