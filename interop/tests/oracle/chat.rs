//! A whole chat: the gateway's HTTP API in front, a `connectrpc` server behind.

use bytes::Bytes;
use connectrpc::{
    CompressionPolicy, ConnectError, Response, Router, Server, ServiceStream,
    bidi_streaming_handler_fn, handler_fn,
};
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use ibeam_interop::Raw;
use ibeam_proto::agent::{
    AgentClientMessage, AgentServerMessage, ExecServerMessage, GetUsableModelsResponse,
    InteractionUpdate, KvServerMessage, ModelDetails, RequestContextArgs, SetBlobArgs,
    TextDeltaUpdate, TurnEndedUpdate, agent_client_message::Message as Client,
    agent_server_message::Message as ToClient, exec_client_message, exec_server_message,
    interaction_update::Message as Update, kv_client_message, kv_server_message,
};
use ibeam_server::{
    config::{Env, Listen, RawConfig, resolve},
    shutdown::Shutdown,
    tasks::Tasks,
};
use prost::Message as _;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln";

fn raw(message: ToClient) -> Result<Raw, ConnectError> {
    let message = AgentServerMessage { message: Some(message), ..AgentServerMessage::default() };
    Ok(Raw(Bytes::from(message.encode_to_vec())))
}

fn update(update: Update) -> ToClient {
    ToClient::InteractionUpdate(InteractionUpdate {
        message: Some(update),
        ..InteractionUpdate::default()
    })
}

/// What the backend says in return to one message of the client's.
fn answers(request: Result<Raw, ConnectError>) -> Vec<Result<Raw, ConnectError>> {
    let request = match request {
        Ok(request) => AgentClientMessage::decode(request.0).unwrap(),
        Err(error) => return vec![Err(error)],
    };
    match request.message.unwrap() {
        // Asked for although it may have come inline, as the real one sometimes does.
        Client::RunRequest(run) => {
            assert!(run.conversation_state.is_some());
            let args =
                exec_server_message::Message::RequestContextArgs(RequestContextArgs::default());
            let exec = ExecServerMessage {
                id: 1,
                exec_id: "e1".to_owned(),
                message: Some(args),
                ..Default::default()
            };
            vec![raw(ToClient::ExecServerMessage(Box::new(exec)))]
        }
        Client::ExecClientMessage(exec) => {
            assert_eq!((exec.id, exec.exec_id.as_str()), (1, "e1"));
            assert!(matches!(
                exec.message,
                Some(exec_client_message::Message::RequestContextResult(_))
            ));
            let data = Bytes::from_static(b"{\"role\":\"system\",\"content\":\"x\"}");
            let id = unhex("83237f3a3f22696de23a89cb52ecfc7a208c11acf3d07a7d039126039140d8c3");
            let set = kv_server_message::Message::SetBlobArgs(SetBlobArgs {
                blob_id: id,
                blob_data: data,
            });
            vec![raw(ToClient::KvServerMessage(KvServerMessage {
                id: 7,
                message: Some(set),
                ..Default::default()
            }))]
        }
        Client::KvClientMessage(kv) => {
            assert_eq!(kv.id, 7);
            assert!(matches!(kv.message, Some(kv_client_message::Message::SetBlobResult(_))));
            let long = "and on ".repeat(200);
            let usage = TurnEndedUpdate {
                input_tokens: Some(5),
                output_tokens: Some(3),
                ..Default::default()
            };
            vec![
                raw(update(Update::TextDelta(TextDeltaUpdate {
                    text: "On ".to_owned(),
                    ..TextDeltaUpdate::default()
                }))),
                raw(update(Update::TextDelta(TextDeltaUpdate {
                    text: long,
                    ..TextDeltaUpdate::default()
                }))),
                raw(update(Update::TurnEnded(usage))),
                // Ends the stream: a server that has said all says so.
                Err(ConnectError::aborted("end")),
            ]
        }
        _ => Vec::new(),
    }
}

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().map(|b| (b as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn router() -> Router {
    let run = bidi_streaming_handler_fn(|_context, requests: ServiceStream<Raw>| async move {
        // `aborted` above is only our way to say "stop here", and does not go out.
        let said = requests.flat_map(|request| stream::iter(answers(request)));
        let said = said.take_while(|item| {
            let stop = matches!(item, Err(error) if error.message.as_deref() == Some("end"));
            async move { !stop }
        });
        Response::stream_ok(said)
    });
    let models = handler_fn(|_context, _request: Raw| async move {
        let model = ModelDetails {
            model_id: "default".to_owned(),
            display_model_id: "auto".to_owned(),
            display_name: "Auto".to_owned(),
            ..Default::default()
        };
        let list = GetUsableModelsResponse { models: vec![model] };
        Response::ok(Raw(Bytes::from(list.encode_to_vec())))
    });
    Router::new().route_bidi_stream("agent.v1.AgentService", "Run", run).route(
        "agent.v1.AgentService",
        "GetUsableModels",
        models,
    )
}

#[tokio::test]
async fn the_gateway_completes_chats() {
    let mut tasks = JoinSet::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = format!("http://{}", listener.local_addr().unwrap());
    let service = connectrpc::ConnectRpcService::new(router())
        .with_compression_policy(CompressionPolicy::default().with_min_size(64));
    tasks.spawn(async move {
        Server::from_listener(listener).serve_with_service(service).await.ok();
    });

    let env: Env = [("CURSOR_API_URL", backend.as_str()), ("CURSOR_ACCESS_TOKEN", TOKEN)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let mut config = resolve(&RawConfig::from_env(&env), None).config;
    config.server.listen = Listen::Tcp("127.0.0.1:0".parse().unwrap());
    let gateway_tasks = Tasks::new();
    let server = ibeam_server::server::Server::bind(config, &gateway_tasks).await.unwrap();
    let address = server.address().unwrap();
    tasks.spawn(server.run(Shutdown::new()));

    let expected = format!("On {}", "and on ".repeat(200));
    for _ in 0..3 {
        let socket = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.unwrap();
        tasks.spawn(async move {
            connection.await.ok();
        });
        let body = r#"{"model":"auto","messages":[{"role":"user","content":"go"}]}"#;
        let request = hyper::Request::post("/v1/chat/completions")
            .header("host", address.to_string())
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["choices"][0]["message"]["content"], expected);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        assert_eq!(answer["usage"]["completion_tokens"], 3);
    }
}
