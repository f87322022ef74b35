//! Carries out the probes of `ibeam probe` over the driver's own links.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use ibeam_core::{
    error::TurnError,
    model::Millis,
    models::ModelList,
    peer::{
        LinkError,
        agent::{
            AgentOpen, Environment,
            probe::{
                CallAnswer, ProbeCall, ProbeClocks, ProbeFailure, ProbeFinding, ProbeHeaders,
                ProbeItem, ProbeMachine, ProbeRun, ProbeSeen, ProbeStep, ProbeSubject, ProbeTrace,
                RunFigures,
            },
        },
    },
};
use ibeam_proto::{Wire as _, agent::GetServerConfigResponse};
use secrecy::SecretString;
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    AgentConfig, AgentDriver, Dial as _, Driver as _, Link, LinkReceiver as _, LinkSender as _,
    Open, Transport,
    agent_config::{self, blob_key},
    agent_plan::environment,
    errors,
    headers::{CallHeaders, CallKind, ClientProfile},
};
use crate::{
    auth::AccessTokens,
    clock,
    config::{Config, Sim},
    net::{
        connect::{Connector, Host},
        http::{Bounds, HttpClient},
        tls::Alpn,
    },
    random,
    tasks::Tasks,
};

const USAGE: &str = "/aiserver.v1.DashboardService/GetCurrentPeriodUsage";
const SERVER_CONFIG: &str = "/aiserver.v1.ServerConfigService/GetServerConfig";
const CALL: Bounds = Bounds { timeout: Duration::from_secs(15), max_body: 1024 * 1024 };
/// For a message to leave.
const SEND: Duration = Duration::from_secs(30);

/// Asks the service of one account.
#[derive(Debug)]
pub struct Prober {
    config: AgentConfig,
    connector: Connector,
    tokens: AccessTokens,
    tasks: Tasks,
    driver: AgentDriver,
    clocks: ProbeClocks,
}

/// What became of a question.
#[derive(Debug)]
pub struct Probed {
    pub finding: ProbeFinding,
    /// Further runs would fail as well: the plan is used up, the sign-in refused, or the service
    /// out of reach.
    pub stop: Option<TurnError>,
}

impl Prober {
    /// Over the links of these settings. `sim` is there when a simulator answers.
    #[must_use]
    pub fn open(config: &Config, sim: Option<&Sim>, tasks: &Tasks) -> Self {
        let (connector, tokens) = agent_config::reach(config, sim, tasks);
        let config = AgentConfig::of(config);
        let driver = AgentDriver::new(config.clone(), &connector, tasks);
        let tasks = tasks.clone();
        Self { config, connector, tokens, tasks, driver, clocks: ProbeClocks::default() }
    }

    /// The live list of models.
    ///
    /// # Errors
    /// Not signed in, or the service does not answer.
    pub async fn models(&self) -> Result<ModelList, TurnError> {
        let token = self.tokens.current().await?;
        self.driver.models(token).await.map(ModelList::new)
    }

    /// What the service is told of this machine.
    #[must_use]
    pub fn environment(&self) -> Environment {
        environment()
    }

    /// The version that runs are made with.
    #[must_use]
    pub fn client_version(&self) -> &str {
        &self.config.profile.client_version
    }

    /// Puts a question to the service: one run after the other, until it is settled. `progress`
    /// hears of each run before it begins. Dropping the future cancels the run.
    pub async fn ask(
        &self,
        item: &ProbeItem,
        subject: &ProbeSubject,
        progress: impl Fn(usize),
    ) -> Probed {
        let question = item.question;
        let (mut seen, mut stop) = (Vec::new(), None);
        while let (None, Some(step)) = (&stop, question.next(subject, &seen)) {
            progress(seen.len());
            seen.push(match step {
                ProbeStep::Run(run) => {
                    let usual = run.headers.is_usual();
                    let trace = self.run(*run).await;
                    let fatal = trace.failure().filter(|failure| usual && failure.stops_probing());
                    stop = fatal.map(|failure| failure.error.clone());
                    ProbeSeen::Run(Box::new(trace))
                }
                ProbeStep::Call(call) => ProbeSeen::Called(self.call(call).await),
            });
        }
        let finding = ProbeFinding {
            verdict: question.judge(&seen),
            model: item.subject().map(ToOwned::to_owned),
            at: clock::unix_seconds(),
            client_version: self.client_version().to_owned(),
            ibeam_version: env!("CARGO_PKG_VERSION").to_owned(),
            runs: seen.iter().map(figures).collect(),
        };
        Probed { finding, stop }
    }

    async fn run(&self, run: ProbeRun) -> ProbeTrace {
        let token = match self.tokens.current().await {
            Ok(token) => token,
            Err(error) => return ProbeTrace::unopened(&LinkError::Fault(Box::new(error))),
        };
        let driver = match self.driver_for(&run.headers) {
            Ok(driver) => driver,
            Err(error) => return ProbeTrace::unopened(&error),
        };
        let peer =
            AgentOpen { allowed_tools: run.headers.allowed_tools.clone(), ..AgentOpen::default() };
        let open = Open {
            token,
            tokens: Some(self.tokens.clone()),
            request_id: random::uuid(),
            original_request_id: random::uuid(),
            peer,
        };
        let Link { tx, mut rx } = match driver.open(open).await {
            Ok(link) => link,
            Err(error) => return ProbeTrace::unopened(&error),
        };
        let begun = Instant::now();
        let now = || Millis(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        let mut machine = ProbeMachine::new(run, self.clocks, Millis(0));
        loop {
            while let Some(message) = machine.poll_send() {
                // When it cannot be sent, the other half says why.
                if timeout(SEND, tx.send(message)).await.is_err() {
                    machine.on_lost(Some(&LinkError::ConnectTimeout), now());
                }
            }
            if machine.is_over() {
                return machine.into_trace();
            }
            let deadline = begun + Duration::from_millis(machine.deadline().0);
            tokio::select! {
                next = rx.next() => match next {
                    Some(Ok(bytes)) => machine.on_bytes(bytes, now()),
                    Some(Err(error)) => machine.on_lost(Some(&error), now()),
                    None => machine.on_lost(None, now()),
                },
                () = sleep_until(deadline) => machine.on_timeout(now()),
            }
        }
    }

    /// The usual driver, or one that differs in what the probe is about.
    fn driver_for(&self, headers: &ProbeHeaders) -> Result<AgentDriver, LinkError> {
        if headers.is_usual() {
            return Ok(self.driver.clone());
        }
        let mut config = self.config.clone();
        if let Some(version) = headers.client_version {
            version.clone_into(&mut config.profile.client_version);
        }
        if let Some(with_key) = headers.blob_key {
            config.profile.blob_key = with_key.then(blob_key);
        }
        if let Some(origin) = &headers.host {
            let host = Host::parse(origin)
                .map_err(|_| LinkError::Connect("the address is not valid".to_owned()))?;
            config.api_host = host;
            config.follows_service = false;
            // The other hosts speak nothing else.
            config.transport = Transport::H2;
        }
        Ok(AgentDriver::new(config, &self.connector, &self.tasks))
    }

    async fn call(&self, call: ProbeCall) -> Result<CallAnswer, ProbeFailure> {
        let answer = match call {
            ProbeCall::Usage => {
                self.post(USAGE, CallKind::Json, Bytes::from_static(b"{}")).await.map(|_| {
                    // Whatever it says, it may be asked.
                    CallAnswer::Usage
                })
            }
            ProbeCall::Addresses => {
                self.post(SERVER_CONFIG, CallKind::Proto, Bytes::new()).await.and_then(|body| {
                    let garbled = |_| LinkError::Reset("not a valid message".to_owned());
                    let config = GetServerConfigResponse::from_wire(body).map_err(garbled)?;
                    let urls = config.agent_url_config.unwrap_or_default();
                    Ok(CallAnswer::Addresses { agent: urls.agent_url, agentn: urls.agentn_url })
                })
            }
        };
        answer.map_err(|error| ProbeFailure::of_link(&error))
    }

    async fn post(&self, path: &str, kind: CallKind, body: Bytes) -> Result<Bytes, LinkError> {
        let fault = |error| LinkError::Fault(Box::new(error));
        let token: SecretString = self.tokens.current().await.map_err(fault)?;
        let profile: &ClientProfile = &self.config.profile;
        let id = random::uuid();
        let ids = CallHeaders { request: &id, ..CallHeaders::default() };
        let headers = profile
            .headers(kind, &token, ids)
            .map_err(|error| LinkError::Connect(error.to_string()))?;
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.config.api_host.uri(path);
        *request.headers_mut() = headers;
        let client = HttpClient::new(self.connector.clone(), Alpn::Http2, &self.tasks);
        let response =
            client.call(request, CALL).await.map_err(|error| errors::http_error(&error))?;
        if response.status() != StatusCode::OK {
            let (status, headers) = (response.status(), response.headers());
            return Err(errors::status_error(status, headers, response.body()));
        }
        Ok(response.into_body())
    }
}

fn figures(seen: &ProbeSeen) -> RunFigures {
    match seen {
        ProbeSeen::Run(trace) => trace.figures(),
        ProbeSeen::Called(Ok(_)) => {
            RunFigures { end: "answered".to_owned(), ..RunFigures::default() }
        }
        ProbeSeen::Called(Err(failure)) => RunFigures {
            end: "failed".to_owned(),
            error: Some(failure.wire.clone()),
            ..RunFigures::default()
        },
    }
}
