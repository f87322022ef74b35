//! The tool calls of a turn that its client has yet to see or to answer.

use crate::model::{Millis, ToolCall, ids::CallId, ids::SessionId};

#[derive(Debug)]
pub(super) struct Calls<C> {
    /// Names the turn in the ids of its calls.
    session: SessionId,
    /// How many ids were given out.
    count: u32,
    pub(super) list: Vec<Call<C>>,
    /// The client takes one call at a time.
    pub(super) one_by_one: bool,
    /// When the newest call was handed out, while others of its batch may still come.
    pub(super) batch: Option<Millis>,
    /// Calls of this run that the backend announced, and calls that it made or that were refused.
    /// Either number may be ahead.
    expected: usize,
    made: usize,
}

/// One call, and how far it has come.
#[derive(Debug)]
pub(super) struct Call<C> {
    pub(super) id: CallId,
    pub(super) name: String,
    pub(super) stage: CallStage<C>,
}

#[derive(Debug)]
pub(super) enum CallStage<C> {
    /// The client does not have it yet: other calls come first.
    Held(AskedCall<C>),
    /// With the client.
    Out(AskedCall<C>),
    /// With the client, although the backend no longer waits for it.
    Lost { arguments: String },
}

/// What the backend waits for.
#[derive(Debug)]
pub(super) struct AskedCall<C> {
    pub(super) key: u64,
    pub(super) arguments: String,
    pub(super) is_client_tool: bool,
    pub(super) peer: C,
}

impl<C> Call<C> {
    /// Whether the client has all of it.
    pub(super) fn is_out(&self) -> bool {
        matches!(self.stage, CallStage::Out(_) | CallStage::Lost { .. })
    }

    /// The client gets all of it.
    pub(super) fn hand_out(&mut self) {
        let given = CallStage::Lost { arguments: String::new() };
        self.stage = match std::mem::replace(&mut self.stage, given) {
            CallStage::Held(asked) => CallStage::Out(asked),
            other => other,
        };
    }

    pub(super) fn asked(&self) -> Option<&AskedCall<C>> {
        match &self.stage {
            CallStage::Lost { .. } => None,
            CallStage::Held(asked) | CallStage::Out(asked) => Some(asked),
        }
    }

    /// Whether its result has room for a message. The content of a file or the output of a command
    /// has none.
    pub(super) fn takes_words(&self) -> bool {
        self.asked().is_some_and(|asked| asked.is_client_tool)
    }

    fn arguments(&self) -> &str {
        match &self.stage {
            CallStage::Held(asked) | CallStage::Out(asked) => &asked.arguments,
            CallStage::Lost { arguments } => arguments,
        }
    }
}

impl<C> Calls<C> {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            count: 0,
            list: Vec::new(),
            one_by_one: false,
            batch: None,
            expected: 0,
            made: 0,
        }
    }

    /// A link opened: calls that were announced on an earlier one do not come on it.
    pub(super) fn begin_run(&mut self) {
        self.batch = None;
        (self.expected, self.made) = (0, 0);
    }

    pub(super) fn next_id(&mut self) -> CallId {
        self.count += 1;
        CallId::in_session(self.session, self.count)
    }

    /// The highest number of a call in this turn. They begin with 1.
    pub(super) fn highest(&self) -> u32 {
        self.count
    }

    /// Whether there was any call in this turn.
    pub(super) fn any_so_far(&self) -> bool {
        self.count > 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn awaits(&self, call_id: &str) -> bool {
        self.list.iter().any(|call| call.is_out() && call.id.as_str() == call_id)
    }

    /// The calls that the client has to answer.
    pub(super) fn out(&self) -> Vec<ToolCall> {
        let out = self.list.iter().filter(|call| call.is_out());
        out.map(|call| ToolCall {
            id: call.id.as_str().to_owned(),
            name: call.name.clone(),
            arguments: call.arguments().to_owned(),
        })
        .collect()
    }

    /// What they hold, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.list.iter().map(|call| call.arguments().len() + size_of::<Call<C>>()).sum()
    }

    /// The backend will make one more call.
    pub(super) fn expect(&mut self) {
        self.expected += 1;
    }

    /// The backend will make this many more calls.
    pub(super) fn expect_just(&mut self, ahead: usize) {
        self.expected = self.made + ahead;
    }

    /// Something happened for which the batch waits.
    pub(super) fn extend_batch(&mut self, now: Millis) {
        if let Some(newest) = &mut self.batch {
            *newest = now;
        }
    }

    /// The backend made a call.
    pub(super) fn made(&mut self) {
        self.made += 1;
    }

    /// Whether the backend announced more calls.
    pub(super) fn are_expected(&self) -> bool {
        self.expected > self.made && !self.one_by_one
    }

    /// Stops waiting for calls that were expected and did not come.
    pub(super) fn end_batch(&mut self) {
        self.batch = None;
        self.expected = self.expected.min(self.made);
    }

    /// The backend no longer wants this one.
    pub(super) fn withdraw(&mut self, key: u64) {
        self.list.retain(|call| call.asked().is_none_or(|asked| asked.key != key));
    }

    /// The backend no longer waits for this one, though the client may have it.
    pub(super) fn lose(&mut self, key: u64) {
        let is_key = |asked: &AskedCall<C>| asked.key == key;
        self.list.retain(|call| !matches!(&call.stage, CallStage::Held(asked) if is_key(asked)));
        for call in &mut self.list {
            if let CallStage::Out(asked) = &mut call.stage
                && is_key(asked)
            {
                let arguments = std::mem::take(&mut asked.arguments);
                call.stage = CallStage::Lost { arguments };
            }
        }
    }

    /// Whether the client has a call whose result the backend no longer waits for.
    pub(super) fn any_lost(&self) -> bool {
        self.list.iter().any(|call| matches!(call.stage, CallStage::Lost { .. }))
    }
}
