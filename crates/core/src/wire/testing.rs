//! Events and their encodings, for the tests of all dialects.

use std::{sync::mpsc, thread, time::Duration};

use bytes::BytesMut;

use super::Encode;
use crate::model::{TurnEvent, Usage, UsageSource, ids::CallId};

/// Fails when the work takes longer than 30 s: for work that takes less than one when its cost is
/// in proportion to its input, and minutes when it is quadratic.
pub(in crate::wire) fn finishes(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        done.send(()).ok();
    });
    let ended = finished.recv_timeout(Duration::from_secs(30));
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "{what} took more than 30 s");
    worker.join().unwrap();
}

/// The whole stream of some events, cut off if they have no ending.
pub(in crate::wire) fn stream(mut encoder: impl Encode, events: &[TurnEvent]) -> String {
    let mut out = BytesMut::new();
    for event in events {
        encoder.on_event(event, &mut out);
    }
    encoder.on_cut(&mut out);
    assert!(encoder.is_ended());
    String::from_utf8(out.to_vec()).unwrap()
}

pub(in crate::wire) fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(text.to_owned())
}

pub(in crate::wire) fn reasoning(text: &str) -> TurnEvent {
    TurnEvent::Reasoning(text.to_owned())
}

pub(in crate::wire) fn begin(id: &str, name: &str) -> TurnEvent {
    TurnEvent::ToolCallBegin { id: CallId::sanitised(id), name: name.to_owned() }
}

pub(in crate::wire) fn args(id: &str, delta: &str) -> TurnEvent {
    TurnEvent::ToolCallArgs { id: CallId::sanitised(id), delta: delta.to_owned() }
}

pub(in crate::wire) fn end(id: &str) -> TurnEvent {
    TurnEvent::ToolCallEnd { id: CallId::sanitised(id) }
}

pub(in crate::wire) fn usage() -> Usage {
    Usage {
        input: 100,
        output: 20,
        cache_read: 60,
        cache_write: 5,
        reasoning: 7,
        source: UsageSource::Backend,
    }
}
