use serde_json::Value;

use super::*;
use crate::{
    model::{ToolCall, ToolResult},
    peer::agent::{
        forms::HistorySetting,
        request::tests::{asked, decode, item, request, spec_in},
    },
};
use ibeam_proto::agent::{AgentRunRequest, conversation_action::Action};

const SYSTEM: &str = "Be brief.\n\nBe kind.";

fn with_tool() -> Vec<Item> {
    vec![
        item(Role::User, "read a.txt"),
        Item::ToolCall(ToolCall {
            id: "c1".into(),
            name: "read".into(),
            arguments: r#"{"path":"a.txt"}"#.into(),
        }),
        Item::ToolResult(ToolResult {
            call_id: "c1".into(),
            content: vec![Part::Text("hello".into())],
            is_error: false,
        }),
    ]
}

pub(in crate::peer::agent) fn built_in(
    form: HistoryForm,
    items: Vec<Item>,
) -> (RunSpec, AgentRunRequest, Vec<Value>) {
    let spec = spec_in(&request(items), HistorySetting::Only(form));
    let run = decode(&spec.first_frame(false, None));
    let roots = run.conversation_state.clone().unwrap().root_prompt_messages_json;
    let entry = |id: &Bytes| serde_json::from_slice(&spec.blobs.get(id).unwrap()).unwrap();
    let entries = roots.iter().map(entry).collect();
    (spec, run, entries)
}

fn roles(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["role"].as_str().unwrap()).collect()
}

#[test]
fn section_1_6_resume_roots_replay_all_of_the_prompt_with_one_turn() {
    let (_, run, entries) = built_in(HistoryForm::ResumeRoots, with_tool());
    assert_eq!(roles(&entries), ["system", "user", "assistant", "tool"]);
    let system = entries[0]["content"].as_str().unwrap();
    assert!(system.starts_with(SYSTEM) && system.contains(r#""toolName":"read_tool""#), "{system}");
    assert_eq!(entries[1]["content"][0]["text"], "read a.txt", "no markers");
    let call = &entries[2]["content"][0];
    assert_eq!(call["toolName"], "CallDynamicTool");
    assert_eq!(call["args"]["toolName"], "read_tool");
    assert_eq!(call["args"]["arguments"]["path"], "a.txt");
    assert_eq!(entries[3]["content"][0]["toolCallId"], call["toolCallId"]);
    let state = run.conversation_state.unwrap();
    assert_eq!(
        (state.turns.len(), state.mode, state.agent_type.as_deref()),
        (1, Some(1), Some("cli"))
    );
    let Some(Action::ResumeAction(action)) = run.action.unwrap().action else { panic!() };
    let context = action.request_context.unwrap();
    assert!(context.rules.is_empty() && context.cloud_rule.is_none(), "said once");
    assert_eq!((context.tools.len(), context.mcp_info_complete), (1, Some(true)));
    assert!(context.env.is_some() && context.mcp_meta_tool_options.is_some());
}

#[test]
fn section_1_6_a_question_at_the_end_is_the_last_entry_of_resume_roots() {
    let items = vec![item(Role::User, "q"), item(Role::Assistant, "a"), item(Role::User, "next")];
    let (_, run, entries) = built_in(HistoryForm::ResumeRoots, items);
    assert_eq!(roles(&entries), ["system", "user", "assistant", "user"]);
    assert_eq!(entries[3]["content"][0]["text"], "next");
    assert!(matches!(run.action.unwrap().action, Some(Action::ResumeAction(_))));
}

#[test]
fn section_1_6_user_roots_have_rules_and_marked_questions_and_an_action_of_the_user() {
    let (spec, run, entries) = built_in(HistoryForm::UserRoots, with_tool());
    assert_eq!(roles(&entries), ["system", "user", "user", "assistant", "tool"]);
    let rules = entries[1]["content"][0]["text"].as_str().unwrap();
    assert!(rules.starts_with("<rules>\nBe brief.") && rules.contains(r#""toolName":"read_tool""#));
    let question = entries[2]["content"][0]["text"].as_str().unwrap();
    assert_eq!(question, "<user_query>\nread a.txt\n</user_query>");
    assert!(run.conversation_state.as_ref().unwrap().turns.is_empty());
    assert_eq!(asked(run).as_deref(), Some(USE_RESULTS));
    assert!(spec.context().rules.is_empty(), "rules are not rendered behind a history");

    let items = vec![item(Role::User, "q"), item(Role::Assistant, "a"), item(Role::User, "next")];
    let (_, run, entries) = built_in(HistoryForm::UserRoots, items);
    assert_eq!(entries.len(), 4);
    assert_eq!(asked(run).as_deref(), Some("next"), "the service marks it itself");
}

#[test]
fn section_1_6_a_transcript_needs_no_state() {
    let (spec, run, entries) = built_in(HistoryForm::Transcript, with_tool());
    assert!(entries.is_empty());
    let text = asked(run).unwrap();
    for part in ["read a.txt", r#""path":"a.txt""#, "hello", USE_RESULTS] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(spec.context().rules[0].content, SYSTEM, "rules work with an empty state");
}

#[test]
fn section_1_2_without_a_history_the_system_prompt_is_a_rule_in_every_form() {
    for form in HistoryForm::ALL {
        let (spec, run, entries) = built_in(form, vec![item(Role::User, "hi")]);
        assert!(entries.is_empty(), "{form:?}");
        assert_eq!(spec.context().rules[0].content, SYSTEM);
        assert_eq!(asked(run).as_deref(), Some("hi"));
    }
}

#[test]
fn section_1_3_an_empty_system_prompt_is_never_sent() {
    let mut bare = request(with_tool());
    (bare.system, bare.tools) = (vec![], vec![]);
    for form in [HistoryForm::ResumeRoots, HistoryForm::UserRoots] {
        let spec = spec_in(&bare, HistorySetting::Only(form));
        let run = decode(&spec.first_frame(false, None));
        let roots = run.conversation_state.unwrap().root_prompt_messages_json;
        for id in roots.iter().take(2) {
            let entry: Value = serde_json::from_slice(&spec.blobs.get(id).unwrap()).unwrap();
            let text = entry["content"].as_str().or_else(|| entry["content"][0]["text"].as_str());
            assert!(text.is_some_and(|text| !text.trim().is_empty()), "{form:?}: {entry}");
        }
    }
}

/// A state that the service kept after a run whose prompt was ours.
pub(in crate::peer::agent) fn kept_of(spec: &mut RunSpec, new_setup: bool) -> StoredState {
    let checkpoint = spec.first_state();
    let blobs = spec.blobs.take_fresh();
    StoredState { checkpoint, blobs, covers: 3, calls: Vec::new(), new_setup }
}

#[test]
fn section_1_2_a_state_with_our_prompt_is_resumed_and_gets_no_user_message() {
    let mut items = with_tool();
    let (mut spec, ..) = built_in(HistoryForm::ResumeRoots, items.clone());
    items.push(item(Role::User, "and b.txt?"));
    for new_setup in [false, true] {
        let kept = kept_of(&mut spec, new_setup);
        let mut request = request(items.clone());
        if new_setup {
            request.system = vec!["Be long.".into()];
        }
        let mut next = spec_in(&request, HistorySetting::Auto);
        next.continue_kept(&request, kept);
        let frame = next.first_frame(false, None);
        let run = decode(&frame);
        assert_eq!(run.client_supports_inline_images, Some(true), "the kept part may have some");
        assert!(matches!(run.action.unwrap().action, Some(Action::ResumeAction(_))));
        let state = run.conversation_state.unwrap();
        let entries: Vec<Value> = state
            .root_prompt_messages_json
            .iter()
            .map(|id| serde_json::from_slice(&next.blobs.get(id).unwrap()).unwrap())
            .collect();
        assert_eq!(roles(&entries), ["system", "user", "assistant", "tool", "user"]);
        let system = entries[0]["content"].as_str().unwrap();
        assert!(system.starts_with(if new_setup { "Be long." } else { "Be brief." }), "{system}");
        assert_eq!(entries[4]["content"][0]["text"], "and b.txt?");
        assert_eq!(state.turns.len(), 2, "one for each question");
        assert!(next.context().rules.is_empty());
        // The blobs are taken once.
        spec = built_in(HistoryForm::ResumeRoots, with_tool()).0;
    }
}

#[test]
fn section_1_6_a_failed_run_is_tried_once_in_another_form() {
    let asked = request(with_tool());
    let mut spec = spec_in(&asked, HistorySetting::Auto);
    let roots = |spec: &RunSpec| {
        let state = decode(&spec.first_frame(false, None)).conversation_state;
        state.unwrap().root_prompt_messages_json.len()
    };
    assert_eq!(roots(&spec), 4, "resume-roots");
    assert!(spec.use_other_form());
    spec.rebuild(&asked);
    assert_eq!(roots(&spec), 5, "user-roots");
    assert!(!spec.use_other_form());
    assert_eq!(spec.memory.of("gpt-5.5").history, None, "not before it worked");
    spec.learn();
    assert_eq!(spec.memory.of("gpt-5.5").history, Some(HistoryForm::UserRoots));
}

/// The entries of a kept state.
pub(in crate::peer::agent) fn entries_of(spec: &RunSpec, state: &[u8]) -> Vec<Value> {
    let blob = |id: &[u8]| serde_json::from_slice(&spec.blobs.get(id).unwrap()).unwrap();
    state::root_ids(state).map(blob).collect()
}

fn turns_of(state: &Bytes) -> usize {
    ConversationStateStructure::from_wire(state.clone()).unwrap().turns.len()
}

/// Behind a history the service reads no rules from the request context, and without a turn it
/// answers with nothing.
#[test]
fn section_1_2_a_state_of_our_own_has_the_system_prompt_and_a_turn() {
    for (form, first) in [
        (HistoryForm::ResumeRoots, &["system", "user"][..]),
        (HistoryForm::UserRoots, &["system", "user", "user"]),
        (HistoryForm::Transcript, &["system", "user", "user"]),
    ] {
        let (mut spec, ..) = built_in(form, vec![item(Role::User, "hi")]);
        let state = spec.first_state();
        let entries = entries_of(&spec, &state);
        assert_eq!((roles(&entries).as_slice(), turns_of(&state)), (first, 1), "{form:?}");
        assert!(entries[first.len() - 2].to_string().contains("Be kind."), "{form:?}");
        assert!(entries.last().unwrap().to_string().contains("hi"), "{form:?}");

        // A run that continues from it does not say the system prompt a second time.
        let mut next = spec_in(&request(with_tool()), HistorySetting::Only(form));
        for (id, data) in spec.blobs.take_fresh() {
            next.blobs.restore(id, data);
        }
        next.continue_from(state);
        assert!(next.context().rules.is_empty(), "{form:?}");
        let run = decode(&next.first_frame(false, None));
        let resumes = matches!(&run.action.as_ref().unwrap().action, Some(Action::ResumeAction(_)));
        assert_eq!(resumes, form == HistoryForm::ResumeRoots, "{form:?}");
        if !resumes {
            assert_eq!(asked(run).as_deref(), Some(USE_RESULTS));
        }
    }
}

/// A state of the service's has its own system prompt and rules.
fn state_of_the_service(blobs: &mut crate::peer::agent::blobs::Blobs) -> Bytes {
    let entries = ["system", "user"].map(|role| {
        blobs.put(serde_json::json!({ "role": role, "content": "of the service" }).to_string())
    });
    state::with_entries(&state::empty().to_wire(), entries.to_vec())
}

#[test]
fn section_1_2_another_system_prompt_is_an_entry_where_the_service_reads_no_rules() {
    let items = vec![item(Role::User, "q"), item(Role::Assistant, "a"), item(Role::User, "next")];
    let mut changed = request(items);
    changed.system = vec!["Be long.".into()];
    for form in [HistoryForm::ResumeRoots, HistoryForm::UserRoots] {
        let mut spec = spec_in(&changed, HistorySetting::Only(form));
        let checkpoint = state_of_the_service(&mut spec.blobs);
        let new_setup = StoredState {
            checkpoint,
            blobs: Vec::new(),
            covers: 2,
            calls: Vec::new(),
            new_setup: true,
        };
        spec.continue_kept(&changed, new_setup);
        let RunState::Kept(state) = &spec.state else { panic!() };
        let entries = entries_of(&spec, state);
        let text = entries[2]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(NEW_RULES) && text.contains("Be long."), "{text}");

        // The next change takes its place where it is the second entry, as in a rebuilt state.
        let (mut built, ..) = built_in(HistoryForm::UserRoots, with_tool());
        let mut kept = kept_of(&mut built, true);
        kept.covers = 0;
        let mut spec = spec_in(&changed, HistorySetting::Only(form));
        spec.continue_kept(&changed, kept);
        let RunState::Kept(state) = &spec.state else { panic!() };
        let entries = entries_of(&spec, state);
        let all = Value::Array(entries.clone()).to_string();
        assert!(entries[1].to_string().contains("Be long."), "{all}");
        assert_eq!(all.matches("<rules>").count(), 1, "{all}");
    }
}
