//! The byte vectors of the protocol notes: each decodes to what it says, and what we
//! encode for the same meaning is the same again.

use bytes::Bytes;
use ibeam_core::codec::connect::{self, Decoder, Envelope};
use ibeam_proto::{
    agent::{
        AgentClientMessage, AgentRunRequest, AgentServerMessage, CancelAction, ClientHeartbeat,
        ConversationAction, ConversationStateStructure, Empty, ExecClientControlMessage,
        ExecClientMessage, ExecClientStreamClose, ExecClientThrow, ExecServerMessage, GetBlobArgs,
        GetBlobResult, HeartbeatUpdate, InteractionResponse, InteractionUpdate, KvClientMessage,
        KvServerMessage, McpArgs, ModelDetails, RequestContext, RequestContextArgs,
        RequestContextEnv, RequestContextResult, RequestContextSuccess, ResumeAction, SetBlobArgs,
        SetBlobResult, TextDeltaUpdate, ThinkingDeltaUpdate, TokenDeltaUpdate, TurnEndedUpdate,
        UserMessage, UserMessageAction, WebSearchRequestResponse,
        agent_client_message::Message as C, agent_server_message::Message as S,
        conversation_action::Action, exec_client_control_message as control,
        exec_client_message as result, exec_server_message as exec, interaction_response,
        interaction_update::Message as Update, kv_client_message as kv_client,
        kv_server_message as kv_server, request_context_result, web_search_request_response,
    },
    aiserver::{BidiAppendRequest, BidiRequestId},
};
use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::peer::mcp_text;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

const CONVERSATION: &str = "22222222-2222-4222-8222-222222222222";
const REQUEST: &str = "33333333-3333-4333-8333-333333333333";
const SYSTEM: &[u8] = br#"{"role":"system","content":"x"}"#;
const RUN: &str = "0a650a0012300a2e0a2c0a026869122431313131313131312d313131312d343131312d383131312d31313131313131313131313120011a090a0764656661756c742a2432323232323232322d323232322d343232322d383232322d323232323232323232323232";

#[track_caller]
fn same<M: Message + Default + PartialEq + std::fmt::Debug>(hex: &str, meaning: &M) {
    let bytes = unhex(hex);
    assert_eq!(&M::decode(&bytes[..]).unwrap(), meaning, "decodes");
    // Fields may come in any order, so the decoded messages are compared.
    assert_eq!(&M::decode(&meaning.encode_to_vec()[..]).unwrap(), meaning, "encodes");
    assert_eq!(meaning.encoded_len(), bytes.len(), "no byte more or less");
}

#[track_caller]
fn client(hex: &str, message: C) {
    same(hex, &AgentClientMessage { message: Some(message) });
}

#[track_caller]
fn server(hex: &str, message: S) {
    same(hex, &AgentServerMessage { message: Some(message), ..AgentServerMessage::default() });
}

#[track_caller]
fn update(hex: &str, update: Update) {
    server(
        hex,
        S::InteractionUpdate(InteractionUpdate {
            message: Some(update),
            ..InteractionUpdate::default()
        }),
    );
}

fn blob_id() -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(SYSTEM))
}

fn run_request() -> C {
    C::RunRequest(AgentRunRequest {
        conversation_state: Some(ConversationStateStructure::default()),
        action: Some(ConversationAction {
            action: Some(Action::UserMessageAction(UserMessageAction {
                user_message: Some(UserMessage {
                    text: "hi".to_owned(),
                    message_id: "11111111-1111-4111-8111-111111111111".to_owned(),
                    mode: 1,
                    ..UserMessage::default()
                }),
                ..UserMessageAction::default()
            })),
        }),
        model_details: Some(ModelDetails {
            model_id: "default".to_owned(),
            ..ModelDetails::default()
        }),
        conversation_id: Some(CONVERSATION.to_owned()),
        ..AgentRunRequest::default()
    })
}

#[test]
fn runs_and_heartbeats() {
    client(RUN, run_request());
    client("3a00", C::ClientHeartbeat(ClientHeartbeat {}));
    let framed = connect::encode(&AgentClientMessage { message: Some(run_request()) });
    assert_eq!(framed, unhex(&format!("0000000067{RUN}")));
    let beat = AgentClientMessage { message: Some(C::ClientHeartbeat(ClientHeartbeat {})) };
    assert_eq!(connect::encode(&beat), unhex("00000000023a00"));
    update("0a026a00", Update::Heartbeat(HeartbeatUpdate {}));
    assert_eq!(connect::frame(0, &unhex("0a026a00")), unhex("00000000040a026a00"));
}

#[test]
fn updates() {
    let text = |text: &str| text.to_owned();
    update(
        "0a090a070a0548656c6c6f",
        Update::TextDelta(TextDeltaUpdate { text: text("Hello"), ..TextDeltaUpdate::default() }),
    );
    update(
        "0a0622040a02486d",
        Update::ThinkingDelta(ThinkingDeltaUpdate {
            text: text("Hm"),
            ..ThinkingDeltaUpdate::default()
        }),
    );
    update("0a0442020803", Update::TokenDelta(TokenDeltaUpdate { tokens: 3 }));
    let ended = TurnEndedUpdate {
        input_tokens: Some(100),
        output_tokens: Some(20),
        ..TurnEndedUpdate::default()
    };
    update("0a06720408641014", Update::TurnEnded(ended));
}

#[test]
fn blobs() {
    let id = "83237f3a3f22696de23a89cb52ecfc7a208c11acf3d07a7d039126039140d8c3";
    assert_eq!(blob_id(), unhex(id));
    let ask = |id, message| {
        S::KvServerMessage(KvServerMessage { id, message: Some(message), span_context: None })
    };
    let reply = |id, message| C::KvClientMessage(KvClientMessage { id, message: Some(message) });
    let set = SetBlobArgs { blob_id: blob_id(), blob_data: Bytes::from_static(SYSTEM) };
    server(
        "224708071a430a2083237f3a3f22696de23a89cb52ecfc7a208c11acf3d07a7d039126039140d8c3121f7b22726f6c65223a2273797374656d222c22636f6e74656e74223a2278227d",
        ask(7, kv_server::Message::SetBlobArgs(set)),
    );
    client("1a0408071a00", reply(7, kv_client::Message::SetBlobResult(SetBlobResult::default())));
    server(
        "2226080812220a2083237f3a3f22696de23a89cb52ecfc7a208c11acf3d07a7d039126039140d8c3",
        ask(8, kv_server::Message::GetBlobArgs(GetBlobArgs { blob_id: blob_id() })),
    );
    client("1a0408081200", reply(8, kv_client::Message::GetBlobResult(GetBlobResult::default())));
    let hit =
        GetBlobResult { blob_data: Some(Bytes::from_static(SYSTEM)), ..GetBlobResult::default() };
    client(
        "1a25080812210a1f7b22726f6c65223a2273797374656d222c22636f6e74656e74223a2278227d",
        reply(8, kv_client::Message::GetBlobResult(hit)),
    );
}

#[test]
fn execs() {
    let ask = |id, exec_id: &str, message| {
        S::ExecServerMessage(Box::new(ExecServerMessage {
            id,
            exec_id: exec_id.to_owned(),
            message: Some(message),
            ..ExecServerMessage::default()
        }))
    };
    let reply = |id, exec_id: &str, message| {
        C::ExecClientMessage(ExecClientMessage {
            id,
            exec_id: exec_id.to_owned(),
            message: Some(message),
            ..ExecClientMessage::default()
        })
    };
    let context = exec::Message::RequestContextArgs(RequestContextArgs::default());
    server("1208080152007a026531", ask(1, "e1", context));
    let env = RequestContextEnv {
        os_version: "linux 6.8.0".to_owned(),
        workspace_paths: vec!["/w".to_owned()],
        shell: "/bin/bash".to_owned(),
        time_zone: "UTC".to_owned(),
        project_folder: "/w".to_owned(),
        ..RequestContextEnv::default()
    };
    let success = RequestContextSuccess {
        request_context: Some(RequestContext { env: Some(env), ..RequestContext::default() }),
        served_from_disk_cache: None,
    };
    let answer =
        RequestContextResult { result: Some(request_context_result::Result::Success(success)) };
    client(
        "123308017a026531522b0a290a2722250a0b6c696e757820362e382e3012022f771a092f62696e2f6261736852035554435a022f77",
        reply(1, "e1", result::Message::RequestContextResult(answer)),
    );
    let args = McpArgs {
        name: "get_weather".to_owned(),
        args: [("city".to_owned(), Bytes::from_static(b"\x1a\x04Oslo"))].into(),
        tool_call_id: "call_1".to_owned(),
        provider_identifier: "p".to_owned(),
        tool_name: "get_weather".to_owned(),
        ..McpArgs::default()
    };
    server(
        "123d08025a350a0b6765745f77656174686572120e0a046369747912061a044f736c6f1a0663616c6c5f312201702a0b6765745f776561746865727a026532",
        ask(2, "e2", exec::Message::McpArgs(args)),
    );
    client(
        "121308027a0265325a0b0a090a070a050a03313243",
        reply(2, "e2", result::Message::McpResult(mcp_text("12C"))),
    );
    let say =
        |message| C::ExecClientControlMessage(ExecClientControlMessage { message: Some(message) });
    client("2a040a020802", say(control::Message::StreamClose(ExecClientStreamClose { id: 2 })));
    let throw = ExecClientThrow { id: 9, error: "unsupported".to_owned(), stack_trace: None };
    client("2a11120f0809120b756e737570706f72746564", say(control::Message::Throw(throw)));
}

#[test]
fn actions_and_approvals() {
    let act = |action| C::ConversationAction(ConversationAction { action: Some(action) });
    client("22021a00", act(Action::CancelAction(CancelAction::default())));
    client("22021200", act(Action::ResumeAction(ResumeAction::default())));
    let approved = WebSearchRequestResponse {
        result: Some(web_search_request_response::Result::Approved(Empty {})),
    };
    let response = InteractionResponse {
        id: 4,
        result: Some(interaction_response::Result::WebSearchRequestResponse(approved)),
    };
    client("3206080412020a00", C::InteractionResponse(response));
}

#[test]
fn appends_and_ends() {
    let id = BidiRequestId { request_id: REQUEST.to_owned() };
    let framed =
        "00000000260a2433333333333333332d333333332d343333332d383333332d333333333333333333333333";
    assert_eq!(connect::encode(&id), unhex(framed));
    let append = BidiAppendRequest {
        data: "3a00".to_owned(),
        request_id: Some(id),
        append_seqno: Some(0),
        data_binary: Bytes::new(),
    };
    same(
        "0a043361303012260a2433333333333333332d333333332d343333332d383333332d3333333333333333333333331800",
        &append,
    );
    assert_eq!(connect::end_frame(None), unhex("02000000027b7d"));
    let mut decoder = Decoder::new();
    decoder.push(unhex("02000000027b7d").into());
    assert_eq!(decoder.next(), Ok(Some(Envelope::End(None))));
}
