//! Our HTTP/2 driver and codec against a `connectrpc` server.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use connectrpc::{
    CompressionPolicy, ConnectError, ErrorCode, ErrorDetail, Response, Router, Server,
    ServiceStream, bidi_streaming_handler_fn,
};
use futures_util::StreamExt as _;
use ibeam_core::{
    codec::connect::{self, Code, Decoder, Envelope},
    peer::agent::{AgentOpen, AgentPeer},
};
use ibeam_interop::Raw;
use ibeam_proto::{
    agent::{
        AgentClientMessage, AgentServerMessage, ClientHeartbeat, InteractionUpdate,
        TextDeltaUpdate, agent_client_message, agent_server_message, interaction_update,
    },
    aiserver::{ErrorDetails, ErrorKind},
};
use ibeam_server::{
    config::Transport,
    driver::{AgentConfig, AgentDriver, Dial as _, Link, LinkReceiver as _, LinkSender as _, Open},
    net::{
        connect::{Connector, Host},
        hosts::Reach,
        proxy::Proxy,
        tls::Tls,
    },
    tasks::Tasks,
};
use prost::Message as _;
use secrecy::SecretString;
use tokio::{net::TcpListener, task::JoinSet};

const ID: &str = "33333333-3333-4333-8333-333333333333";

fn text(words: &str) -> AgentServerMessage {
    let update = interaction_update::Message::TextDelta(TextDeltaUpdate {
        text: words.to_owned(),
        ..TextDeltaUpdate::default()
    });
    AgentServerMessage {
        message: Some(agent_server_message::Message::InteractionUpdate(InteractionUpdate {
            message: Some(update),
            ..InteractionUpdate::default()
        })),
        ..AgentServerMessage::default()
    }
}

fn heartbeat() -> AgentClientMessage {
    AgentClientMessage {
        message: Some(agent_client_message::Message::ClientHeartbeat(ClientHeartbeat {})),
    }
}

/// Answers every message with its number and size; a big one with an error.
fn router() -> Router {
    Router::new().route_bidi_stream(
        "agent.v1.AgentService",
        "Run",
        bidi_streaming_handler_fn(|_context, requests: ServiceStream<Raw>| async move {
            let answers = requests.enumerate().map(|(number, request)| {
                let request = request?;
                AgentClientMessage::decode(request.0.clone())
                    .map_err(|error| ConnectError::invalid_argument(error.to_string()))?;
                if number == 3 {
                    let details =
                        ErrorDetails { error: 50, is_expected: Some(true), ..Default::default() };
                    let detail = Raw(Bytes::from(details.encode_to_vec()));
                    return Err(ConnectError::new(ErrorCode::ResourceExhausted, "enough")
                        .with_detail(ErrorDetail::from_message(
                            "aiserver.v1.ErrorDetails",
                            &detail,
                        )));
                }
                // Long and dull, so that gzip is worth it.
                let words = format!("{number}:{} {}", request.0.len(), "dull ".repeat(500));
                Ok(Raw(Bytes::from(text(&words).encode_to_vec())))
            });
            Response::stream_ok(answers)
        }),
    )
}

async fn serve(tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::from_listener(listener).with_max_concurrent_streams(100);
    let service = connectrpc::ConnectRpcService::new(router())
        .with_compression_policy(CompressionPolicy::default().with_min_size(64));
    tasks.spawn(async move {
        server.serve_with_service(service).await.ok();
    });
    format!("http://{address}")
}

fn driver(url: &str) -> AgentDriver {
    let config =
        AgentConfig { transport: Transport::H2, ..AgentConfig::new(Host::parse(url).unwrap()) };
    AgentDriver::new(config, &tcp(url), &Tasks::new())
}

fn tcp(url: &str) -> Connector {
    Connector::Tcp {
        reach: Reach::of(&Host::parse(url).unwrap(), false),
        tls: Arc::new(Tls::new(None)),
        proxy: Proxy::none(),
        connect_timeout: Duration::from_secs(5),
    }
}

async fn open(driver: &AgentDriver) -> Link<AgentPeer> {
    let open = Open {
        token: SecretString::from("token"),
        tokens: None,
        request_id: ID.to_owned(),
        original_request_id: ID.to_owned(),
        peer: AgentOpen::default(),
    };
    driver.open(open).await.unwrap()
}

/// The next envelope of the stream.
async fn next(link: &mut Link<AgentPeer>, decoder: &mut Decoder) -> Option<Envelope> {
    loop {
        if let Some(envelope) = decoder.next().unwrap() {
            return Some(envelope);
        }
        let bytes = tokio::time::timeout(Duration::from_secs(10), link.rx.next()).await.unwrap();
        decoder.push(bytes?.unwrap());
    }
}

fn words(envelope: Envelope) -> String {
    let Envelope::Message(payload) = envelope else { panic!("not a message: {envelope:?}") };
    let message = AgentServerMessage::decode(payload).unwrap();
    let Some(agent_server_message::Message::InteractionUpdate(update)) = message.message else {
        panic!()
    };
    let Some(interaction_update::Message::TextDelta(delta)) = update.message else { panic!() };
    delta.text
}

#[tokio::test]
async fn messages_interleave_on_one_stream_and_the_error_is_read() {
    let mut tasks = JoinSet::new();
    let driver = driver(&serve(&mut tasks).await);
    let mut link = open(&driver).await;
    let mut decoder = Decoder::new();
    for number in 0..3 {
        link.tx.send(connect::encode(&heartbeat())).await.unwrap();
        // The second is sent only after the first was answered.
        let answer = words(next(&mut link, &mut decoder).await.unwrap());
        assert!(answer.starts_with(&format!("{number}:2 dull")), "{answer}");
    }
    link.tx.send(connect::encode(&heartbeat())).await.unwrap();
    let Some(Envelope::End(Some(error))) = next(&mut link, &mut decoder).await else { panic!() };
    assert_eq!((error.code, error.message.as_str()), (Code::ResourceExhausted, "enough"));
    assert_eq!(error.detail.map(|detail| detail.kind), Some(ErrorKind::ErrorRateLimited));
}

#[tokio::test]
async fn a_prompt_larger_than_every_window_arrives_whole() {
    let mut tasks = JoinSet::new();
    let driver = driver(&serve(&mut tasks).await);
    let mut link = open(&driver).await;
    let mut decoder = Decoder::new();
    let big = ibeam_proto::agent::KvClientMessage {
        id: 7,
        message: Some(ibeam_proto::agent::kv_client_message::Message::GetBlobResult(
            ibeam_proto::agent::GetBlobResult {
                blob_data: Some(Bytes::from(vec![7; 3_000_000])),
                ..Default::default()
            },
        )),
    };
    let message =
        AgentClientMessage { message: Some(agent_client_message::Message::KvClientMessage(big)) };
    let size = message.encoded_len();
    link.tx.send(connect::encode(&message)).await.unwrap();
    let answer = words(next(&mut link, &mut decoder).await.unwrap());
    assert!(answer.starts_with(&format!("0:{size} dull")), "{answer}");
}

#[tokio::test]
async fn more_streams_than_one_connection_takes() {
    let mut tasks = JoinSet::new();
    let driver = Arc::new(driver(&serve(&mut tasks).await));
    let mut streams = JoinSet::new();
    for _ in 0..250 {
        let driver = Arc::clone(&driver);
        streams.spawn(async move {
            let mut link = open(&driver).await;
            let mut decoder = Decoder::new();
            link.tx.send(connect::encode(&heartbeat())).await.unwrap();
            words(next(&mut link, &mut decoder).await.unwrap()).starts_with("0:2 dull")
        });
    }
    assert!(streams.join_all().await.into_iter().all(|fine| fine));
}
