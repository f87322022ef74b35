//! What an examination comes to: one line for each thing that was looked at.

use serde::{Serialize, Serializer};

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// As scripts and the documentation know it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }
    };
}

names! {
    /// What is looked at, in the order of the report: what others need comes before them.
    Check {
        Settings = "settings",
        Disk = "disk",
        Files = "files",
        Access = "access",
        Port = "port",
        Clients = "clients",
        Probes = "probes",
        Credential = "credential",
        Agent = "cursor_agent",
        Network = "network",
        Clock = "clock",
        Http2 = "http2",
        Token = "token",
        ClientVersion = "client_version",
        Models = "models",
        Model = "model",
        Answer = "answer",
        Tools = "tools",
        Drift = "drift",
    }
}

names! {
    /// Why a line is not green. Scripts branch on it, and docs/doctor.md has a section on
    /// each.
    Code {
        SettingsInvalid = "settings_invalid",
        SettingsDoubtful = "settings_doubtful",
        McpUnapproved = "mcp_unapproved",
        DiskFull = "disk_full",
        DiskLow = "disk_low",
        FolderNotWritable = "folder_not_writable",
        FileExposed = "file_exposed",
        AccessOpen = "access_open",
        KeysUnusable = "keys_unusable",
        PortTaken = "port_taken",
        PortForeign = "port_foreign",
        PortUnusable = "port_unusable",
        OtherVersion = "other_version",
        ClientOld = "client_old",
        ProbesOld = "probes_old",
        ProbesUnusable = "probes_unusable",
        NotSignedIn = "not_signed_in",
        CredentialUnusable = "credential_unusable",
        AgentMissing = "agent_missing",
        AgentDead = "agent_dead",
        AgentSignedOut = "agent_signed_out",
        NoDns = "no_dns",
        ProxyFailed = "proxy_failed",
        Unreachable = "unreachable",
        WrongCa = "wrong_ca",
        TlsFailed = "tls_failed",
        ClockSkew = "clock_skew",
        NoHttp2 = "no_http2",
        TokenExpired = "token_expired",
        TokenRefused = "token_refused",
        TokenUnknown = "token_unknown",
        ClientOutdated = "client_outdated",
        ModelsFailed = "models_failed",
        ModelUnknown = "model_unknown",
        PlanLimit = "plan_limit",
        AnswerFailed = "answer_failed",
        ToolsFailed = "tools_failed",
        Drift = "drift",
    }
}

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    Ok,
    /// Good to know; it works all the same.
    Warn,
    Fail,
    /// Not looked at.
    Skipped,
}

/// One line. Names and fields are an interface: scripts read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckLine {
    pub check: Check,
    pub state: CheckState,
    pub code: Option<Code>,
    pub what: String,
    /// The command that fixes it.
    pub fix: Option<String>,
}

impl CheckLine {
    pub(super) fn ok(check: Check, what: impl Into<String>) -> Self {
        Self { check, state: CheckState::Ok, code: None, what: what.into(), fix: None }
    }

    pub(super) fn skipped(check: Check, what: impl Into<String>) -> Self {
        Self { check, state: CheckState::Skipped, code: None, what: what.into(), fix: None }
    }

    pub(super) fn fail(check: Check, code: Code, what: impl Into<String>) -> Self {
        Self { check, state: CheckState::Fail, code: Some(code), what: what.into(), fix: None }
    }

    pub(super) fn warn(check: Check, code: Code, what: impl Into<String>) -> Self {
        Self { state: CheckState::Warn, ..Self::fail(check, code, what) }
    }

    pub(super) fn fix(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(command.into());
        self
    }
}

/// All of it. Names and fields are an interface: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    pub version: &'static str,
    /// No line is red.
    pub ok: bool,
    /// Of the first red line.
    pub cause: Option<Code>,
    /// The backend: `agent`, `cli`, `acp` or `sim`.
    pub backend: &'static str,
    pub model: String,
    /// Nothing was asked of the backend.
    pub offline: bool,
    /// Answers that the backend was asked for.
    pub requests: u32,
    pub milliseconds: u64,
    pub checks: Vec<CheckLine>,
}

impl DoctorReport {
    /// The line that names the cause.
    #[must_use]
    pub fn first_red(&self) -> Option<&CheckLine> {
        self.checks.iter().find(|line| line.state == CheckState::Fail)
    }
}
