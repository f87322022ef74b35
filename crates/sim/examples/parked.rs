//! What open runs cost: the memory of a simulator that waits for the results of many tools,
//! and the processor time of its heartbeats.
//! `cargo run --release -p ibeam-sim --example parked [runs]`
//!
//! The simulator is another process: this program, started a second time.

use std::{
    convert::Infallible,
    io::{BufRead as _, BufReader},
    pin::Pin,
    process::{Command, Stdio},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ibeam_core::codec::connect;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, ClientHeartbeat, ConversationAction,
    ConversationStateStructure, McpToolDefinition, RequestContext, RequestedModel, UserMessage,
    UserMessageAction, agent_client_message, conversation_action,
};
use ibeam_sim::{Quirk, Sim, SimConfig};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Streams on one connection.
const PER_CONNECTION: usize = 200;
/// The client's heartbeat.
const BEAT: Duration = Duration::from_secs(5);
/// How long the processor time is measured.
const WATCH: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve().await,
        runs => watch(runs.map_or(Ok(10_000), str::parse)?).await,
    }
}

#[expect(clippy::print_stdout, reason = "the address is for the parent process")]
async fn serve() -> anyhow::Result<()> {
    let quirks = [Quirk::Terse].into_iter().collect();
    let sim = Sim::new(SimConfig { quirks, pace: Duration::ZERO, ..SimConfig::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    sim.serve(listener, None, CancellationToken::new()).await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result is for people")]
async fn watch(runs: usize) -> anyhow::Result<()> {
    let mut child =
        Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
    let pid = child.id();
    let mut address = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut address)?;
    }
    let address = address.trim();
    let tasks = TaskTracker::new();
    let before = memory(pid)?;
    let mut left = runs;
    while left > 0 {
        let streams = left.min(PER_CONNECTION);
        left -= streams;
        park(address, streams, &tasks).await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = memory(pid)?.saturating_sub(before) / runs as u64;
    println!("{runs} open runs: {} MB in all, {each} bytes each", memory(pid)? / 1_000_000);
    let start = ticks(pid)?;
    tokio::time::sleep(WATCH).await;
    // A tick is a hundredth of a second.
    let percent = (ticks(pid)? - start) as f64 / WATCH.as_secs_f64();
    println!("{percent:.1} % of one core for their heartbeats");
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Opens runs that ask for a tool, and answers nothing but heartbeats.
async fn park(address: &str, streams: usize, tasks: &TaskTracker) -> anyhow::Result<()> {
    let io = TokioIo::new(tokio::net::TcpStream::connect(address).await?);
    let (sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Messages>(TokioExecutor::new(), io).await?;
    tasks.spawn(async move {
        let _ = connection.await;
    });
    for _ in 0..streams {
        let mut sender = sender.clone();
        let (tx, rx) = mpsc::channel(1);
        let request = http::Request::post("http://sim/agent.v1.AgentService/Run")
            .header("content-type", "application/connect+proto")
            .header("authorization", format!("Bearer {}", Sim::TOKEN))
            .header("x-cursor-client-type", "cli")
            .header("x-cursor-client-version", "cli-2026.01.09-231024f")
            .body(Messages(rx))?;
        tasks.spawn(async move {
            let mut message = run_request();
            while tx.send(message).await.is_ok() {
                tokio::time::sleep(BEAT).await;
                let beat = agent_client_message::Message::ClientHeartbeat(ClientHeartbeat {});
                message = connect::encode(&AgentClientMessage { message: Some(beat) });
            }
        });
        tasks.spawn(async move {
            if let Ok(response) = sender.send_request(request).await {
                let mut body = response.into_body();
                while let Some(Ok(_)) = body.frame().await {}
            }
        });
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The client's half of a run.
struct Messages(mpsc::Receiver<Bytes>);

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

fn run_request() -> Bytes {
    let tool = McpToolDefinition { name: "bash".to_owned(), ..McpToolDefinition::default() };
    let action = UserMessageAction {
        user_message: Some(UserMessage {
            text: "run `ls`".to_owned(),
            mode: 1,
            ..UserMessage::default()
        }),
        request_context: Some(RequestContext { tools: vec![tool], ..RequestContext::default() }),
        ..UserMessageAction::default()
    };
    let request = AgentRunRequest {
        conversation_state: Some(ConversationStateStructure::default()),
        action: Some(ConversationAction {
            action: Some(conversation_action::Action::UserMessageAction(action)),
        }),
        requested_model: Some(RequestedModel {
            model_id: "default".to_owned(),
            ..RequestedModel::default()
        }),
        conversation_id: Some("parked".to_owned()),
        ..AgentRunRequest::default()
    };
    let message = Some(agent_client_message::Message::RunRequest(request));
    connect::encode(&AgentClientMessage { message })
}

/// Resident bytes of a process.
fn memory(pid: u32) -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = statm.split(' ').nth(1).unwrap_or_default();
    Ok(pages.parse::<u64>()? * 4096)
}

/// Processor time of a process so far.
fn ticks(pid: u32) -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let user = times.next().transpose()?.unwrap_or_default();
    Ok(user + times.next().transpose()?.unwrap_or_default())
}
