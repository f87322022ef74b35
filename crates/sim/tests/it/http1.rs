//! The HTTP/1.1 transport: RunSSE down, BidiAppend up.

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use ibeam_core::codec::connect::{self, Code, ConnectError, Decoder, Envelope};
use ibeam_proto::{
    agent::{AgentClientMessage, AgentRunRequest, agent_client_message::Message as ToServer},
    aiserver::{BidiAppendRequest, BidiRequestId},
};
use ibeam_sim::{
    ErrorSpec, Refuse, Scenario, ScenarioRule, Sim, SimConfig, SimHttp2, StreamCut, StreamFault,
};
use prost::Message as _;

use crate::peer::{Ended, Heard, Peer, call, spawn};

const ID: &str = "33333333-3333-4333-8333-333333333333";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The format of appends.
#[derive(Clone, Copy)]
enum Style {
    Json,
    Proto,
    GrpcWeb,
}

async fn append(peer: &Peer, seqno: i64, data: &[u8], style: Style) -> u16 {
    let data = data.to_vec();
    let request = BidiAppendRequest {
        data: if matches!(style, Style::Proto) { String::new() } else { hex(&data) },
        data_binary: if matches!(style, Style::Proto) { data.clone().into() } else { Bytes::new() },
        request_id: Some(BidiRequestId { request_id: peer.stream.clone() }),
        append_seqno: Some(seqno),
    };
    let (mime, body) = match style {
        Style::Json => {
            let json = format!(
                r#"{{"data":"{}","requestId":{{"requestId":"{}"}},"appendSeqno":"{seqno}"}}"#,
                hex(&data),
                peer.stream
            );
            ("application/json", Bytes::from(json))
        }
        Style::Proto => ("application/proto", request.encode_to_vec().into()),
        Style::GrpcWeb => ("application/grpc-web+proto", connect::encode(&request)),
    };
    let head = peer.head("/aiserver.v1.BidiService/BidiAppend", mime);
    let response = call(&peer.sim, head, body).await;
    let status = response.status().as_u16();
    if !matches!(style, Style::GrpcWeb) {
        return status;
    }
    // Errors are in the trailers.
    assert_eq!(status, 200);
    grpc_error(response.into_body()).map_or(200, |error| error.code.http_status())
}

/// The error in the trailer frame of a gRPC-Web answer.
fn grpc_error(body: Bytes) -> Option<ConnectError> {
    let mut decoder = Decoder::new();
    decoder.push(body);
    loop {
        match decoder.next().unwrap() {
            Some(Envelope::End(error)) => return error,
            Some(Envelope::Message(_)) => {}
            None => panic!("no trailer"),
        }
    }
}

async fn turn(peer: &mut Peer, text: &str, style: Style, mime: &str, append_first: bool) -> Heard {
    let request = peer.request(text);
    run(peer, request, style, mime, append_first).await
}

/// A run by RunSSE in the usual format.
pub(crate) async fn run_sse(peer: &mut Peer, request: AgentRunRequest) -> Heard {
    run(peer, request, Style::Proto, "application/connect+proto", false).await
}

async fn run(
    peer: &mut Peer,
    request: AgentRunRequest,
    style: Style,
    mime: &str,
    append_first: bool,
) -> Heard {
    let run = AgentClientMessage { message: Some(ToServer::RunRequest(request)) };
    let run = run.encode_to_vec();
    if append_first {
        assert_eq!(append(peer, 0, &run, style).await, 200);
    }
    let io = TokioIo::new(peer.sim.connect());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    spawn(async move {
        let _ = connection.await;
    });
    let body = connect::encode(&BidiRequestId { request_id: peer.stream.clone() });
    let request = peer.head("/agent.v1.AgentService/RunSSE", mime).header("host", "sim");
    let response = sender.send_request(request.body(Full::new(body)).unwrap());
    let response = if append_first {
        response.await.unwrap()
    } else {
        let (response, status) = tokio::join!(response, append(peer, 0, &run, style));
        assert_eq!(status, 200);
        response.unwrap()
    };
    let mut heard = Heard::default();
    let mut seqno = 0;
    let appender = peer.clone();
    peer.read(response, &mut heard, async |message: Bytes| {
        seqno += 1;
        let status = append(&appender, seqno, &message, style).await;
        // A stream that was cut accepts no more.
        assert!(matches!(status, 200 | 404), "{status}");
        // A duplicate changes nothing. For the last one, the stream may be closed.
        let again = append(&appender, seqno, &message, style).await;
        assert!(matches!(again, 200 | 404), "{again}");
    })
    .await;
    heard
}

#[tokio::test(start_paused = true)]
async fn every_append_format_completes_a_tool_call() {
    for (style, mime, first) in [
        (Style::Json, "application/connect+proto", false),
        (Style::Proto, "application/connect+proto", true),
        (Style::GrpcWeb, "application/grpc-web+proto", false),
        (Style::GrpcWeb, "application/grpc-web+proto", true),
    ] {
        let sim = Sim::new(SimConfig { http2: SimHttp2::NotOffered, ..SimConfig::default() });
        let mut peer = Peer::new(&sim).tool("bash", Bytes::new());
        let heard = turn(&mut peer, "run `ls`", style, mime, first).await;
        assert_eq!(heard.headers["content-type"], mime);
        assert_eq!(heard.ended, Some(Ended::EndFrame));
        assert!(heard.text.contains("tool says hi"), "{}", heard.text);
        let stats = sim.stats();
        assert!(stats.duplicate_appends > 0);
        assert_eq!(stats.violations, Vec::<String>::new());
        assert_eq!((stats.open_streams, sim.tasks() > 0), (0, true));
        // The id cannot be used again.
        let beat =
            AgentClientMessage { message: Some(ToServer::ClientHeartbeat(Default::default())) };
        assert_eq!(append(&peer, 99, &beat.encode_to_vec(), style).await, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn reset_on_http1_breaks_the_body() {
    let cut = StreamCut {
        after_frames: 6,
        how: StreamFault::Reset(ibeam_sim::ResetCode::INTERNAL_ERROR),
    };
    let scenario = Scenario {
        rules: vec![ScenarioRule { cut: Some(cut), ..ScenarioRule::default() }],
        ..Scenario::builtin()
    };
    let sim = Sim::new(SimConfig::scenario(scenario));
    let mut peer = Peer::new(&sim);
    let mime = "application/connect+proto";
    let heard = turn(&mut peer, "hello", Style::Proto, mime, false).await;
    assert!(matches!(heard.ended, Some(Ended::Broken(_))), "{:?}", heard.ended);
}

#[tokio::test(start_paused = true)]
async fn run_needs_http2_and_a_known_format() {
    let sim = Sim::default();
    let peer = Peer::new(&sim);
    let head = peer.head("/agent.v1.AgentService/Run", "application/json");
    assert_eq!(call(&sim, head, Bytes::new()).await.status(), 415);
    let head = peer.head("/agent.v1.AgentService/Run", "application/connect+proto");
    assert_eq!(call(&sim, head, Bytes::new()).await.status(), 505);
    let head = peer.head("/agent.v1.AgentService/RunSSE", "application/connect+proto");
    assert_eq!(call(&sim, head, Bytes::new()).await.status(), 400);
}

#[tokio::test(start_paused = true)]
async fn grpc_web_gets_refusals_in_trailers() {
    let web = "application/grpc-web+proto";
    let body = connect::encode(&BidiRequestId { request_id: ID.to_owned() });
    let mut peer = Peer::new(&Sim::default());
    peer.token = "nonsense".to_owned();
    for path in [
        "/agent.v1.AgentService/RunSSE",
        "/aiserver.v1.BidiService/BidiAppend",
        "/agent.v1.AgentService/GetUsableModels",
    ] {
        let response = call(&peer.sim, peer.head(path, web), body.clone()).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &web.parse().unwrap()),
            "{path}"
        );
        assert_eq!(grpc_error(response.into_body()).unwrap().code, Code::Unauthenticated, "{path}");
    }
    // A refusal of the service is in the trailers too; a bare status is not.
    for (error, status) in [(ErrorSpec::kind("RATE_LIMITED"), 200), (ErrorSpec::default(), 429)] {
        let refuse = Some(Refuse { error, ..Refuse::status(429) });
        let rules = vec![ScenarioRule { refuse, ..ScenarioRule::default() }];
        let sim = Sim::new(SimConfig::scenario(Scenario { rules, ..Scenario::builtin() }));
        let peer = Peer::new(&sim);
        let run = AgentClientMessage { message: Some(ToServer::RunRequest(peer.request("x"))) };
        assert_eq!(append(&peer, 0, &run.encode_to_vec(), Style::GrpcWeb).await, 200);
        let head = peer.head("/agent.v1.AgentService/RunSSE", web);
        let response = call(&sim, head, body.clone()).await;
        assert_eq!(response.status(), status);
        if status == 200 {
            assert_eq!(grpc_error(response.into_body()).unwrap().code, Code::ResourceExhausted);
        }
    }
}
