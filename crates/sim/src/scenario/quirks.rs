//! The quirks of the real service, each as a switch. The row numbers are those of the quirk
//! table in the protocol notes (§5.11), or the section that describes it.
//!
//! Quirks that every server has are on by default; their switches turn them off, end in `_ok`
//! where that makes the server more lenient, and say what happens without them.

use serde::Deserialize;

macro_rules! quirks {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $row:literal;)*) => {
        /// One quirk. In scenario files it is written in snake case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        pub enum Quirk {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Quirk {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The row of the quirk table, or the section, that this comes from.
            #[must_use]
            pub fn row(self) -> &'static str {
                match self { $(Self::$variant => $row,)* }
            }
        }
    };
}

quirks! {
    /// The answer is only in a `set_blob`, nothing is streamed.
    BlobOnly = "blob_only", "1";
    /// As `blob_only`, but only for RunSSE without `x-cursor-streaming`.
    BlobWithoutStreamingHeader = "blob_without_streaming_header", "1, §1.5";
    /// The blob with the answer also comes before the text is streamed. (It always comes after
    /// it.)
    TextAndBlob = "text_and_blob", "2";
    /// The built-in assistant tries its native tool before the client's. A refusal makes
    /// it fall back (row 4), a typed result is used (row 5), and
    /// `x-cursor-agent-allowed-tools` is obeyed (row 6).
    NativeToolsFirst = "native_tools_first", "3-6";
    /// A search may be refused by an empty result. (Off: only `error` says that.)
    GrepRefusalOk = "grep_refusal_ok", "7";
    /// `system` messages in the prompt are followed like rules. (Off: they are ignored.)
    SystemHonoured = "system_honoured", "8";
    /// `custom_system_prompt` is taken as a rule. (Off: it is refused.)
    CustomPromptOk = "custom_prompt_ok", "8";
    /// A user message that carries system text is refused as prompt injection.
    InjectionSuspicion = "injection_suspicion", "9";
    /// Tools are used in ask mode too. (Off: they are refused there.)
    AskModeToolsOk = "ask_mode_tools_ok", "10";
    /// `auto` is a model id. (Off: it is not found.)
    AutoIdOk = "auto_id_ok", "11";
    /// A bare `composer-2.5` is the standard tier. (Off: it is the fast one unless the
    /// parameter `fast=false` is there.)
    ComposerStandard = "composer_standard", "12";
    /// Slugs with an effort are valid ids for every model. (Off: those of the OpenAI family
    /// are a bare `resource_exhausted`.)
    EffortSlugsOk = "effort_slugs_ok", "13";
    /// The first conversation id seen fails with a bare `resource_exhausted`, for ever.
    StuckConversation = "stuck_conversation", "14";
    /// Any tool-call id may be in the history. (Off: a bare `resource_exhausted`.)
    AnyCallIdOk = "any_call_id_ok", "15";
    /// An unknown model id gets the default model. (Off: `not_found`.)
    UnknownModelOk = "unknown_model_ok", "16";
    /// `exclude_workspace_context` is allowed. (Off: it is refused.)
    WorkspaceExclusionOk = "workspace_exclusion_ok", "17";
    /// An image that comes again under a new uuid is `internal` "Image not found".
    ImageUuid = "image_uuid", "18";
    /// A tool schema may be a bare `Struct`. (Off: a parse error.)
    RawStructOk = "raw_struct_ok", "19";
    /// Thinking arrives inside the text, between tags.
    LeakedThink = "leaked_think", "20";
    /// A tool call is written out as XML text, and the turn ends in the same chunk.
    XmlToolText = "xml_tool_text", "21";
    /// `turn_ended`, and nothing else.
    EmptyTurn = "empty_turn", "22";
    /// `<|eos|>` at the end of the text.
    EosLiteral = "eos_literal", "23";
    /// The routed model shows in `pending_tool_calls` of checkpoints.
    RoutedModel = "routed_model", "24";
    /// The request context is asked for a second time in the middle of the run.
    ReaskContext = "reask_context", "25";
    /// `turn_ended.input_tokens` leaves out the cached part. (Off: it is the whole prompt.)
    InputWithoutCache = "input_without_cache", "26";
    /// `exec_id` is empty.
    EmptyExecId = "empty_exec_id", "27";
    /// Ids start at 0, which is not written on the wire.
    IdsFromZero = "ids_from_zero", "28";
    /// A run continues after the client has closed its side. (Off: only heartbeats follow.)
    HalfCloseOk = "half_close_ok", "§1.4";
    /// Tool-call ids have a newline in them.
    NewlineIds = "newline_ids", "§5.4";
    /// No `turn_ended`, only the end frame.
    NoTurnEnded = "no_turn_ended", "§5.10";
    /// `turn_ended`, then heartbeats for ever.
    NoEndFrame = "no_end_frame", "§5.10";
    /// Neither `turn_ended` nor an end frame: a KV message, then heartbeats for ever.
    NoEnd = "no_end", "§5.10";
    /// Neither `turn_ended` nor an end frame, and the stream closes.
    BareEof = "bare_eof", "§5.10";
    /// An error end frame after `turn_ended`.
    ErrorAfterTurnEnded = "error_after_turn_ended", "§5.10";
    /// A resume over HTTP/2 is an empty turn; over RunSSE it works.
    EmptyResume = "empty_resume", "§5.6";
    /// No step events, no token deltas, no blobs stored, no checkpoint: text and the end
    /// only.
    Terse = "terse", "§5.1";
    /// Unary protobuf answers come inside a 5-byte envelope.
    EnvelopedUnary = "enveloped_unary", "§1.8";
}

/// A set of switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quirks(Vec<Quirk>);

impl Quirks {
    #[must_use]
    pub fn has(&self, quirk: Quirk) -> bool {
        self.0.contains(&quirk)
    }

    #[must_use]
    pub fn with(mut self, quirk: Quirk) -> Self {
        self.extend([quirk]);
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = Quirk> + '_ {
        self.0.iter().copied()
    }
}

impl Extend<Quirk> for Quirks {
    fn extend<I: IntoIterator<Item = Quirk>>(&mut self, quirks: I) {
        for quirk in quirks {
            if !self.has(quirk) {
                self.0.push(quirk);
            }
        }
    }
}

impl FromIterator<Quirk> for Quirks {
    fn from_iter<I: IntoIterator<Item = Quirk>>(quirks: I) -> Self {
        let mut set = Self::default();
        set.extend(quirks);
        set
    }
}

impl<'de> Deserialize<'de> for Quirks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Quirk>::deserialize(deserializer).map(|list| list.into_iter().collect())
    }
}

#[cfg(test)]
#[path = "quirks_tests.rs"]
mod tests;
