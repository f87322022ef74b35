//! What a request says about the turn or conversation it belongs to: pure functions over the
//! request and what is stored. All of a request is hashed, which takes time in proportion to its
//! size: see [`LargeWork`](crate::large::LargeWork).

use std::collections::{BTreeMap, HashSet};

use ibeam_core::{
    agent::ModelPick,
    history::{self, Chain, Fingerprint},
    model::{
        Image, ImageSource, Item, Message, Part, Role, Sampling, ToolCall, ToolChoice, ToolContent,
        ToolResult, TurnRequest,
        ids::{SessionId, uuid_from_content},
    },
};
use sha2::{Digest as _, Sha256};

use super::{NameSource, SessionName};
use crate::{
    session::{leg_index::LegKey, parked::TurnIdentity},
    store::{Conversation, Scope},
};

/// Where a request belongs, as far as the request itself says it.
#[derive(Clone, Debug)]
pub(crate) struct RequestOutline {
    pub(crate) identity: TurnIdentity,
    /// What its client calls the conversation.
    pub(super) name: Option<SessionName>,
    pub(super) has_tools: bool,
    /// All that it says.
    pub(crate) said: SaidInRequest,
    /// Where its new part begins.
    split: usize,
    /// Of everything before the new part.
    pub(super) past: Fingerprint,
    /// The session whose results it brings, and the numbers of their calls.
    pub(super) results: Option<BroughtResults>,
    /// Names the leg that its results begin, if it has any.
    pub(super) results_key: Option<LegKey>,
    /// The ids of calls that it has results for and does not have itself.
    pub(super) missing_calls: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BroughtResults {
    pub(super) session: SessionId,
    calls: Vec<u32>,
    /// Whether the request has the calls as well.
    has_calls: bool,
}

/// All that a request says, hashed as the next request will bring it.
#[derive(Clone, Debug)]
pub(crate) struct SaidInRequest {
    pub(crate) chain: Chain,
    /// Whether it has anything that the assistant said.
    pub(crate) has_past: bool,
}

/// How a stored conversation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundBy {
    /// By the session in the ids of results.
    Session,
    /// By a system message with its name: the client means this one.
    Marker,
    /// By a header with its name, which clients also send with requests for titles.
    Header,
    /// By what was said.
    Past,
}

/// What a stored conversation is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredUse {
    /// Continue from its checkpoint, which covers so many items of the request.
    Continue { covers: usize, new_setup: bool },
    /// Send everything again, under its id.
    Rebuild,
    /// It would be this one, but for its tools, its prompt or what was said.
    Fork,
    /// It is another conversation.
    Not,
}

impl RequestOutline {
    /// Reads all of a request, once.
    pub(crate) fn new(
        request: &TurnRequest,
        name: Option<SessionName>,
        scope: Scope,
        model: ModelPick,
    ) -> Self {
        let items = &request.items;
        let split = history::split(items).min(items.len());
        let (before, new) = items.split_at(split);
        let mut said = SaidInRequest { chain: Chain::of(before), has_past: has_past(items) };
        let past = said.chain.fingerprint();
        said.chain.extend(new);
        let identity = TurnIdentity { scope, setup: history::setup(request), model };
        let results = BroughtResults::of(before, new);
        let results_key = results.as_ref().map(|results| results.key(&identity, request, new));
        let missing_calls = results_without_call(items, new);
        let has_tools = !request.tools.is_empty();
        Self { identity, name, has_tools, said, split, past, results, results_key, missing_calls }
    }

    pub(super) fn scope(&self) -> Scope {
        self.identity.scope
    }

    /// Whether the request has anything that the assistant said.
    pub(super) fn has_past(&self) -> bool {
        self.said.has_past
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|named| named.name.as_str())
    }

    pub(super) fn name_source(&self) -> Option<NameSource> {
        self.name.as_ref().map(|named| named.source)
    }

    /// What `stored` is good for. `reuse`: checkpoints may be used.
    pub(super) fn judge(&self, stored: &Conversation, by: FoundBy, reuse: bool) -> StoredUse {
        let same_setup = stored.setup == self.identity.setup;
        // Without a past, nothing in the request can differ from what is stored.
        let only_new = !self.has_past() && matches!(by, FoundBy::Marker | FoundBy::Header);
        let same = match by {
            FoundBy::Session => true,
            FoundBy::Marker | FoundBy::Header if only_new => reuse && stored.checkpoint.is_some(),
            FoundBy::Marker | FoundBy::Header | FoundBy::Past => {
                self.has_past() && stored.fingerprint == self.past
            }
        };
        if !same {
            let edited = self.has_past() && by != FoundBy::Past && same_setup;
            return if edited { StoredUse::Fork } else { StoredUse::Not };
        }
        let takes_any_setup = only_new && by == FoundBy::Marker;
        if !(same_setup || takes_any_setup) {
            return StoredUse::Fork;
        }
        let covers = match by {
            FoundBy::Session if self.results.as_ref().is_some_and(|results| results.has_calls) => {
                None
            }
            FoundBy::Session => Some(0),
            // The calls were never answered, and the conversation went past them.
            _ if self.has_past() && !stored.calls.is_empty() => None,
            _ if self.has_past() => Some(self.split),
            _ => Some(0),
        };
        match covers {
            Some(covers) if reuse && stored.checkpoint.is_some() => {
                StoredUse::Continue { covers, new_setup: !same_setup }
            }
            _ => StoredUse::Rebuild,
        }
    }

    /// The id for an unknown conversation: the same history gets the same one.
    pub(super) fn content_id(&self) -> String {
        let TurnIdentity { scope, setup, .. } = &self.identity;
        uuid_from_content([&b"history"[..], scope, setup, &self.past.0])
    }
}

impl BroughtResults {
    /// The newest session that `new` has results for.
    fn of(past: &[Item], new: &[Item]) -> Option<Self> {
        let ids = || results(new).filter_map(|result| SessionId::of_call(&result.call_id));
        let (session, _) = ids().next_back()?;
        let mut calls: Vec<u32> =
            ids().filter(|(of, _)| *of == session).map(|(_, call)| call).collect();
        calls.sort_unstable();
        calls.dedup();
        let has_calls =
            calls_in(past).any(|(of, call)| of == session && calls.binary_search(&call).is_ok());
        Some(Self { session, calls, has_calls })
    }

    /// Names a leg by the results that began it, and by the messages in `new` beside them.
    /// Other contents, other tools or another model make it another leg.
    fn key(&self, identity: &TurnIdentity, request: &TurnRequest, new: &[Item]) -> LegKey {
        let mut hash = KeyHasher::new("results", identity.scope);
        hash.add(self.session.to_string().as_bytes());
        hash.add(&identity.setup);
        hash.model(&identity.model);
        hash.choice(&request.tool_choice);
        hash.controls(&request.sampling);
        // In any order; of two for one call the later counts.
        let brought = results(new).map(|result| (result.call_id.as_str(), result));
        for result in brought.collect::<BTreeMap<_, _>>().values() {
            hash.result(result);
        }
        for item in new {
            if let Item::Message(message) = item {
                hash.message(message);
            }
        }
        hash.finish()
    }
}

fn results(items: &[Item]) -> impl DoubleEndedIterator<Item = &ToolResult> {
    items.iter().filter_map(|item| match item {
        Item::ToolResult(result) => Some(result),
        Item::Message(_) | Item::ToolCall(_) | Item::Reasoning(_) => None,
    })
}

fn calls(items: &[Item]) -> impl DoubleEndedIterator<Item = &ToolCall> {
    items.iter().filter_map(|item| match item {
        Item::ToolCall(call) => Some(call),
        Item::Message(_) | Item::ToolResult(_) | Item::Reasoning(_) => None,
    })
}

/// The calls of ours in a history, the newest first.
pub(super) fn calls_in(items: &[Item]) -> impl Iterator<Item = (SessionId, u32)> {
    calls(items).rev().filter_map(|call| SessionId::of_call(&call.id))
}

/// The ids of the calls that `new` has results for and the request does not have.
fn results_without_call(items: &[Item], new: &[Item]) -> Vec<String> {
    let known: HashSet<&str> = calls(items).map(|call| call.id.as_str()).collect();
    let ids = results(new).map(|result| &result.call_id);
    ids.filter(|id| !known.contains(id.as_str())).cloned().collect()
}

/// Whether the assistant has said anything in there.
fn has_past(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Message(message) => message.role == Role::Assistant,
        Item::ToolCall(_) | Item::Reasoning(_) => true,
        Item::ToolResult(_) => false,
    })
}

/// Names a leg by the client's `Idempotency-Key`.
pub(super) fn idempotency_key(scope: Scope, key: &str) -> LegKey {
    let mut hash = KeyHasher::new("idempotency", scope);
    hash.add(key.as_bytes());
    hash.finish()
}

/// Names a leg by the request's bytes.
pub(super) fn body_key(scope: Scope, body: &LegKey) -> LegKey {
    let mut hash = KeyHasher::new("body", scope);
    hash.add(body);
    hash.finish()
}

/// Hashes parts, each with its length.
struct KeyHasher(Sha256);

impl KeyHasher {
    fn new(kind: &str, scope: Scope) -> Self {
        let mut hasher = Self(Sha256::new());
        hasher.add(kind.as_bytes());
        hasher.add(&scope);
        hasher
    }

    fn add(&mut self, part: &[u8]) {
        self.0.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(part);
    }

    fn model(&mut self, model: &ModelPick) {
        let ModelPick { id, parameters, max_mode } = model;
        self.add(id.as_bytes());
        self.add(&[u8::from(*max_mode)]);
        self.count(parameters.len());
        for (name, value) in parameters {
            self.add(name.as_bytes());
            self.add(value.as_bytes());
        }
    }

    fn choice(&mut self, choice: &ToolChoice) {
        match choice {
            ToolChoice::Auto => self.add(b"auto"),
            ToolChoice::None => self.add(b"none"),
            ToolChoice::Required => self.add(b"required"),
            ToolChoice::Named(name) => {
                self.add(b"named");
                self.add(name.as_bytes());
            }
        }
    }

    /// The model is instructed about a format, so it belongs to the setup.
    fn controls(&mut self, sampling: &Sampling) {
        self.add(&sampling.max_tokens.unwrap_or(u64::MAX).to_be_bytes());
        self.count(sampling.stop.len());
        for sequence in &sampling.stop {
            self.add(sequence.as_bytes());
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let ToolResult { call_id, content, is_error } = result;
        self.add(call_id.as_bytes());
        self.add(&[u8::from(*is_error)]);
        self.count(content.len());
        for part in content {
            match part {
                ToolContent::Text(text) => self.text(text),
                ToolContent::Image(image) => self.image(image),
            }
        }
    }

    fn message(&mut self, message: &Message) {
        self.add(b"message");
        self.count(message.parts.len());
        for part in &message.parts {
            match part {
                Part::Text(text) => self.text(text),
                Part::Image(image) => self.image(image),
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.add(b"text");
        self.add(text.as_bytes());
    }

    fn image(&mut self, image: &Image) {
        let ImageSource::Inline { mime, data } = &image.source;
        self.add(b"image");
        self.add(mime.as_bytes());
        self.add(data);
    }

    fn count(&mut self, many: usize) {
        self.add(&(many as u64).to_be_bytes());
    }

    fn finish(self) -> LegKey {
        self.0.finalize().into()
    }
}

#[cfg(test)]
#[path = "outline_tests.rs"]
mod tests;
