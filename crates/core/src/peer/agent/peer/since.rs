//! What happened after the newest state that the backend gave us. A client that always
//! sends its whole history needs none of it. One that sends only what is new relies on us
//! to know the rest, and a client that names its conversation may do either.

use bytes::Bytes;

use super::AgentPeer;
use crate::{
    history,
    model::{Image, ImageSource, Item, Message, Part, TurnRequest},
    peer::{Peer as _, TurnView, conversation::said},
};

#[derive(Debug, Default)]
pub(super) struct Since {
    /// The request has no history.
    bare: bool,
    /// The next request may not contain it: this one does not, or it names its
    /// conversation.
    tracked: bool,
    /// Calls, results and texts behind the newest state; only while tracked.
    items: Vec<Item>,
    /// The items of the first message, while no later request has them.
    first: Vec<Item>,
    /// A further leg began.
    further: bool,
    /// A state came, so that `items` lack what it has.
    stored: bool,
    /// How much of the present leg's text the newest state has.
    words: usize,
}

impl Since {
    /// A request came.
    pub(super) fn begin(&mut self, request: &TurnRequest) {
        self.bare = history::split(&request.items) == 0;
        self.tracked = self.bare || request.hints.session.is_some();
        if !self.tracked {
            self.items.clear();
        }
        if !self.bare {
            self.first.clear();
        }
    }

    /// A further leg begins with this request.
    pub(super) fn begin_further(&mut self, request: &TurnRequest) {
        self.begin(request);
        self.further = true;
    }

    /// The first message has this request in a form that may have to be replaced by another one.
    pub(super) fn keep_first(&mut self, request: &TurnRequest) {
        if self.bare {
            self.first.clone_from(&request.items);
        }
    }

    pub(super) fn is_bare(&self) -> bool {
        self.bare
    }

    pub(super) fn is_tracked(&self) -> bool {
        self.tracked
    }

    /// Nothing has happened that the newest state does not have.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn add(&mut self, items: impl IntoIterator<Item = Item>) {
        if self.tracked {
            self.items.extend(items);
        }
    }

    /// A new state arrived when the leg had this much text.
    pub(super) fn checkpoint(&mut self, words: usize) {
        self.items.clear();
        self.words = words;
        self.stored = true;
    }

    /// A leg is over that said this.
    pub(super) fn end_leg(&mut self, words: &str) {
        let said = said(words, self.words);
        self.add(said);
        self.words = 0;
    }

    /// The approximate number of bytes that it holds.
    pub(super) fn memory(&self) -> usize {
        self.first.iter().chain(&self.items).map(item_bytes).sum()
    }

    /// All of it is part of a new beginning.
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.words = 0;
        self.stored = false;
    }
}

/// The state before the present leg said anything, for when the client is not shown all of
/// what the backend believes to have said.
#[derive(Debug)]
pub(super) struct Anchor {
    state: Bytes,
    items: Vec<Item>,
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
                Part::Text(text) => text.len(),
                Part::Image(image) => image_bytes(image),
            })
            .sum(),
    };
    size_of::<Item>() + content
}

impl AgentPeer {
    /// The next first message has the whole conversation, as far as it is known here.
    pub(super) fn rebuild_run(&mut self, turn: &TurnView<'_>) {
        let since = &mut self.since;
        let is_built = !self.spec.is_kept();
        match turn.request {
            Some(request) if !since.bare || (is_built && !since.further) => {
                self.spec.rebuild(request);
            }
            Some(_) if is_built && !since.stored && !since.first.is_empty() => {
                // The request has only what is new, and the first one had no history either.
                since.first.append(&mut since.items);
                self.spec.rebuild_items(&since.first);
            }
            _ if since.bare && (!since.is_empty() || (since.further && since.stored)) => {
                // Only we know what came before.
                let state = self.state_so_far(turn.text);
                self.spec.continue_from(state);
            }
            _ => {}
        }
        self.repeat_run();
    }

    /// The newest state with all that happened since. `text` is what the present leg said.
    pub(super) fn state_so_far(&mut self, text: &str) -> Bytes {
        let state = self.newest_state();
        let mut items = self.since.items.clone();
        items.extend(said(text, self.since.words));
        self.spec.append(&state, &items)
    }

    fn newest_state(&mut self) -> Bytes {
        match &self.checkpoint {
            Some(checkpoint) => checkpoint.bytes.clone(),
            None => self.spec.first_state(),
        }
    }

    /// Remembers where a further leg begins, for clients that cannot send it again.
    pub(super) fn drop_anchor(&mut self) {
        self.anchor = self.since.tracked.then(|| {
            let state = self.newest_state();
            Box::new(Anchor { state, items: self.since.items.clone() })
        });
    }

    /// The same for the first leg, which begins with what the first message says.
    pub(super) fn keep_first_anchor(&mut self) {
        if self.since.tracked && self.anchor.is_none() {
            self.anchor =
                Some(Box::new(Anchor { state: self.spec.first_state(), items: Vec::new() }));
        }
    }

    /// The state before the leg, and what the client saw of it behind that. A client that
    /// always sends everything needs none.
    pub(super) fn state_as_shown(&mut self, text: Option<String>) -> Option<Bytes> {
        if !self.since.tracked {
            return None;
        }
        let text = text?;
        let (state, mut items) = match &self.anchor {
            Some(anchor) => (anchor.state.clone(), anchor.items.clone()),
            None => (self.spec.first_state(), Vec::new()),
        };
        items.extend(said(&text, 0));
        Some(self.spec.append(&state, &items))
    }
}
