//! The simulator's settings, apart from its scenario.

use std::time::Duration;

use crate::{
    behaviour::BehaviourChanges,
    record::FrameRecorder,
    scenario::{Chaos, Quirks, Scenario},
};

pub(crate) const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhdXRoMHx1c2VyX3NpbSIsInRpbWUiOiIxNzM1Njg5NjAwIiwicmFuZG9tbmVzcyI6InNpbSIsImV4cCI6NDEwMjQ0NDgwMCwiaXNzIjoiaHR0cHM6Ly9hdXRoZW50aWNhdGlvbi5jdXJzb3Iuc2giLCJzY29wZSI6Im9wZW5pZCBwcm9maWxlIGVtYWlsIG9mZmxpbmVfYWNjZXNzIiwiYXVkIjoiaHR0cHM6Ly9jdXJzb3IuY29tIiwidHlwZSI6InNlc3Npb24ifQ.c2ltdWxhdGVkLXNpZ25hdHVyZQ";

pub(crate) const API_KEY: &str =
    "crsr_51a0c0ffee51a0c0ffee51a0c0ffee51a0c0ffee51a0c0ffee51a0c0ffee51a0";

/// All settings. The defaults behave as the real service does.
#[derive(Clone, Debug)]
pub struct SimConfig {
    pub scenario: Scenario,
    pub sign_in: SimSignIn,
    /// Switches for every run.
    pub quirks: Quirks,
    /// Switches for every run; they win over those of the scenario.
    pub behaviour: BehaviourChanges,
    /// How long the server is silent before it sends a heartbeat.
    pub heartbeat: Duration,
    /// A client that sends nothing for this long is dropped.
    pub client_silence: Duration,
    /// Keep blobs across streams. The real service does so for a while; when this is off, the
    /// client has to provide them on every stream.
    pub keep_blobs: bool,
    /// The HTTP/2 window of a new stream, for flow-control tests.
    pub initial_window: Option<u32>,
    /// The same for the connection.
    pub connection_window: Option<u32>,
    pub max_concurrent_streams: u32,
    /// Whether HTTP/2 is served, and how it is refused if not.
    pub http2: SimHttp2,
    /// `http2_config` in the answer of `GetServerConfig` (0 to 4).
    pub http2_config: i32,
    /// The time from the start of a run to the model's first word. The real service takes
    /// seconds, and again after a resume.
    pub bootstrap: Duration,
    /// The wait after each delta of the built-in assistant.
    pub pace: Duration,
    /// Frames per DATA frame; 0 fills each DATA frame.
    pub frames_per_chunk: usize,
    /// Random faults.
    pub chaos: Option<Chaos>,
    /// Where frames are recorded.
    pub recorder: Option<FrameRecorder>,
    /// The time at which the simulator's clock starts, in seconds since 1970. It advances with
    /// tokio's clock, and decides whether a token has expired.
    pub epoch: u64,
    /// The time between a cancel action and the end of the stream.
    pub cancel_delay: Duration,
    /// The capacity of an in-memory connection in each direction.
    pub duplex_buffer: usize,
}

/// Which tokens are accepted and handed out.
#[derive(Clone, Debug)]
pub struct SimSignIn {
    /// Bearer tokens that are accepted until their `exp`, besides those handed out by a
    /// refresh.
    pub tokens: Vec<String>,
    /// API keys: accepted by the exchange only.
    pub api_keys: Vec<String>,
    /// Accept any bearer token at all.
    pub any_token: bool,
    /// How often `/auth/poll` answers 404 before the sign-in succeeds by itself. `None`: only
    /// the login page completes it.
    pub poll_pending: Option<u32>,
    /// `/auth/poll` answers 403.
    pub poll_refused: bool,
    /// Refreshes are refused, with `shouldLogout` where the form has it.
    pub refuse_refresh: bool,
    /// The `exp` claim of tokens that are handed out, in seconds since 1970.
    pub token_expiry: u64,
    /// The lifetime of tokens that are handed out; overrides `token_expiry`.
    pub token_lifetime: Option<Duration>,
}

/// How HTTP/2 requests are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimHttp2 {
    #[default]
    Served,
    /// Only `http/1.1` is offered by ALPN, and an HTTP/2 preface without TLS is an error.
    NotOffered,
    /// `Run` over HTTP/2 gets this status (464, 421).
    Status(u16),
    /// `Run` over HTTP/2 is reset with `HTTP_1_1_REQUIRED`.
    Http11Required,
}

impl Default for SimSignIn {
    fn default() -> Self {
        Self {
            tokens: vec![TOKEN.to_owned()],
            api_keys: vec![API_KEY.to_owned()],
            any_token: false,
            poll_pending: Some(2),
            poll_refused: false,
            refuse_refresh: false,
            token_expiry: 4_102_444_800,
            token_lifetime: None,
        }
    }
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            scenario: Scenario::builtin(),
            sign_in: SimSignIn::default(),
            quirks: Quirks::default(),
            behaviour: BehaviourChanges::default(),
            heartbeat: Duration::from_secs(10),
            client_silence: Duration::from_secs(45),
            keep_blobs: false,
            initial_window: None,
            connection_window: None,
            max_concurrent_streams: 200,
            http2: SimHttp2::Served,
            http2_config: 0,
            bootstrap: Duration::ZERO,
            pace: Duration::from_millis(2),
            frames_per_chunk: 1,
            chaos: None,
            recorder: None,
            epoch: 1_767_225_600,
            cancel_delay: Duration::from_millis(50),
            duplex_buffer: 256 * 1024,
        }
    }
}

impl SimConfig {
    /// The default with another scenario.
    #[must_use]
    pub fn scenario(scenario: Scenario) -> Self {
        Self { scenario, ..Self::default() }
    }
}

impl From<BehaviourChanges> for SimConfig {
    fn from(behaviour: BehaviourChanges) -> Self {
        Self { behaviour, ..Self::default() }
    }
}

impl From<SimSignIn> for SimConfig {
    fn from(sign_in: SimSignIn) -> Self {
        Self { sign_in, ..Self::default() }
    }
}
