//! Stops a model that goes in circles, and nothing else. Only the same call *with the
//! same outcome* counts; something new in between forgives it; the model gets a note before
//! it is stopped.
//!
//! | what happens | note | stop |
//! |---|---|---|
//! | one call, one outcome | with the `max_repeat`th result | at the next such call |
//! | arguments of one tool refused, whatever they are | from the `max_repeat`th | after twice as many |
//! | back and forth between two edits | with the 4th | at the 6th |
//!
//! A new call that succeeds and changes something forgives all repeats; a new one that
//! only reads forgives other reads and commands that had succeeded; a message of the
//! user forgives everything. Waiting does not count, a step like a click counts for a
//! quarter, and the model's own list of what to do is not looked at.

mod classify;
mod patience;

use std::collections::VecDeque;

use sha2::{Digest as _, Sha256};

pub(crate) use self::classify::{exit_code, failure_beginnings, is_tool_word};
use self::{
    classify::{OutcomeClass, ToolKind, without_note},
    patience::Manner,
};
use crate::{
    codec::canonical::canonical,
    model::{Item, Part, Role, ToolResult},
};

/// How many calls are remembered; the oldest goes first.
const SEEN_CAP: usize = 256;
/// Calls without a result yet. No batch is that large.
const PENDING_CAP: usize = 256;
/// Tools whose refused arguments are counted.
const REFUSED_CAP: usize = 64;
/// Edits back and forth before the model gets a note, with the default `max_repeat`.
const NOTED_FLIPS: usize = 4;
/// And before it is stopped.
const STOPPED_FLIPS: usize = 6;

/// Counts the calls of one conversation. It remembers hashes, not texts.
#[derive(Clone, Debug)]
pub(crate) struct LoopGuard {
    max_repeat: u32,
    pending: VecDeque<Pending>,
    /// Oldest first.
    seen: VecDeque<SeenCall>,
    refused: VecDeque<Refused>,
    /// The last edits and what came of them.
    edits: VecDeque<(CallHash, CallHash)>,
}

/// Whether a call may be handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoopVerdict {
    Allow,
    /// The turn ends with this message.
    Stop(String),
}

type CallHash = [u8; 16];

#[derive(Clone, Debug)]
struct Pending {
    id: CallHash,
    call: CallHash,
    tool: CallHash,
    kind: ToolKind,
    manner: Manner,
}

/// A call with a result, and how often it came in a row.
#[derive(Clone, Debug)]
struct SeenCall {
    call: CallHash,
    kind: ToolKind,
    outcome: CallHash,
    class: OutcomeClass,
    count: u32,
    /// How often is often enough.
    limit: u32,
}

#[derive(Clone, Debug)]
struct Refused {
    tool: CallHash,
    count: u32,
}

// === impl LoopGuard ===

impl LoopGuard {
    /// `max_repeat` is how often one call may have one outcome; zero switches the guard
    /// off.
    #[must_use]
    pub(crate) fn new(max_repeat: u32) -> Self {
        Self {
            max_repeat,
            pending: VecDeque::new(),
            seen: VecDeque::new(),
            refused: VecDeque::new(),
            edits: VecDeque::new(),
        }
    }

    /// A guard that knows the calls of a history.
    #[must_use]
    pub(crate) fn from_history(max_repeat: u32, items: &[Item]) -> Self {
        let mut guard = Self::new(max_repeat);
        // What came before the last word of the user would be forgiven anyway.
        let start = items.iter().rposition(speaks).unwrap_or(0);
        for item in items.iter().skip(start) {
            match item {
                Item::ToolCall(call) => {
                    guard.expect(&call.id, &call.name, &call.arguments);
                }
                Item::ToolResult(result) => {
                    guard.on_result(&result.call_id, result);
                }
                Item::Message(_) | Item::Reasoning(_) => {}
            }
        }
        guard
    }

    /// Judges a call before it is handed out.
    pub(crate) fn on_call(&mut self, id: &str, name: &str, arguments: &str) -> LoopVerdict {
        if self.max_repeat == 0 {
            return LoopVerdict::Allow;
        }
        let call = call_key(name, arguments);
        let stop = self
            .repeats(call)
            .or_else(|| self.refusals(key(&[name.as_bytes()])))
            .or_else(|| self.flips(call));
        match stop {
            Some(what) => LoopVerdict::Stop(stop_message(name, &what)),
            None => {
                self.expect(id, name, arguments);
                LoopVerdict::Allow
            }
        }
    }

    /// Takes in the result of a call; gives a note to append to it, for the model.
    pub(crate) fn on_result(&mut self, id: &str, result: &ToolResult) -> Option<String> {
        if self.max_repeat == 0 {
            return None;
        }
        let id = key(&[id.as_bytes()]);
        let place = self.pending.iter().position(|pending| pending.id == id)?;
        let Pending { call, tool, kind, manner, .. } = self.pending.remove(place)?;
        let text = result.text();
        let text = without_note(&text);
        let class = OutcomeClass::of(text, result.is_error);
        let outcome = outcome(class, text, result);
        let refused = self.count_refusal(tool, class);
        let refusal = (refused >= self.max_repeat)
            .then(|| classify::refusal_note(refused, self.refusal_limit()));
        if kind == ToolKind::Plan {
            return refusal;
        }

        let known = self.seen.iter().position(|seen| seen.call == call);
        let seen = known.and_then(|place| self.seen.remove(place));
        if seen.is_none() && class == OutcomeClass::Success {
            self.forgive(kind);
        }
        let count = match seen {
            _ if kind != ToolKind::Edit && manner.goes_on(class, text) => 0,
            Some(seen) if seen.outcome == outcome => seen.count.saturating_add(1),
            _ => 1,
        };
        let limit = self.max_repeat.saturating_mul(manner.allowance(text));
        push_capped(
            &mut self.seen,
            SeenCall { call, kind, outcome, class, count, limit },
            SEEN_CAP,
        );
        if kind == ToolKind::Edit {
            let cap = self.flip_limits().1;
            push_capped(&mut self.edits, (call, outcome), cap);
        }

        if count >= limit {
            Some(classify::repeat_note(count))
        } else if refusal.is_some() {
            refusal
        } else if kind == ToolKind::Edit && self.alternating() >= self.flip_limits().0 {
            Some(classify::flip_note())
        } else {
            None
        }
    }

    /// A message of the user resets everything.
    pub(crate) fn on_user_message(&mut self) {
        self.seen.clear();
        self.refused.clear();
        self.edits.clear();
    }

    fn expect(&mut self, id: &str, name: &str, arguments: &str) {
        let kind = ToolKind::of(name);
        let pending = Pending {
            id: key(&[id.as_bytes()]),
            call: call_key(name, arguments),
            tool: key(&[name.as_bytes()]),
            kind,
            manner: Manner::of(name, kind, arguments),
        };
        push_capped(&mut self.pending, pending, PENDING_CAP);
    }

    /// Something new succeeded. What it changed may change other outcomes; what it read
    /// may be reason to read again, or to run again what had worked.
    fn forgive(&mut self, news: ToolKind) {
        for seen in &mut self.seen {
            let forgiven = match news {
                ToolKind::Edit | ToolKind::Other => true,
                ToolKind::Read => match seen.kind {
                    ToolKind::Read => true,
                    ToolKind::Other => seen.class == OutcomeClass::Success,
                    ToolKind::Edit | ToolKind::Plan => false,
                },
                ToolKind::Plan => false,
            };
            if forgiven {
                seen.count = 0;
            }
        }
        if matches!(news, ToolKind::Edit | ToolKind::Other) {
            self.refused.clear();
        }
    }

    /// How often in a row the tool refused its arguments, this result included.
    fn count_refusal(&mut self, tool: CallHash, class: OutcomeClass) -> u32 {
        let place = self.refused.iter().position(|refused| refused.tool == tool);
        let before = place.and_then(|place| self.refused.remove(place));
        if class != OutcomeClass::Refused {
            return 0;
        }
        let count = before.map_or(1, |refused| refused.count.saturating_add(1));
        push_capped(&mut self.refused, Refused { tool, count }, REFUSED_CAP);
        count
    }

    fn repeats(&self, call: CallHash) -> Option<String> {
        let seen = self.seen.iter().find(|seen| seen.call == call)?;
        (seen.count >= seen.limit).then(|| {
            format!("called it {} with the same arguments and the same result", times(seen.count))
        })
    }

    fn refusals(&self, tool: CallHash) -> Option<String> {
        let refused = self.refused.iter().find(|refused| refused.tool == tool)?;
        (refused.count >= self.refusal_limit())
            .then(|| format!("gave it invalid arguments {} times in a row", refused.count))
    }

    fn flips(&self, call: CallHash) -> Option<String> {
        let flips = self.alternating() + 1;
        let goes_on = self.edits.iter().rev().nth(1).is_some_and(|(before, _)| *before == call);
        (goes_on && flips >= self.flip_limits().1)
            .then(|| format!("went back and forth between two edits {} times", flips - 1))
    }

    /// How many of the last edits are two in turn, each always with the same outcome.
    fn alternating(&self) -> usize {
        let mut latest = self.edits.iter().rev();
        let (Some(last), Some(other)) = (latest.next(), latest.next()) else {
            return 0;
        };
        if last.0 == other.0 {
            return 0;
        }
        let expected = [last, other].into_iter().cycle();
        self.edits
            .iter()
            .rev()
            .zip(expected)
            .take_while(|(edit, expected)| edit == expected)
            .count()
    }

    fn refusal_limit(&self) -> u32 {
        self.max_repeat.saturating_mul(2)
    }

    /// When edits back and forth get a note, and when they are stopped. A limit of more repeats
    /// allows more of this.
    fn flip_limits(&self) -> (usize, usize) {
        let allowed = usize::try_from(self.max_repeat).unwrap_or(usize::MAX).min(SEEN_CAP) * 2;
        let noted = allowed.max(NOTED_FLIPS);
        (noted, noted + (STOPPED_FLIPS - NOTED_FLIPS))
    }
}

fn speaks(item: &Item) -> bool {
    match item {
        Item::Message(message) => {
            message.role == Role::User
                && message.parts.iter().any(|part| match part {
                    Part::Text(text) => !text.trim().is_empty(),
                    Part::Image(_) => true,
                })
        }
        Item::ToolCall(_) | Item::ToolResult(_) | Item::Reasoning(_) => false,
    }
}

fn outcome(class: OutcomeClass, text: &str, result: &ToolResult) -> CallHash {
    let class_byte = [class as u8];
    let images = result.content.iter().filter_map(Part::image).map(|image| image.bytes().as_ref());
    let parts: Vec<&[u8]> = [&class_byte[..], text.as_bytes()].into_iter().chain(images).collect();
    key(&parts)
}

fn call_key(name: &str, arguments: &str) -> CallHash {
    key(&[name.as_bytes(), canonical(arguments).as_bytes()])
}

fn key(parts: &[&[u8]]) -> CallHash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    *digest.first_chunk().unwrap_or(&[0; 16])
}

fn push_capped<T>(queue: &mut VecDeque<T>, item: T, cap: usize) {
    while queue.len() >= cap {
        queue.pop_front();
    }
    queue.push_back(item);
}

fn stop_message(name: &str, what: &str) -> String {
    let name: String = name.chars().take(64).collect();
    format!(
        "stopped a loop of the tool `{name}`: the model {what} and was about to do so again. \
         Send a new message to continue; `tools.max_repeat` (TOOL_LOOP_MAX_REPEAT) sets how often \
         that is allowed, 0 disables the guard."
    )
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
