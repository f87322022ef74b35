//! A turn on its way to one client, from the moment it is asked for: starting it is
//! part of it, so that the response need not wait for the start.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
};

use ibeam_core::{error::TurnError, model::TurnEvent, wire};

use super::EventSource;
use crate::session::MatchedConversation;

type StartFuture<T> = Pin<Box<dyn Future<Output = Result<T, TurnError>> + Send>>;

/// The events of a turn, always with exactly one terminal event: a turn that could not start fails,
/// and one that stops without an ending is cut off.
pub(super) struct AnswerStream<T> {
    stage: AnswerStage<T>,
    /// Events that were polled but not returned yet.
    head: VecDeque<TurnEvent>,
    matched: Option<MatchedConversation>,
}

enum AnswerStage<T> {
    Starting(StartFuture<T>),
    Running(T),
    Over,
}

impl<T: EventSource> AnswerStream<T> {
    pub(super) fn new(start: StartFuture<T>) -> Self {
        Self { stage: AnswerStage::Starting(start), head: VecDeque::new(), matched: None }
    }

    /// How the request was matched, once its turn runs.
    pub(super) fn matched(&self) -> Option<&MatchedConversation> {
        self.matched.as_ref()
    }

    /// One that has failed already.
    pub(super) fn failed(error: TurnError) -> Self {
        let head = VecDeque::from([TurnEvent::Failed(error)]);
        Self { stage: AnswerStage::Over, head, matched: None }
    }

    /// Waits until the turn runs. Returns the error if it does not.
    pub(super) async fn started(&mut self) -> Result<(), TurnError> {
        let AnswerStage::Starting(start) = &mut self.stage else { return Ok(()) };
        let started = start.await;
        match started {
            Ok(turn) => {
                self.matched = turn.matched().cloned();
                self.stage = AnswerStage::Running(turn);
                Ok(())
            }
            Err(error) => {
                self.stage = AnswerStage::Over;
                Err(error)
            }
        }
    }

    /// Waits for the first event that a client would see. Returns the error if that is a failure:
    /// then no byte has been sent yet.
    pub(super) async fn first(&mut self) -> Result<(), TurnError> {
        poll_fn(|cx| {
            loop {
                match ready!(self.poll_source(cx)) {
                    Some(TurnEvent::Failed(error)) => return Poll::Ready(Err(error)),
                    Some(event @ (TurnEvent::Started | TurnEvent::Usage(_))) => {
                        self.head.push_back(event);
                    }
                    Some(event) => {
                        self.head.push_back(event);
                        return Poll::Ready(Ok(()));
                    }
                    None => return Poll::Ready(Ok(())),
                }
            }
        })
        .await
    }

    pub(super) async fn next(&mut self) -> Option<TurnEvent> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        match self.head.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None => self.poll_source(cx),
        }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<TurnEvent>> {
        loop {
            let event = match &mut self.stage {
                AnswerStage::Starting(start) => match ready!(start.as_mut().poll(cx)) {
                    Ok(turn) => {
                        self.matched = turn.matched().cloned();
                        self.stage = AnswerStage::Running(turn);
                        continue;
                    }
                    Err(error) => TurnEvent::Failed(error),
                },
                AnswerStage::Running(turn) => {
                    let event = ready!(turn.poll_next(cx));
                    event.unwrap_or_else(|| TurnEvent::Failed(wire::cut_off()))
                }
                AnswerStage::Over => return Poll::Ready(None),
            };
            if event.is_terminal() {
                // Nothing follows; the turn is dropped at once, not when the client has read the
                // last byte.
                self.stage = AnswerStage::Over;
            }
            return Poll::Ready(Some(event));
        }
    }
}
