//! The values that switches can have, and how they are written.

use std::time::Duration;

/// A value that is written as text in scenario files and on the command line.
pub(super) trait SwitchValue: Sized {
    /// The possible values, for lists of the switches.
    fn values() -> String;
    fn parse(text: &str) -> Option<Self>;
    fn text(&self) -> String;
}

impl SwitchValue for bool {
    fn values() -> String {
        "on, off".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "on" | "true" => Some(true),
            "off" | "false" => Some(false),
            _ => None,
        }
    }

    fn text(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

/// A time; `None` is off.
impl SwitchValue for Option<Duration> {
    fn values() -> String {
        "off, or a time such as 90s".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "off" {
            return Some(None);
        }
        let (digits, unit) = match text.strip_suffix("ms") {
            Some(digits) => (digits, 1),
            None => match text.strip_suffix('m') {
                Some(digits) => (digits, 60_000),
                None => (text.strip_suffix('s')?, 1000),
            },
        };
        let count: u64 = digits.parse().ok()?;
        Some(Some(Duration::from_millis(count.checked_mul(unit)?)))
    }

    fn text(&self) -> String {
        match self {
            None => "off".to_owned(),
            Some(time) if time.subsec_millis() > 0 => format!("{}ms", time.as_millis()),
            Some(time) => format!("{}s", time.as_secs()),
        }
    }
}

/// A limit; `None` is off.
impl SwitchValue for Option<usize> {
    fn values() -> String {
        "off, or a number".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "off" { Some(None) } else { text.parse().ok().map(Some) }
    }

    fn text(&self) -> String {
        self.map_or_else(|| "off".to_owned(), |count| count.to_string())
    }
}

/// The date of a version; `None` is off.
impl SwitchValue for Option<String> {
    fn values() -> String {
        "off, or a date such as 2026.09.23".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "off" {
            return Some(None);
        }
        let dated = text.split('.').count() == 3
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        dated.then(|| Some(text.to_owned()))
    }

    fn text(&self) -> String {
        self.clone().unwrap_or_else(|| "off".to_owned())
    }
}

macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $variant:ident = $text:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub(crate) enum $name {
                $($(#[$value_doc])* $variant,)*
            }

            impl SwitchValue for $name {
                fn values() -> String {
                    [$($text,)*].join(", ")
                }

                fn parse(text: &str) -> Option<Self> {
                    match text {
                        $($text => Some(Self::$variant),)*
                        _ => None,
                    }
                }

                fn text(&self) -> String {
                    match self { $(Self::$variant => $text,)* }.to_owned()
                }
            }
        )*
    };
}

choices! {
    /// When the rules of the request context are part of the prompt.
    RulesShown {
        Always = "always",
        NoHistory = "no-history",
        Never = "never",
    }

    /// How the entries of a rebuilt history are checked.
    RootChecks {
        Strict = "strict",
        Off = "off",
    }

    /// What happens to a field for the system prompt.
    SystemField {
        Refuse = "refuse",
        Ignore = "ignore",
        Obey = "obey",
    }

    /// How the model sees the client's tools.
    ToolsMode {
        Direct = "direct",
        Meta = "meta",
        MetaOldNames = "meta-old-names",
    }

    /// How the header with the allowed tools is read.
    AllowHeader {
        Strict = "strict",
        Lenient = "lenient",
    }

    /// Whether the client is asked for the state of its MCP servers.
    McpStateAsk {
        Off = "off",
        Ask = "ask",
        Blocking = "blocking",
    }

    /// Which calls the service refuses by itself.
    RefusedCalls {
        Off = "off",
        /// Calls that a script marks, and calls of tools that are not declared.
        PerCall = "per-call",
        /// The first calls of each run, too.
        First = "first",
    }

    /// Where the number of calls is announced.
    ListedAt {
        Off = "off",
        BeforeStarted = "before-started",
        Between = "between",
        AfterExecs = "after-execs",
    }

    /// What `partial_tool_call` has.
    PartialCalls {
        One = "one",
        Cumulative = "cumulative",
        /// The call of the meta tool, as it grows.
        Wrapper = "wrapper",
        Off = "off",
    }

    /// Which fields a state needs to be resumed.
    ResumeNeeds {
        Nothing = "nothing",
        Mode = "mode",
        /// The agent type and the mode.
        AgentType = "agent-type",
    }

    /// In which shapes images of the history are seen.
    RootImages {
        Both = "both",
        Hex = "hex",
        DataUrl = "data-url",
        Unseen = "unseen",
    }

    /// Whether reasoning is signed, and what a replay of it comes to.
    SignedReasoning {
        Off = "off",
        Accepted = "accepted",
        Refused = "refused",
    }

    /// Which status makes the tools of an MCP server usable.
    UsableStatus {
        /// Every one but those that say why not.
        Any = "any",
        Connected = "connected",
        Ready = "ready",
        Absent = "absent",
    }

    /// What happens to the header with the key for blobs.
    BlobKeyHeader {
        Ignored = "ignored",
        Refused = "refused",
        Required = "required",
    }

    /// Which tool-call ids have a newline in them.
    NewlineIds {
        Off = "off",
        GptAuto = "gpt-auto",
        Always = "always",
    }

    /// Which addresses `GetServerConfig` has.
    HostConfig {
        Both = "both",
        Agent = "agent",
        Agentn = "agentn",
        Absent = "none",
    }

    /// The host that answers with the error about the region.
    RegionError {
        Off = "off",
        Api2 = "api2",
        Agent = "agent",
        Agentn = "agentn",
    }

    /// Which models need max mode.
    MaxRequired {
        Off = "off",
        /// Those that the model list shows so.
        Listed = "listed",
        All = "all",
    }

    /// Which runs fail.
    ErrorWhen {
        Off = "off",
        /// The first run of this simulator.
        First = "first",
        Always = "always",
    }

    /// What Cursor's CLI does with an id that no chat of the folder has.
    ResumeUnknown {
        EmptyChat = "empty-chat",
        Error = "error",
    }
}

impl ToolsMode {
    /// The names of the two meta tools: that lists tools, and that calls one.
    pub(crate) fn meta_tools(self) -> (&'static str, &'static str) {
        match self {
            Self::MetaOldNames => ("GetMcpTools", "CallMcpTool"),
            Self::Direct | Self::Meta => ("GetDynamicTools", "CallDynamicTool"),
        }
    }
}

impl ErrorWhen {
    /// Whether the run with this number fails.
    pub(crate) fn hits(self, run: u64) -> bool {
        match self {
            Self::Off => false,
            Self::First => run == 1,
            Self::Always => true,
        }
    }
}
