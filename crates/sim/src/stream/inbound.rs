//! The client's messages, from a request body or from appends.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use ibeam_core::codec::connect::{Decoder, Envelope};
use tokio::sync::mpsc;

use crate::record::RunTally;

/// Where client messages come from.
#[derive(Debug)]
pub(crate) enum RunInbound {
    Stream { body: Incoming, decoder: Decoder, tally: RunTally },
    Appends(mpsc::Receiver<Bytes>),
}

/// What arrives from the client.
#[derive(Debug)]
pub(crate) enum InboundEvent {
    Message(Bytes),
    /// The client has closed its side.
    HalfClosed,
    /// The stream is broken.
    Gone,
    /// Bytes that are not an envelope.
    Malformed(String),
}

impl RunInbound {
    pub(crate) fn stream(body: Incoming, tally: RunTally) -> Self {
        Self::Stream { body, decoder: Decoder::new(), tally }
    }

    /// The next message. Nothing is lost when the future is dropped early.
    pub(crate) async fn next(&mut self) -> InboundEvent {
        match self {
            Self::Appends(rx) => rx.recv().await.map_or(InboundEvent::Gone, InboundEvent::Message),
            Self::Stream { body, decoder, tally } => loop {
                match decoder.next() {
                    Ok(Some(Envelope::Message(bytes))) => return InboundEvent::Message(bytes),
                    Ok(Some(Envelope::End(_))) => return InboundEvent::HalfClosed,
                    Err(error) => return InboundEvent::Malformed(error.to_string()),
                    Ok(None) => {}
                }
                match body.frame().await {
                    None if decoder.mid_frame() => {
                        return InboundEvent::Malformed(
                            "request ends within an envelope".to_owned(),
                        );
                    }
                    None => return InboundEvent::HalfClosed,
                    Some(Err(_)) => return InboundEvent::Gone,
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            tally.heard(data.len());
                            decoder.push(data);
                        }
                    }
                }
            },
        }
    }
}
