//! The body of a streamed reply: events in, event-stream bytes out.

use std::{
    convert::Infallible,
    future::Future as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use ibeam_core::{model::TurnEvent, wire::Encode};
use tokio::time::{Instant, Sleep};

use super::{EventSource, answer_stream::AnswerStream, log::RequestLog};
use crate::session::MatchedConversation;

/// Events that are ready together go out together, up to about this many bytes, so
/// that a burst costs one write and a slow client still exerts back-pressure.
pub const FRAME_CAP: usize = 16 * 1024;

/// A piece that is full, with the event that filled it.
const FULL_FRAME: usize = FRAME_CAP + FRAME_CAP / 8;

/// Pulls the turn only when the connection can take more. Dropping it drops the
/// turn, and that is how the session learns that the client has left.
pub(super) struct SseBody<T> {
    answer: AnswerStream<T>,
    encoder: Box<dyn Encode>,
    buffer: BytesMut,
    /// What the last piece needed, and the next one is likely to.
    room: usize,
    interval: Duration,
    silence: Pin<Box<Sleep>>,
    log: Arc<RequestLog>,
}

impl<T: EventSource> SseBody<T> {
    /// How the request was matched, if its turn runs.
    pub(super) fn matched(&self) -> Option<&MatchedConversation> {
        self.answer.matched()
    }

    /// `late`: the headers went out before the first event, so a comment follows
    /// them at once.
    pub(super) fn new(
        answer: AnswerStream<T>,
        encoder: Box<dyn Encode>,
        interval: Duration,
        late: bool,
        log: Arc<RequestLog>,
    ) -> Self {
        let wait = if late { Duration::ZERO } else { interval };
        Self {
            answer,
            encoder,
            buffer: BytesMut::new(),
            room: 0,
            interval,
            silence: Box::pin(tokio::time::sleep(wait)),
            log,
        }
    }

    /// Encodes what is ready.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while !self.encoder.is_ended() && self.buffer.len() < FRAME_CAP {
            match self.answer.poll_next(cx) {
                Poll::Ready(Some(event)) => {
                    match &event {
                        TurnEvent::Failed(error) => self.log.failed_in_stream(error),
                        TurnEvent::Finished(_) => self.log.streamed("complete"),
                        TurnEvent::Started
                        | TurnEvent::Text(_)
                        | TurnEvent::Reasoning(_)
                        | TurnEvent::ToolCallBegin { .. }
                        | TurnEvent::ToolCallArgs { .. }
                        | TurnEvent::ToolCallEnd { .. }
                        | TurnEvent::Usage(_) => {}
                    }
                    if self.buffer.is_empty() {
                        self.buffer.reserve(self.room);
                    }
                    self.encoder.on_event(&event, &mut self.buffer);
                }
                Poll::Ready(None) => self.encoder.on_cut(&mut self.buffer),
                Poll::Pending => return,
            }
        }
    }
}

impl<T: EventSource> Body for SseBody<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        this.fill(cx);
        if this.buffer.is_empty() {
            if this.encoder.is_ended() {
                return Poll::Ready(None);
            }
            if this.silence.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            this.encoder.on_silence(&mut this.buffer);
        }
        // The buffer goes with its bytes: a silent stream holds none.
        let bytes = std::mem::take(&mut this.buffer).freeze();
        this.room = bytes.len().next_power_of_two().min(FULL_FRAME);
        this.silence.as_mut().reset(Instant::now() + this.interval);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_ended() && self.buffer.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl<T> Drop for SseBody<T> {
    fn drop(&mut self) {
        // Keeps the first word: only a stream without an ending was left.
        self.log.streamed("client left");
    }
}
