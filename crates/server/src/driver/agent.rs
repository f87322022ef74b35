//! The Agent API: HTTP/2 first, HTTP/1.1 where that is refused, and the lists that
//! come by plain requests.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use ibeam_core::{
    backend::BackendKind,
    codec::connect::{Code, Decoder, Envelope},
    error::{ErrorCode, TurnError},
    model::TurnRequest,
    models::{ModelInfo, ModelList},
    peer::LinkError,
    peer::agent::{AgentOpen, AgentPeer, Plan},
};
use ibeam_proto::Wire;
use ibeam_proto::{
    agent::{
        GetServerConfigResponse, GetUsableModelsRequest, GetUsableModelsResponse, Http2Config,
        ModelDetails,
    },
    aiserver::{AvailableModelsRequest, AvailableModelsResponse},
};
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::{sync::Notify, time::Instant};

use super::{
    AgentConfig, BoxFuture, Dial, Driver, DriverStats, Link, LinkPeer, LinkReceiver, LinkSender,
    Open, TurnSetup,
    agent_h1::{self, Http1},
    agent_h2::{self, OpenError},
    agent_hosts::{HostPools, RunHosts},
    agent_plan::AgentPlans,
    errors,
    fallback::Fallback,
    headers::{self, ClientProfile},
};
use crate::{
    config::Transport,
    net::{
        connect::{Connector, Host},
        http::{Bounds, HttpClient, HttpError},
        pool::Asleep,
        tls::Alpn,
    },
    tasks::Tasks,
};

const SERVER_CONFIG: &str = "/aiserver.v1.ServerConfigService/GetServerConfig";
const USABLE_MODELS: &str = "/agent.v1.AgentService/GetUsableModels";
/// The same under the name of another service, which some deployments have instead.
const USABLE_MODELS_TOO: &str = "/aiserver.v1.AiService/GetUsableModels";
const AVAILABLE_MODELS: &str = "/aiserver.v1.AiService/AvailableModels";

const CONFIG_BOUNDS: Bounds = Bounds { timeout: Duration::from_secs(5), max_body: 1024 * 1024 };
/// How long a server's wishes about HTTP/2 and hosts are taken as current.
const CONFIG_FRESH: Duration = Duration::from_secs(30);
const LIST_BOUNDS: Bounds = Bounds { timeout: Duration::from_secs(15), max_body: 8 * 1024 * 1024 };

/// The driver `agent`. Clones share connections and memory.
#[derive(Clone, Debug)]
pub struct AgentDriver(Arc<AgentInner>);

#[derive(Debug)]
struct AgentInner {
    api_host: Host,
    hosts: RunHosts,
    profile: Arc<ClientProfile>,
    transport: Transport,
    pools: HostPools,
    http1: Http1,
    unary: HttpClient,
    fallback: Arc<Fallback>,
    plans: AgentPlans,
    settings: Mutex<ServerSettings>,
    /// Only one asks for them first; the others wait for its answer.
    first_settings: tokio::sync::Mutex<()>,
    tasks: Tasks,
}

/// What the server last said about itself, apart from its hosts.
#[derive(Debug, Default)]
struct ServerSettings {
    /// When it was asked, whether or not it answered.
    asked: Option<Instant>,
    forbids_h2: bool,
}

impl AgentDriver {
    #[must_use]
    pub fn new(config: AgentConfig, connector: &Connector, tasks: &Tasks) -> Self {
        let AgentConfig { api_host, follows_service, profile, transport, pool, plans } = config;
        let hosts = RunHosts::new(api_host.clone(), follows_service, profile.ghost_mode);
        let profile = Arc::new(profile);
        let fallback = Arc::new(Fallback::new(transport == Transport::Auto));
        let client = |alpn| HttpClient::new(connector.clone(), alpn, tasks);
        let http1 = Http1 {
            client: client(Alpn::Http1),
            host: api_host.clone(),
            profile: Arc::clone(&profile),
            tasks: tasks.clone(),
            streams: Arc::new(AtomicUsize::new(0)),
            fallback: Arc::clone(&fallback),
        };
        Self(Arc::new(AgentInner {
            pools: HostPools::new(connector.clone(), pool, tasks.clone()),
            api_host,
            hosts,
            profile,
            transport,
            http1,
            unary: client(Alpn::Http2),
            fallback,
            plans: AgentPlans::new(plans),
            settings: Mutex::default(),
            first_settings: tokio::sync::Mutex::default(),
            tasks: tasks.clone(),
        }))
    }
}

/// What a stream of the Agent API is opened with.
pub(super) type OpenStream = Open<AgentOpen>;
pub(super) type AgentLink = Link<AgentPeer>;

impl LinkPeer for AgentPeer {
    type Sender = AgentSender;
    type Receiver = AgentReceiver;
}

#[derive(Debug)]
pub enum AgentSender {
    H2(agent_h2::Http2Sender),
    H1(agent_h1::Http1Sender),
}

#[derive(Debug)]
pub enum AgentReceiver {
    H2(agent_h2::Http2Receiver),
    H1(agent_h1::Http1Receiver),
}

impl LinkSender<Bytes> for AgentSender {
    async fn send(&self, framed: Bytes) -> Result<(), LinkError> {
        match self {
            Self::H2(tx) => tx.send(framed).await,
            Self::H1(tx) => tx.send(framed).await,
        }
    }

    fn cancel(&self) {
        match self {
            Self::H2(tx) => tx.cancel(),
            Self::H1(tx) => tx.cancel(),
        }
    }
}

impl LinkReceiver<Bytes> for AgentReceiver {
    async fn next(&mut self) -> Option<Result<Bytes, LinkError>> {
        match self {
            Self::H2(rx) => rx.next().await,
            Self::H1(rx) => rx.next().await,
        }
    }

    async fn hold(&mut self) -> Infallible {
        match self {
            Self::H2(rx) => rx.hold().await,
            Self::H1(_) => std::future::pending().await,
        }
    }

    fn sleep(&mut self, framed: Bytes) -> Option<(Asleep, Arc<Notify>)> {
        match self {
            Self::H2(rx) => rx.sleep(framed),
            Self::H1(_) => None,
        }
    }
}

impl Dial for AgentDriver {
    type Peer = AgentPeer;

    fn plan(&self, request: &TurnRequest, turn: TurnSetup) -> Plan {
        self.0.plans.plan(request, turn, self.0.hosts.changes())
    }

    fn open(&self, open: OpenStream) -> BoxFuture<'_, Result<AgentLink, LinkError>> {
        Box::pin(async move {
            let inner = &self.0;
            if inner.wants_http1(&open).await {
                return inner.http1.open(open);
            }
            if let Some(changes) = open.peer.other_host {
                let failed = inner.hosts.current();
                inner.ask_settings(&open.token).await;
                inner.hosts.change(changes, &failed);
            }
            inner.open_h2(open).await
        })
    }
}

impl Driver for AgentDriver {
    fn kind(&self) -> BackendKind {
        BackendKind::Agent
    }

    fn models(&self, token: SecretString) -> BoxFuture<'_, Result<Vec<ModelInfo>, TurnError>> {
        Box::pin(async move {
            let (usable, available) =
                tokio::join!(self.0.usable_models(&token), self.0.available_models(&token));
            // Either list will do; when both fail, the first says what matters.
            let list = match (usable, available) {
                (Ok(usable), Ok(available)) => ModelList::merge(&usable, &available.models),
                (Ok(usable), Err(error)) => {
                    tracing::debug!(?error, "no list of parameters");
                    ModelList::merge(&usable, &[])
                }
                (Err(error), Ok(available)) => {
                    tracing::debug!(?error, "no list of usable models");
                    ModelList::merge(&[], &available.models)
                }
                (Err(error), Err(_)) => return Err(error.to_turn_error()),
            };
            Ok(list.models().to_vec())
        })
    }

    fn stats(&self) -> DriverStats {
        DriverStats {
            http2: self.0.pools.stats(),
            http1_streams: self.0.http1.streams.load(Ordering::Relaxed),
            fallen_back: self.0.fallback.active() || self.0.settings.lock().forbids_h2,
            http2_forbidden: self.0.settings.lock().forbids_h2,
            children: 0,
        }
    }
}

impl AgentInner {
    async fn wants_http1(self: &Arc<Self>, open: &OpenStream) -> bool {
        match self.transport {
            Transport::H1 => true,
            Transport::H2 => {
                if self.hosts.follows_service() {
                    self.learn(&open.token).await;
                }
                false
            }
            Transport::Auto if open.peer.prefer_h1 || self.fallback.active() => true,
            Transport::Auto => {
                self.learn(&open.token).await;
                self.settings.lock().forbids_h2
            }
        }
    }

    /// Over HTTP/2, on the host that is chosen now. HTTP/1.1 goes to the API's own host, the only
    /// one that speaks it.
    async fn open_h2(&self, open: OpenStream) -> Result<AgentLink, LinkError> {
        let host = self.hosts.current();
        let mut link = self.open_on(&host, &open).await;
        let may_fall_back = self.transport == Transport::Auto;
        let unreachable = match &link {
            Err(OpenError::Unreachable(_)) => true,
            Err(OpenError::TooSlow) => !may_fall_back,
            Ok(_) | Err(OpenError::NotH2(_) | OpenError::Link(_)) => false,
        };
        if unreachable && host != self.api_host {
            self.hosts.avoid();
            link = self.open_on(&self.api_host, &open).await;
        }
        let why = match link {
            Ok(link) => return Ok(link),
            Err(OpenError::Link(error) | OpenError::Unreachable(error)) => return Err(error),
            Err(OpenError::TooSlow) if !may_fall_back => return Err(LinkError::ConnectTimeout),
            Err(OpenError::TooSlow) => "it did not open in time".to_owned(),
            Err(OpenError::NotH2(why)) => why,
        };
        if may_fall_back {
            self.fallback.remember(&why);
            self.http1.open(open)
        } else {
            Err(LinkError::Connect(format!("the server does not speak HTTP/2 ({why})")))
        }
    }

    async fn open_on(&self, host: &Host, open: &OpenStream) -> Result<AgentLink, OpenError> {
        let (pool, fallback) = (self.pools.of(host), Arc::clone(&self.fallback));
        agent_h2::open(&pool, host, &self.profile, open, fallback).await
    }

    /// Learns what the server wants. Only the first turn waits for the answer, while a
    /// connection is made beside it if its host is known; later ones take the last answer and
    /// have it renewed behind their back.
    async fn learn(self: &Arc<Self>, token: &SecretString) {
        let mut asked = self.settings.lock().asked;
        if asked.is_none() {
            if !self.hosts.follows_service() {
                self.pools.of(&self.api_host).warm_up();
            }
            let _first = self.first_settings.lock().await;
            asked = self.settings.lock().asked;
            if asked.is_none() {
                return self.ask_settings(token).await;
            }
        }
        if asked.is_some_and(|asked| asked.elapsed() > CONFIG_FRESH) {
            // Set first, so that only one asks.
            self.settings.lock().asked = Some(Instant::now());
            let (inner, token) = (Arc::clone(self), token.clone());
            self.tasks.spawn("server settings", async move { inner.ask_settings(&token).await });
        }
    }

    async fn ask_settings(&self, token: &SecretString) {
        let answer: Result<GetServerConfigResponse, _> =
            self.call(SERVER_CONFIG, token, Bytes::new(), CONFIG_BOUNDS).await;
        let mut settings = self.settings.lock();
        settings.asked = Some(Instant::now());
        match answer {
            Ok(config) => {
                settings.forbids_h2 = matches!(
                    config.http2_config(),
                    Http2Config::ForceAllDisabled | Http2Config::ForceBidiDisabled
                );
                self.hosts.note(config.agent_url_config.as_ref());
            }
            // What it said before holds; with nothing said, HTTP/2 is tried.
            Err(error) => tracing::debug!(?error, "no server settings"),
        }
    }

    async fn usable_models(&self, token: &SecretString) -> Result<Vec<ModelDetails>, CallError> {
        let request = GetUsableModelsRequest::default().to_wire();
        let call =
            |path, body| self.call::<GetUsableModelsResponse>(path, token, body, LIST_BOUNDS);
        let answer = match call(USABLE_MODELS, request.clone()).await {
            Err(error) if error.is_unknown_path() => call(USABLE_MODELS_TOO, request).await,
            answer => answer,
        };
        Ok(answer?.models)
    }

    async fn available_models(
        &self,
        token: &SecretString,
    ) -> Result<AvailableModelsResponse, CallError> {
        // Without this the answer has neither parameters nor variants.
        let request = AvailableModelsRequest {
            use_model_parameters: true,
            // Descriptions are not shown.
            do_not_use_markdown: true,
            ..Default::default()
        };
        self.call(AVAILABLE_MODELS, token, request.to_wire(), LIST_BOUNDS).await
    }

    /// A plain request, protobuf both ways.
    async fn call<M: Wire>(
        &self,
        path: &str,
        token: &SecretString,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<M, CallError> {
        let id = crate::random::uuid();
        let ids = headers::CallHeaders { request: &id, ..headers::CallHeaders::default() };
        let headers = self
            .profile
            .headers(headers::CallKind::Proto, token, ids)
            .map_err(|error| LinkError::Connect(error.to_string()))?;
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.api_host.uri(path);
        *request.headers_mut() = headers;
        let response = self.unary.call(request, bounds).await.map_err(|error| match error {
            HttpError::Timeout => CallError::Timeout(bounds.timeout),
            error => CallError::Link(errors::http_error(&error)),
        })?;
        if response.status() != StatusCode::OK {
            let (status, headers) = (response.status(), response.headers());
            return Err(errors::status_error(status, headers, response.body()).into());
        }
        Ok(decode(response.into_body())?)
    }
}

/// Why a plain request has no answer.
#[derive(Debug)]
enum CallError {
    /// The whole exchange took longer than this.
    Timeout(Duration),
    Link(LinkError),
}

impl From<LinkError> for CallError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl CallError {
    /// The service does not have what was called.
    fn is_unknown_path(&self) -> bool {
        let Self::Link(LinkError::Status { status, error, .. }) = self else { return false };
        let code = error.as_ref().map(|error| error.code);
        *status == 404 || code == Some(Code::Unimplemented)
    }

    fn to_turn_error(&self) -> TurnError {
        match self {
            Self::Timeout(limit) => {
                let text = format!("Cursor did not answer within {} seconds.", limit.as_secs());
                TurnError::new(ErrorCode::Timeout, text).unreachable()
            }
            Self::Link(error) => error.to_turn_error(),
        }
    }
}

/// The message of a plain answer. Some deployments put it in an envelope as if it
/// were a stream.
fn decode<M: Wire>(body: Bytes) -> Result<M, LinkError> {
    let garbled = || LinkError::Reset("the answer is not a valid message".to_owned());
    let mut message = body.clone();
    if enveloped(&body) {
        let mut decoder = Decoder::new();
        decoder.push(body);
        match decoder.next() {
            Ok(Some(Envelope::Message(inner))) => message = inner,
            Ok(Some(Envelope::End(error))) => {
                return Err(LinkError::Status { status: 200, error, retry_after: None });
            }
            Ok(None) | Err(_) => return Err(garbled()),
        }
    }
    M::from_wire(message).map_err(|_| garbled())
}

/// Whether the body begins with an envelope: known flags, and a length that fits.
/// No message of ours begins so, as field number zero does not exist.
fn enveloped(body: &[u8]) -> bool {
    let Some((&[flags, a, b, c, d], rest)) = body.split_first_chunk::<5>() else { return false };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    flags <= 3 && length <= rest.len()
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
