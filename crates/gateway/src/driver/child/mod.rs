//! Turns that run in a child process: Cursor's CLI.

use ibeam_core::{
    agent::LinkError,
    child::{FromChild, ToChild},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Link, LinkReceiver, LinkSender, Rx, Tx};

/// Messages on their way to or from a child. Few: a child that is not read stops writing.
const MESSAGES: usize = 16;

#[derive(Debug)]
pub(super) struct Sender {
    messages: mpsc::Sender<ToChild>,
    kill: CancellationToken,
}

#[derive(Debug)]
pub(super) struct Receiver(mpsc::Receiver<FromChild>);

/// The end of a link that the task of a child holds.
#[derive(Debug)]
pub(crate) struct ChildEnd {
    /// Closed once the turn has dropped its half.
    pub(crate) told: mpsc::Receiver<ToChild>,
    pub(crate) heard: mpsc::Sender<FromChild>,
    /// The turn wants no more of the child.
    pub(crate) kill: CancellationToken,
}

/// The two ends of a link to a child.
pub(crate) fn link() -> (Link, ChildEnd) {
    let (to_child, told) = mpsc::channel(MESSAGES);
    let (heard, from_child) = mpsc::channel(MESSAGES);
    let kill = CancellationToken::new();
    let sender = Sender { messages: to_child, kill: kill.clone() };
    let link = Link {
        tx: LinkSender(Tx::Child(sender)),
        rx: LinkReceiver(Rx::Child(Receiver(from_child))),
    };
    (link, ChildEnd { told, heard, kill })
}

impl Sender {
    pub(super) async fn send(&self, message: ToChild) -> Result<(), LinkError> {
        let gone = |_| LinkError::Reset("the child is gone".to_owned());
        self.messages.send(message).await.map_err(gone)
    }

    pub(super) fn hand_over(&self, message: ToChild) -> bool {
        self.messages.try_send(message).is_ok()
    }

    pub(super) fn cancel(&self) {
        self.kill.cancel();
    }
}

impl Receiver {
    pub(super) async fn next(&mut self) -> Option<FromChild> {
        self.0.recv().await
    }
}
