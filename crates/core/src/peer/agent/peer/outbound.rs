//! Messages to the backend.

use bytes::Bytes;
use ibeam_proto::agent::{
    AgentClientMessage, CancelAction, ConversationAction, ExecClientControlMessage,
    ExecClientStreamClose, ExecClientThrow, agent_client_message::Message as ToServer,
    conversation_action, exec_client_control_message::Message as Control,
    exec_client_message::Message as Reply,
};

use super::AgentPeer;
use crate::{codec::connect, peer::PeerOutput, peer::agent::exec};

impl AgentPeer {
    /// Returns the size of the framed message.
    pub(super) fn send(&mut self, message: ToServer) -> usize {
        let framed = connect::encode(&AgentClientMessage { message: Some(message) });
        let bytes = framed.len();
        self.output.push_back(PeerOutput::Send(framed));
        bytes
    }

    /// One result of an exec. More may follow until it is closed. Returns its size.
    pub(super) fn send_reply(&mut self, exec: u32, exec_id: &str, reply: Reply) -> usize {
        self.send(ToServer::ExecClientMessage(exec::result(exec, exec_id, reply)))
    }

    /// The exec has all its results.
    pub(super) fn close_exec(&mut self, exec: u32) {
        self.send_control(Control::StreamClose(ExecClientStreamClose { id: exec }));
    }

    /// Nothing here can answer that exec.
    pub(super) fn throw(&mut self, exec: u32, error: &str) {
        self.send_control(Control::Throw(ExecClientThrow {
            id: exec,
            error: error.to_owned(),
            stack_trace: None,
        }));
        self.close_exec(exec);
    }

    fn send_control(&mut self, message: Control) {
        let control = ExecClientControlMessage { message: Some(message) };
        self.send(ToServer::ExecClientControlMessage(control));
    }
}

/// Tells a backend that is still at work to stop.
pub(super) fn cancel() -> Bytes {
    let action = conversation_action::Action::CancelAction(CancelAction::default());
    let action = ConversationAction { action: Some(action) };
    connect::encode(&AgentClientMessage { message: Some(ToServer::ConversationAction(action)) })
}
