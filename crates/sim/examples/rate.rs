//! The simulator's own rate over a loopback socket: the upper limit for a benchmark.
//! `cargo run --release -p ibeam-sim --example rate [streams] [scenario.toml]`

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ibeam_core::codec::connect;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, ConversationAction, ConversationStateStructure,
    RequestContext, RequestedModel, UserMessage, UserMessageAction, agent_client_message,
    conversation_action,
};
use ibeam_sim::{Scenario, Sim, SimConfig};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the result is for people")]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let streams: usize = args.next().map_or(Ok(20), |n| n.parse())?;
    let path = args.next();
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/fast.toml");
    let scenario = Scenario::from_path(path.as_deref().unwrap_or(default))?;
    let sim = Sim::new(SimConfig { pace: Duration::ZERO, ..SimConfig::scenario(scenario) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let tasks = TaskTracker::new();
    let server = sim.clone();
    tasks.spawn(async move { server.serve(listener, None, CancellationToken::new()).await });

    let io = TokioIo::new(tokio::net::TcpStream::connect(address).await?);
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(64 * 1024 * 1024)
        .handshake(io)
        .await?;
    tasks.spawn(async move {
        let _ = connection.await;
    });
    let start = tokio::time::Instant::now();
    let mut running = Vec::new();
    for _ in 0..streams {
        let mut sender = sender.clone();
        running.push(tasks.spawn(async move {
            let request = http::Request::post("http://sim/agent.v1.AgentService/Run")
                .header("content-type", "application/connect+proto")
                .header("authorization", format!("Bearer {}", Sim::TOKEN))
                .header("x-cursor-client-type", "cli")
                .header("x-cursor-client-version", "cli-2026.01.09-231024f")
                .body(Full::new(run_request()))?;
            let mut body = sender.send_request(request).await?.into_body();
            let mut bytes = 0;
            while let Some(frame) = body.frame().await {
                bytes += frame?.into_data().map_or(0, |data| data.len());
            }
            anyhow::Ok(bytes)
        }));
    }
    let mut bytes = 0;
    for stream in running {
        bytes += stream.await??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let frames = sim.stats().server_frames as f64;
    println!(
        "{streams} streams: {frames} frames, {bytes} bytes in {seconds:.3} s: {:.0} frames/s",
        frames / seconds
    );
    Ok(())
}

fn run_request() -> Bytes {
    let action = UserMessageAction {
        user_message: Some(UserMessage { text: "go".to_owned(), mode: 1, ..Default::default() }),
        request_context: Some(RequestContext::default()),
        ..Default::default()
    };
    let request = AgentRunRequest {
        conversation_state: Some(ConversationStateStructure::default()),
        action: Some(ConversationAction {
            action: Some(conversation_action::Action::UserMessageAction(action)),
        }),
        requested_model: Some(RequestedModel { model_id: "default".into(), ..Default::default() }),
        conversation_id: Some("rate".to_owned()),
        ..Default::default()
    };
    let message = Some(agent_client_message::Message::RunRequest(request));
    connect::encode(&AgentClientMessage { message })
}
