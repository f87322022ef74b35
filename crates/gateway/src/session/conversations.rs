//! Which conversation a request belongs to. Clients send the whole history each
//! time and no id; the backend wants the same id for the same conversation.
//!
//! A first request gets a random id, so that two windows that start with the same
//! words never meet. When its answer is complete, question and answer together
//! name it: the next request of that conversation brings both.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
};

use ibeam_core::model::{
    Item, Message, Part, Role, TurnEvent, TurnRequest,
    ids::{uuid_from_content, uuid_from_random},
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// How many conversations are remembered; the oldest are forgotten first and get
/// a new id, made from their content.
const REMEMBERED: usize = 10_000;

type Key = [u8; 32];

#[derive(Debug, Default)]
pub struct Conversations {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    ids: Bounded<Key, String>,
    /// Ids the backend got stuck on, and what they were replaced by.
    renewed: Bounded<String, String>,
}

/// A map that forgets its oldest entries.
#[derive(Debug)]
struct Bounded<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
}

/// What one turn has to do with its conversation.
#[derive(Debug)]
pub struct Memory {
    conversations: Arc<Conversations>,
    /// Present for a first turn: its answer names the conversation from then on.
    learner: Option<Learner>,
}

/// Listens to a first answer, to recognise the conversation by it later.
#[derive(Clone, Debug)]
struct Learner {
    hash: Sha256,
    any_text: bool,
    first_call: Option<String>,
}

impl Conversations {
    /// The id for a request, and how to remember it. `random` is used for a
    /// conversation that nobody has seen.
    #[must_use]
    pub fn name(self: &Arc<Self>, request: &TurnRequest, random: [u8; 16]) -> (String, Memory) {
        let opening = opening(request);
        let (id, learner) = match first_answer(&request.items) {
            None => {
                let learner = Learner { hash: opening, any_text: false, first_call: None };
                (uuid_from_random(random), Some(learner))
            }
            Some(answer) => (self.known_as(&answer.key(opening)), None),
        };
        (id, Memory { conversations: Arc::clone(self), learner })
    }

    fn known_as(&self, key: &Key) -> String {
        let known = self.known.lock();
        let id = known.ids.map.get(key).cloned();
        let id = id.unwrap_or_else(|| uuid_from_content([&b"history"[..], key]));
        known.renewed.map.get(&id).cloned().unwrap_or(id)
    }
}

impl Memory {
    pub fn hear(&mut self, event: &TurnEvent) {
        if let Some(learner) = &mut self.learner {
            learner.hear(event);
        }
    }

    /// The turn is complete. `asked` is the id it began with, `used` the one it ended
    /// with: another one when the first was stuck.
    pub fn keep(&mut self, asked: &str, used: &str) {
        let mut known = self.conversations.known.lock();
        if let Some(key) = self.learner.take().and_then(Learner::key) {
            known.ids.insert(key, used.to_owned());
        } else if asked != used {
            known.renewed.insert(asked.to_owned(), used.to_owned());
        }
    }
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    fn insert(&mut self, key: K, value: V) {
        if self.map.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.map.remove(&oldest);
        }
    }
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new() }
    }
}

impl Learner {
    fn hear(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Text(text) => {
                self.any_text = true;
                self.hash.update(text);
            }
            TurnEvent::ToolCallBegin { id, .. } if self.first_call.is_none() => {
                self.first_call = Some(id.as_str().to_owned());
            }
            _ => {}
        }
    }

    fn key(mut self) -> Option<Key> {
        if !self.any_text {
            self.hash.update(self.first_call?);
        }
        Some(self.hash.finalize().into())
    }
}

/// The first words of the user, before any answer. A session that the client names
/// is told apart by its name, its instructions and its tools as well: a title
/// request or a changed prompt under the same name is another conversation.
fn opening(request: &TurnRequest) -> Sha256 {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    if let Some(session) = &request.hints.session {
        add(session);
        request.system.iter().for_each(|text| add(text));
        request.tools.iter().for_each(|tool| add(&tool.name));
    }
    for item in &request.items {
        match item {
            Item::Message(message) if message.role == Role::User => {
                texts(message).into_iter().for_each(&mut add);
            }
            _ => break,
        }
    }
    hash
}

/// What the assistant said first.
enum Answer<'a> {
    Text(Vec<&'a str>),
    Call(&'a str),
}

impl Answer<'_> {
    fn key(&self, mut hash: Sha256) -> Key {
        match self {
            Self::Text(texts) => texts.iter().for_each(|text| hash.update(text)),
            Self::Call(id) => hash.update(id),
        }
        hash.finalize().into()
    }
}

fn first_answer(items: &[Item]) -> Option<Answer<'_>> {
    let mut call = None;
    for item in items {
        match item {
            Item::Message(message) if message.role == Role::Assistant => {
                let said = texts(message);
                if !said.is_empty() {
                    return Some(Answer::Text(said));
                }
            }
            Item::ToolCall(first) => call = call.or(Some(first.id.as_str())),
            Item::ToolResult(_) if call.is_some() => break,
            Item::Message(_) | Item::ToolResult(_) | Item::Reasoning(_) => {}
        }
    }
    call.map(Answer::Call)
}

fn texts(message: &Message) -> Vec<&str> {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) if !text.is_empty() => Some(text.as_str()),
        Part::Text(_) | Part::Image(_) => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibeam_core::model::{Dialect, Hints, Sampling, Tool, ToolCall, ToolChoice, ids::CallId};

    fn said(role: Role, text: &str) -> Item {
        Item::Message(Message { role, parts: vec![Part::Text(text.into())] })
    }

    fn request(items: Vec<Item>) -> TurnRequest {
        TurnRequest {
            model: "auto".into(),
            system: vec![],
            items,
            tools: vec![],
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            sampling: Sampling::default(),
            dialect: Dialect::Chat,
            hints: Hints::default(),
        }
    }

    fn conversations() -> Arc<Conversations> {
        Arc::default()
    }

    fn heard(memory: &mut Memory, pieces: &[&str]) {
        for piece in pieces {
            memory.hear(&TurnEvent::Text((*piece).into()));
        }
    }

    #[test]
    fn a_conversation_keeps_its_id_and_equal_openings_do_not_meet() {
        let conversations = conversations();
        let first = request(vec![said(Role::User, "hi")]);
        let (a, mut memory) = conversations.name(&first, [1; 16]);
        let (b, _) = conversations.name(&first, [2; 16]);
        assert_ne!(a, b);
        heard(&mut memory, &["Hel", "lo"]);
        memory.keep(&a, &a);
        let mut items = vec![said(Role::User, "hi"), said(Role::Assistant, "Hello")];
        items.push(said(Role::User, "and now?"));
        assert_eq!(conversations.name(&request(items.clone()), [3; 16]).0, a);
        items.extend([said(Role::Assistant, "more"), said(Role::User, "again")]);
        assert_eq!(conversations.name(&request(items), [4; 16]).0, a);
    }

    #[test]
    fn an_answer_of_calls_only_is_known_by_its_first_call() {
        let conversations = conversations();
        let (id, mut memory) = conversations.name(&request(vec![said(Role::User, "ls")]), [1; 16]);
        memory.hear(&TurnEvent::ToolCallBegin {
            id: CallId::sanitised("call_1"),
            name: "bash".into(),
        });
        memory.keep(&id, &id);
        let call = Item::ToolCall(ToolCall {
            id: "call_1".into(),
            name: "bash".into(),
            arguments: "{}".into(),
        });
        let next = request(vec![said(Role::User, "ls"), call]);
        assert_eq!(conversations.name(&next, [2; 16]).0, id);
    }

    fn later() -> TurnRequest {
        let items = [(Role::User, "q"), (Role::Assistant, "a"), (Role::User, "r")];
        request(items.into_iter().map(|(role, text)| said(role, text)).collect())
    }

    #[test]
    fn a_history_nobody_remembers_gets_the_same_id_every_time() {
        let one = conversations().name(&later(), [1; 16]).0;
        assert_eq!(one, conversations().name(&later(), [2; 16]).0);
    }

    #[test]
    fn a_stuck_id_is_not_used_again() {
        let conversations = conversations();
        let (stuck, mut memory) = conversations.name(&later(), [1; 16]);
        memory.keep(&stuck, "fresh");
        assert_eq!(conversations.name(&later(), [2; 16]).0, "fresh");
    }

    #[test]
    fn a_session_name_keeps_conversations_apart_and_joins_none() {
        let conversations = conversations();
        let mut main = request(vec![said(Role::User, "hi")]);
        main.hints.session = Some("window-1".into());
        let (id, mut memory) = conversations.name(&main, [1; 16]);
        assert_ne!(conversations.name(&main, [2; 16]).0, id, "no continuation");
        heard(&mut memory, &["Hello"]);
        memory.keep(&id, &id);
        main.items.extend([said(Role::Assistant, "Hello"), said(Role::User, "more")]);
        assert_eq!(conversations.name(&main, [3; 16]).0, id);
        let mut other = main.clone();
        other.hints.session = Some("window-2".into());
        assert_ne!(conversations.name(&other, [3; 16]).0, id);
        main.tools.push(Tool { name: "bash".into(), description: String::new(), schema: None });
        assert_ne!(conversations.name(&main, [3; 16]).0, id, "other tools");
    }
}
