//! The response of a request that does not stream.

use bytes::BytesMut;
use serde_json::value::RawValue;

use super::{echo::Echo, encode::Encoder};
use crate::{
    error::TurnError,
    model::TurnEvent,
    wire::{Collect, Encode as _, cut_off},
};

/// Collects one turn. It is the stream's encoder whose stream nobody reads, so that both
/// ways give the same response.
#[derive(Debug)]
pub struct Collector {
    encoder: Encoder,
    stream: BytesMut,
}

impl Collector {
    /// `created` is in Unix seconds.
    #[must_use]
    pub fn new(id: String, created: u64, echo: Echo) -> Self {
        Self { encoder: Encoder::new(id, created, echo), stream: BytesMut::new() }
    }

    /// As [`Encoder::with_clock`].
    #[must_use]
    pub fn with_clock(mut self, now: impl Fn() -> u64 + Send + 'static) -> Self {
        self.encoder = self.encoder.with_clock(now);
        self
    }

    /// The items of the output that grow no more.
    #[must_use]
    pub fn output(&self) -> Vec<Box<RawValue>> {
        self.encoder.output()
    }
}

impl Collect for Collector {
    fn on_event(&mut self, event: TurnEvent) {
        self.encoder.on_event(&event, &mut self.stream);
        self.stream.clear();
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>, TurnError> {
        match (self.encoder.failure(), self.encoder.finished()) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(response)) => Ok(response.to_vec()),
            (None, None) => Err(cut_off()),
        }
    }
}
