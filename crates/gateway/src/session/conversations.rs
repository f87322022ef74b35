//! Which conversation a request belongs to. Clients send the whole history each
//! time and no id; the backend wants the same id for the same conversation.
//!
//! A first request gets a random id, so that two windows that start with the same
//! words never meet. When its answer is complete, question and answer together
//! name it: the next request of that conversation brings both.

use std::collections::{HashMap, VecDeque};

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
    ids: HashMap<Key, String>,
    order: VecDeque<Key>,
}

/// The id for a request, and how to remember it.
#[derive(Debug)]
pub struct Named {
    pub id: String,
    pub learner: Option<Learner>,
}

/// Listens to a first answer, to recognise the conversation by it later.
#[derive(Clone, Debug)]
pub struct Learner {
    hash: Sha256,
    any_text: bool,
    first_call: Option<String>,
}

impl Conversations {
    /// `random` is used for a conversation that nobody has seen.
    #[must_use]
    pub fn name(&self, request: &TurnRequest, random: [u8; 16]) -> Named {
        if let Some(session) = &request.hints.session {
            return Named { id: session_id(session, request), learner: None };
        }
        let opening = opening(&request.items);
        match first_answer(&request.items) {
            None => {
                let learner = Learner { hash: opening, any_text: false, first_call: None };
                Named { id: uuid_from_random(random), learner: Some(learner) }
            }
            Some(answer) => {
                let key = answer.key(opening);
                let known = self.known.lock().ids.get(&key).cloned();
                let id = known.unwrap_or_else(|| uuid_from_content([&b"history"[..], &key]));
                Named { id, learner: None }
            }
        }
    }

    pub fn remember(&self, learner: Learner, id: String) {
        let Some(key) = learner.key() else { return };
        let mut known = self.known.lock();
        if known.ids.insert(key, id).is_none() {
            known.order.push_back(key);
        }
        if known.order.len() > REMEMBERED
            && let Some(oldest) = known.order.pop_front()
        {
            known.ids.remove(&oldest);
        }
    }
}

impl Learner {
    pub fn hear(&mut self, event: &TurnEvent) {
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

/// A session that the client names itself. The prompt and the tools are part of
/// it: a title request or a changed prompt under the same name is another
/// conversation.
fn session_id(session: &str, request: &TurnRequest) -> String {
    let system = request.system.iter().map(String::as_bytes);
    let tools = request.tools.iter().map(|tool| tool.name.as_bytes());
    uuid_from_content([&b"session"[..], session.as_bytes()].into_iter().chain(system).chain(tools))
}

/// The first words of the user, before any answer.
fn opening(items: &[Item]) -> Sha256 {
    let mut hash = Sha256::new();
    for item in items {
        match item {
            Item::Message(message) if message.role == Role::User => {
                for text in texts(message) {
                    hash.update((text.len() as u64).to_be_bytes());
                    hash.update(text);
                }
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

    #[test]
    fn a_conversation_keeps_its_id_and_equal_openings_do_not_meet() {
        let conversations = Conversations::default();
        let first = request(vec![said(Role::User, "hi")]);
        let mut a = conversations.name(&first, [1; 16]);
        let b = conversations.name(&first, [2; 16]);
        assert_ne!(a.id, b.id);
        let mut learner = a.learner.take().unwrap();
        for piece in ["Hel", "lo"] {
            learner.hear(&TurnEvent::Text(piece.into()));
        }
        conversations.remember(learner, a.id.clone());
        let mut items = vec![said(Role::User, "hi"), said(Role::Assistant, "Hello")];
        items.push(said(Role::User, "and now?"));
        let next = conversations.name(&request(items.clone()), [3; 16]);
        assert_eq!(next.id, a.id);
        assert!(next.learner.is_none());
        items.extend([said(Role::Assistant, "more"), said(Role::User, "again")]);
        assert_eq!(conversations.name(&request(items), [4; 16]).id, a.id);
    }

    #[test]
    fn an_answer_of_calls_only_is_known_by_its_first_call() {
        let conversations = Conversations::default();
        let mut named = conversations.name(&request(vec![said(Role::User, "ls")]), [1; 16]);
        let mut learner = named.learner.take().unwrap();
        learner.hear(&TurnEvent::ToolCallBegin {
            id: CallId::sanitised("call_1"),
            name: "bash".into(),
        });
        conversations.remember(learner, named.id.clone());
        let call = Item::ToolCall(ToolCall {
            id: "call_1".into(),
            name: "bash".into(),
            arguments: "{}".into(),
        });
        let next = request(vec![said(Role::User, "ls"), call]);
        assert_eq!(conversations.name(&next, [2; 16]).id, named.id);
    }

    #[test]
    fn a_history_nobody_remembers_gets_the_same_id_every_time() {
        let items =
            || vec![said(Role::User, "q"), said(Role::Assistant, "a"), said(Role::User, "r")];
        let conversations = Conversations::default();
        let one = conversations.name(&request(items()), [1; 16]).id;
        assert_eq!(one, Conversations::default().name(&request(items()), [2; 16]).id);
    }

    #[test]
    fn a_named_session_forks_when_its_tools_change() {
        let conversations = Conversations::default();
        let mut main = request(vec![said(Role::User, "hi")]);
        main.hints.session = Some("window-1".into());
        let mut title = main.clone();
        main.tools.push(Tool { name: "bash".into(), description: String::new(), schema: None });
        let id = |request: &TurnRequest| conversations.name(request, [1; 16]).id;
        assert_eq!(id(&main), id(&main));
        assert_ne!(id(&main), id(&title));
        title.hints.session = Some("window-2".into());
        assert_ne!(id(&title), id(&main));
    }
}
