//! The switches of the service's behaviour: each is seen to change what a client gets.

mod documented;
mod lifecycle;
mod roots;
mod tools;
mod wire;

use bytes::Bytes;
use ibeam_core::codec::connect::ConnectError;
use ibeam_proto::agent::{
    AgentConversationTurnStructure, AgentRunRequest, ConversationStateStructure,
    ConversationTurnStructure, RequestedModel, conversation_turn_structure,
};
use ibeam_sim::{BehaviourChanges, Preset, Scenario, Sim, SimConfig};
use prost::Message as _;
use serde_json::{Value, json};

use crate::peer::{self, Ended, Heard, Peer};

/// A simulator with the preset `autumn` and these changes.
fn autumn(changes: &[(&str, &str)]) -> Sim {
    scripted(changes, "")
}

/// The same with a scenario.
fn scripted(changes: &[(&str, &str)], scenario: &str) -> Sim {
    let mut behaviour = BehaviourChanges::from(Preset::Autumn);
    for (name, value) in changes {
        behaviour = behaviour.with(name, value).unwrap();
    }
    let config = SimConfig::scenario(Scenario::from_toml(scenario).unwrap());
    Sim::new(SimConfig { behaviour, ..config })
}

/// A client that offers a shell.
fn with_bash(sim: &Sim) -> Peer {
    Peer::new(sim).tool("bash", Bytes::new())
}

fn entry(role: &str, text: &str) -> Value {
    match role {
        "system" => json!({ "role": role, "content": text }),
        _ => json!({ "role": role, "content": [{ "type": "text", "text": text }] }),
    }
}

/// A request with these root entries and one turn.
fn with_roots(peer: &mut Peer, text: &str, entries: &[Value]) -> AgentRunRequest {
    let mut request = peer.request(text);
    let user_message = peer.put_blob(&b"the user's message of the turn"[..]);
    let turn = ConversationTurnStructure {
        turn: Some(conversation_turn_structure::Turn::AgentConversationTurn(
            AgentConversationTurnStructure {
                user_message,
                ..AgentConversationTurnStructure::default()
            },
        )),
    };
    request.conversation_state = Some(ConversationStateStructure {
        root_prompt_messages_json: entries
            .iter()
            .map(|entry| peer.put_blob(entry.to_string()))
            .collect(),
        turns: vec![peer.put_blob(turn.encode_to_vec())],
        ..ConversationStateStructure::default()
    });
    request
}

/// The same as a resume.
fn resumed(peer: &mut Peer, entries: &[Value]) -> AgentRunRequest {
    peer::resume(with_roots(peer, "", entries))
}

fn with_model(mut request: AgentRunRequest, model: &str) -> AgentRunRequest {
    let model_id = model.to_owned();
    request.requested_model = Some(RequestedModel { model_id, ..RequestedModel::default() });
    request
}

fn state(request: &mut AgentRunRequest) -> &mut ConversationStateStructure {
    request.conversation_state.as_mut().unwrap()
}

#[track_caller]
fn error(heard: Heard) -> ConnectError {
    match heard.ended {
        Some(Ended::Error(error)) => error,
        other => panic!("{other:?}, {}", heard.text),
    }
}

#[track_caller]
fn answered(heard: &Heard) {
    assert_eq!(heard.ended, Some(Ended::EndFrame), "{}", heard.text);
    assert!(!heard.text.is_empty());
}

/// The JSON of a checkpoint's entries.
fn entries_of(peer: &Peer, state: &ConversationStateStructure) -> Vec<Value> {
    let ids = state.root_prompt_messages_json.iter();
    let blob = |id| peer.blobs.get(id).unwrap();
    ids.map(|id| serde_json::from_slice(blob(id)).unwrap()).collect()
}
