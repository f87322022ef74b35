//! The stream to the backend: how it is opened, dropped, and left at the end of a turn.

use std::{pin::Pin, sync::Arc, time::Duration};

use ibeam_core::{error::TurnError, peer::LinkError, turn::OpenLink};
use secrecy::SecretString;
use tokio::time::timeout;
use tracing::{debug, info};

use super::Task;
use crate::driver::{Link, LinkPeer, LinkReceiver as _, LinkSender as _, Open};

pub(super) type OpenFuture<W> = Pin<Box<dyn Future<Output = Result<Opened<W>, TurnError>> + Send>>;

/// How long the last words of a turn (its cancel message) may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What an open came to, and the token it was tried with.
pub(super) struct Opened<W: LinkPeer> {
    pub(super) token: SecretString,
    pub(super) link: Result<Link<W>, LinkError>,
}

impl<W: LinkPeer> Task<W> {
    pub(super) fn drop_link(&mut self) {
        self.doze = None;
        let send_queue = std::mem::take(&mut self.send_queue);
        if let Some(link) = self.link.take() {
            // A child may have to be notified that it was left in order.
            let _ = send_queue.messages.into_iter().all(|message| link.tx.hand_over(message));
        }
        self.opening = None;
    }

    pub(super) fn open(&mut self, spec: OpenLink<W::Open>) {
        self.opens += 1;
        if self.opens == 1 {
            debug!(upstream_id = %spec.request_id, "opening an upstream stream");
        } else {
            info!(upstream_id = %spec.request_id, attempt = self.opens, "trying upstream again");
        }
        self.drop_link();
        let (driver, tokens) = (Arc::clone(&self.driver), self.hub.tokens.clone());
        let refused = self.token.take().filter(|_| spec.fresh_token);
        self.opening = Some(Box::pin(async move {
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
        (self.opening, self.doze) = (None, None);
        let Some(mut link) = self.link.take() else { return };
        let send_queue = std::mem::take(&mut self.send_queue);
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
