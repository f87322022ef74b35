use bytes::Bytes;
use ibeam_proto::agent::{
    ConversationAction, ConversationStateStructure, McpTools, RequestedModel, UserMessageAction,
};

use super::*;
use crate::protobuf::unhex;

fn good() -> AgentRunRequest {
    AgentRunRequest {
        conversation_state: Some(ConversationStateStructure::default()),
        action: Some(ConversationAction {
            action: Some(Action::UserMessageAction(UserMessageAction::default())),
        }),
        requested_model: Some(RequestedModel {
            model_id: "default".to_owned(),
            ..RequestedModel::default()
        }),
        ..AgentRunRequest::default()
    }
}

#[track_caller]
fn check(edit: impl FnOnce(&mut AgentRunRequest), code: Code, part: &str) {
    let mut bad = good();
    edit(&mut bad);
    let error = request(&bad, &Quirks::default(), &Behaviour::default()).unwrap_err();
    assert_eq!(error.code, code);
    assert!(error.message.contains(part), "{}", error.message);
}

#[test]
fn requests_are_refused_as_in_the_service() {
    assert!(request(&good(), &Quirks::default(), &Behaviour::default()).is_ok());
    let state = "Conversation state is required";
    check(|r| r.conversation_state = None, Code::InvalidArgument, state);
    check(|r| r.custom_system_prompt = Some("x".into()), Code::InvalidArgument, "system-prompt");
    check(|r| r.exclude_workspace_context = Some(true), Code::InvalidArgument, "Workspace");
    check(|r| r.action = None, Code::InvalidArgument, "Action");
    check(|r| r.requested_model.as_mut().unwrap().model_id = "nope".into(), Code::NotFound, "nope");
    // A bare Struct where a Value belongs.
    let tool = McpToolDefinition {
        name: "t".to_owned(),
        input_schema: Bytes::from(unhex("0a100a047479706512081a066f626a656374").unwrap()),
        ..McpToolDefinition::default()
    };
    check(
        |r| r.mcp_tools = Some(McpTools { mcp_tools: vec![tool] }),
        Code::InvalidArgument,
        "invalid end group tag",
    );
}

#[test]
fn switches_allow_refused_requests() {
    let tool = McpToolDefinition {
        name: "t".to_owned(),
        input_schema: Bytes::from(unhex("0a100a047479706512081a066f626a656374").unwrap()),
        ..McpToolDefinition::default()
    };
    let mut bad = good();
    bad.custom_system_prompt = Some("x".to_owned());
    bad.exclude_workspace_context = Some(true);
    bad.requested_model.as_mut().unwrap().model_id = "nope".to_owned();
    bad.mcp_tools = Some(McpTools { mcp_tools: vec![tool] });
    let all = [
        Quirk::CustomPromptOk,
        Quirk::WorkspaceExclusionOk,
        Quirk::UnknownModelOk,
        Quirk::RawStructOk,
    ];
    assert!(request(&bad, &all.into_iter().collect(), &Behaviour::default()).is_ok());
    // Each of the switches is needed.
    for left_out in all {
        let quirks = all.into_iter().filter(|quirk| *quirk != left_out).collect();
        assert!(request(&bad, &quirks, &Behaviour::default()).is_err(), "{left_out:?}");
    }
}

#[test]
fn call_ids_in_history_are_validated() {
    assert!(good_call_id("call_97227667"));
    for bad in ["", "call_x\nfc_y", "a.b", &"x".repeat(65)] {
        assert!(!good_call_id(bad), "{bad:?}");
    }
}
