//! The open questions about the service, under the letters of `docs/probe.md`.

use std::fmt;

use crate::models::Family;

macro_rules! questions {
    ($($variant:ident = $letter:literal, $runs:literal, $who:ident, $text:literal;)*) => {
        /// A question that only the service can answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProbeQuestion {
            $(#[doc = $text] $variant,)*
        }

        impl ProbeQuestion {
            pub const ALL: [Self; [$($letter),*].len()] = [$(Self::$variant,)*];

            /// As the command line and the files of findings name it.
            #[must_use]
            pub fn letter(self) -> char {
                match self { $(Self::$variant => $letter,)* }
            }

            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// So many runs it takes at most, for each model that is asked.
            #[must_use]
            pub fn most_runs(self) -> u32 {
                match self { $(Self::$variant => $runs,)* }
            }

            /// Which models are asked.
            #[must_use]
            pub fn asks(self) -> ProbedModels {
                match self { $(Self::$variant => ProbedModels::$who,)* }
            }
        }
    };
}

/// Which models a question is put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbedModels {
    /// One of each family.
    EachFamily,
    /// Any one.
    AnyOne,
    /// One that another company serves.
    External,
    /// One that thinks, and shows what it thought.
    Thinking,
    /// None: there is no run.
    NoModel,
}

/// The families that differ in how they take a history.
pub(super) const FAMILIES: [Family; 5] =
    [Family::Composer, Family::Auto, Family::Claude, Family::Gpt, Family::Grok];

questions! {
    ResumedPrompt = 'a', 2, EachFamily,
        "Is a resumed prompt the caller's alone?";
    RulesShown = 'b', 3, AnyOne,
        "When do rules of the request context reach the model?";
    ResumeNeeds = 'c', 3, AnyOne,
        "What must a state have to be resumed?";
    RootLimit = 'd', 3, External,
        "How many entries may a prompt have?";
    PartialArguments = 'e', 1, AnyOne,
        "What do partial tool calls carry?";
    ToolsDeclared = 'f', 3, AnyOne,
        "Where must client tools be declared?";
    ServerStatus = 'g', 3, AnyOne,
        "Which status of an MCP server makes its tools usable?";
    RootImages = 'h', 2, External,
        "In which shape does the model see an image of the history?";
    VersionFloor = 'i', 1, AnyOne,
        "Is an old client version accepted?";
    ListedCalls = 'j', 1, AnyOne,
        "When is the number of calls announced, and are refused ones in it?";
    EmptyToolList = 'k', 1, AnyOne,
        "Does an empty list of allowed tools switch all tools off?";
    UsageCall = 'l', 0, NoModel,
        "May this sign-in ask for the usage of the plan?";
    AgentAddress = 'm', 2, AnyOne,
        "Which address for runs answers this account?";
    BlobKey = 'n', 2, AnyOne,
        "What does a key for the encryption of blobs do?";
    ReasoningReplay = 'o', 2, Thinking,
        "May signed reasoning be replayed?";
    BuiltinNames = 'p', 1, AnyOne,
        "Does a client tool with the name of a built-in one collide?";
    HeldCall = 'q', 1, AnyOne,
        "How long may a tool call wait for its result?";
}

impl ProbeQuestion {
    /// The question of a letter, in either case.
    #[must_use]
    pub fn from_letter(letter: &str) -> Option<Self> {
        let mut letters = letter.chars();
        let (first, rest) = (letters.next()?.to_ascii_lowercase(), letters.next());
        Self::ALL.into_iter().find(|question| question.letter() == first && rest.is_none())
    }
}

impl fmt::Display for ProbeQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}
