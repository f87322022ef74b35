//! ACP in the types of `agent-client-protocol-schema`: all that our speaker writes is read
//! in them and written again, and what they write is understood by our speaker.
//!
//! Those types skip what they do not know, and many take a default for what they cannot
//! read. So nothing of what we said may be missing when it is written again.

use agent_client_protocol_schema::{
    ProtocolVersion,
    rpc::{JsonRpcMessage, Notification},
    v1::{
        AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, AuthenticateResponse,
        AvailableCommandsUpdate, CancelNotification, ContentBlock, ContentChunk, CurrentModeUpdate,
        Error, InitializeRequest, InitializeResponse, LoadSessionRequest, LoadSessionResponse,
        McpCapabilities, NewSessionRequest, NewSessionResponse, PermissionOption,
        PermissionOptionKind, Plan, PromptCapabilities, PromptRequest, PromptResponse, Request,
        RequestId, RequestPermissionRequest, RequestPermissionResponse, Response,
        SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption,
        SessionInfoUpdate, SessionNotification, SessionUpdate, SetSessionConfigOptionRequest,
        SetSessionConfigOptionResponse, StopReason, TextContent, ToolCall, ToolCallStatus,
        ToolCallUpdate, ToolCallUpdateFields, ToolKind, Usage,
    },
};
use bytes::Bytes;
use ibeam_core::{
    error::ErrorCode,
    model::{AgentMode, FinishReason, Image, ImageSource, UsageSource},
    peer::Remedy,
    peer::acp::{AcpSpeaker, ToolPolicy},
    peer::child::{ChildEvent, ChildRequest, HostAddress, Prompt, Ready, Speaker as _, ToChild},
};
use secrecy::SecretString;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Our speaker, and an agent that only has their types.
struct Agent(AcpSpeaker);

impl Agent {
    fn begin(ready: &Ready, ask: &ChildRequest) -> Self {
        let mut speaker = AcpSpeaker::new(ToolPolicy::default());
        speaker.begin(ready, ask);
        Self(speaker)
    }

    fn heard(&mut self) -> Vec<ChildEvent> {
        std::iter::from_fn(|| self.0.poll_heard()).collect()
    }

    fn line(&mut self) -> Value {
        match self.0.poll_send() {
            Some(ToChild::Input(line)) => serde_json::from_slice(&line).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, message: &impl Serialize) {
        let mut line = serde_json::to_vec(&JsonRpcMessage::wrap(message)).unwrap();
        line.push(b'\n');
        self.0.on_output(Bytes::from(line));
    }

    /// The next request of ours, which must be this one.
    fn request<T: Serialize + DeserializeOwned>(&mut self, method: &str) -> (RequestId, T) {
        let request: Request<T> = read(&self.line());
        assert_eq!(&*request.method, method);
        (request.id, request.params.unwrap())
    }

    fn answer<T: Serialize>(&mut self, id: RequestId, result: Result<T, Error>) {
        self.write(&Response::new(id, result));
    }

    fn update(&mut self, update: SessionUpdate) {
        let params = Some(SessionNotification::new("s1", update));
        self.write(&Notification { method: "session/update".into(), params });
    }

    /// Asks for leave, and gives what was chosen.
    fn permission(&mut self, call: ToolCallUpdate) -> Value {
        let options = vec![
            PermissionOption::new("allow-once", "Allow", PermissionOptionKind::AllowOnce),
            PermissionOption::new("allow-always", "Always", PermissionOptionKind::AllowAlways),
            PermissionOption::new("reject-once", "Reject", PermissionOptionKind::RejectOnce),
        ];
        let id = RequestId::Str("perm\n1".to_owned());
        let params = Some(RequestPermissionRequest::new("s1", call, options));
        let method = "session/request_permission".into();
        self.write(&Request { id: id.clone(), method, params });
        match read::<Response<RequestPermissionResponse>>(&self.line()) {
            Response::Result { id: answered, result } => {
                assert_eq!(answered, id);
                serde_json::to_value(result.outcome).unwrap()
            }
            Response::Error { error, .. } => panic!("{error:?}"),
        }
    }
}

/// Reads what we wrote in their type, and checks that nothing of it was lost.
#[track_caller]
fn read<T: Serialize + DeserializeOwned>(ours: &Value) -> T {
    let kind = std::any::type_name::<T>();
    let theirs: JsonRpcMessage<T> = serde_json::from_value(ours.clone())
        .unwrap_or_else(|error| panic!("{kind}: {error}\n{ours}"));
    let again = serde_json::to_value(&theirs).unwrap();
    if let Some(place) = lost(ours, &again) {
        panic!("{kind} does not know {place}:\nours   {ours}\ntheirs {again}");
    }
    theirs.into_inner()
}

/// Where something of ours is missing or different. Defaults that they add are not.
fn lost(ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().find_map(|(name, own)| {
            let place = match theirs.get(name) {
                Some(value) => lost(own, value)?,
                None => String::new(),
            };
            Some(format!(".{name}{place}"))
        }),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut pairs = ours.iter().zip(theirs).enumerate();
            pairs.find_map(|(place, (own, value))| {
                lost(own, value).map(|inner| format!("[{place}]{inner}"))
            })
        }
        (ours, theirs) => (ours != theirs).then(String::new),
    }
}

fn ask() -> ChildRequest {
    let data = Bytes::from_static(&[0xff, 0xd8, 0xff]);
    let source = ImageSource::Inline { mime: "image/jpeg".to_owned(), data };
    ChildRequest {
        prompt: Prompt { text: "hello\n".to_owned(), images: vec![Image { source }] },
        model: "composer-2-fast".to_owned(),
        mode: AgentMode::Agent,
        resume: None,
    }
}

fn ready(greeted: bool) -> Ready {
    let host = HostAddress {
        url: "http://127.0.0.1:9/mcp/x".to_owned(),
        bearer: SecretString::from("sesame"),
    };
    Ready { workspace: "/work".to_owned(), host: Some(host), greeted, session: None }
}

fn greeting() -> InitializeResponse {
    let able = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true))
        .mcp_capabilities(McpCapabilities::new().http(true));
    let sign_in = AuthMethod::Agent(AuthMethodAgent::new("cursor_login", "Cursor"));
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(able)
        .auth_methods(vec![sign_in])
}

fn options() -> Vec<SessionConfigOption> {
    let models = vec![
        SessionConfigSelectOption::new("default[]", "Auto"),
        SessionConfigSelectOption::new("composer-2[fast=true]", "Composer 2"),
    ];
    let modes = vec![SessionConfigSelectOption::new("agent", "Agent")];
    vec![
        SessionConfigOption::select("mode", "Mode", "agent", modes)
            .category(SessionConfigOptionCategory::Mode),
        SessionConfigOption::select("model", "Model", "default[]", models)
            .category(SessionConfigOptionCategory::Model),
    ]
}

fn words(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

/// Opened, with the question asked.
fn prompted() -> (Agent, RequestId) {
    let mut agent = Agent::begin(&ready(true), &ChildRequest { model: String::new(), ..ask() });
    let (id, _) = agent.request::<NewSessionRequest>("session/new");
    agent.answer(id, Ok(NewSessionResponse::new("s1")));
    let (id, _) = agent.request::<PromptRequest>("session/prompt");
    assert_eq!(agent.heard(), [ChildEvent::Session("s1".to_owned())]);
    (agent, id)
}

#[test]
fn both_sides_understand_a_whole_run() {
    let mut agent = Agent::begin(&ready(false), &ask());
    let (id, greeted) = agent.request::<InitializeRequest>("initialize");
    assert_eq!(greeted.protocol_version, ProtocolVersion::V1);
    assert!(!greeted.client_capabilities.fs.read_text_file);
    agent.answer(id, Ok(greeting()));

    // The protocol's own demand to sign in.
    let (id, _) = agent.request::<NewSessionRequest>("session/new");
    agent.answer::<NewSessionResponse>(id, Err(Error::auth_required()));
    let (id, sign_in) = agent.request::<AuthenticateRequest>("authenticate");
    assert_eq!(&*sign_in.method_id.0, "cursor_login");
    agent.answer(id, Ok(AuthenticateResponse::new()));

    let (id, opened) = agent.request::<NewSessionRequest>("session/new");
    assert_eq!(
        serde_json::to_value(&opened.mcp_servers).unwrap(),
        json!([{
            "type": "http",
            "name": "ibeam",
            "url": "http://127.0.0.1:9/mcp/x",
            "headers": [{"name": "Authorization", "value": "Bearer sesame"}],
        }])
    );
    agent.answer(id, Ok(NewSessionResponse::new("s1").config_options(options())));

    let (id, set) = agent.request::<SetSessionConfigOptionRequest>("session/set_config_option");
    assert_eq!(&*set.value.as_value_id().unwrap().0, "composer-2[fast=true]");
    agent.answer(id, Ok(SetSessionConfigOptionResponse::new(options())));

    let (id, prompt) = agent.request::<PromptRequest>("session/prompt");
    assert!(matches!(&prompt.prompt[..], [ContentBlock::Text(_), ContentBlock::Image(_)]));

    agent.update(SessionUpdate::AgentThoughtChunk(words("hm")));
    agent.update(SessionUpdate::AgentMessageChunk(words("hi")));
    let usage = Usage::new(35, 30, 5).cached_read_tokens(20).thought_tokens(2);
    agent.answer(id, Ok(PromptResponse::new(StopReason::EndTurn).usage(usage)));
    let heard = agent.heard();
    let [session, thought, text, ChildEvent::Usage(usage), end] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert_eq!(*session, ChildEvent::Session("s1".to_owned()));
    assert_eq!(*thought, ChildEvent::Thought("hm".to_owned()));
    assert_eq!(*text, ChildEvent::Text("hi".to_owned()));
    assert_eq!((usage.input, usage.output, usage.cache_read), (30, 5, 20));
    assert_eq!((usage.reasoning, usage.source), (2, UsageSource::Backend));
    assert_eq!(*end, ChildEvent::Ended(FinishReason::Stop));
    assert!(matches!(agent.0.poll_send(), Some(ToChild::Release { .. })));
    assert_eq!(agent.0.unknown(), 0);
}

#[test]
fn a_conversation_is_loaded_or_lost() {
    let resumed = ChildRequest { resume: Some("s1".to_owned()), ..ask() };
    let mut agent = Agent::begin(&ready(true), &resumed);
    let (id, loaded) = agent.request::<LoadSessionRequest>("session/load");
    assert_eq!(&*loaded.session_id.0, "s1");
    agent.update(SessionUpdate::UserMessageChunk(words("before")));
    agent.update(SessionUpdate::AgentMessageChunk(words("history")));
    agent.answer(id, Ok(LoadSessionResponse::new().config_options(options())));
    agent.request::<SetSessionConfigOptionRequest>("session/set_config_option");
    assert_eq!(agent.heard(), [ChildEvent::Alive, ChildEvent::Session("s1".to_owned())]);

    let mut agent = Agent::begin(&ready(true), &resumed);
    let (id, _) = agent.request::<LoadSessionRequest>("session/load");
    agent.answer::<LoadSessionResponse>(id, Err(Error::session_not_found("s1")));
    let heard = agent.heard();
    let [ChildEvent::Failed(failure)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(failure.remedy, Remedy::FreshConversation);
}

#[test]
fn every_update_is_known() {
    let (mut agent, _) = prompted();
    let hosted = json!({"providerIdentifier": "ibeam", "toolName": "read", "args": {}});
    let shell =
        ToolCall::new("a\n1", "`ls`").kind(ToolKind::Execute).raw_input(json!({"command": "ls"}));
    let mcp = ToolCall::new("b", "MCP: tool").kind(ToolKind::Other);
    let named = ToolCallUpdateFields::new().raw_input(hosted);
    let failed = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
    for (update, heard) in [
        (SessionUpdate::ToolCall(shell), ChildEvent::Did("execute: `ls`".to_owned())),
        (
            SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("a\n1", failed)),
            ChildEvent::Did("execute failed: `ls`".to_owned()),
        ),
        (SessionUpdate::ToolCall(mcp), ChildEvent::Alive),
        (SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("b", named)), ChildEvent::Announced),
        (SessionUpdate::Plan(Plan::new(Vec::new())), ChildEvent::Alive),
        (SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new("ask")), ChildEvent::Alive),
        (
            SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(Vec::new())),
            ChildEvent::Alive,
        ),
        (
            SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title("x".to_owned())),
            ChildEvent::Alive,
        ),
    ] {
        agent.update(update.clone());
        assert_eq!(agent.heard(), [heard], "{update:?}");
    }
    assert_eq!(agent.0.unknown(), 0);
    // The hosted tool may run, and was named before; the shell may not.
    let bare = |id: &'static str| ToolCallUpdate::new(id, ToolCallUpdateFields::new());
    let chosen = |id: &str| json!({"outcome": "selected", "optionId": id});
    assert_eq!(agent.permission(bare("b")), chosen("allow-once"));
    assert_eq!(agent.permission(bare("c")), chosen("reject-once"));
}

#[test]
fn unsupported_methods_are_refused_as_specified() {
    let (mut agent, _) = prompted();
    let id = RequestId::Number(40);
    let params = Some(json!({"sessionId": "s1", "path": "/etc/passwd"}));
    agent.write(&Request { id: id.clone(), method: "fs/read_text_file".into(), params });
    match read::<Response<Value>>(&agent.line()) {
        Response::Error { id: answered, error } => {
            assert_eq!((answered, error.code), (id, Error::method_not_found().code));
        }
        Response::Result { result, .. } => panic!("{result}"),
    }
}

#[test]
fn cancel_is_a_notification_and_every_stop_reason_is_known() {
    let (mut agent, id) = prompted();
    agent.0.cancel();
    let cancel: Notification<CancelNotification> = read(&agent.line());
    assert_eq!(&*cancel.method, "session/cancel");
    let call = ToolCallUpdate::new("b", ToolCallUpdateFields::new());
    assert_eq!(agent.permission(call), json!({"outcome": "cancelled"}));
    agent.answer(id, Ok(PromptResponse::new(StopReason::Cancelled)));
    let heard = agent.heard();
    let Some(ChildEvent::Failed(failure)) = heard.last() else { panic!("{heard:?}") };
    assert_eq!(failure.error.code, ErrorCode::Cancelled);

    for (reason, expected) in [
        (StopReason::EndTurn, None),
        (StopReason::MaxTokens, None),
        (StopReason::MaxTurnRequests, Some(ErrorCode::UpstreamError)),
        (StopReason::Refusal, Some(ErrorCode::PolicyDenied)),
        (StopReason::Cancelled, Some(ErrorCode::Cancelled)),
    ] {
        let (mut agent, id) = prompted();
        agent.update(SessionUpdate::AgentMessageChunk(words("x")));
        agent.answer(id, Ok(PromptResponse::new(reason)));
        let failed = match agent.heard().pop() {
            Some(ChildEvent::Failed(failure)) => Some(failure.error.code),
            Some(ChildEvent::Ended(_)) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(failed, expected, "{reason:?}");
        assert_eq!(agent.0.unknown(), 0, "{reason:?}");
    }
}
