//! The tool calls of the agent. Those of the client's tools come over MCP, and are only
//! announced here; each other call becomes one line of reasoning.
//!
//! A call over MCP begins without the name of its tool, which comes with the first update.
//! So nothing is said of a call until it is clear which kind it is.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use crate::{
    codec::jsonrpc::Members,
    peer::child::{ChildEvent, SERVER_NAME},
    peer::cli::plain::one_line,
};

/// The number of running calls that are remembered. Of an older one, only the end may be missing.
const CALLS: usize = 256;
/// The longest line about a call, and the longest id of one.
const LINE: usize = 200;
const ID: usize = 1024;

const OTHER: &str = "other";
const PENDING: &str = "pending";
const FAILED: &str = "failed";

#[derive(Debug, Default)]
pub(super) struct AcpCalls {
    open: VecDeque<AcpCall>,
}

#[derive(Debug)]
struct AcpCall {
    id: String,
    kind: String,
    title: String,
    whose: Whose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Not said yet.
    Unclear,
    /// One of the client's, hosted by us.
    Client,
    /// Its own, or of a server that the user gave it.
    Agent,
}

/// A `tool_call` or `tool_call_update`.
pub(super) struct CallFields<'a>(Members<'a>);

impl<'a> CallFields<'a> {
    pub(super) fn read(raw: Option<&'a RawValue>) -> Self {
        Self(Members::of(raw).unwrap_or_default())
    }

    pub(super) fn id(&self) -> Option<String> {
        // A longer one is ignored: if it were cut, it might match another.
        self.0.text("toolCallId").filter(|id| id.len() <= ID)
    }

    /// Whether it says that a tool of ours is called.
    pub(super) fn is_hosted(&self) -> bool {
        self.provider().is_some_and(|provider| provider == SERVER_NAME)
    }

    fn provider(&self) -> Option<String> {
        self.0.object("rawInput").text("providerIdentifier")
    }

    fn has_input(&self) -> bool {
        self.0.get("rawInput").is_some_and(|raw| {
            let inside = raw.get().trim_start_matches('{').trim_end_matches('}');
            !inside.trim().is_empty()
        })
    }

    fn status(&self) -> Option<String> {
        self.0.text("status")
    }

    fn has_failed(&self) -> bool {
        self.status().is_some_and(|status| status == FAILED)
    }

    fn is_over(&self) -> bool {
        self.status().is_some_and(|status| matches!(status.as_str(), "completed" | FAILED))
    }

    fn whose(&self) -> Whose {
        match self.provider() {
            Some(provider) if provider == SERVER_NAME => Whose::Client,
            Some(_) => Whose::Agent,
            None if self.has_input() => Whose::Agent,
            None => Whose::Unclear,
        }
    }
}

impl AcpCalls {
    pub(super) fn is_hosted(&self, id: &str) -> bool {
        self.open.iter().any(|call| call.id == id && call.whose == Whose::Client)
    }

    /// A call begins.
    pub(super) fn begin(&mut self, raw: &RawValue) -> ChildEvent {
        let said = CallFields::read(Some(raw));
        let Some(id) = said.id() else { return ChildEvent::Alive };
        if self.open.iter().any(|call| call.id == id) {
            return self.update(raw);
        }
        let kind = said.0.text("kind").unwrap_or_else(|| OTHER.to_owned());
        let title = said.0.text("title").unwrap_or_default();
        let whose = match said.whose() {
            // Only calls over MCP begin without saying anything.
            Whose::Unclear if kind != OTHER => Whose::Agent,
            whose => whose,
        };
        let call =
            AcpCall { id, kind: one_line(&kind, LINE), title: one_line(&title, LINE), whose };
        let mut heard = call.event();
        if said.has_failed() && whose == Whose::Agent {
            heard = ChildEvent::Did(call.failed());
        }
        if !said.is_over() {
            if self.open.len() >= CALLS {
                self.open.pop_front();
            }
            self.open.push_back(call);
        }
        heard
    }

    /// Something is known about a call.
    pub(super) fn update(&mut self, raw: &RawValue) -> ChildEvent {
        let said = CallFields::read(Some(raw));
        let at = said.id().and_then(|id| self.open.iter().position(|call| call.id == id));
        let Some(call) = at.and_then(|at| self.open.get_mut(at)) else { return ChildEvent::Alive };
        let mut heard = ChildEvent::Alive;
        if call.whose == Whose::Unclear {
            if let Some(title) = said.0.text("title") {
                call.title = one_line(&title, LINE);
            }
            call.whose = match said.whose() {
                // It runs, and its tool is still unknown.
                Whose::Unclear if said.status().is_some_and(|status| status != PENDING) => {
                    Whose::Agent
                }
                whose => whose,
            };
            heard = call.event();
        }
        if said.has_failed() && call.whose == Whose::Agent {
            heard = ChildEvent::Did(call.failed());
        }
        if said.is_over()
            && let Some(at) = at
        {
            self.open.remove(at);
        }
        heard
    }
}

impl AcpCall {
    fn event(&self) -> ChildEvent {
        match self.whose {
            Whose::Unclear => ChildEvent::Alive,
            Whose::Client => ChildEvent::Announced,
            Whose::Agent => ChildEvent::Did(self.line("")),
        }
    }

    fn failed(&self) -> String {
        self.line(" failed")
    }

    fn line(&self, how: &str) -> String {
        let Self { kind, title, .. } = self;
        if title.is_empty() { format!("{kind}{how}") } else { format!("{kind}{how}: {title}") }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
