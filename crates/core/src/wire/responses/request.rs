//! A request that was understood, and what earlier responses add to it.

use std::{collections::HashMap, sync::Arc};

use serde_json::value::RawValue;

use super::{
    echo::Echo,
    input::{Reference, ResponsesConversation, WireItem},
    tools::ToolOffer,
};
use crate::{
    codec::json::MOST_ELEMENTS,
    error::{ErrorCode, TurnError},
    history::take_marker,
    model::TurnRequest,
    wire::{json::invalid, scan::DeferredJson},
};

/// Items of a request and of the responses that it continues together: as many as one request may
/// have.
pub const MOST_ITEMS: usize = MOST_ELEMENTS;

/// A request for a response.
///
/// Its turn may lack what only earlier responses hold. Unless [`ResponsesRequest::is_whole`], the
/// handler looks that up: the items that [`ResponsesRequest::references`] names go to
/// [`ResponsesRequest::resolve`], and then the items of the response that `previous` names, or none,
/// to [`ResponsesRequest::after`].
#[derive(Debug)]
pub struct ResponsesRequest {
    pub turn: TurnRequest,
    /// What the response repeats.
    pub echo: Echo,
    /// The response that this one continues.
    pub previous: Option<String>,
    /// Whether the response is to be kept.
    pub store: bool,
    /// Whether the client asks for the result later.
    pub background: bool,
    /// Whether there is to be an answer at all: `false` only warms a connection up.
    pub generate: bool,
    /// The request's own input as wire items, each with an id.
    pub input: Vec<Box<RawValue>>,
    pub(super) references: Vec<Reference>,
    /// How many of the system texts are instructions: they come before all others, and are
    /// of this request only.
    pub(super) instructions: usize,
}

impl ResponsesRequest {
    /// Whether the turn can start as it is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.previous.is_none() && self.references.is_empty()
    }

    /// About how many bytes it has in memory. What of its input no turn knows is in it as well:
    /// the items are there as they came.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.turn.bytes() + bytes_of(&self.input) + self.echo.bytes()
    }

    /// The ids of items that the input only names.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.references.iter().map(|reference| reference.id.as_str())
    }

    /// The bytes of all items that [`Self::resolve`] would put in the places of references.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolved_bytes(&self, found: &[Box<RawValue>], most: usize) -> Result<usize, TurnError> {
        self.named_bytes(&by_id(found)?, most)
    }

    fn named_bytes(
        &self,
        found: &HashMap<String, &RawValue>,
        most: usize,
    ) -> Result<usize, TurnError> {
        let named = self.references.iter().filter_map(|one| found.get(one.id.as_str()));
        let bytes: usize = named.map(|raw| raw.get().len()).sum();
        if bytes > most {
            let text = "the items that the input refers to exceed the size limit of a request";
            return Err(TurnError::new(ErrorCode::ContextTooLong, text).param("input"));
        }
        Ok(bytes)
    }

    /// Puts items in the places of the references to them. Those whose item is not among
    /// `found` stay.
    ///
    /// # Errors
    /// An item cannot be read, or all of them together are more than `most` bytes: one that
    /// is named again and again is there as often.
    pub fn resolve(&mut self, found: &[Box<RawValue>], most: usize) -> Result<(), TurnError> {
        let found = by_id(found)?;
        self.named_bytes(&found, most)?;
        let mut old = std::mem::take(&mut self.turn.items).into_iter();
        let mut items = Vec::with_capacity(old.len());
        let mut taken = 0;
        for reference in std::mem::take(&mut self.references) {
            items.extend(old.by_ref().take(reference.before.saturating_sub(taken)));
            taken = reference.before;
            let Some(&raw) = found.get(reference.id.as_str()) else {
                self.references.push(Reference { before: items.len(), ..reference });
                continue;
            };
            let mut part = ResponsesConversation::default();
            let path = format!("input[{}]", reference.index);
            let item = WireItem::read(raw, &path)?;
            part.push(&item, reference.index, &path, &self.echo.tools)?;
            items.append(&mut part.items);
            self.turn.system.append(&mut part.system);
            if let Some(own) = self.input.get_mut(reference.index) {
                *own = raw.to_owned();
            }
        }
        items.extend(old);
        self.turn.items = items;
        DeferredJson::check(&self.turn, "input")
    }

    /// Puts the items of earlier responses, oldest first, before the request's own.
    ///
    /// # Errors
    /// An item cannot be read, or the input names one that is not among them.
    pub fn after(&mut self, earlier: &[Box<RawValue>]) -> Result<(), TurnError> {
        let known = by_id(earlier)?;
        // What is in the conversation already need not be there twice.
        self.references.retain(|reference| !known.contains_key(reference.id.as_str()));
        if let Some(reference) = self.references.first() {
            return Err(invalid(
                format!("input[{}].id", reference.index),
                format!(
                    "item `{}` was not found: responses are stored for a limited time, and only \
                     with `store`; send the item itself",
                    reference.id.chars().take(80).collect::<String>()
                ),
            ));
        }
        self.take_tools(earlier)?;
        let mut before = ResponsesConversation::default();
        for (index, raw) in earlier.iter().enumerate() {
            let item = WireItem::read(raw, EARLIER)?;
            before.push(&item, index, EARLIER, &self.echo.tools)?;
        }
        if let Some(session) = take_marker(&mut before.system) {
            self.turn.hints.session.get_or_insert(session);
        }
        let at = self.instructions.min(self.turn.system.len());
        self.turn.system.splice(at..at, before.system);
        self.turn.items.splice(0..0, before.items);
        DeferredJson::check(&self.turn, EARLIER)
    }

    /// Tools that earlier items added are there for all that follows.
    fn take_tools(&mut self, earlier: &[Box<RawValue>]) -> Result<(), TurnError> {
        let catalogue = Arc::make_mut(&mut self.echo.tools);
        let mut offer = ToolOffer {
            catalogue: std::mem::take(catalogue),
            tools: std::mem::take(&mut self.turn.tools),
            ..ToolOffer::default()
        };
        let added = earlier.iter().rev().try_for_each(|raw| {
            let tools = WireItem::read(raw, EARLIER)?.tools(EARLIER)?;
            offer.extend(&tools, EARLIER).map(|_| ())
        });
        *catalogue = offer.catalogue;
        self.turn.tools = offer.tools;
        added
    }
}

/// About how many bytes such items have in memory.
#[must_use]
pub fn bytes_of(items: &[Box<RawValue>]) -> usize {
    /// What holds an item.
    const EACH: usize = 32;
    items.iter().fold(0, |sum, item| sum + item.get().len() + EACH)
}

/// Where earlier items stand, for errors.
const EARLIER: &str = "previous_response_id";

fn by_id(items: &[Box<RawValue>]) -> Result<HashMap<String, &RawValue>, TurnError> {
    let mut known = HashMap::with_capacity(items.len());
    for raw in items {
        if let Some(id) = WireItem::read(raw, "item")?.id() {
            known.insert(id.to_owned(), &**raw);
        }
    }
    Ok(known)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
