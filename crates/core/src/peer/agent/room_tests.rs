use super::*;
use crate::{
    model::{Part, Role, ToolCall, ToolResult, TurnRequest},
    peer::{
        StoredState,
        agent::{
            forms::{HistoryForm, HistorySetting},
            rebuild::tests::{built_in, entries_of},
            request::{
                RunState,
                tests::{decode, item, request, spec_in},
            },
            service_facts::USUAL_MAX_ROOTS,
        },
    },
};

const OURS: [HistoryForm; 2] = [HistoryForm::ResumeRoots, HistoryForm::UserRoots];

fn questions(range: std::ops::Range<usize>) -> impl Iterator<Item = Item> {
    range.flat_map(|n| {
        let (question, answer) = (format!("question {n}."), format!("answer {n}."));
        [item(Role::User, &question), item(Role::Assistant, &answer)]
    })
}

fn count(state: &[u8]) -> usize {
    state::root_ids(state).count()
}

/// What is kept of a run with these items.
fn kept(spec: &mut RunSpec, checkpoint: Bytes, covers: usize) -> StoredState {
    let blobs = spec.blobs.take_fresh();
    StoredState { checkpoint, blobs, covers, calls: Vec::new(), new_setup: false }
}

fn continued(request: &TurnRequest, form: HistoryForm, kept: StoredState) -> RunSpec {
    let mut next = spec_in(request, HistorySetting::Only(form));
    next.blobs.all_fresh();
    next.continue_kept(request, kept);
    next
}

/// A conversation that was shortened is continued, and not shortened again in each turn.
#[test]
fn section_1_3_a_state_of_ours_that_would_grow_too_long_is_rebuilt_with_room_for_the_next_turns() {
    for form in OURS {
        let mut items: Vec<Item> = questions(0..94).collect();
        let (mut spec, ..) = built_in(form, items.clone());
        let state = spec.first_state();
        assert!((188..USUAL_MAX_ROOTS).contains(&count(&state)), "{}", count(&state));
        let before = kept(&mut spec, state, items.len());
        items.extend(questions(94..97));
        items.push(item(Role::User, "next"));
        let mut next = continued(&request(items.clone()), form, before);
        assert!(!next.is_kept(), "the old and the new entries together are too many");
        let run = decode(&next.first_frame(false, None));
        let roots = run.conversation_state.unwrap().root_prompt_messages_json.len();
        assert!(roots <= USUAL_MAX_ROOTS * 2 / 3 + 2, "{roots}");

        for n in 0..20 {
            let answer = item(Role::Assistant, &format!("later answer {n}."));
            let state = next.first_state();
            let state = next.append(&state, std::slice::from_ref(&answer));
            items.push(answer);
            next.blobs.all_fresh();
            let before = kept(&mut next, state, items.len());
            items.push(item(Role::User, &format!("later question {n}.")));
            next = continued(&request(items.clone()), form, before);
            assert!(next.is_kept(), "{form:?}: turn {n}");
        }
    }
}

/// Only ibeam has the history of such a request, in the state.
#[test]
fn section_1_3_a_state_of_ours_is_shortened_where_the_request_has_no_history() {
    for form in OURS {
        let (mut spec, ..) = built_in(form, questions(0..90).collect());
        let mut state = spec.first_state().to_vec();
        // A field that the schema does not have stays.
        state.extend_from_slice(b"\x9a\x06\x03new");
        let call = ToolCall { id: "c".into(), name: "read".into(), arguments: "{}".into() };
        let result = ToolResult {
            call_id: "c".into(),
            content: vec![Part::Text("contents".into())],
            is_error: false,
        };
        let mut items = vec![Item::ToolCall(call), Item::ToolResult(result)];
        items.extend(questions(90..94));
        let state = spec.append(&state.into(), &items);
        assert!(count(&state) <= USUAL_MAX_ROOTS, "{}", count(&state));
        let before = kept(&mut spec, state, 0);
        let asked = request((0..6).map(|n| item(Role::User, &format!("new {n}."))).collect());
        let next = continued(&asked, form, before);
        let RunState::Kept(state) = &next.state else { panic!("{form:?}") };
        assert!(count(state) <= USUAL_MAX_ROOTS * 2 / 3 + 6, "{form:?}: {}", count(state));
        assert!(state.windows(6).any(|window| window == b"\x9a\x06\x03new"));
        let entries = entries_of(&next, state);
        let all = serde_json::Value::Array(entries.clone()).to_string();
        for part in ["Be kind.", "earlier_conversation", "contents", "new 0."] {
            assert!(all.contains(part), "{form:?}: {part} is lost: {all}");
        }
        for n in 0..94 {
            let text = format!("question {n}.");
            assert!(all.contains(&text) && all.contains(&format!("answer {n}.")), "{text}");
        }
        let first = &entries[next.prompt_of(state).entries() + 1];
        assert_ne!(first["role"], "tool", "a result without its call");
    }
}

/// The service shortens its own prompts.
#[test]
fn section_1_3_a_state_of_the_services_own_has_room() {
    let (mut spec, ..) = built_in(HistoryForm::RulesRoots, questions(0..150).collect());
    let state = spec.first_state();
    let items: Vec<Item> = questions(150..151).collect();
    assert!(count(&state) > USUAL_MAX_ROOTS && spec.has_room(&state, &items, 1));
    assert_eq!(count(&spec.append(&state, &items)), count(&state) + 2);
}
