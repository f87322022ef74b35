//! Messages to the backend.

use ibeam_proto::agent::{
    AgentClientMessage, CancelAction, ConversationAction, ExecClientControlMessage,
    ExecClientStreamClose, ExecClientThrow, agent_client_message::Message as ToServer,
    conversation_action, exec_client_control_message::Message as Control,
    exec_client_message::Message as Reply,
};

use super::{Command, Turn, stream::Link};
use crate::{agent::exec, codec::connect};

impl Turn {
    pub(super) fn send(&mut self, message: ToServer) {
        let message = AgentClientMessage { message: Some(message) };
        self.commands.push_back(Command::Send(connect::encode(&message)));
    }

    /// One result of an exec. More may follow until it is closed.
    pub(super) fn send_reply(&mut self, exec: u32, exec_id: &str, reply: Reply) {
        self.send(ToServer::ExecClientMessage(exec::result(exec, exec_id, reply)));
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
    }

    /// Tells a backend that is still at work to stop.
    pub(super) fn tell_cancel(&mut self) {
        if matches!(self.link, Link::Open(_)) {
            let action = conversation_action::Action::CancelAction(CancelAction {});
            self.send(ToServer::ConversationAction(ConversationAction { action: Some(action) }));
        }
    }

    fn send_control(&mut self, message: Control) {
        let control = ExecClientControlMessage { message: Some(message) };
        self.send(ToServer::ExecClientControlMessage(control));
    }
}
