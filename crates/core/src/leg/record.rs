//! The events of one leg so far, for readers that come later.

use crate::model::TurnEvent;

/// The longest answer that can be replayed.
const RECORD_BYTES: usize = 4 << 20;

/// What an event costs besides its texts.
const EVENT_BYTES: usize = 64;

/// The events of a leg, neighbours of one kind joined.
#[derive(Debug, Default)]
pub struct LegRecord {
    events: Vec<TurnEvent>,
    bytes: usize,
    /// It grew too long and was dropped.
    over: bool,
    /// The conversation that it is a part of.
    conversation: String,
}

impl LegRecord {
    #[must_use]
    pub fn of(conversation: &str) -> Self {
        Self { conversation: conversation.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    pub fn push(&mut self, event: &TurnEvent) {
        if self.over {
            return;
        }
        match (self.events.last_mut(), event) {
            (Some(TurnEvent::Text(all)), TurnEvent::Text(piece))
            | (Some(TurnEvent::Reasoning(all)), TurnEvent::Reasoning(piece)) => {
                all.push_str(piece);
                self.bytes += piece.len();
            }
            (
                Some(TurnEvent::ToolCallArgs { id, delta: all }),
                TurnEvent::ToolCallArgs { id: of, delta },
            ) if id == of => {
                all.push_str(delta);
                self.bytes += delta.len();
            }
            _ => {
                self.bytes += EVENT_BYTES + text_len(event);
                self.events.push(event.clone());
            }
        }
        if self.bytes > RECORD_BYTES {
            *self = Self { over: true, ..Self::default() };
        }
    }

    /// The same in as much memory as it needs, to be kept for a while. A text that grew piece by
    /// piece has up to twice that, in one of the sizes that buffers have: kept among them, it
    /// would keep the allocator from returning the memory of a burst of connections.
    #[must_use]
    pub fn compact(self) -> Self {
        Self { events: self.events.to_vec(), ..self }
    }

    /// All of it, unless it grew too long.
    #[must_use]
    pub fn events(&self) -> Option<&[TurnEvent]> {
        (!self.over).then_some(&self.events)
    }

    /// Its text, unless it grew too long.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let texts = self.events()?.iter().filter_map(|event| match event {
            TurnEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        Some(texts.collect())
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn text_len(event: &TurnEvent) -> usize {
    match event {
        TurnEvent::Text(text) | TurnEvent::Reasoning(text) => text.len(),
        TurnEvent::ToolCallBegin { id, name } => id.as_str().len() + name.len(),
        TurnEvent::ToolCallArgs { id, delta } => id.as_str().len() + delta.len(),
        TurnEvent::ToolCallEnd { id } => id.as_str().len(),
        TurnEvent::Started
        | TurnEvent::Usage(_)
        | TurnEvent::Finished(_)
        | TurnEvent::Failed(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::CallId;

    fn args(id: &str, delta: &str) -> TurnEvent {
        TurnEvent::ToolCallArgs { id: CallId::sanitised(id), delta: delta.into() }
    }

    #[test]
    fn only_adjacent_events_of_one_kind_are_joined() {
        let mut record = LegRecord::default();
        for event in [
            TurnEvent::Started,
            TurnEvent::Reasoning("h".into()),
            TurnEvent::Reasoning("m".into()),
            TurnEvent::Text("a".into()),
            TurnEvent::Text("b".into()),
            args("1", "{"),
            args("1", "}"),
            args("2", "{}"),
        ] {
            record.push(&event);
        }
        let want = [
            TurnEvent::Started,
            TurnEvent::Reasoning("hm".into()),
            TurnEvent::Text("ab".into()),
            args("1", "{}"),
            args("2", "{}"),
        ];
        assert_eq!(record.events(), Some(&want[..]));
    }

    #[test]
    fn compact_record_needs_no_more_than_it_has() {
        let mut record = LegRecord::default();
        for event in [TurnEvent::Started, TurnEvent::Text("a".into()), args("1", "{")] {
            record.push(&event);
        }
        for _ in 0..5_000 {
            record.push(&args("1", "x"));
        }
        let (events, bytes) = (record.events().unwrap().to_vec(), record.bytes());
        let compact = record.compact();
        assert_eq!((compact.events(), compact.bytes()), (Some(&events[..]), bytes));
        assert_eq!(compact.events.capacity(), 3);
        let Some(TurnEvent::ToolCallArgs { delta, .. }) = compact.events.last() else { panic!() };
        assert_eq!((delta.len(), delta.capacity()), (5_001, 5_001));
    }

    #[test]
    fn a_record_that_is_too_long_cannot_be_replayed() {
        let mut record = LegRecord::default();
        let piece = TurnEvent::Text("x".repeat(1 << 20));
        for _ in 0..4 {
            record.push(&piece);
        }
        assert_eq!(record.events(), None, "four pieces and what an event costs");
        record.push(&TurnEvent::Started);
        assert_eq!((record.events(), record.bytes()), (None, 0), "a truncated record is not kept");
    }
}
