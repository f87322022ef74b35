use serde_json::json;

use super::*;
use crate::{
    model::Reasoning,
    peer::agent::{blobs::assistant_message, request::tests::request},
};

const MODEL: &str = "claude-opus-4-6";
const OURS: ReasoningScope = [1; 32];

fn blob(text: &str, signature: &str, options: &Value) -> String {
    let part = json!({
        "type": "reasoning", "text": text, "signature": signature, "providerOptions": options,
    });
    json!({ "role": "assistant", "content": [part] }).to_string()
}

fn usual() -> Value {
    json!({ "cursor": { "modelName": MODEL } })
}

fn signed_in(blob: &str) -> Option<SignedReasoning> {
    let answer = assistant_message(blob.as_bytes()).unwrap();
    answer.signed.first().and_then(SignedReasoning::of)
}

fn signed(signature: &str) -> SignedReasoning {
    signed_in(&blob("hm", signature, &usual())).unwrap()
}

fn asked(texts: &[&str]) -> TurnRequest {
    let thought = |text: &&str| Item::Reasoning(Reasoning { text: (*text).to_owned() });
    request(texts.iter().map(thought).collect())
}

/// Which of these texts may be sent.
fn known(memory: &SignatureMemory, model: &str, texts: &[&str]) -> Vec<usize> {
    memory.of(&OURS, model, &asked(texts)).iter().map(|item| item.at).collect()
}

#[test]
fn section_1_3_only_reasoning_in_the_known_form_is_remembered() {
    let found = signed("c2ln");
    assert_eq!((&*found.signature, found.options.get()), ("c2ln", &*usual().to_string()));
    assert!(!format!("{found:?}").contains("c2ln"), "nothing of it in logs");
    for blob in [
        blob("hm", "", &usual()),
        blob("hm", &"x".repeat(SIGNATURE + 1), &usual()),
        blob("hm", "c2ln", &json!({})),
        blob("hm", "c2ln", &json!({ "cursor": { "modelName": "" } })),
        blob("hm", "c2ln", &json!({ "cursor": { "modelName": "m" }, "x": "x".repeat(OPTIONS) })),
        // A redacted part has no text that a client could send back.
        blob("hm", "c2ln", &usual()).replace("\"reasoning\"", "\"redacted-reasoning\""),
        blob("hm", "c2ln", &usual()).replace("\"c2ln\"", "7"),
    ] {
        assert!(signed_in(&blob).is_none(), "{blob}");
    }
}

#[test]
fn section_1_3_reasoning_belongs_to_one_model_and_one_text() {
    let memory = SignatureMemory::default();
    memory.note(&OURS, MODEL, "hm", signed("c2ln"));
    assert_eq!(known(&memory, MODEL, &["other", "hm", "hm "]), [1]);
    assert!(known(&memory, "claude-sonnet-5", &["hm"]).is_empty());
    let theirs: ReasoningScope = [2; 32];
    assert!(memory.of(&theirs, MODEL, &asked(&["hm"])).is_empty(), "of another API key");
    assert!(!is_one_model("default") && is_one_model(MODEL));
}

#[test]
fn section_1_3_the_signatures_that_were_not_used_for_longest_are_forgotten_first() {
    let memory = SignatureMemory::default();
    let text = |n: usize| format!("thought {n}");
    for n in 0..TEXTS {
        memory.note(&OURS, MODEL, &text(n), signed("c2ln"));
    }
    assert_eq!(known(&memory, MODEL, &[&text(0)]), [0], "used");
    memory.note(&OURS, MODEL, "one more", signed("c2ln"));
    assert_eq!(known(&memory, MODEL, &[&text(0), &text(1), &text(2)]), [0, 2]);

    let large = "x".repeat(SIGNATURE);
    for n in 0..2 * BYTES / SIGNATURE {
        memory.note(&OURS, MODEL, &text(n), signed(&large));
        // The same text again takes no more room.
        memory.note(&OURS, MODEL, &text(n), signed(&large));
        assert!(memory.store().bytes <= BYTES);
    }
    let left = memory.store().entries.len();
    assert!((BYTES / SIGNATURE - 1..TEXTS).contains(&left), "{left}");
    let sum = memory.store().entries.values().map(|entry| entry.signed.bytes()).sum::<usize>();
    assert_eq!(sum, memory.store().bytes);
}

#[test]
fn turn_that_may_not_send_reasoning_has_none() {
    let request = asked(&["a", "hm"]);
    let known = || vec![SignedItem { at: 1, signed: signed("c2ln") }];
    let mut signatures = TurnSignatures::new(&request, known(), false);
    assert!(signatures.of("hm").is_some() && signatures.of("a").is_none());
    assert!(signatures.bytes() > 0);
    signatures.leave_out(true);
    assert!(signatures.of("hm").is_none() && signatures.is_blamed());
    signatures.acquit();
    assert!(signatures.of("hm").is_none() && !signatures.is_blamed());
    assert!(TurnSignatures::new(&request, known(), true).of("hm").is_none());
}
