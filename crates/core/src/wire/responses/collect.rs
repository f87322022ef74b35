//! The response of a request that does not stream.

use bytes::BytesMut;

use super::{
    echo::Echo,
    encode::{EndedResponse, ResponsesEncoder},
};
use crate::{
    error::TurnError,
    model::TurnEvent,
    wire::{Collect, Encode as _, cut_off},
};

/// Collects one turn. It is the stream's encoder with its stream discarded, so that both
/// ways give the same response.
#[derive(Debug)]
pub struct ResponsesCollector {
    encoder: ResponsesEncoder,
    stream: BytesMut,
}

impl ResponsesCollector {
    /// `created` is in Unix seconds.
    #[must_use]
    pub fn new(id: String, created: u64, echo: Echo) -> Self {
        Self { encoder: ResponsesEncoder::new(id, created, echo), stream: BytesMut::new() }
    }

    /// As [`ResponsesEncoder::with_clock`].
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> u64 + Send + 'static) -> Self {
        self.encoder = self.encoder.with_clock(now);
        self
    }

    /// As [`ResponsesEncoder::ended`].
    #[must_use]
    pub fn ended(&self) -> Option<EndedResponse> {
        self.encoder.ended()
    }
}

impl Collect for ResponsesCollector {
    fn on_event(&mut self, event: TurnEvent) {
        self.encoder.on_event(&event, &mut self.stream);
        self.stream.clear();
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, TurnError> {
        match self.encoder.failure() {
            Some(failure) => Err(failure.clone()),
            None if self.encoder.is_ended() => Ok(self.encoder.current().into_bytes()),
            None => Err(cut_off()),
        }
    }
}
