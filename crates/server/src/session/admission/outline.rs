//! What a request says about the turn or conversation it belongs to: pure functions over the
//! request and what is stored. All of a request is hashed, which takes time in proportion to its
//! size: see [`LargeWork`](crate::large::LargeWork).

use std::{
    collections::{BTreeMap, HashSet},
    hash::{Hash, Hasher},
};

use ibeam_core::{
    history::{self, Fingerprint, HistoryChain},
    model::{
        Item, Role, Sampling, ToolCall, ToolResult, TurnRequest,
        ids::{SessionId, uuid_from_content},
    },
    models::ModelPick,
};
use sha2::{Digest as _, Sha256};

use super::{NameSource, SessionName};
use crate::{
    session::{leg_index::LegKey, parked::TurnIdentity},
    store::{Scope, StoredConversation},
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
    /// Of what was said before the first answer.
    pub(crate) opening: Fingerprint,
    /// Of everything before the new part.
    pub(super) past: Fingerprint,
    /// The session whose results it brings, and the numbers of their calls.
    pub(super) results: Option<BroughtResults>,
    /// Names the leg that its results begin, if it has any.
    pub(super) results_key: Option<LegKey>,
    /// The ids of calls that it has results for and does not have itself.
    pub(super) missing_calls: Vec<String>,
    /// There are such results in its history as well, which are passed on as text.
    pub(super) has_stray_results: bool,
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
    pub(crate) chain: HistoryChain,
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
    /// Continue from its checkpoint, which covers this number of the request's items.
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
        let mut said = SaidInRequest { chain: HistoryChain::of(before), has_past: has_past(items) };
        let past = said.chain.fingerprint();
        let opening =
            HistoryChain::of(items.split(is_past).next().unwrap_or_default()).fingerprint();
        said.chain.extend(new);
        let identity = TurnIdentity { scope, setup: history::setup(request), model };
        let results = BroughtResults::of(before, new);
        let results_key = results.as_ref().map(|results| results.key(&identity, request, new));
        let missing_calls = results_without_call(items, new);
        let has_stray_results = !results_without_call(items, before).is_empty();
        let has_tools = !request.tools.is_empty();
        Self {
            identity,
            name,
            has_tools,
            said,
            split,
            opening,
            past,
            results,
            results_key,
            missing_calls,
            has_stray_results,
        }
    }

    pub(super) fn scope(&self) -> Scope {
        self.identity.scope
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|named| named.name.as_str())
    }

    pub(super) fn name_source(&self) -> Option<NameSource> {
        self.name.as_ref().map(|named| named.source)
    }

    /// Whether its client chose the name of the conversation.
    pub(crate) fn has_marker(&self) -> bool {
        self.name_source() == Some(NameSource::Marker)
    }

    /// Whether it has only new messages for the conversation of that name.
    pub(crate) fn only_new_by_marker(&self) -> bool {
        self.has_marker() && !self.said.has_past && self.results.is_none()
    }

    /// What `stored` is good for. `reuse`: checkpoints may be used.
    pub(super) fn judge(&self, stored: &StoredConversation, by: FoundBy, reuse: bool) -> StoredUse {
        let same_setup = stored.setup == self.identity.setup;
        // Without a past, nothing in the request can differ from what is stored.
        let only_new = !self.said.has_past && matches!(by, FoundBy::Marker | FoundBy::Header);
        let same = match by {
            FoundBy::Session => true,
            FoundBy::Marker | FoundBy::Header if only_new => reuse && stored.checkpoint.is_some(),
            FoundBy::Marker | FoundBy::Header | FoundBy::Past => {
                self.said.has_past && stored.fingerprint == self.past
            }
        };
        if !same {
            let edited = self.said.has_past && by != FoundBy::Past && same_setup;
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
            _ if self.said.has_past && !stored.calls.is_empty() => None,
            _ if self.said.has_past => Some(self.split),
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
        let TurnIdentity { scope, setup, model } = identity;
        let ModelPick { id, parameters, max_mode } = model;
        // The model is instructed about a format, so that belongs to the setup.
        let Sampling { max_tokens, stop, .. } = &request.sampling;
        // In any order; of two for one call the later counts.
        let brought = results(new).map(|result| (result.call_id.as_str(), result));
        let brought: BTreeMap<_, _> = brought.collect();
        let messages = new.iter().filter_map(|item| match item {
            Item::Message(message) => Some(message),
            Item::ToolCall(_) | Item::ToolResult(_) | Item::Reasoning(_) => None,
        });
        let turn = (scope, self.session, setup, (id, parameters, max_mode));
        let asked = (&request.tool_choice, max_tokens, stop);
        hashed("results", (turn, asked, brought, messages.collect::<Vec<_>>()))
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
    items.iter().any(is_past)
}

fn is_past(item: &Item) -> bool {
    match item {
        Item::Message(message) => message.role == Role::Assistant,
        Item::ToolCall(_) | Item::Reasoning(_) => true,
        Item::ToolResult(_) => false,
    }
}

/// Names a leg by the client's `Idempotency-Key`.
pub(super) fn idempotency_key(scope: Scope, key: &str) -> LegKey {
    hashed("idempotency", (scope, key))
}

/// Names a leg by the request's bytes.
pub(super) fn body_key(scope: Scope, body: &LegKey) -> LegKey {
    hashed("body", (scope, body))
}

/// SHA-256 of anything that has a hash. For this process only: how a type is hashed may change.
pub(crate) fn hashed(kind: &str, parts: impl Hash) -> LegKey {
    struct Writer(Sha256);

    impl Hasher for Writer {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    let mut writer = Writer(Sha256::new());
    (kind, parts).hash(&mut writer);
    writer.0.finalize().into()
}

#[cfg(test)]
#[path = "outline_tests.rs"]
mod tests;
