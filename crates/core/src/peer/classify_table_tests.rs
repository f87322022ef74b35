//! Every failure that the documentation lists, held against the code.

use std::collections::BTreeSet;

use super::*;
use crate::codec::connect::CursorError;

const DOCUMENT: &str = include_str!("../../../../docs/errors.md");

/// The number of the last kind in the schema.
const LAST_KIND: i32 = Kind::ErrorAccountClosed as i32;

/// The rows of the section's table that begins with this heading: the names in the first
/// cell, and the cells after it.
fn rows(heading: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let (_, after) = DOCUMENT.split_once(&format!("\n| {heading} |")).expect("the page has it");
    let (table, _) = after.split_once("\n\n").unwrap_or((after, ""));
    let rows: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
            let names = cells.next().unwrap().trim_matches('`').split("` `").map(str::to_owned);
            (names.collect(), cells.map(str::to_owned).collect())
        })
        .collect();
    assert!(!rows.is_empty(), "{heading}");
    rows
}

fn shown(failure: &PeerFailure) -> [String; 4] {
    let row = failure.error.code.row();
    let texts = [row.openai_type, row.code, row.anthropic_type].map(str::to_owned);
    let [openai_type, code, anthropic_type] = texts;
    [row.status.to_string(), openai_type, code, anthropic_type]
}

fn again(failure: &PeerFailure) -> &'static str {
    match failure.remedy {
        Remedy::None => "–",
        Remedy::Retry => "retry",
        Remedy::Resume => "resume",
        Remedy::FreshConversation => "conversation",
        Remedy::FreshToken => "token",
        Remedy::OtherForm | Remedy::OtherFields => "form",
        Remedy::AllowTool => "tools",
        Remedy::MaxMode => "max",
        Remedy::OtherHost => "host",
        Remedy::SchemaText => "schema",
    }
}

fn detailed(code: Code, kind: Kind, title: &str) -> ConnectError {
    let (title, detail) = (title.to_owned(), String::new());
    let detail = Some(Box::new(CursorError { kind, title, detail, ..CursorError::default() }));
    ConnectError { code, message: "Error".to_owned(), detail }
}

fn kind(name: &str) -> Kind {
    Kind::from_str_name(&format!("ERROR_{name}")).unwrap_or_else(|| panic!("no kind {name}"))
}

/// Both ways a failure comes: at the end of a stream, and as a status.
fn both(error: &ConnectError) -> [PeerFailure; 2] {
    let status = error.code.http_status();
    let refused = LinkError::Status { status, error: Some(error.clone()), retry_after: None };
    [connect_error(error), link_error(&refused)]
}

#[test]
fn every_kind_is_as_documented() {
    let mut known = BTreeSet::new();
    for (names, cells) in rows("`ERROR_…`") {
        let [status, openai_type, code, anthropic_type, remedy, says] = &cells[..] else {
            panic!("{cells:?}")
        };
        for name in names {
            let kind = kind(&name);
            // The name goes before the code, whatever that is.
            for code_of in [Code::Internal, Code::Unauthenticated, Code::PermissionDenied] {
                let error = detailed(code_of, kind, "Told");
                let failure = connect_error(&error);
                let want = [status, openai_type, code, anthropic_type];
                assert_eq!(shown(&failure).each_ref(), want, "{name}");
                assert_eq!(again(&failure), remedy, "{name}");
                for failure in both(&error) {
                    let message = &failure.error.message;
                    assert!(message.starts_with("Cursor answered: Told."), "{name}: {message}");
                    assert!(message.contains(says.as_str()) || says == "Cursor answered");
                    assert_eq!(shown(&failure).each_ref(), want, "{name}");
                }
            }
            assert!(known.insert(kind as i32), "{name} is there twice");
        }
    }
    // What is in no row is left to the Connect code.
    for number in 0..=LAST_KIND {
        let kind = Kind::try_from(number).unwrap();
        let name = kind.as_str_name().trim_start_matches("ERROR_");
        let mentioned = DOCUMENT.contains(&format!("`{name}`")) || name.starts_with("GITHUB_");
        assert!(mentioned, "{name} is not on the page");
        if !known.contains(&number) {
            for code in [Code::Unauthenticated, Code::Unavailable, Code::PermissionDenied] {
                let bare = connect_error(&ConnectError::new(code, "Told"));
                let failure = connect_error(&detailed(code, kind, "Told"));
                assert_eq!(failure.error.code, bare.error.code, "{name}");
            }
        }
    }
}

#[test]
fn a_429_is_classified_by_its_message() {
    for (words, cells) in rows("Cursor's words") {
        let [words] = &words[..] else { panic!("{words:?}") };
        let [status, openai_type, code, says] = &cells[..] else { panic!("{cells:?}") };
        let mut carriers = vec![
            ConnectError::new(Code::ResourceExhausted, words.as_str()),
            ConnectError::from_json(format!(r#"{{"code":"?","message":"{words}"}}"#).as_bytes())
                .unwrap(),
        ];
        for number in 0..=LAST_KIND {
            let kind = Kind::try_from(number).unwrap();
            if kind.as_str_name().contains("RATE_LIMIT") || kind == Kind::ErrorCustomMessage {
                carriers.push(detailed(Code::ResourceExhausted, kind, words));
            }
        }
        for error in carriers {
            let refused =
                LinkError::Status { status: 429, error: Some(error.clone()), retry_after: None };
            let failure = link_error(&refused);
            let [got_status, got_type, got_code, _] = shown(&failure);
            assert_eq!(
                [&got_status, &got_type, &got_code],
                [status, openai_type, code],
                "{error:?}"
            );
            let message = &failure.error.message;
            assert!(message.contains(says.as_str()), "{error:?}: {message}");
            assert!(message.contains(words.trim_end_matches('.')), "Cursor's own words are kept");
            assert_ne!(failure.remedy, Remedy::FreshConversation, "{error:?}");
        }
    }
}

#[test]
fn every_connect_code_is_as_documented() {
    let mut known = 0;
    for (names, cells) in rows("Connect code") {
        let [status, openai_type, code, remedy] = &cells[..] else { panic!("{cells:?}") };
        for name in names {
            let named = Code::from_name(&name);
            assert_eq!(named.as_str(), name);
            let failure = connect_error(&ConnectError::new(named, ""));
            let [got_status, got_type, got_code, _] = shown(&failure);
            assert_eq!([&got_status, &got_type, &got_code], [status, openai_type, code], "{name}");
            assert_eq!(again(&failure), remedy, "{name}");
            known += 1;
        }
    }
    assert_eq!(known, 16, "all that Connect has");
}

#[test]
fn every_status_is_as_documented() {
    for (numbers, cells) in rows("HTTP status") {
        let [status, openai_type, code, remedy] = &cells[..] else { panic!("{cells:?}") };
        for number in numbers {
            let answered = number.parse().unwrap();
            let bare = LinkError::Status { status: answered, error: None, retry_after: None };
            let failure = link_error(&bare);
            let [got_status, got_type, got_code, _] = shown(&failure);
            let got = [&got_status, &got_type, &got_code];
            assert_eq!(got, [status, openai_type, code], "{number}");
            assert_eq!(again(&failure), remedy, "{number}");
            assert!(failure.error.message.contains(&format!("HTTP status {number}")));
        }
    }
}
