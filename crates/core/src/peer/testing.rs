//! A peer for tests of what is above the wires: its messages are the events themselves.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{
    DriftReport, InMessage, LinkError, LinkMessage, LinkRelease, OpenRecord, OutMessage, Peer,
    PeerCall, PeerEvent, PeerFailure, PeerOutput, PlanRecord, Shown, TurnClocks, TurnView,
};
use crate::model::{Millis, Part, ToolCall, ToolResult, TurnRequest};

#[derive(Debug, Default)]
pub(crate) struct ScriptedPeer {
    events: VecDeque<PeerOutput<Sent, u64>>,
    heard: bool,
    pub(crate) shown: Option<Shown>,
}

/// What a turn sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The result of this call.
    Result(u64, String),
    Ask(String),
    Cancel,
}

#[derive(Debug)]
pub(crate) struct Said(pub(crate) PeerEvent<u64>);

impl OutMessage for Sent {
    fn bytes(&self) -> usize {
        1
    }

    fn to_link(&self) -> LinkMessage {
        LinkMessage::Bytes(format!("{self:?}").into())
    }
}

impl InMessage for Said {
    fn bytes(&self) -> usize {
        1
    }

    fn to_link(&self) -> LinkMessage {
        LinkMessage::Bytes(format!("{self:?}").into())
    }

    /// Turns over this peer are not replayed.
    fn from_link(_: LinkMessage) -> Option<Self> {
        None
    }
}

/// A call of the client's tool `name`.
pub(crate) fn call(key: u64, name: &str, arguments: &str) -> PeerEvent<u64> {
    PeerEvent::Call(Box::new(PeerCall {
        key,
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        is_client_tool: true,
        call: key,
    }))
}

impl Peer for ScriptedPeer {
    type Plan = ();
    type Open = ();
    type Out = Sent;
    type In = Said;
    type Call = u64;

    fn new(_: &TurnRequest, (): ()) -> Self {
        Self::default()
    }
    fn open(&mut self) {}
    fn on_opened(&mut self, _: &TurnClocks, _: Millis) {
        self.heard = false;
    }
    fn on_message(&mut self, Said(event): Said, _: Millis) {
        self.heard = true;
        self.events.push_back(PeerOutput::Event(event));
    }
    fn on_lost(&mut self, _: Option<&LinkError>) -> Option<PeerFailure> {
        Some(PeerFailure::cut_short())
    }
    fn leave(&mut self, how: LinkRelease, out: &mut Vec<Sent>) -> bool {
        if how == LinkRelease::Working {
            out.push(Sent::Cancel);
        }
        how == LinkRelease::Working
    }
    fn heard(&self) -> bool {
        self.heard
    }
    fn poll(
        &mut self,
        _: &TurnView<'_>,
        _: &TurnClocks,
        _: Millis,
    ) -> Option<PeerOutput<Sent, u64>> {
        self.events.pop_front()
    }
    fn deadline(&self, _: &TurnView<'_>, _: &TurnClocks) -> Option<Millis> {
        None
    }
    fn on_timeout(&mut self, _: &TurnView<'_>, _: &TurnClocks, _: Millis) {}
    fn set_reading(&mut self, _: bool, _: Millis) {}
    fn last_progress(&self) -> Millis {
        Millis(0)
    }
    fn rebuild(&mut self, _: Option<String>, _: &TurnView<'_>) {}
    fn ask_more(&mut self, text: &str, _: Option<&str>, _: &TurnView<'_>) {
        self.events.push_back(PeerOutput::Send(Sent::Ask(text.to_owned())));
    }
    fn begin_leg(
        &mut self,
        _: &TurnRequest,
        _: usize,
        _: Vec<ToolCall>,
        _: &TurnClocks,
        _: Millis,
    ) {
    }
    fn send_result(
        &mut self,
        _: &str,
        call: &u64,
        result: Option<&ToolResult>,
        _: Vec<Part>,
    ) -> Vec<String> {
        let text = result.map_or_else(String::new, ToolResult::text);
        self.events.push_back(PeerOutput::Send(Sent::Result(*call, text.clone())));
        vec![text]
    }
    fn set_shown(&mut self, shown: Shown) {
        self.shown = Some(shown);
    }
    fn checkpoint(&mut self, _: &TurnView<'_>) -> Option<Bytes> {
        None
    }
    fn conversation_id(&self) -> &'static str {
        "conv"
    }
    fn prompt_texts(&self, turn: &TurnView<'_>) -> Option<(Vec<String>, usize)> {
        Some((turn.request?.texts().map(str::to_owned).collect(), 0))
    }
    fn drift(&self) -> DriftReport {
        DriftReport::default()
    }
    fn record_plan((): &()) -> PlanRecord {
        unreachable!("turns over this peer are not recorded")
    }
    fn recorded_plan(_: PlanRecord, _: &TurnRequest) -> Option<()> {
        None
    }
    fn record_open((): &()) -> OpenRecord {
        OpenRecord::default()
    }
}
