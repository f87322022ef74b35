use prost::Message as _;

use super::*;
use crate::model::{
    Dialect, Hints, Item, Message, Part, Role, Sampling, Tool, ToolCall, ToolChoice, ToolResult,
};
use crate::peer::{agent::forms::HistoryForm, conversation::GO_ON};

pub(in crate::peer::agent) fn item(role: Role, text: &str) -> Item {
    Item::Message(Message { role, parts: vec![Part::Text(text.into())] })
}

pub(in crate::peer::agent) fn request(items: Vec<Item>) -> TurnRequest {
    TurnRequest {
        model: "auto".into(),
        system: vec!["Be brief.".into(), "Be kind.".into()],
        items,
        tools: vec![Tool { name: "read".into(), description: "Reads".into(), schema: None }],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    }
}

fn spec(request: &TurnRequest) -> RunSpec {
    spec_in(request, HistorySetting::Only(HistoryForm::RulesRoots))
}

pub(in crate::peer::agent) fn spec_in(request: &TurnRequest, history: HistorySetting) -> RunSpec {
    let model = ModelPick {
        id: "gpt-5.5".into(),
        parameters: vec![("reasoning".into(), "high".into())],
        max_mode: false,
    };
    let plan = Plan {
        model,
        conversation_id: "22222222-2222-4222-8222-222222222222".into(),
        surroundings: Arc::new(Surroundings::new(
            request,
            &Environment { os_version: "linux".into(), ..Environment::default() },
            Permissions::default(),
            true,
        )),
        limits: BlobLimits::default(),
        inline_context: false,
        kept: None,
        history,
        memory: Arc::default(),
        signed: Vec::new(),
        scope: [0; 32],
        run_seed: "turn".into(),
        host_changes: Some(0),
    };
    RunSpec::new(request, plan)
}

pub(in crate::peer::agent) fn decode(frame: &Bytes) -> AgentRunRequest {
    let message = AgentClientMessage::decode(frame.slice(5..)).unwrap().message;
    match message {
        Some(agent_client_message::Message::RunRequest(run)) => run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn new_chat_sends_an_empty_state() {
    let run = decode(&spec(&request(vec![item(Role::User, "hi")])).first_frame(false, None));
    let state = run.conversation_state.unwrap();
    assert!(state.root_prompt_messages_json.is_empty() && state.turns.is_empty());
    let Some(conversation_action::Action::UserMessageAction(action)) = run.action.unwrap().action
    else {
        panic!()
    };
    let message = action.user_message.unwrap();
    assert_eq!((message.text.as_str(), message.mode), ("hi", 1));
    assert_eq!(action.request_context, None);
    assert_eq!(run.model_details.unwrap().model_id, "gpt-5.5");
    let model = run.requested_model.unwrap();
    assert_eq!(model.parameters[0].id, "reasoning");
    assert_eq!(model.parameters[0].value, "high");
    assert_eq!(run.mcp_tools.unwrap().mcp_tools[0].name, "read_tool");
    assert_eq!(run.custom_system_prompt, None, "refused for most accounts");
}

#[test]
fn system_prompt_is_sent_as_cloud_rule_and_rule() {
    let run = decode(&spec(&request(vec![item(Role::User, "hi")])).first_frame(true, None));
    let Some(conversation_action::Action::UserMessageAction(action)) = run.action.unwrap().action
    else {
        panic!()
    };
    let context = action.request_context.unwrap();
    assert_eq!(context.cloud_rule.as_deref(), Some("Be brief.\n\nBe kind."));
    assert_eq!(context.rules[0].content, "Be brief.\n\nBe kind.");
    assert_eq!(context.rules[0].source, 2);
    assert_eq!(context.tools.len(), 1);
    assert_eq!(context.mcp_instructions[0].server_name, "ibeam");
    assert_eq!(context.web_search_enabled, Some(false));
}

#[test]
fn tool_results_at_the_end_resume_the_conversation() {
    let result = Item::ToolResult(ToolResult {
        call_id: "c".into(),
        content: vec![Part::Text("12C".into())],
        is_error: false,
    });
    let run =
        decode(&spec(&request(vec![item(Role::User, "hi"), result])).first_frame(false, None));
    let action = run.action.unwrap().action;
    assert!(matches!(action, Some(conversation_action::Action::ResumeAction(_))));
    assert_eq!(run.conversation_state.unwrap().root_prompt_messages_json.len(), 2);
}

pub(in crate::peer::agent) fn asked(run: AgentRunRequest) -> Option<String> {
    match run.action?.action? {
        conversation_action::Action::UserMessageAction(action) => Some(action.user_message?.text),
        _ => None,
    }
}

#[test]
fn history_that_ends_with_an_answer_asks_to_continue_it() {
    let items = vec![item(Role::User, "count"), item(Role::Assistant, "one, two,")];
    let run = decode(&spec(&request(items.clone())).first_frame(false, None));
    let roots = run.conversation_state.as_ref().map(|s| s.root_prompt_messages_json.len());
    assert_eq!((roots, asked(run).as_deref()), (Some(2), Some(GO_ON)), "nothing is resumed");

    let (_, run, _) = continued(&request(items), kept(2, Vec::new()));
    let roots = run.conversation_state.as_ref().map(|s| s.root_prompt_messages_json.len());
    assert_eq!((roots, asked(run).as_deref()), (Some(1), Some(GO_ON)), "all of it is kept");
}

#[test]
fn instructions_alone_are_the_question() {
    let run = decode(&spec(&request(vec![])).first_frame(true, None));
    let Some(conversation_action::Action::UserMessageAction(action)) = run.action.unwrap().action
    else {
        panic!()
    };
    assert_eq!(action.user_message.unwrap().text, "Be kind.");
    assert_eq!(action.request_context.unwrap().cloud_rule.as_deref(), Some("Be brief."));
}

#[test]
fn tool_choice_none_offers_nothing() {
    let mut request = request(vec![item(Role::User, "hi")]);
    request.tool_choice = ToolChoice::None;
    let run = decode(&spec(&request).first_frame(false, None));
    assert_eq!(run.mcp_tools, None);
}

#[test]
fn the_documented_minimal_request_has_the_same_meaning() {
    // A run request with "hi", model `default`, mode 1 and an empty state.
    let hex = "0a650a0012300a2e0a2c0a026869122431313131313131312d313131312d343131312d383131312d\
               31313131313131313131313120011a090a0764656661756c742a2432323232323232322d32323232\
               2d343232322d383232322d323232323232323232323232";
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let Some(agent_client_message::Message::RunRequest(want)) =
        AgentClientMessage::decode(&bytes[..]).unwrap().message
    else {
        panic!()
    };
    let mut request = request(vec![item(Role::User, "hi")]);
    (request.system, request.tools) = (vec![], vec![]);
    let mut spec = spec(&request);
    spec.model = ModelPick { id: "default".into(), ..ModelPick::default() };
    let mut ours = decode(&spec.first_frame(false, None));
    // Ours names the mode in the state and the model in the modern place as well,
    // and has a message id of its own.
    ours.requested_model = None;
    // Said always, because images may be in what is kept.
    assert_eq!(ours.client_supports_inline_images.take(), Some(true));
    // Ids that came later.
    assert!(ours.conversation_group_id.take().is_some() && ours.run_id.take().is_some());
    let details = ours.model_details.as_mut().unwrap();
    assert_eq!([&details.display_model_id, &details.display_name], ["default"; 2]);
    details.display_model_id.clear();
    details.display_name.clear();
    ours.conversation_state.as_mut().unwrap().mode = None;
    if let Some(conversation_action::Action::UserMessageAction(action)) =
        &mut ours.action.as_mut().unwrap().action
    {
        action.user_message.as_mut().unwrap().message_id =
            "11111111-1111-4111-8111-111111111111".into();
    }
    assert_eq!(ours, want);
}

// === from a kept state ===

fn kept(covers: usize, calls: Vec<ToolCall>) -> StoredState {
    let state = ConversationStateStructure {
        root_prompt_messages_json: vec![Bytes::from_static(b"old")],
        ..ConversationStateStructure::default()
    };
    // A field that our schema does not have must come back too.
    let mut checkpoint = state.encode_to_vec();
    checkpoint.extend([0xf8, 0x3f, 0x01]);
    StoredState {
        checkpoint: checkpoint.into(),
        blobs: vec![("old".into(), "kept blob".into())],
        covers,
        calls,
        new_setup: false,
    }
}

fn continued(request: &TurnRequest, kept: StoredState) -> (RunSpec, AgentRunRequest, Bytes) {
    let RunSpec { around, conversation_id, model, .. } = spec(request);
    let plan = Plan {
        model,
        conversation_id,
        surroundings: around,
        limits: BlobLimits::default(),
        inline_context: false,
        kept: Some(kept),
        history: HistorySetting::Only(HistoryForm::RulesRoots),
        memory: Arc::default(),
        signed: Vec::new(),
        scope: [0; 32],
        run_seed: "turn".into(),
        host_changes: Some(0),
    };
    let spec = RunSpec::new(request, plan);
    let frame = spec.first_frame(false, None);
    let run = decode(&frame);
    (spec, run, frame)
}

fn contains(frame: &[u8], part: &[u8]) -> bool {
    frame.windows(part.len()).any(|window| window == part)
}

#[test]
fn stored_state_is_returned_byte_for_byte_with_only_the_new_message() {
    let items = vec![item(Role::User, "q"), item(Role::Assistant, "a"), item(Role::User, "next")];
    let kept = kept(2, Vec::new());
    let bytes = kept.checkpoint.clone();
    let (mut spec, run, frame) = continued(&request(items), kept);
    assert!(contains(&frame, &bytes), "unknown fields included");
    assert_eq!(run.conversation_state.unwrap().root_prompt_messages_json.len(), 1);
    assert!(format!("{:?}", run.action).contains("next"));
    assert_eq!(spec.blobs.get(b"old"), Some(Bytes::from_static(b"kept blob")));
    assert_eq!(spec.blobs.take_fresh(), [], "nothing new to store");
}

#[test]
fn results_without_their_history_follow_the_calls_that_were_kept() {
    let result = Item::ToolResult(ToolResult {
        call_id: "c1".into(),
        content: vec![Part::Text("42".into())],
        is_error: false,
    });
    let call = ToolCall { id: "c1".into(), name: "bash".into(), arguments: "{}".into() };
    let (spec, run, _) = continued(&request(vec![result]), kept(0, vec![call]));
    let roots = run.conversation_state.unwrap().root_prompt_messages_json;
    assert_eq!(roots.len(), 3, "the kept one, the call, its result");
    let texts: Vec<Bytes> = roots.iter().filter_map(|id| spec.blobs.get(id)).collect();
    let texts = String::from_utf8(texts.concat()).unwrap();
    assert!(texts.contains("tool-call") && texts.contains("42"), "{texts}");
    let action = run.action.unwrap().action.unwrap();
    assert!(matches!(action, conversation_action::Action::ResumeAction(_)));
}

#[test]
fn rejected_state_is_replaced_by_the_history() {
    let items = vec![item(Role::User, "q"), item(Role::Assistant, "a"), item(Role::User, "next")];
    let request = request(items);
    let (mut spec, ..) = continued(&request, kept(2, Vec::new()));
    spec.rebuild(&request);
    let run = decode(&spec.first_frame(false, None));
    assert_eq!(run.conversation_state.unwrap().root_prompt_messages_json.len(), 2);
}
