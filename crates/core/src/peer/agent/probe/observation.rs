//! What a probe can observe. The names are in files and reports, and never change their meaning.

use super::ProbeQuestion as Question;

macro_rules! observations {
    ($($variant:ident = $name:literal, $text:literal;)*) => {
        /// The outcome of a probe.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ProbeObservation {
            $(#[doc = $text] $variant,)*
        }

        impl ProbeObservation {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// For people.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

observations! {
    Unclear = "unclear", "the runs do not settle it";
    // a
    PromptAlone = "prompt-alone", "the resumed prompt is the caller's alone";
    PromptAmongOthers = "prompt-among-others", "the resumed prompt is obeyed, beside other text";
    RulesEntryOnly = "rules-entry-only", "only a user entry with rules is obeyed";
    NeitherForm = "neither-form", "neither a resumed prompt nor an entry with rules is obeyed";
    // b
    RulesAlways = "rules-always", "rules always reach the model";
    RulesWithoutHistory = "rules-without-history", "rules reach the model only without a history";
    RulesWithoutRoots = "rules-without-roots", "rules reach the model only without any entry";
    RulesNever = "rules-never", "rules never reach the model";
    // c
    AgentTypeNeeded = "agent-type-needed", "the agent type is needed";
    ModeNeeded = "mode-needed", "the mode is needed, the agent type is not";
    TurnNeeded = "turn-needed", "a turn is needed, mode and agent type are not";
    NothingNeeded = "nothing-needed", "neither turn nor mode nor agent type is needed";
    // d
    RootsAccepted = "roots-accepted", "the largest number of entries that was accepted";
    // e
    PartialsAbsent = "partials-absent", "there are no partial calls";
    PartialsEmpty = "partials-empty", "partial calls carry no text";
    PartialsWrapper = "partials-wrapper", "partial calls carry the call of the meta tool";
    PartialsInner = "partials-inner", "partial calls carry the arguments of the tool";
    // f
    MetaOptional = "meta-optional", "tools are found with and without `mcp_meta_tool_options`";
    MetaNeeded = "meta-needed", "tools are found only with `mcp_meta_tool_options`";
    MetaHarmful = "meta-harmful", "tools are found only without `mcp_meta_tool_options`";
    DoubleStalls = "double-stalls", "tools that are declared twice stall the run";
    // g
    StatusNotAsked = "status-not-asked", "the state of MCP servers is not asked for";
    StatusAny = "status-any", "every status works";
    StatusConnected = "status-connected", "`connected` works, not every other status does";
    StatusReady = "status-ready", "`ready` works, `connected` does not";
    StatusAbsent = "status-absent", "only no status at all works";
    // h
    ImagesBoth = "images-both", "images are seen as hexadecimal bytes and as data URLs";
    ImagesHex = "images-hex", "images are seen as hexadecimal bytes only";
    ImagesDataUrl = "images-data-url", "images are seen as data URLs only";
    ImagesUnseen = "images-unseen", "images of the history are not seen";
    // i
    OldVersionAccepted = "old-version-accepted", "the old version is accepted";
    OldVersionRefused = "old-version-refused", "the old version is refused";
    // j
    ListedNever = "listed-never", "the number is not announced";
    ListedBeforeStarted = "listed-before-started", "the number comes before the calls";
    ListedBetween = "listed-between", "the number comes between the notices and the execs";
    ListedAfterExecs = "listed-after-execs", "the number comes after the execs";
    // k
    EmptyHonoured = "empty-honoured", "an empty list switches all tools off";
    EmptyIgnored = "empty-ignored", "an empty list changes nothing";
    // l
    UsageAvailable = "usage-available", "the usage is available";
    UsageUnavailable = "usage-unavailable", "the usage is refused";
    // m
    AddressesAbsent = "addresses-absent", "the service gives no address";
    AgentAnswers = "agent-answers", "only `agentUrl` answers";
    AgentnAnswers = "agentn-answers", "only `agentnUrl` answers";
    BothAnswer = "both-answer", "both addresses answer";
    NeitherAnswers = "neither-answers", "neither address answers";
    // n
    KeyIgnored = "key-ignored", "the key changes nothing";
    KeyRefused = "key-refused", "runs with a key are refused";
    KeyNeeded = "key-needed", "runs without a key are refused";
    // o
    ReasoningUnsigned = "reasoning-unsigned", "reasoning is stored without a signature";
    ReasoningAccepted = "reasoning-accepted", "signed reasoning is accepted";
    ReasoningRefused = "reasoning-refused", "signed reasoning is refused";
    // p
    NamesFree = "names-free", "the names do not collide";
    NamesCollide = "names-collide", "a run with such a name is refused";
    NativeInstead = "native-instead", "the built-in tool is called in its place";
    // q
    CallHeld = "call-held", "the call waited for so many seconds";
    CallLost = "call-lost", "the stream was lost after so many seconds";
}

impl ProbeObservation {
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|observation| observation.name() == name)
    }
}

/// What a probe comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeVerdict {
    pub question: Question,
    pub observation: ProbeObservation,
    /// A number that belongs to it: entries, calls or seconds.
    pub amount: Option<u32>,
}
