//! Every setting there is: its name in the file, the environment variables that set
//! it, its default. Flags, `config show` and the documentation follow this table.

use ibeam_core::backend;

use crate::net::hosts;

/// How a bare number in an environment variable is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvUnit {
    /// As anywhere else.
    Same,
    /// The variable's name says milliseconds.
    Millis,
}

/// One line of the table.
#[derive(Debug)]
pub struct SettingRow {
    /// The name in the file, dotted: `clocks.turn` is `turn` in `[clocks]`.
    pub name: &'static str,
    /// Older names of the same thing. `IBEAM_…` is tried before them.
    pub env: &'static [(&'static str, EnvUnit)],
    /// As one would write it. Empty: none.
    pub default: &'static str,
    pub secret: bool,
    pub help: &'static str,
}

macro_rules! keys {
    ($($key:ident $name:literal [$($env:expr),*] = $default:expr, $help:expr;)*) => {
        /// The name of a setting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SettingKey { $($key),* }

        impl SettingKey {
            pub const ALL: &[Self] = &[$(Self::$key),*];

            #[must_use]
            pub fn row(self) -> &'static SettingRow {
                match self {
                    $(Self::$key => {
                        const ROW: &SettingRow = &SettingRow {
                            name: $name,
                            env: &[$($env),*],
                            default: $default,
                            secret: matches!(SettingKey::$key, SettingKey::AccessToken | SettingKey::ApiKey),
                            help: $help,
                        };
                        ROW
                    })*
                }
            }
        }
    };
}

const fn same(name: &'static str) -> (&'static str, EnvUnit) {
    (name, EnvUnit::Same)
}

const fn millis(name: &'static str) -> (&'static str, EnvUnit) {
    (name, EnvUnit::Millis)
}

keys! {
    Host "host" [same("HOST")] = "127.0.0.1", "address to listen on";
    Port "port" [same("PORT")] = "18741", "port to listen on; 0 chooses a free one";
    Listen "listen" [] = "",
        "addresses with ports, instead of `host` and `port`; or Unix sockets: `unix:/path`";
    TlsCert "tls_cert" [] = "", "PEM file with the certificate chain to serve TLS with";
    TlsKey "tls_key" [] = "", "PEM file with the private key of that certificate";
    ApiKey "api_key" [] = "",
        "key that clients must send; this or `ibeam keys` is required to listen beyond this machine";
    KeysFile "keys_file" [] = "",
        "file with the hashes of the keys of `ibeam keys`; by default `ibeam/keys.json` in your configuration folder";
    Hosts "allowed_hosts" [] = "",
        "host names, besides those of this machine, that requests may have in their `Host` header";
    CorsOrigins "cors_origins" [] = "", "web origins whose pages may call from a browser";
    WebSocket "websocket" [] = "true",
        "accept WebSockets on the chat and Responses paths; off: they get 426";

    IdleExit "idle_exit" [] = "",
        "stop the gateway after this long without a request; 0 for never; the default is 30m for `ibeam start`, else never";

    Strict "strict" [] = "false",
        "refuse requests with a parameter that would be ignored; a client can ask for it with `x-ibeam-strict: true`";

    Backend "backend" [] = "auto", backend::SETTING_HELP;
    AgentBin "cursor_agent.bin" [same("CURSOR_AGENT_BIN"), same("CURSOR_AGENT_EXECUTABLE")] = "",
        "path of Cursor's CLI; by default the first `cursor-agent` or `agent` that is found";
    AgentWorkspace "cursor_agent.workspace" [] = "",
        "folder that it may use besides its own, which is empty and temporary";
    AgentWorkspaces "cursor_agent.allowed_workspaces" [] = "",
        "folders that clients may choose with `x-cursor-workspace`, subfolders included";
    AgentOwnTools "cursor_agent.own_tools" [] = "false",
        "let it use its own shell and file tools; off: only the client's tools";
    AgentChildren "cursor_agent.max_processes" [] = "8",
        "most processes at once; further requests wait";
    AgentWarm "cursor_agent.warm" [] = "1", "how many `acp` processes are started ahead of need";
    AgentIdle "cursor_agent.idle" [] = "5m", "how long an `acp` process may be idle before it is ended";
    ToolResultBytes "cursor_agent.result_bytes" [] = "1MiB",
        "largest text of one tool result that it gets; a longer one is cut, with a note";
    AgentAuthTimeout "cursor_agent.auth_timeout" [millis("CURSOR_ACP_AUTH_CHECK_TIMEOUT")] = "5s",
        "how long `cursor-agent status` may take";

    AccessToken "access_token" [same("CURSOR_ACCESS_TOKEN"), same("CURSOR_AUTH_TOKEN")] = "",
        "access token of your Cursor account";
    Profile "profile" [] = "default",
        "which of your accounts to use: a name given to `ibeam login --profile`";
    Credentials "credentials" [] = "file",
        "where `ibeam login` stores credentials: `file`, or `keychain` for the system's keychain";
    ApiUrl "api_url" [same("CURSOR_API_URL")] = hosts::API.origin,
        "replaces every Cursor host; plain http only on this machine";
    ClientVersion "client_version" [same("CURSOR_CLIENT_VERSION")] = "",
        "version reported to Cursor; by default that of the installed CLI, else a built-in one";
    PrivacyMode "privacy_mode" [same("CURSOR_PRIVACY_MODE")] = "true",
        "ask Cursor not to store what is sent (ghost mode)";
    Transport "transport" [] = "auto",
        "how to reach Cursor: `h2`, `h1`, or `auto`: HTTP/2, and HTTP/1.1 where it is refused";
    CaFile "ca_file" [] = "", "PEM file with additional certificate authorities to trust";

    RecordDir "record.dir" [] = "",
        "folder in which each turn is recorded, for `ibeam replay` and bug reports; off by default";
    RecordTexts "record.texts" [] = "false",
        "record texts, too: prompts, answers, files; off: placeholders of the same length";
    RecordBytes "record.bytes" [] = "256MiB",
        "space for all recordings together; beyond that the oldest are deleted";

    LogLevel "log.level" [same("CURSOR_LOG_LEVEL")] = "info",
        "`error`, `warn`, `info`, `debug`, `trace`, or per target: `info,ibeam_server::driver=debug`";
    LogJson "log.json" [same("CURSOR_LOG_JSON")] = "false", "log one JSON object per line";
    LogDebug "log.debug" [same("CURSOR_DEBUG")] = "false", "the same as `log.level = \"debug\"`";
    LogFile "log.file" [] = "",
        "log to this file instead of stderr; at 4 MiB it is renamed to `FILE.1` and a new one begins";
    LogTiming "log.timing" [same("CURSOR_TIMING")] = "false",
        "log how long each stage of a turn took";

    ModelsCacheTtl "models.cache_ttl" [millis("CURSOR_MODEL_CACHE_TTL_MS")] = "5m",
        "how long the model list is cached";
    ModelsPassthrough "models.passthrough" [] = "false",
        "send model names that are not in the list to Cursor; off: refuse them";
    ModelsMode "models.mode" [] = "agent",
        "the mode of requests that do not name one: `agent`, `ask` or `plan`, and `max` for the model's maximum mode: `plan, max`";
    InlineContext "agent.inline_context" [] = "false",
        "send the request context with the first message; off: when Cursor asks for it";
    History "history" [] = "auto",
        "how a conversation is sent that has no stored state: `auto` (by model), `resume-roots`, `user-roots`, `transcript` or `rules-roots`";
    AllowWebSearch "allow.web_search" [] = "false", "allow models to use Cursor's own web search";
    AllowWebFetch "allow.web_fetch" [] = "false", "allow models to use Cursor's own page fetch";

    SessionReuse "sessions.reuse" [same("CURSOR_SESSION_REUSE")] = "true",
        "park the run while the client's tools work, and continue stored conversations; off: every request is rebuilt from its history";
    SessionTtl "sessions.ttl" [millis("CURSOR_SESSION_TIMEOUT_MS")] = "15m",
        "how long a parked turn waits for its tool results";
    SessionMax "sessions.max_parked" [same("CURSOR_MAX_SESSIONS")] = "10000",
        "most parked turns; beyond that the one that waited longest is evicted";
    SessionBytes "sessions.parked_bytes" [] = "512MiB", "memory for all parked turns together";
    SessionReplay "sessions.replay_ttl" [] = "5m",
        "how long a finished answer is kept for a client that retries";
    ToolMaxRepeat "tools.max_repeat" [same("TOOL_LOOP_MAX_REPEAT")] = "2",
        "identical calls with identical outcomes before the turn is stopped; 0 disables the guard";
    ToolNative "tools.native" [] = "true",
        "map Cursor's own tools to the client's equivalents; off: refuse them";
    McpEnabled "mcp.enabled" [] = "false",
        "start the MCP servers of `[mcp.servers.NAME]`, and list or offer their tools";
    McpDiscover "mcp.discover" [] = "false",
        "read the MCP servers of other programs (OpenCode, Cursor, Claude Code); none is started unless `[mcp.servers.NAME]` names it, and those of a project's file only after `ibeam mcp approve`";
    McpStart "mcp.start_timeout" [] = "10s",
        "how long an MCP server may take to start and list its tools";
    StoreEnabled "store.enabled" [] = "true",
        "keep conversations on disk, so that they can be continued after a restart; off: in memory only";
    StorePath "store.path" [] = "",
        "the file; by default `ibeam/store.db` in your state folder";
    StoreRetention "store.retention" [] = "7d",
        "how long a conversation is kept after its last turn";
    StoreBytes "store.bytes" [] = "1GiB",
        "space for all conversations together; beyond that the oldest of the key that has most are deleted";
    ResponsesRetention "responses.retention" [] = "24h",
        "how long a stored response is kept after its last use; 0 disables";
    ResponsesBytes "responses.bytes" [] = "256MiB",
        "space for all stored responses together, in the store file; beyond that the oldest of the key that has most are deleted";

    RetryEnabled "retry.enabled" [same("CURSOR_RETRY_ENABLED")] = "true",
        "retry temporary failures while the client has seen nothing of the answer";
    RetryMax "retry.max" [same("CURSOR_MAX_RETRIES")] = "3",
        "most retries; a leg has at most 5 runs, so values above 4 count as 4";
    RetryBaseDelay "retry.base_delay" [millis("CURSOR_RETRY_BASE_DELAY_MS")] = "500ms",
        "delay before the first retry; it doubles with each further one";
    RetryMaxDelay "retry.max_delay" [millis("CURSOR_RETRY_MAX_DELAY_MS")] = "8s",
        "longest delay; if Cursor asks for more, the client gets the error";

    ClockConnect "clocks.connect" [] = "10s",
        "how long connecting to Cursor may take: DNS, TCP, TLS and HTTP/2";
    ClockNoFrame "clocks.no_frame" [] = "45s", "how long Cursor may send nothing at all";
    ClockHeartbeatsOnly "clocks.heartbeats_only"
        [millis("CURSOR_HEARTBEAT_IDLE_NOPROGRESS_MS"), millis("CURSOR_HEARTBEAT_IDLE_PROGRESS_MS")]
        = "10m", "how long Cursor may send only heartbeats; minutes of thinking are normal";
    ClockTurn "clocks.turn" [millis("CURSOR_REQUEST_TIMEOUT_MS")] = "30m",
        "how long a whole turn may take";
    ClockCancelGrace "clocks.cancel_grace" [] = "2s",
        "how long a turn continues after its client disconnected, so that a retry can attach";
    ClockClientStall "clocks.client_stall" [] = "60s",
        "a client that reads less than 16 KiB in this time while data is waiting is disconnected";
    ClockHeaderGrace "clocks.header_grace" [] = "10s",
        "how long the response headers wait for the first event, so that an early failure gets its real HTTP status";
    ClockKeepAlive "clocks.keep_alive" [] = "10s",
        "how long a stream may be silent before a keep-alive comment is sent";
    ClockClientIdle "clocks.client_idle" [] = "30s",
        "how long a client's connection may be idle, and how long the head of a request may take";
    ClockWebSocketIdle "clocks.websocket_idle" [] = "15m", "how long a WebSocket may be idle";
    ClockBody "clocks.body" [] = "30s",
        "how long a request body may pause; in total it may take four times this, and 1 s for every 4 KiB";
    ClockQueue "clocks.queue" [] = "60s", "how long a request waits for a free turn slot";
    ClockLogin "clocks.login" [] = "24m",
        "how long `ibeam login` waits for the browser; it asks Cursor at most 150 times, which takes 23 minutes";
    ClockDrain "clocks.drain" [] = "10s", "how long running requests may take to finish at shutdown";

    LimitBody "limits.body" [] = "64MiB", "largest request body";
    LimitBodies "limits.body_memory" [] = "256MiB",
        "memory for all request bodies until their turns start; when it is full, the key that holds the most loses its largest body";
    LimitToolResult "limits.tool_result" [] = "20MiB",
        "largest result of one tool call, on every backend; at most half of `limits.blob_size`";
    LimitHeaderBytes "limits.header_bytes" [] = "64KiB", "largest head of a request";
    LimitTurns "limits.turns" [] = "32", "most turns at once";
    LimitTurnsPerKey "limits.turns_per_key" [] = "32",
        "most turns at once with one key, unless the key has its own limit";
    LimitReserve "limits.reserve" [] = "8",
        "additional turn slots, only for requests that bring tool results";
    LimitQueue "limits.queue" [] = "1024", "most requests that wait for a free turn slot";
    LimitConnections "limits.connections" [] = "4096", "most client connections at once";
    LimitUpstream "limits.upstream_connections" [] = "256", "most connections to Cursor at once";
    LimitBlobs "limits.blobs" [same("CURSOR_MAX_BLOBS")] = "10000",
        "most blobs (pieces of the conversation) that Cursor may store with ibeam in one turn";
    LimitBlobSize "limits.blob_size" [same("CURSOR_MAX_BLOB_SIZE")] = "48MiB", "largest blob";
    LimitBlobBytes "limits.blob_bytes" [] = "256MiB", "largest size of all blobs of one turn";
}

impl SettingKey {
    /// `clocks.turn` is set by `IBEAM_CLOCKS_TURN`.
    #[must_use]
    pub fn env_name(self) -> String {
        env_name(self.row().name)
    }

    /// Every variable that sets it, in the order of precedence.
    pub fn env_names(self) -> impl Iterator<Item = (String, EnvUnit)> {
        let former = RENAMED.iter().filter(move |(_, key)| *key == self);
        let own = std::iter::once(self.row().name).chain(former.map(|(name, _)| *name));
        let older = self.row().env.iter().map(|(name, unit)| ((*name).to_owned(), *unit));
        own.map(|name| (env_name(name), EnvUnit::Same)).chain(older)
    }

    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.row().name == name)
    }

    /// The setting with a similar name, for a mistyped one.
    #[must_use]
    pub fn close_to(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .map(|key| (strsim::damerau_levenshtein(name, key.row().name), *key))
            // Only slips, not guesses.
            .filter(|(distance, _)| *distance <= (name.len() / 3).clamp(1, 2))
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, key)| key)
    }
}

/// The variable of a setting with this name.
#[must_use]
pub fn env_name(name: &str) -> String {
    format!("IBEAM_{}", name.replace('.', "_").to_ascii_uppercase())
}

/// Former names of settings. They still work, with a warning.
pub const RENAMED: &[(&str, SettingKey)] = &[
    // `host` is where the gateway listens.
    ("hosts", SettingKey::Hosts),
    // It is only for `cursor-agent`; `limits.tool_result` is for all backends.
    ("tools.result_bytes", SettingKey::ToolResultBytes),
    // `cursor_agent.workspace` is another thing.
    ("cursor_agent.workspaces", SettingKey::AgentWorkspaces),
    ("cursor_agent.children", SettingKey::AgentChildren),
    // These two read like switches.
    ("mcp.start", SettingKey::McpStart),
    ("sessions.replay", SettingKey::SessionReplay),
    // `limits.body` is another thing.
    ("limits.bodies", SettingKey::LimitBodies),
];

/// Variables of the programs ibeam stands in for that have nothing to act on here,
/// each with the reason. They are accepted, with a warning.
pub const INERT: &[(&str, &str)] = &[
    ("CURSOR_VALIDATE_SHELL", "ibeam never runs a shell command"),
    ("CURSOR_SHELL_TIMEOUT_MS", "ibeam never runs a shell command"),
    ("CURSOR_REQUEST_LOGGING", "every request is logged, without its content"),
    ("CURSOR_LOG_FILTERED_IDS", "ibeam does not filter ids"),
    ("CURSOR_LOG_MULTIMODAL", "the content of requests is never logged"),
    ("CURSOR_HEARTBEAT_MAX_PROGRESS", "heartbeats are not counted; see `clocks.heartbeats_only`"),
    ("CURSOR_HEARTBEAT_MAX_NOPROGRESS", "heartbeats are not counted; see `clocks.heartbeats_only`"),
    ("CURSOR_AGENT_PRIVACY_URL", "see `api_url`"),
    ("CURSOR_AGENT_NON_PRIVACY_URL", "see `api_url`"),
    ("CURSOR_AGENT_TRY_API5", "see `api_url`"),
];
