//! Every built-in tool against every family of clients. The table in
//! `docs/sessions.md` is what is expected: it drives the matrix.

mod clients;
#[cfg(unix)]
mod commands;
mod matrix;
mod schemas;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::model::{Image, Part};

fn tool(name: &str, schema: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: String::new(),
        schema: Some(RawValue::from_string(schema.to_owned()).unwrap()),
    }
}

fn answer(text: &str, is_error: bool) -> ToolResult {
    ToolResult {
        call_id: "call_1".to_owned(),
        content: vec![Part::Text(text.to_owned())],
        is_error,
    }
}

fn arguments(call: &ClientCall) -> Value {
    serde_json::from_str(&call.arguments).unwrap()
}

/// `Success`, `FileNotFound`, or `Start + Stdout + Exit` for a stream.
fn variants(replies: &[Reply]) -> String {
    let names: Vec<String> = replies
        .iter()
        .map(|reply| {
            let text = format!("{reply:?}");
            let (_, inner) = text.split_once("Some(").unwrap_or_default();
            inner.split(['(', ')']).next().unwrap_or_default().to_owned()
        })
        .collect();
    names.join(" + ")
}

#[test]
fn result_of_a_client_tool_is_returned_unchanged() {
    let mut result = answer("a picture", true);
    result.content.push(Part::Image(Image {
        source: ImageSource::Inline { mime: "image/png".into(), data: b"png".as_slice().into() },
    }));
    let back = Back::mcp();
    assert!(back.is_mcp());
    let [Reply::McpResult(reply)] = &back.replies(&result)[..] else { panic!() };
    let Some(mcp_result::Result::Success(success)) = &reply.result else { panic!() };
    assert!(success.is_error);
    let [text, image] = &success.content[..] else { panic!() };
    assert!(matches!(&text.content, Some(Content::Text(text)) if text.text == "a picture"));
    assert!(matches!(&image.content, Some(Content::Image(image))
        if image.mime_type == "image/png" && image.data == b"png".as_slice()));
    assert_eq!(variants(&back.unanswered("gone")), "Error");
}

#[test]
fn only_a_streamed_shell_sends_a_start_and_sends_it_once() {
    let kit = Equipment::of(&clients::Family::OpenCode.tools());
    for ask in matrix::asks() {
        let Some(call) = translate(&ask, &kit) else { continue };
        let streamed = matches!(ask, Ask::ShellStreamArgs(_));
        assert_eq!(variants(&call.back.opening()), if streamed { "Start" } else { "" }, "{ask:?}");
        for replies in [call.back.replies(&answer("x", false)), call.back.unanswered("gone")] {
            assert!(!variants(&replies).contains("Start"), "{ask:?}");
        }
    }
    assert!(Back::mcp().opening().is_empty());
}

#[test]
fn nothing_is_translated_without_client_tools() {
    for ask in matrix::asks() {
        assert!(translate(&ask, &Equipment::default()).is_none(), "{ask:?}");
    }
}

proptest! {
    /// Clients print what they like: every text has an answer of the right kind.
    #[test]
    fn any_text_has_an_answer(
        text in "(\\PC|[ \n:\\-/(){}<>0-9]|<file>\n|</file>|Exit code |Output:\n|→|Line 1: ){0,60}",
        is_error: bool,
    ) {
        for family in clients::FAMILIES {
            let kit = Equipment::of(&family.tools());
            for call in matrix::asks().iter().filter_map(|ask| translate(ask, &kit)) {
                let replies = call.back.replies(&answer(&text, is_error));
                prop_assert!(!replies.is_empty());
                prop_assert!(variants(&replies).chars().all(|c| c.is_alphabetic() || " +".contains(c)));
            }
        }
    }
}
