//! What was found, as plain data. Nothing in here is a judgement.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use ibeam_core::{error::ErrorCode, peer::agent::probe::ProbeFindings};

use crate::doctor::audit::AuditProblem;
use ibeam_server::net::tls::TlsFault;

/// Everything, in the order of the report.
#[derive(Clone, Debug)]
pub struct Findings {
    /// What can be used and is doubtful.
    pub warnings: Vec<String>,
    /// MCP files of the project folder that are not approved: each path, and the command.
    pub unapproved: Vec<(PathBuf, String)>,
    /// The file of the settings, if there is one.
    pub config_file: Option<PathBuf>,
    pub folders: Vec<FolderFindings>,
    pub files: FileFindings,
    pub access: AccessFindings,
    pub ports: Vec<Port>,
    /// Gateways of this user that run somewhere.
    pub running: Vec<RunningGateway>,
    pub clients: Vec<Installed>,
    /// What probes found out. None: the backend does not use it. The error says why it is not
    /// used.
    pub probes: Option<Result<ProbeFindings, String>>,
    /// None: another program calls Cursor, or a simulator answers.
    pub api: Option<ApiFindings>,
    /// None: the backend does not run it.
    pub cursor_agent: Option<CursorAgentFindings>,
    /// What we call ourselves to Cursor.
    pub client_version: String,
    /// The command that signs in.
    pub login: String,
    /// None: nothing was asked of the backend.
    pub asked: Option<BackendFindings>,
    pub model: String,
}

/// A folder that ibeam writes into, or the one in which it would be made.
#[derive(Clone, Debug)]
pub struct FolderFindings {
    pub path: PathBuf,
    /// Bytes that are left for us, where the system says.
    pub free: Option<u64>,
    pub written: Result<(), Unwritten>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritten {
    Full(String),
    Refused(String),
}

#[derive(Clone, Debug)]
pub struct FileFindings {
    pub looked_at: usize,
    pub faults: Vec<AuditProblem>,
}

/// Who can call: whether clients need a key.
#[derive(Clone, Debug)]
pub struct AccessFindings {
    /// Clients need a key. The error says why the keys cannot be used.
    pub key_needed: Result<bool, AuditProblem>,
    /// What is unsafe about it.
    pub weak: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Port {
    pub address: SocketAddr,
    pub state: PortState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortState {
    Free,
    /// A program that calls itself ibeam, and its version. Those that prove it are among the
    /// running gateways.
    CallsItselfIbeam(String),
    /// Another program; what is known of it.
    Taken(Option<String>),
    Unusable(String),
}

/// A gateway that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningGateway {
    pub url: String,
    pub version: String,
    /// What it did not understand since it started, and how often.
    pub drift: BTreeMap<String, u64>,
    /// The form in which it rebuilds histories, for models of which it has learned one.
    pub history: BTreeMap<String, String>,
}

/// A client on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub title: &'static str,
    /// None: it does not say.
    pub version: Option<String>,
    /// The oldest version that is known to work.
    pub oldest: &'static str,
    pub update: &'static str,
}

/// Cursor's API.
#[derive(Clone, Debug)]
pub struct ApiFindings {
    pub credential: Result<CredentialFindings, NoCredential>,
    /// None: no host was contacted.
    pub network: Option<Network>,
}

#[derive(Clone, Debug, Default)]
pub struct CredentialFindings {
    pub source: String,
    pub account: Option<String>,
    /// Seconds since 1970.
    pub issued: Option<u64>,
    pub expires: Option<u64>,
    /// It can be renewed without the user.
    pub renewable: bool,
    pub given: TokenOrigin,
}

/// Whether the user gave it as a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenOrigin {
    #[default]
    No,
    Variable(String),
    /// In the file of the settings.
    Setting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCredential {
    /// With what was found and may not be used.
    Nobody(Vec<String>),
    Unusable(String),
    /// Others may read it. The line of the file says so.
    Exposed,
}

/// The way to Cursor's API. Each step is there if those before it went well.
#[derive(Clone, Debug, Default)]
pub struct Network {
    pub host: String,
    /// The name alone.
    pub name: String,
    /// The user named it in place of Cursor's.
    pub other_host: bool,
    pub proxy: Option<String>,
    /// None: an address, or the proxy's business.
    pub dns: Option<Result<usize, String>>,
    pub dial: Option<Result<(), Undialled>>,
    pub http2: Option<Http2Findings>,
    /// Whether it answers at all, and what time it is there.
    pub answer: Option<Result<Option<ClockPair>, String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undialled {
    Tls(TlsFault, String),
    Proxy(String),
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Http2Findings {
    Works,
    /// The setting `transport` leaves it out.
    NotWanted,
    /// With the words of the failure.
    Refused(String),
}

/// Two clocks at one moment, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    pub theirs: u64,
    pub ours: u64,
}

/// Cursor's CLI.
#[derive(Clone, Debug)]
pub struct CursorAgentFindings {
    /// The backend that runs it.
    pub backend: &'static str,
    pub simulated: bool,
    /// The error says what helps.
    pub program: Result<PathBuf, String>,
    /// What it says of its version, or how it ended instead.
    pub version: Option<Result<String, String>>,
    /// The account that is signed in to it.
    pub account: Option<Result<String, BackendFailure>>,
}

/// What the backend made of our questions. Each is there if those before it went well.
#[derive(Clone, Debug, Default)]
pub struct BackendFindings {
    pub token: Option<Result<(), BackendFailure>>,
    /// How many.
    pub models: Option<Result<usize, BackendFailure>>,
    /// The model's own name.
    pub model: Option<Result<String, BackendFailure>>,
    pub answer: Option<Result<AnswerTimes, BackendFailure>>,
    pub tools: Option<Result<AnswerTimes, BackendFailure>>,
    /// Streams went over HTTP/1.1, though that was not chosen.
    pub fell_back: bool,
    /// And the server wants it so.
    pub http2_forbidden: bool,
    /// What we did not understand, and how often.
    pub drift: BTreeMap<String, u64>,
    pub requests: u32,
}

/// A failure with its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendFailure {
    pub code: ErrorCode,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerTimes {
    /// To the first piece of it.
    pub first: u64,
    pub whole: u64,
}
