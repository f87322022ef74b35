//! The routes, and how a run is started.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::Wire as _;
use ibeam_proto::{
    agent::agent_client_message::Message as FromClient,
    aiserver::{BidiRequestId, ErrorKind},
};
use tokio::sync::mpsc;

use super::{
    Sim,
    append::{self, ALLOWED_TOOLS, OpenAppends},
    auth, headers, hosts, model_calls,
    responses::{self, SimBody, SimResponse},
    usage,
};
use crate::{
    config::SimHttp2,
    engine::{RunHeaders, RunIo, RunStop, SimRun},
    record::{RunReport, RunTally},
    scenario::Refuse,
    stream::{BodyFormat, CHUNKS_CAP, ConnectionControl, FrameStyle, RunInbound, RunOutbound},
};

/// The largest body of a unary call.
const MAX_UNARY: usize = 64 * 1024 * 1024;

const RUN: &str = "/agent.v1.AgentService/Run";
const RUN_SSE: &str = "/agent.v1.AgentService/RunSSE";
/// The counters, for other processes. The real service has no such path.
const STATS: &str = "/sim/stats";
/// What the models know.
const PROMPTS: &str = "/sim/prompts";
const BIDI_APPEND: &str = "/aiserver.v1.BidiService/BidiAppend";

/// Answers one request.
pub(crate) async fn answer(
    sim: Sim,
    control: Arc<ConnectionControl>,
    request: Request<Incoming>,
) -> Result<SimResponse, h2::Error> {
    let path = request.uri().path().to_owned();
    if path == STATS && request.method() == Method::GET {
        return Ok(responses::json(StatusCode::OK, &sim.service.state.records.report()));
    }
    if path == PROMPTS && request.method() == Method::GET {
        let prompts = serde_json::json!({ "prompts": sim.prompts() });
        return Ok(responses::json(StatusCode::OK, &prompts));
    }
    sim.counters().request(&path);
    if path == RUN
        && request.version() == Version::HTTP_2
        && sim.config().http2 == SimHttp2::Http11Required
    {
        return Err(h2::Reason::HTTP_1_1_REQUIRED.into());
    }
    if let (RUN | RUN_SSE, Some(refusal)) = (path.as_str(), hosts::refusal(&sim, &request)) {
        return Ok(refusal);
    }
    let reply = match (request.method(), path.as_str()) {
        (&Method::POST, RUN) => run(sim, control, request).await,
        (&Method::POST, RUN_SSE) => run_sse(sim, control, request).await,
        _ => unary(&sim, &path, request).await,
    };
    Ok(reply)
}

async fn unary(sim: &Sim, path: &str, request: Request<Incoming>) -> SimResponse {
    let (head, body) = request.into_parts();
    let Some(body) = responses::read_body(body, MAX_UNARY).await else {
        return responses::error(&ConnectError::new(
            Code::InvalidArgument,
            "The body is too large or incomplete",
        ));
    };
    if head.method == Method::POST {
        if path == BIDI_APPEND {
            return append::answer(sim, &head.headers, &body);
        }
        if let Some(reply) = model_calls::answer(sim, path, &head.headers, &body) {
            return reply;
        }
        if let Some(reply) = usage::answer(sim, path, &head.headers, &body) {
            return reply;
        }
        if deprecated(path) {
            let form = BodyFormat::of(&head.headers).unwrap_or(BodyFormat::Json);
            return responses::error_in(form, &deprecation());
        }
    }
    let query = head.uri.query().unwrap_or_default();
    auth::answer(sim, &head.method, path, query, &head.headers, &body)
        .unwrap_or_else(|| responses::unknown_path(path))
}

/// The oldest chat calls, which only answer that they are deprecated.
fn deprecated(path: &str) -> bool {
    const METHODS: &[&str] = &[
        "StreamChat",
        "StreamChatWeb",
        "StreamChatContext",
        "StreamChatDeepContext",
        "TaskStreamChatContext",
    ];
    path.strip_prefix("/aiserver.v1.AiService/").is_some_and(|method| METHODS.contains(&method))
}

fn deprecation() -> ConnectError {
    responses::cursor_error(
        Code::FailedPrecondition,
        ErrorKind::ErrorDeprecated,
        "Deprecated",
        "This type of request is deprecated. Please upgrade Cursor.",
    )
}

/// `Run`: both directions on one stream.
async fn run(sim: Sim, control: Arc<ConnectionControl>, request: Request<Incoming>) -> SimResponse {
    let host = hosts::name(&request).to_owned();
    let (head, body) = request.into_parts();
    if let (Version::HTTP_2, SimHttp2::Status(status)) = (head.version, sim.config().http2) {
        return responses::refusal(&Refuse::status(status));
    }
    if BodyFormat::of(&head.headers) != Some(BodyFormat::Connect) {
        return responses::unsupported();
    }
    if head.version != Version::HTTP_2 {
        // Connect requires HTTP/2 for both directions at once.
        return responses::refusal(&Refuse::status(505));
    }
    if let Err(error) = headers::check_run(&sim, &head.headers) {
        return responses::error(&error);
    }
    let source = RunSource::Stream(body);
    start(sim, control, source, host, &head.headers, BodyFormat::Connect).await
}

/// `RunSSE`: the server's direction; the client's messages come by `BidiAppend`.
async fn run_sse(
    sim: Sim,
    control: Arc<ConnectionControl>,
    request: Request<Incoming>,
) -> SimResponse {
    let host = hosts::name(&request).to_owned();
    let (head, body) = request.into_parts();
    let form = match BodyFormat::of(&head.headers) {
        Some(form @ (BodyFormat::Connect | BodyFormat::GrpcWeb)) => form,
        _ => return responses::unsupported(),
    };
    if let Err(error) = headers::check_run(&sim, &head.headers) {
        return responses::error_in(form, &error);
    }
    let body = responses::read_body(body, MAX_UNARY).await.unwrap_or_default();
    let id = BidiRequestId::from_wire(Bytes::copy_from_slice(form.payload(&body)))
        .unwrap_or_default()
        .request_id;
    if id.is_empty() {
        let error = ConnectError::new(Code::InvalidArgument, "request_id is required");
        return responses::error_in(form, &error);
    }
    let Some(opened) = sim.service.appends.open(&id) else {
        let error = ConnectError::new(Code::AlreadyExists, "The stream is taken");
        return responses::error_in(form, &error);
    };
    let joined = JoinedAppends { sim: sim.clone(), id };
    let source = RunSource::Appends { opened, opening: body.len(), joined };
    start(sim, control, source, host, &head.headers, form).await
}

/// Starts the run, and returns its stream. Scenarios that may refuse with a status read the first
/// message before the response begins; others respond at once.
async fn start(
    sim: Sim,
    control: Arc<ConnectionControl>,
    source: RunSource,
    host: String,
    headers: &HeaderMap,
    form: BodyFormat,
) -> SimResponse {
    let config = sim.config();
    let number = sim.service.state.runs.fetch_add(1, Ordering::Relaxed) + 1;
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let accepts_gzip = text("connect-accept-encoding").is_some_and(|v| v.contains("gzip"));
    let (tx, rx) = mpsc::channel(CHUNKS_CAP);
    let style =
        FrameStyle { format: form, gzip: false, split: None, per_chunk: config.frames_per_chunk };
    let report = RunReport {
        run: number,
        request_id: text("x-request-id").unwrap_or_default(),
        transport: source.transport(),
        host,
        ..RunReport::default()
    };
    let unlisted = source.unlisted();
    let (inbound, tally, joined) = source.open(&sim, report);
    let out = RunOutbound::new(tx, style);
    let mut io = RunIo::new(&sim.service.state, control, inbound, out, tally, number);
    let chaos = config.chaos.or(config.scenario.chaos).and_then(|chaos| chaos.effect(number));
    if let Some(refuse) = chaos.and_then(|effect| io.apply(effect)) {
        return responses::refusal_in(form, &refuse);
    }
    let run_headers = RunHeaders {
        allowed_tools: text(ALLOWED_TOOLS),
        unlisted,
        streaming: text("x-cursor-streaming").as_deref() == Some("true"),
        request_id: text("x-request-id").unwrap_or_default(),
        account: auth::account(headers),
    };
    let mut run = SimRun::new(io, number, joined.is_some(), run_headers);
    let mut first = None;
    if config.scenario.decides_early() {
        match Box::pin(run.io.first()).await {
            Ok(FromClient::RunRequest(request)) => {
                run.prepare(&request);
                run.choose();
                first = Some(FromClient::RunRequest(request));
            }
            Ok(other) => first = Some(other),
            Err(stop) => {
                run.io.tally.ended("refused");
                return match stop {
                    RunStop::Fail(error) => responses::error_in(form, &error),
                    _ => responses::refusal(&Refuse::status(408)),
                };
            }
        }
        if let Some(refuse) = run.refusal().await {
            return responses::refusal_in(form, &refuse);
        }
    }
    run.io.out.style.gzip &= accepts_gzip;
    let gzip = run.io.out.style.gzip;
    let work = Box::pin(run.drive(first));
    sim.service.state.tasks.spawn(async move {
        let _joined = joined;
        work.await;
    });
    let mut reply = Response::new(SimBody::Stream(rx));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, form.mime());
    if gzip {
        headers.insert("connect-content-encoding", HeaderValue::from_static("gzip"));
    }
    reply
}

/// Where a run's messages come from.
enum RunSource {
    Stream(Incoming),
    Appends { opened: OpenAppends, opening: usize, joined: JoinedAppends },
}

impl RunSource {
    fn transport(&self) -> &'static str {
        match self {
            Self::Stream(_) => "run",
            Self::Appends { .. } => "run_sse",
        }
    }

    /// Set when an append comes without the header with the allowed tools.
    fn unlisted(&self) -> Arc<AtomicBool> {
        match self {
            Self::Stream(_) => Arc::default(),
            Self::Appends { opened, .. } => Arc::clone(&opened.unlisted),
        }
    }

    fn open(self, sim: &Sim, report: RunReport) -> (RunInbound, RunTally, Option<JoinedAppends>) {
        match self {
            Self::Stream(body) => {
                let tally = RunTally::open(&sim.service.state.records, report, None);
                (RunInbound::stream(body, tally.clone()), tally, None)
            }
            Self::Appends { opened, opening, joined } => {
                let bytes = Some(opened.bytes);
                let tally = RunTally::open(&sim.service.state.records, report, bytes);
                tally.heard(opening);
                (RunInbound::Appends(opened.rx), tally, Some(joined))
            }
        }
    }
}

/// Ties appends to their RunSSE stream: dropping it ends both.
struct JoinedAppends {
    sim: Sim,
    id: String,
}

impl Drop for JoinedAppends {
    fn drop(&mut self) {
        self.sim.service.appends.close(&self.id);
    }
}
