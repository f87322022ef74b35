//! What happened after the newest state that the backend gave us. A client that tells
//! its whole history needs none of it: everything can be told anew. One that sends
//! only what is new relies on us to know the rest.

use bytes::Bytes;

use super::Turn;
use crate::{
    history,
    model::{Image, ImageSource, Item, Message, Part, Role, ToolContent, TurnRequest},
};

#[derive(Debug, Default)]
pub(super) struct Since {
    /// The request tells nothing of what came before.
    bare: bool,
    /// Calls, results and texts behind the newest state; only for bare requests.
    items: Vec<Item>,
    /// How much of the present leg's text the newest state has.
    words: usize,
}

impl Since {
    /// A request came.
    pub(super) fn begin(&mut self, request: &TurnRequest) {
        self.bare = history::split(&request.items) == 0;
        if !self.bare {
            self.items.clear();
        }
    }

    pub(super) fn is_bare(&self) -> bool {
        self.bare
    }

    /// Nothing has happened that the newest state does not have.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn add(&mut self, items: impl IntoIterator<Item = Item>) {
        if self.bare {
            self.items.extend(items);
        }
    }

    /// A new state came, when the leg had said so much.
    pub(super) fn checkpoint(&mut self, words: usize) {
        self.items.clear();
        self.words = words;
    }

    /// A leg is over that said this.
    pub(super) fn end_leg(&mut self, words: &str) {
        let said = said(words, self.words);
        self.add(said);
        self.words = 0;
    }

    /// About how many bytes it holds.
    pub(super) fn memory(&self) -> usize {
        self.items.iter().map(item_bytes).sum()
    }

    /// All of it is part of a new beginning.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.words = 0;
    }
}

/// What of `words` comes after the first `told` bytes, as a message.
fn said(words: &str, told: usize) -> Option<Item> {
    let rest = words.get(told..).filter(|rest| !rest.trim().is_empty())?;
    let parts = vec![Part::Text(rest.to_owned())];
    Some(Item::Message(Message { role: Role::Assistant, parts }))
}

fn item_bytes(item: &Item) -> usize {
    let image_bytes = |image: &Image| {
        let ImageSource::Inline { data, .. } = &image.source;
        data.len()
    };
    let content = match item {
        Item::Message(Message { parts, .. }) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.len(),
                Part::Image(image) => image_bytes(image),
            })
            .sum(),
        Item::Reasoning(reasoning) => reasoning.text.len(),
        Item::ToolCall(call) => call.arguments.len(),
        Item::ToolResult(result) => result
            .content
            .iter()
            .map(|part| match part {
                ToolContent::Text(text) => text.len(),
                ToolContent::Image(image) => image_bytes(image),
            })
            .sum(),
    };
    size_of::<Item>() + content
}

impl Turn {
    /// The state from which this conversation can go on, if there is one that lacks
    /// nothing. What a client cannot tell again is put behind the newest one. This may
    /// add blobs, so ask for those afterwards.
    #[must_use]
    pub fn checkpoint(&mut self) -> Option<Bytes> {
        if self.since.bare {
            return Some(self.state_so_far());
        }
        let whole = self.checkpoint.as_ref().filter(|checkpoint| {
            checkpoint.seen == self.answer.visible() && !checkpoint.before_results
        });
        whole.map(|checkpoint| checkpoint.bytes.clone())
    }

    /// The newest state with all that happened since.
    pub(super) fn state_so_far(&mut self) -> Bytes {
        let state = match &self.checkpoint {
            Some(checkpoint) => checkpoint.bytes.clone(),
            None => self.spec.told(),
        };
        let mut items = self.since.items.clone();
        items.extend(said(self.answer.words(), self.since.words));
        self.spec.append(&state, &items)
    }
}
