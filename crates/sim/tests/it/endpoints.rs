//! The calls around a run: models, sign-in, what is not there, and real sockets.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::{
    agent::{GetServerConfigResponse, GetUsableModelsResponse},
    aiserver::{AvailableModelsRequest, AvailableModelsResponse, ErrorKind},
};
use ibeam_sim::{FrameRecorder, Quirk, Quirks, Sim, SimConfig, SimHttp2, SimSignIn};
use prost::Message as _;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio_util::sync::CancellationToken;

use crate::peer::{Ended, Peer, call, spawn};

async fn json(sim: &Sim, path: &str) -> serde_json::Value {
    let head = Peer::new(sim).head(path, "application/json");
    let response = call(sim, head, Bytes::from_static(b"{}")).await;
    assert_eq!(response.status(), 200, "{path}");
    serde_json::from_slice(response.body()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn models_are_listed_by_both_services_in_both_formats() {
    let sim = Sim::default();
    for service in ["agent.v1.AgentService", "aiserver.v1.AiService"] {
        let list = json(&sim, &format!("/{service}/GetUsableModels")).await;
        assert_eq!(list["models"][0]["modelId"], "default");
        let one = json(&sim, &format!("/{service}/GetDefaultModelForCli")).await;
        assert_eq!(one["model"]["displayModelId"], "auto");
        let name = json(&sim, &format!("/{service}/NameAgent")).await;
        assert_eq!(name["name"], "New chat");
        let head =
            Peer::new(&sim).head(&format!("/{service}/GetUsableModels"), "application/proto");
        let response = call(&sim, head, Bytes::new()).await;
        let list = GetUsableModelsResponse::decode(response.into_body()).unwrap();
        assert!(list.models.iter().any(|m| m.model_id == "gpt-5.4-high-fast"));
    }
    let head = Peer::new(&sim).head("/aiserver.v1.AiService/AvailableModels", "application/proto");
    let request = AvailableModelsRequest { use_model_parameters: true, ..Default::default() };
    let response = call(&sim, head, request.encode_to_vec().into()).await;
    let list = AvailableModelsResponse::decode(response.into_body()).unwrap();
    let opus = list.models.iter().find(|m| m.name == "claude-opus-4-8").unwrap();
    assert_eq!(opus.context_token_limit, Some(300_000));
    assert!(opus.parameter_definitions.iter().any(|p| p.id == "effort"));
    assert!(!opus.variants.is_empty());
}

fn no_nulls(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => false,
        serde_json::Value::Array(list) => list.iter().all(no_nulls),
        serde_json::Value::Object(table) => table.values().all(no_nulls),
        _ => true,
    }
}

#[tokio::test(start_paused = true)]
async fn json_lists_have_everything_of_the_binary_ones() {
    let sim = Sim::default();
    let path = "/aiserver.v1.AiService/AvailableModels";
    let head = Peer::new(&sim).head(path, "application/json");
    let body = Bytes::from_static(br#"{"useModelParameters":true}"#);
    let response = call(&sim, head, body).await;
    let list: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert!(no_nulls(&list));
    let find = |id: &str| {
        let models = list["models"].as_array().unwrap();
        models.iter().find(|model| model["name"] == id).unwrap().clone()
    };
    let opus = find("claude-opus-4-8");
    assert_eq!(opus["contextTokenLimitForMaxMode"], 1_000_000);
    assert_eq!(opus["supportsNonMaxMode"], true);
    let definitions = opus["parameterDefinitions"].as_array().unwrap();
    let effort = definitions.iter().find(|p| p["id"] == "effort").unwrap();
    assert_eq!(effort["type"]["enum"]["values"][0]["value"], "low");
    let thinking = definitions.iter().find(|p| p["id"] == "thinking").unwrap();
    assert_eq!(thinking["type"]["boolean"]["values"][1]["value"], "true");
    let variants = opus["variants"].as_array().unwrap();
    let strings: Vec<_> = variants
        .iter()
        .filter(|variant| variant["isMaxMode"] == true)
        .map(|variant| variant["variantStringRepresentation"].as_str().unwrap())
        .collect();
    assert_eq!(strings[0], "claude-opus-4-8[context=1m,effort=low]");
    assert!(variants.iter().any(|variant| variant["isDefaultNonMaxConfig"] == true));

    // One model is available in max mode only.
    assert_eq!(find("claude-opus-4-7")["supportsNonMaxMode"], false);
    let list = json(&sim, "/agent.v1.AgentService/GetUsableModels").await;
    assert!(no_nulls(&list));
    for model in list["models"].as_array().unwrap() {
        let max_only = model["modelId"].as_str().unwrap().starts_with("claude-opus-4-7");
        assert_eq!(model.get("maxMode").is_some(), max_only, "{model}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_refuses_an_expired_token() {
    let lifetime = Some(std::time::Duration::from_secs(60));
    let sim = Sim::new(SimSignIn { token_lifetime: lifetime, ..SimSignIn::default() }.into());
    let mut peer = Peer::new(&sim);
    peer.token = Sim::API_KEY.to_owned();
    assert_eq!(peer.ask("hi").await.ended, Some(Ended::Status(http::StatusCode::UNAUTHORIZED)));
    let head = peer.head("/auth/exchange_user_api_key", "application/json");
    let response = call(&sim, head, Bytes::from_static(b"{}")).await;
    let answer: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    peer.token = answer["accessToken"].as_str().unwrap().to_owned();
    assert_eq!(peer.ask("hi").await.ended, Some(Ended::EndFrame));
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let head = peer.head("/agent.v1.AgentService/GetUsableModels", "application/json");
    let response = call(&sim, head, Bytes::from_static(b"{}")).await;
    assert_eq!(response.status(), 401);
    let error = ConnectError::from_json(response.body()).unwrap();
    assert_eq!(error.detail.unwrap().kind, ErrorKind::ErrorAuthTokenExpired);
}

#[tokio::test(start_paused = true)]
async fn server_config_has_the_http2_policy() {
    let sim = Sim::new(SimConfig { http2_config: 3, ..SimConfig::default() });
    let config = json(&sim, "/aiserver.v1.ServerConfigService/GetServerConfig").await;
    assert_eq!(config["http2Config"], "HTTP2_CONFIG_FORCE_BIDI_DISABLED");
    let path = "/agent.v1.AgentService/GetServerConfig";
    let response = call(&sim, Peer::new(&sim).head(path, "application/proto"), Bytes::new()).await;
    let config = GetServerConfigResponse::decode(response.into_body()).unwrap();
    assert_eq!(config.http2_config, 3);
}

#[tokio::test(start_paused = true)]
async fn unary_answers_may_come_in_an_envelope() {
    let quirks = Quirks::default().with(Quirk::EnvelopedUnary);
    let sim = Sim::new(SimConfig { quirks, ..SimConfig::default() });
    let path = "/agent.v1.AgentService/GetUsableModels";
    let response = call(&sim, Peer::new(&sim).head(path, "application/proto"), Bytes::new()).await;
    let body = response.into_body();
    assert_eq!(usize::from(body[3]) * 256 + usize::from(body[4]), body.len() - 5);
}

async fn failure(sim: &Sim, path: &str) -> (u16, ConnectError) {
    let response = call(sim, Peer::new(sim).head(path, "application/json"), Bytes::new()).await;
    let error = ConnectError::from_json(response.body()).unwrap();
    (response.status().as_u16(), error)
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_are_refused() {
    let sim = Sim::default();
    let (status, error) = failure(&sim, "/agent.v1.AgentService/NoSuchThing").await;
    assert_eq!((status, error.code), (404, Code::Unimplemented));
    for method in ["StreamChat", "StreamChatWeb", "TaskStreamChatContext"] {
        let (_, error) = failure(&sim, &format!("/aiserver.v1.AiService/{method}")).await;
        assert_eq!(error.detail.unwrap().kind, ErrorKind::ErrorDeprecated);
    }
    let mut peer = Peer::new(&sim);
    peer.token = "nonsense".to_owned();
    let head = peer.head("/agent.v1.AgentService/GetUsableModels", "application/json");
    let response = call(&sim, head, Bytes::from_static(b"{}")).await;
    assert_eq!(response.status(), 401);
    let error = ConnectError::from_json(response.body()).unwrap();
    assert_eq!(error.code, Code::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn the_account_pages_need_a_token() {
    let sim = Sim::default();
    let get = |token: &str| {
        Request::get("/auth/usage").header("authorization", format!("Bearer {token}"))
    };
    assert_eq!(call(&sim, get("x"), Bytes::new()).await.status(), 401);
    let response = call(&sim, get(Sim::TOKEN), Bytes::new()).await;
    let usage: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!(usage["gpt-4"]["maxRequestUsage"], 500);
}

#[tokio::test(start_paused = true)]
async fn frames_of_both_directions_are_recorded() {
    let recorder = FrameRecorder::new(1 << 20);
    let sim = Sim::new(SimConfig { recorder: Some(recorder.clone()), ..SimConfig::default() });
    Peer::new(&sim).ask("hello").await;
    let jsonl = recorder.jsonl();
    let lines: Vec<serde_json::Value> =
        jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["dir"], "c2s");
    assert_eq!(lines.last().unwrap()["hex"], "7b7d");
    assert!(lines.iter().any(|line| line["dir"] == "s2c" && line["t"].as_u64() > Some(0)));
}

// === sockets and TLS ===

fn tls() -> (Arc<rustls::ServerConfig>, rustls::ClientConfig) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (Arc::new(server), client)
}

async fn alpn(http2: SimHttp2) -> Option<Vec<u8>> {
    let (server, client) = tls();
    let sim = Sim::new(SimConfig { http2, ..SimConfig::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = {
        let (sim, stop) = (sim.clone(), stop.clone());
        spawn(async move { sim.serve(listener, Some(server), stop).await })
    };
    let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let stream = connector.connect(name, tcp).await.unwrap();
    let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    if protocol.as_deref() == Some(b"h2") {
        let io = TokioIo::new(stream);
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        let work = spawn(async move {
            let _ = connection.await;
        });
        let head = Peer::new(&sim)
            .head("/agent.v1.AgentService/GetDefaultModelForCli", "application/json");
        let request = head.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!response.into_body().collect().await.unwrap().to_bytes().is_empty());
        drop(sender);
        work.abort();
    }
    stop.cancel();
    serving.await.unwrap();
    assert_eq!(sim.stats().open_connections, 0);
    protocol
}

#[tokio::test]
async fn tls_offers_both_protocols_or_only_the_old_one() {
    assert_eq!(alpn(SimHttp2::Served).await.as_deref(), Some(&b"h2"[..]));
    assert_eq!(alpn(SimHttp2::NotOffered).await.as_deref(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn streams_are_limited_to_two_hundred() {
    let sim = Sim::default();
    let (mut sender, connection) = h2::client::handshake(sim.connect()).await.unwrap();
    let work = spawn(async move {
        let _ = connection.await;
    });
    let head =
        Peer::new(&sim).head("/agent.v1.AgentService/GetDefaultModelForCli", "application/json");
    sender = sender.ready().await.unwrap();
    let (response, mut body) = sender.send_request(head.body(()).unwrap(), false).unwrap();
    body.send_data(Bytes::from_static(b"{}"), true).unwrap();
    response.await.unwrap();
    assert_eq!(sender.current_max_send_streams(), 200);
    work.abort();
    let heard = Peer::new(&sim).ask("still well?").await;
    assert_eq!(heard.ended, Some(Ended::EndFrame));
}
