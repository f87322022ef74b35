//! A `connectrpc` client against our simulator.

use std::time::Duration;

use bytes::Bytes;
use connectrpc::{
    BidiStream, ConnectError, ErrorCode, Spec, StreamType,
    client::{CallOptions, ClientConfig, HttpClient, call_bidi_stream, call_unary},
};
use ibeam_interop::{Raw, RawView};
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, AgentServerMessage, ConversationAction,
    ConversationStateStructure, GetUsableModelsRequest, GetUsableModelsResponse, KvClientMessage,
    ModelDetails, RequestContext, RequestContextEnv, SetBlobResult, UserMessage, UserMessageAction,
    agent_client_message, agent_server_message, conversation_action, interaction_update,
    kv_client_message, kv_server_message,
};
use ibeam_sim::{Scenario, Sim, SimConfig};
use prost::Message as _;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

const RUN: Spec = Spec::client("/agent.v1.AgentService/Run", StreamType::BidiStream);
const MODELS: Spec = Spec::client("/agent.v1.AgentService/GetUsableModels", StreamType::Unary);

type Stream = BidiStream<hyper::body::Incoming, Raw, RawView<'static>>;

async fn simulator(tasks: &mut JoinSet<()>, scenario: &str) -> ClientConfig {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let scenario = Scenario::from_toml(scenario).unwrap();
    let sim = Sim::new(SimConfig::scenario(scenario));
    tasks.spawn(async move {
        sim.serve(listener, None, CancellationToken::new()).await;
    });
    ClientConfig::new(uri.parse().unwrap())
        .with_default_header("authorization", format!("Bearer {}", Sim::TOKEN))
        .with_default_header("x-cursor-client-type", "cli")
        .with_default_header("x-cursor-client-version", "cli-2026.09.02-fa0c06e")
        .with_default_header("x-ghost-mode", "true")
        .with_default_header("x-request-id", "33333333-3333-4333-8333-333333333333")
}

fn run_request(words: &str) -> AgentClientMessage {
    let env = RequestContextEnv {
        os_version: "linux 6.8.0".to_owned(),
        workspace_paths: vec!["/w".to_owned()],
        shell: "/bin/bash".to_owned(),
        time_zone: "UTC".to_owned(),
        ..Default::default()
    };
    let user = UserMessage {
        text: words.to_owned(),
        message_id: "11111111-1111-4111-8111-111111111111".to_owned(),
        mode: 1,
        ..Default::default()
    };
    let action = UserMessageAction {
        user_message: Some(user),
        request_context: Some(RequestContext { env: Some(env), ..Default::default() }),
        ..Default::default()
    };
    let run = AgentRunRequest {
        conversation_state: Some(ConversationStateStructure::default()),
        action: Some(ConversationAction {
            action: Some(conversation_action::Action::UserMessageAction(action)),
        }),
        model_details: Some(ModelDetails { model_id: "default".to_owned(), ..Default::default() }),
        conversation_id: Some("22222222-2222-4222-8222-222222222222".to_owned()),
        ..Default::default()
    };
    AgentClientMessage { message: Some(agent_client_message::Message::RunRequest(run)) }
}

fn raw(message: &AgentClientMessage) -> Raw {
    Raw(Bytes::from(message.encode_to_vec()))
}

async fn start(config: &ClientConfig, words: &str) -> Result<Stream, ConnectError> {
    let client = HttpClient::plaintext_http2_only();
    let mut stream =
        call_bidi_stream::<_, Raw, RawView<'static>>(&client, config, RUN, CallOptions::default())
            .await?;
    stream.send(raw(&run_request(words))).await?;
    Ok(stream)
}

/// Reads to the end, acknowledging every blob; gives text, blobs, and the end.
async fn read(stream: &mut Stream) -> (String, usize, Result<(), ConnectError>) {
    let mut text = String::new();
    let mut blobs = 0;
    loop {
        let received =
            tokio::time::timeout(Duration::from_secs(10), stream.message()).await.unwrap();
        let message = match received {
            Ok(Some(message)) => AgentServerMessage::decode(message.bytes().clone()).unwrap(),
            Ok(None) => return (text, blobs, Ok(())),
            Err(error) => return (text, blobs, Err(error)),
        };
        match message.message.unwrap() {
            agent_server_message::Message::InteractionUpdate(update) => {
                if let Some(interaction_update::Message::TextDelta(delta)) = update.message {
                    text.push_str(&delta.text);
                }
            }
            agent_server_message::Message::KvServerMessage(kv) => {
                assert!(matches!(kv.message, Some(kv_server_message::Message::SetBlobArgs(_))));
                blobs += 1;
                let done = kv_client_message::Message::SetBlobResult(SetBlobResult::default());
                let answer = KvClientMessage { id: kv.id, message: Some(done) };
                let answer = agent_client_message::Message::KvClientMessage(answer);
                stream.send(raw(&AgentClientMessage { message: Some(answer) })).await.unwrap();
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn turn_with_answers_on_the_same_stream() {
    let mut tasks = JoinSet::new();
    let config = simulator(
        &mut tasks,
        r#"
        [[rule]]
        steps = [{ text = { text = "Hello from the simulator.", chunk = 3 } }]
        "#,
    )
    .await;
    let mut stream = start(&config, "hello").await.unwrap();
    let (text, blobs, end) = read(&mut stream).await;
    end.unwrap();
    assert_eq!(text, "Hello from the simulator.");
    assert!(blobs > 0);
}

#[tokio::test]
async fn compressed_frames_inflate() {
    let mut tasks = JoinSet::new();
    let config = simulator(
        &mut tasks,
        r#"
        [[rule]]
        gzip = true
        steps = [{ text = { text = "dull dull dull dull dull dull ", pace_ms = 1, repeat = 40 } }]
        "#,
    )
    .await;
    let mut stream = start(&config, "hello").await.unwrap();
    let (text, _, end) = read(&mut stream).await;
    end.unwrap();
    assert_eq!(text.len(), 40 * "dull dull dull dull dull dull ".len());
    let headers = stream.headers().unwrap();
    assert_eq!(headers.get("connect-content-encoding").unwrap(), "gzip");
}

#[tokio::test]
async fn an_error_end_frame_keeps_its_code_words_and_details() {
    let mut tasks = JoinSet::new();
    let config = simulator(
        &mut tasks,
        r#"
        [[rule]]
        steps = [
            { text = "Half" },
            { error = { code = "resource_exhausted", message = "enough", kind = "ERROR_RATE_LIMITED" } },
        ]
        "#,
    )
    .await;
    let mut stream = start(&config, "hello").await.unwrap();
    let (text, _, end) = read(&mut stream).await;
    assert_eq!(text, "Half");
    let error = end.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_deref()),
        (ErrorCode::ResourceExhausted, Some("enough"))
    );
    assert_eq!(error.details.first().unwrap().type_url, "aiserver.v1.ErrorDetails");
}

#[tokio::test]
async fn a_wrong_token_is_unauthenticated() {
    let mut tasks = JoinSet::new();
    let config = simulator(&mut tasks, "").await;
    let bad = ClientConfig::new(config.base_uri().clone())
        .with_default_header("authorization", "Bearer no");
    let mut stream = start(&bad, "hello").await.unwrap();
    let (_, _, end) = read(&mut stream).await;
    assert_eq!(end.unwrap_err().code, ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn the_model_list_is_a_unary_call() {
    let mut tasks = JoinSet::new();
    let config = simulator(&mut tasks, "").await;
    let request = Raw(Bytes::from(GetUsableModelsRequest::default().encode_to_vec()));
    let client = HttpClient::plaintext_http2_only();
    let response = call_unary::<_, Raw, RawView<'static>>(
        &client,
        &config,
        MODELS,
        request,
        CallOptions::default(),
    )
    .await
    .unwrap();
    let list = GetUsableModelsResponse::decode(response.into_view().into_bytes()).unwrap();
    assert!(list.models.iter().any(|model| model.model_id == "default"));
}
