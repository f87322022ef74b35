//! The stream to the backend: how it is opened, dropped, and left at the end of a turn.

use std::{pin::Pin, sync::Arc, time::Duration};

use ibeam_core::{error::TurnError, peer::LinkError, turn::OpenLink};
use secrecy::SecretString;
use tokio::time::timeout;
use tracing::{debug, info};

use super::Task;
use crate::{
    driver::{Dial, Link, LinkPeer, LinkReceiver as _, LinkSender as _, Open},
    session::send_queue::SendQueue,
};

type OpenFuture<W> = Pin<Box<dyn Future<Output = Result<Opened<W>, TurnError>> + Send>>;

/// How long the last words of a turn (its cancel message) may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What an open came to, and the token it was tried with.
pub(super) struct Opened<W: LinkPeer> {
    pub(super) token: SecretString,
    pub(super) link: Result<Link<W>, LinkError>,
}

/// The side of the backend.
pub(super) struct Upstream<W: LinkPeer> {
    driver: Arc<dyn Dial<Peer = W>>,
    pub(super) link: Option<Link<W>>,
    pub(super) opening: Option<OpenFuture<W>>,
    /// What the newest link was opened with.
    pub(super) token: Option<SecretString>,
    /// Links asked for so far.
    pub(super) opens: u32,
    pub(super) send_queue: SendQueue<W::Out>,
}

impl<W: LinkPeer> Upstream<W> {
    pub(super) fn new(driver: Arc<dyn Dial<Peer = W>>) -> Self {
        let send_queue = SendQueue::default();
        Self { driver, link: None, opening: None, token: None, opens: 0, send_queue }
    }
}

impl<W: LinkPeer> Task<W> {
    pub(super) fn drop_link(&mut self) {
        self.wake();
        let send_queue = std::mem::take(&mut self.upstream.send_queue);
        if let Some(link) = self.upstream.link.take() {
            // A child may have to be notified that it was left in order.
            let _ = send_queue.messages.into_iter().all(|message| link.tx.hand_over(message));
        }
        self.upstream.opening = None;
    }

    pub(super) fn open(&mut self, spec: OpenLink<W::Open>) {
        self.upstream.opens += 1;
        if self.upstream.opens == 1 {
            debug!(upstream_id = %spec.request_id, "opening an upstream stream");
        } else {
            info!(upstream_id = %spec.request_id, attempt = self.upstream.opens, "trying upstream again");
        }
        self.drop_link();
        let (driver, tokens) = (Arc::clone(&self.upstream.driver), self.hub.tokens.clone());
        let refused = self.upstream.token.take().filter(|_| spec.fresh_token);
        self.upstream.opening = Some(Box::pin(async move {
            let token = match &refused {
                Some(refused) => tokens.renew(refused).await?,
                None => tokens.current().await?,
            };
            let open = Open {
                token: token.clone(),
                tokens: Some(tokens),
                request_id: spec.request_id,
                original_request_id: spec.original_request_id,
                peer: spec.peer,
            };
            Ok(Opened { token, link: driver.open(open).await })
        }));
    }

    /// Sends what is left (the cancel message), lets the backend end the stream in
    /// its own way for a moment, and resets it if it does not.
    pub(super) async fn last_words(&mut self) {
        self.upstream.opening = None;
        self.wake();
        let Some(mut link) = self.upstream.link.take() else { return };
        let send_queue = std::mem::take(&mut self.upstream.send_queue);
        let words = if send_queue.messages.is_empty() { Duration::ZERO } else { LAST_WORDS };
        let _ = timeout(words, async {
            for message in send_queue.messages {
                if link.tx.send(message).await.is_err() {
                    return;
                }
            }
            while let Some(Ok(_)) = link.rx.next().await {}
        })
        .await;
        link.tx.cancel();
    }
}
