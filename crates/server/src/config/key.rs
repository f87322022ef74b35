//! Every setting there is: its name in the file, the environment variables that set
//! it, its default. Flags, `config show` and the documentation follow this table.

use crate::net::hosts;

/// How a bare number in an environment variable is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
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
    pub env: &'static [(&'static str, Unit)],
    /// As one would write it. Empty: none.
    pub default: &'static str,
    pub secret: bool,
    pub help: &'static str,
}

macro_rules! keys {
    ($($key:ident $name:literal [$($env:expr),*] = $default:expr, $help:literal;)*) => {
        /// The name of a setting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key { $($key),* }

        impl Key {
            pub const ALL: &[Self] = &[$(Self::$key),*];

            #[must_use]
            pub fn row(self) -> &'static SettingRow {
                match self {
                    $(Self::$key => {
                        const ROW: &SettingRow = &SettingRow {
                            name: $name,
                            env: &[$($env),*],
                            default: $default,
                            secret: matches!(Key::$key, Key::AccessToken | Key::ApiKey),
                            help: $help,
                        };
                        ROW
                    })*
                }
            }
        }
    };
}

const fn same(name: &'static str) -> (&'static str, Unit) {
    (name, Unit::Same)
}

const fn millis(name: &'static str) -> (&'static str, Unit) {
    (name, Unit::Millis)
}

keys! {
    Host "host" [same("HOST")] = "127.0.0.1", "address to listen on";
    Port "port" [same("PORT")] = "18741", "port to listen on; 0 takes a free one";
    Listen "listen" [] = "",
        "addresses with their ports, in place of `host` and `port`; or sockets: `unix:/path`";
    TlsCert "tls_cert" [] = "", "PEM file with the certificate chain to serve TLS with";
    TlsKey "tls_key" [] = "", "PEM file with the key of that certificate";
    ApiKey "api_key" [] = "",
        "key that local clients must send; this or `ibeam keys` is required to listen beyond this machine";
    KeysFile "keys_file" [] = "",
        "hashes of the keys of `ibeam keys`; by default `ibeam/keys.json` in your configuration folder";
    Hosts "hosts" [] = "", "further names under which clients may call, for the `Host` check";
    CorsOrigins "cors_origins" [] = "", "web origins that may call from a browser";
    WebSocket "websocket" [] = "true",
        "answer WebSockets on the paths of chat and Responses; off: they get 426";

    IdleExit "idle_exit" [] = "",
        "stop the gateway after this long without a request, 0 for never; by default that of `ibeam start` stops after 30m";

    Strict "strict" [] = "false",
        "refuse a request with a parameter that would be ignored; a client asks for it with `x-ibeam-strict: true`";

    Backend "backend" [] = "auto",
        "who answers: `agent` (Cursor's API), `cli` or `acp` (Cursor's `cursor-agent`); auto: the first that is signed in";
    AgentBin "cursor_agent.bin" [same("CURSOR_AGENT_BIN"), same("CURSOR_AGENT_EXECUTABLE")] = "",
        "the program; by default `cursor-agent` or `agent`, where it is found";
    AgentWorkspace "cursor_agent.workspace" [] = "",
        "folder of yours that it gets besides its own, which is empty and thrown away";
    AgentWorkspaces "cursor_agent.workspaces" [] = "",
        "folders that a client may name with `x-cursor-workspace`, and all below them";
    AgentOwnTools "cursor_agent.own_tools" [] = "false",
        "let it use its own shell and file tools; off: only the client's tools";
    AgentChildren "cursor_agent.children" [] = "8", "processes at once; others wait";
    AgentWarm "cursor_agent.warm" [] = "1", "`acp` processes kept ready";
    AgentIdle "cursor_agent.idle" [] = "5m", "an `acp` process without a turn is ended after that";
    AgentAuthTimeout "cursor_agent.auth_timeout" [millis("CURSOR_ACP_AUTH_CHECK_TIMEOUT")] = "5s",
        "for `cursor-agent status` to say who is signed in";

    AccessToken "access_token" [same("CURSOR_ACCESS_TOKEN"), same("CURSOR_AUTH_TOKEN")] = "",
        "access token of your Cursor account";
    Profile "profile" [] = "default",
        "which of your accounts, if you keep several: the name given to `ibeam login --profile`";
    Credentials "credentials" [] = "file",
        "where `ibeam login` keeps what it gets: `file`, or `keychain` for the system's own";
    ApiUrl "api_url" [same("CURSOR_API_URL")] = hosts::API.origin,
        "replaces every Cursor host; plain http only on this machine";
    ClientVersion "client_version" [same("CURSOR_CLIENT_VERSION")] = "",
        "version reported to Cursor; by default that of the installed CLI, else a built-in one";
    PrivacyMode "privacy_mode" [same("CURSOR_PRIVACY_MODE")] = "true",
        "ask Cursor not to keep what is sent (ghost mode)";
    Transport "transport" [] = "auto", "`auto`, `h2` or `h1`";
    CaFile "ca_file" [] = "", "PEM file with further certificate authorities to trust";

    LogLevel "log.level" [same("CURSOR_LOG_LEVEL")] = "info",
        "`error`, `warn`, `info`, `debug`, `trace`, or per target: `info,ibeam_server::driver=debug`";
    LogJson "log.json" [same("CURSOR_LOG_JSON")] = "false", "one JSON object a line";
    LogDebug "log.debug" [same("CURSOR_DEBUG")] = "false", "the same as `log.level = \"debug\"`";
    LogFile "log.file" [] = "",
        "file to log to in place of stderr; when it has 4 MiB it becomes `FILE.1` and a new one is begun";
    LogTiming "log.timing" [same("CURSOR_TIMING")] = "false", "log where the time of a turn went";

    ModelsCacheTtl "models.cache_ttl" [millis("CURSOR_MODEL_CACHE_TTL_MS")] = "5m",
        "how long the model list is taken for fresh";
    ModelsPassthrough "models.passthrough" [] = "false",
        "send names through that are not in the list";
    InlineContext "agent.inline_context" [] = "false",
        "send the request context with the first message, not when Cursor asks for it";
    AllowWebSearch "allow.web_search" [] = "false",
        "let Cursor's own web search run when a model asks for it";
    AllowWebFetch "allow.web_fetch" [] = "false",
        "let Cursor's own page fetch run when a model asks for it";

    SessionReuse "sessions.reuse" [same("CURSOR_SESSION_REUSE")] = "true",
        "keep the run open while tools work; off: every request is rebuilt from its history";
    SessionTtl "sessions.ttl" [millis("CURSOR_SESSION_TIMEOUT_MS")] = "15m",
        "a parked turn waits for its tool results";
    SessionMax "sessions.max_parked" [same("CURSOR_MAX_SESSIONS")] = "10000",
        "parked turns at once; the one that waited longest gives way";
    SessionBytes "sessions.parked_bytes" [] = "512MiB", "memory of all parked turns together";
    SessionBuffer "sessions.buffer" [] = "1MiB", "output that one parked turn may hold back";
    SessionReplay "sessions.replay" [] = "5m",
        "a finished answer is kept for a client that tries again";
    ToolMaxRepeat "tools.max_repeat" [same("TOOL_LOOP_MAX_REPEAT")] = "2",
        "identical calls with identical outcomes before the turn is stopped; 0: no guard";
    ToolNative "tools.native" [] = "true",
        "hand Cursor's own tools to the client's equivalents; off: refuse them";
    ToolResultBytes "tools.result_bytes" [] = "1MiB",
        "text of one tool result that Cursor's CLI gets; the rest is left out with a note";
    McpEnabled "mcp.enabled" [] = "false",
        "start the MCP servers of `[mcp.servers.NAME]`, and list or offer their tools";
    McpDiscover "mcp.discover" [] = "false",
        "read the MCP servers of other programs (OpenCode, Cursor, Claude Code); none is started unless `[mcp.servers.NAME]` names it, and one of a project's file only after `ibeam mcp approve`";
    McpStart "mcp.start" [] = "10s", "for an MCP server to start and list its tools";
    StoreEnabled "store.enabled" [] = "true",
        "keep conversations on disk, so that they go on after a restart; off: in memory only";
    StorePath "store.path" [] = "",
        "the file; by default `ibeam/store.db` in your state folder";
    StoreRetention "store.retention" [] = "7d", "a conversation is kept after its last turn";
    StoreBytes "store.bytes" [] = "1GiB", "all conversations together; the oldest give way";
    ResponsesRetention "responses.retention" [] = "24h",
        "how long a stored response is kept after its last use; 0 disables";
    ResponsesMax "responses.max" [] = "10000", "responses kept; the oldest give way";
    ResponsesBytes "responses.bytes" [] = "256MiB",
        "all of them together, in the store's file beside its conversations";

    RetryEnabled "retry.enabled" [same("CURSOR_RETRY_ENABLED")] = "true",
        "retry temporary failures while the client has seen nothing of the answer";
    RetryMax "retry.max" [same("CURSOR_MAX_RETRIES")] = "3", "how many times; an answer takes at most 5 runs, so more than 4 count as 4";
    RetryBaseDelay "retry.base_delay" [millis("CURSOR_RETRY_BASE_DELAY_MS")] = "500ms",
        "the first wait; each further one doubles";
    RetryMaxDelay "retry.max_delay" [millis("CURSOR_RETRY_MAX_DELAY_MS")] = "8s",
        "the longest wait; if Cursor asks for more, the client gets the error";

    ClockConnect "clocks.connect" [] = "10s", "to reach Cursor: name, TCP, TLS, HTTP/2";
    ClockNoFrame "clocks.no_frame" [] = "45s", "nothing at all from Cursor";
    ClockHeartbeatsOnly "clocks.heartbeats_only"
        [millis("CURSOR_HEARTBEAT_IDLE_NOPROGRESS_MS"), millis("CURSOR_HEARTBEAT_IDLE_PROGRESS_MS")]
        = "10m", "nothing but heartbeats; minutes of thinking are normal";
    ClockTurn "clocks.turn" [millis("CURSOR_REQUEST_TIMEOUT_MS")] = "30m", "one whole turn";
    ClockHeartbeat "clocks.heartbeat" [] = "5s", "between our own heartbeats";
    ClockCancelGrace "clocks.cancel_grace" [] = "2s",
        "between a client's leaving and the cancel upstream";
    ClockClientStall "clocks.client_stall" [] = "60s",
        "a client that reads less than 16 KiB in this time while data is waiting is disconnected";
    ClockEndWait "clocks.end_wait" [] = "2s", "for the end frame, once the turn said it is over";
    ClockQuietEnd "clocks.quiet_end" [] = "25s", "heartbeats only after a stored answer, where a host ends no turns";
    ClockToolBatch "clocks.tool_batch" [] = "25ms", "for further tool calls of the same batch";
    ClockHeaderGrace "clocks.header_grace" [] = "10s",
        "for the first event of a turn, so that an early failure gets its real HTTP status";
    ClockKeepAlive "clocks.keep_alive" [] = "10s", "of silence before a keep-alive comment";
    ClockClientIdle "clocks.client_idle" [] = "30s",
        "a client's connection without a request; a request's head must be whole by then";
    ClockWebSocketIdle "clocks.websocket_idle" [] = "15m", "a WebSocket without a request";
    ClockBody "clocks.body" [] = "30s",
        "a request body may pause; it may take four times this, and 1 s for every 4 KiB";
    ClockHandshake "clocks.handshake" [] = "10s", "a client may take for TLS";
    ClockQueue "clocks.queue" [] = "60s", "a request waits for a free turn";
    ClockLogin "clocks.login" [] = "24m",
        "to sign in with the browser; Cursor is asked 150 times at most, which is 23 minutes";
    ClockDrain "clocks.drain" [] = "10s", "requests may take to end at shutdown";

    LimitBody "limits.body" [] = "64MiB", "largest request body";
    LimitBodies "limits.bodies" [] = "256MiB",
        "memory for all request bodies until their turns start; when it is full, the key that holds the most loses its largest body";
    LimitToolResult "limits.tool_result" [] = "20MiB",
        "largest result of one tool call, on every backend; keep it below half of `limits.blob_size`";
    LimitHeaders "limits.headers" [] = "100", "headers of a request";
    LimitHeaderBytes "limits.header_bytes" [] = "64KiB", "all of them together";
    LimitTurns "limits.turns" [] = "32", "turns at once";
    LimitTurnsPerKey "limits.turns_per_key" [] = "32",
        "turns at once with one key, unless the key has a limit of its own";
    LimitReserve "limits.reserve" [] = "8",
        "further turns, only for requests that bring tool results";
    LimitQueue "limits.queue" [] = "1024", "requests that wait for a free turn";
    LimitConnections "limits.connections" [] = "4096", "client connections at once";
    LimitUpstream "limits.upstream_connections" [] = "256", "connections to Cursor at once";
    LimitStreams "limits.upstream_streams" [] = "100",
        "turns that share one of them, parked ones included";
    LimitBlobs "limits.blobs" [same("CURSOR_MAX_BLOBS")] = "10000",
        "pieces of conversation Cursor may store with us, per turn";
    LimitBlobSize "limits.blob_size" [same("CURSOR_MAX_BLOB_SIZE")] = "48MiB",
        "largest of them";
    LimitBlobBytes "limits.blob_bytes" [] = "256MiB", "all of them together, per turn";
}

impl Key {
    /// `clocks.turn` is set by `IBEAM_CLOCKS_TURN`.
    #[must_use]
    pub fn env_name(self) -> String {
        format!("IBEAM_{}", self.row().name.replace('.', "_").to_ascii_uppercase())
    }

    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.row().name == name)
    }

    /// The setting whose name is this one but for a slip.
    #[must_use]
    pub fn close_to(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .map(|key| (strsim::damerau_levenshtein(name, key.row().name), *key))
            // A slip of the finger, no guess at what was meant.
            .filter(|(distance, _)| *distance <= (name.len() / 3).clamp(1, 2))
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, key)| key)
    }
}

/// Variables of the programs ibeam stands in for that have nothing to act on here,
/// each with the reason. They are accepted, with a warning.
pub const INERT: &[(&str, &str)] = &[
    ("CURSOR_VALIDATE_SHELL", "ibeam never runs a shell command"),
    ("CURSOR_SHELL_TIMEOUT_MS", "ibeam never runs a shell command"),
    ("CURSOR_REQUEST_LOGGING", "every request is logged, without its content"),
    ("CURSOR_LOG_FILTERED_IDS", "nothing of that kind is filtered"),
    ("CURSOR_LOG_MULTIMODAL", "the content of requests is never logged"),
    ("CURSOR_HEARTBEAT_MAX_PROGRESS", "heartbeats are not counted; see `clocks.heartbeats_only`"),
    ("CURSOR_HEARTBEAT_MAX_NOPROGRESS", "heartbeats are not counted; see `clocks.heartbeats_only`"),
    ("CURSOR_AGENT_PRIVACY_URL", "see `api_url`"),
    ("CURSOR_AGENT_NON_PRIVACY_URL", "see `api_url`"),
    ("CURSOR_AGENT_TRY_API5", "see `api_url`"),
];
