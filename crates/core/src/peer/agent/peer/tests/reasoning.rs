//! Reasoning that its model has signed, in conversations that are rebuilt.

use serde_json::{Value, json};

use super::{
    autumn::{of, refused_prompt},
    *,
};
use crate::{
    model::Reasoning,
    peer::{StoredState, agent::ModelMemory},
};

const MODEL: &str = "claude-opus-4-6";
const THOUGHT: &str = "The file may be large.";

/// The answer as the service stores it after the results.
fn stored() -> String {
    json!({ "role": "assistant", "id": "1", "content": [
        {
            "type": "reasoning", "text": THOUGHT, "signature": "c2lnbmF0dXJl",
            "providerOptions": { "cursor": { "modelName": MODEL } },
        },
        { "type": "text", "text": "Reading." },
        { "type": "tool-call", "toolCallId": "c", "toolName": "read", "args": {} },
    ] })
    .to_string()
}

fn thought(text: &str) -> Item {
    Item::Reasoning(Reasoning { text: text.to_owned() })
}

/// A conversation in which the model thought this before its call.
fn history(text: &str) -> TurnRequest {
    let mut request = request(&["read"]);
    request.items.extend([thought(text), said("Reading."), made(1, "read"), result(1, "1 kB")]);
    request
}

/// A rebuilt conversation with this model.
fn rebuilt(model: &str, request: TurnRequest, memory: &Arc<ModelMemory>) -> Bench {
    of(request, |plan| in_auto(plan, model, memory))
}

/// The plan as the driver makes it for this request.
fn planned(model: &str, request: TurnRequest, memory: &Arc<ModelMemory>) -> Bench {
    let signed = memory.signed_items(&[1; 32], model, &request);
    of(request, |plan| {
        in_auto(plan, model, memory);
        plan.signed = signed;
    })
}

fn in_auto(plan: &mut Plan, model: &str, memory: &Arc<ModelMemory>) {
    plan.history = HistorySetting::Auto;
    plan.model.id = model.into();
    plan.memory = Arc::clone(memory);
}

/// A process in which this model has signed the thought.
fn experienced(model: &str) -> Arc<ModelMemory> {
    let memory = Arc::default();
    let mut bench = rebuilt(model, request(&["read"]), &memory);
    bench.say(set_blob(&stored()));
    finish(&mut bench, "done");
    memory
}

impl Bench {
    /// The entries of the newest run, which the service fetches.
    pub(super) fn entries(&mut self) -> Vec<Value> {
        let state = self.runs().pop().unwrap().conversation_state.unwrap();
        let from = self.sent().len();
        for (id, blob_id) in (40..).zip(state.root_prompt_messages_json) {
            self.say(FromServer::KvServerMessage(KvServerMessage {
                id,
                message: Some(kv_server_message::Message::GetBlobArgs(GetBlobArgs { blob_id })),
                ..KvServerMessage::default()
            }));
        }
        let sent = self.sent().split_off(from);
        let blob = |message: ToServer| match message {
            ToServer::KvClientMessage(message) => match message.message? {
                kv_client_message::Message::GetBlobResult(got) => got.blob_data,
                kv_client_message::Message::SetBlobResult(_) => None,
            },
            _ => None,
        };
        let blobs = sent.into_iter().filter_map(blob);
        blobs.map(|blob| serde_json::from_slice(&blob).unwrap()).collect()
    }

    /// The kinds of the parts in the assistant's entries.
    fn kinds(&mut self) -> Vec<String> {
        let entries = self.entries();
        let assistant = entries.iter().filter(|entry| entry["role"] == "assistant");
        let parts = assistant.flat_map(|entry| entry["content"].as_array().unwrap());
        parts.map(|part| part["type"].as_str().unwrap().to_owned()).collect()
    }
}

const WITH: [&str; 3] = ["reasoning", "text", "tool-call"];
const WITHOUT: [&str; 2] = ["text", "tool-call"];

#[test]
fn section_1_3_signed_reasoning_is_replayed_as_it_was_stored() {
    let memory = experienced(MODEL);
    let mut bench = planned(MODEL, history(THOUGHT), &memory);
    let entries = bench.entries();
    let stored: Value = serde_json::from_str(&stored()).unwrap();
    assert_eq!(entries[2]["role"], "assistant");
    assert_eq!(entries[2]["content"][0], stored["content"][0]);
    assert_eq!(bench.kinds(), WITH, "in the order in which a model writes");

    // Behind the service's own system prompt, too.
    let signed = memory.signed_items(&[1; 32], MODEL, &history(THOUGHT));
    let mut bench = of(history(THOUGHT), |plan| {
        in_auto(plan, MODEL, &memory);
        plan.history = HistorySetting::Only(HistoryForm::UserRoots);
        plan.signed = signed;
    });
    assert_eq!(bench.kinds(), WITH);
}

#[test]
fn section_1_3_reasoning_of_another_model_or_with_another_text_is_left_out() {
    let memory = experienced(MODEL);
    assert_eq!(planned("claude-opus-4-8", history(THOUGHT), &memory).kinds(), WITHOUT);
    assert_eq!(planned(MODEL, history("The file may be small."), &memory).kinds(), WITHOUT);
    assert_eq!(planned(MODEL, history(THOUGHT), &Arc::default()).kinds(), WITHOUT);
    // Another model each time may answer under the name of the router.
    let memory = experienced("default");
    assert_eq!(planned("default", history(THOUGHT), &memory).kinds(), WITHOUT);
}

/// A state of one model is continued under another, and the service stores its blobs again.
#[test]
fn section_1_3_reasoning_in_a_kept_state_is_not_that_of_the_next_model() {
    let memory: Arc<ModelMemory> = Arc::default();
    let id = Bytes::from(stored());
    let mut asked = history(THOUGHT);
    asked.items.extend([said("It is large."), user("And now?")]);
    let mut bench = of(asked, |plan| {
        in_auto(plan, "claude-opus-4-8", &memory);
        plan.kept = Some(StoredState {
            checkpoint: Bytes::from_static(b"\x50\x01"),
            blobs: vec![(id.clone(), id.clone())],
            covers: 6,
            calls: Vec::new(),
            new_setup: false,
        });
    });
    let of_it = |memory: &ModelMemory| {
        memory.signed_items(&[1; 32], "claude-opus-4-8", &history(THOUGHT)).len()
    };
    bench.say(set_blob(&stored()));
    assert_eq!(of_it(&memory), 0);
    // What it thinks itself is its own.
    bench.say(set_blob(&stored().replace("Reading.", "I read it.")));
    assert_eq!(of_it(&memory), 1);
    assert!(memory.signed_items(&[2; 32], "claude-opus-4-8", &history(THOUGHT)).is_empty());
    finish(&mut bench, "done");
}

#[test]
fn section_1_3_a_stored_answer_has_no_more_than_some_reasoning() {
    let memory: Arc<ModelMemory> = Arc::default();
    let mut bench = rebuilt(MODEL, request(&["read"]), &memory);
    let part = |n: usize| {
        json!({
            "type": "reasoning", "text": n.to_string(), "signature": "c2lnbmF0dXJl",
            "providerOptions": { "cursor": { "modelName": MODEL } },
        })
    };
    let parts: Vec<Value> = (0..100).map(part).collect();
    bench.say(set_blob(&json!({ "role": "assistant", "content": parts }).to_string()));
    let mut asked = request(&["read"]);
    asked.items = (0..100).map(|n| thought(&n.to_string())).collect();
    assert_eq!(memory.signed_items(&[1; 32], MODEL, &asked).len(), 64);
    finish(&mut bench, "done");
}

/// A provider takes no entry with reasoning alone.
#[test]
fn section_1_3_reasoning_without_an_answer_is_left_out() {
    let memory = experienced(MODEL);
    let mut request = request(&["read"]);
    request.items.extend([thought(THOUGHT), user("Go on.")]);
    assert_eq!(planned(MODEL, request, &memory).kinds(), [""; 0]);
}

#[test]
fn section_1_3_refused_reasoning_is_left_out_and_the_conversation_goes_on() {
    let memory = experienced(MODEL);
    let mut bench = planned(MODEL, history(THOUGHT), &memory);
    assert_eq!(bench.kinds(), WITH);
    bench.fails(&refused_prompt());
    assert_eq!((bench.opens(), bench.kinds()), (2, WITHOUT.map(str::to_owned).to_vec()));
    assert!(matches!(
        bench.runs()[1].action.as_ref().unwrap().action,
        Some(conversation_action::Action::ResumeAction(_))
    ));
    assert!(!memory.of(MODEL).refuses_reasoning, "not before it worked");
    finish(&mut bench, "done");
    let facts = memory.of(MODEL);
    assert!(facts.refuses_reasoning && facts.history.is_none(), "the form was not at fault");
    // The next turn knows it.
    assert_eq!(planned(MODEL, history(THOUGHT), &memory).kinds(), WITHOUT);
}

#[test]
fn section_1_3_reasoning_is_not_blamed_for_what_another_form_cures() {
    let memory = experienced(MODEL);
    let mut bench = planned(MODEL, history(THOUGHT), &memory);
    bench.fails(&refused_prompt());
    bench.fails(&refused_prompt());
    assert_eq!((bench.opens(), bench.kinds()), (3, WITHOUT.map(str::to_owned).to_vec()));
    finish(&mut bench, "done");
    let facts = memory.of(MODEL);
    assert_eq!((facts.history, facts.refuses_reasoning), (Some(HistoryForm::UserRoots), false));

    // The user's choice of a form is kept.
    let signed = memory.signed_items(&[1; 32], MODEL, &history(THOUGHT));
    let mut bench = of(history(THOUGHT), |plan| {
        in_auto(plan, MODEL, &memory);
        plan.history = HistorySetting::Only(HistoryForm::ResumeRoots);
        plan.signed = signed;
    });
    bench.fails(&refused_prompt());
    bench.fails(&refused_prompt());
    assert_eq!((bench.opens(), bench.failure()), (2, ErrorCode::InvalidValue));
}

/// What a turn has seen itself is part of its recording, also when that has placeholders.
#[test]
fn section_1_3_a_turn_that_is_rebuilt_sends_what_it_thought_itself() {
    let memory = Arc::default();
    let mut bench = rebuilt(MODEL, request(&["read"]), &memory);
    bench.update(Update::ThinkingDelta(ThinkingDeltaUpdate {
        text: THOUGHT.into(),
        ..ThinkingDeltaUpdate::default()
    }));
    bench.text("Reading.");
    bench.say(call(1, "read", "{}"));
    bench.wait(WINDOW);
    assert_eq!(bench.ending(), &CALLS);
    assert!(bench.resume_with(history(THOUGHT)));
    bench.say(set_blob(&stored()));
    bench.broke(&reset());
    assert_eq!(bench.opens(), 2);
    bench.opened();
    assert_eq!(bench.kinds(), WITH);
    finish(&mut bench, "done");
}
