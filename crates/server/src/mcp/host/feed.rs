//! Streams of events, as bodies of answers.
//!
//! What is said on a stream is kept in its [`Feed`]; a body reads from it. In a session the
//! feed outlives a body whose connection was lost, and the next body goes on from there.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::BodyExt as _;
use ibeam_core::mcp::server::{EventLog, LogRead};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::{
    sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned},
    task::task_tracker::TaskTrackerToken,
};

use super::{entrance::Body, reply::EVENT_STREAM};

/// How often a stream without news says that it lives.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// One stream.
pub(super) struct Feed(Mutex<FeedInner>);

struct FeedInner {
    log: EventLog,
    /// The number of the newest body. Older ones end.
    reader: u64,
    waker: Option<Waker>,
}

impl Feed {
    pub(super) fn new(log: EventLog) -> Arc<Self> {
        Arc::new(Self(Mutex::new(FeedInner { log, reader: 0, waker: None })))
    }

    pub(super) fn say(&self, message: &[u8]) {
        self.change(|inner| inner.log.say(message));
    }

    pub(super) fn end(&self) {
        self.change(|inner| inner.log.end());
    }

    fn change(&self, change: impl FnOnce(&mut FeedInner)) {
        let mut inner = self.0.lock();
        change(&mut inner);
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// A body with the events from `position` on. It ends with the feed, when another body
    /// is made, and when `over` is cancelled.
    pub(super) fn body(self: &Arc<Self>, position: u64, over: CancellationToken) -> EventBody {
        let mut reader = 0;
        self.change(|inner| {
            inner.reader += 1;
            reader = inner.reader;
        });
        EventBody {
            feed: Arc::clone(self),
            reader,
            position,
            quiet: Box::pin(sleep(KEEP_ALIVE)),
            over: Box::pin(over.cancelled_owned()),
            caller: None,
            counted: None,
        }
    }
}

/// Reads a feed.
pub(super) struct EventBody {
    feed: Arc<Feed>,
    reader: u64,
    position: u64,
    quiet: Pin<Box<Sleep>>,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    caller: Option<DropGuard>,
    counted: Option<TaskTrackerToken>,
}

impl EventBody {
    /// When the body is dropped, its call is taken back.
    pub(super) fn with_caller(mut self, caller: DropGuard) -> Self {
        self.caller = Some(caller);
        self
    }

    /// While the body is there, its room is not quite closed.
    pub(super) fn counted(mut self, counted: TaskTrackerToken) -> Self {
        self.counted = Some(counted);
        self
    }

    pub(super) fn response(self) -> Response<Body> {
        let mut response = Response::new(self.boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    fn read(&mut self, cx: &Context<'_>) -> LogRead {
        let mut inner = self.feed.0.lock();
        if inner.reader != self.reader {
            return LogRead::End;
        }
        let read = inner.log.read(self.position);
        if read == LogRead::Wait {
            inner.waker = Some(cx.waker().clone());
        }
        read
    }
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.read(cx) {
            LogRead::Event { bytes, next } => {
                self.position = next;
                bytes
            }
            LogRead::End => return Poll::Ready(None),
            LogRead::Wait => {
                if self.over.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                if self.quiet.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                Bytes::from_static(b":\n\n")
            }
        };
        let next = Instant::now() + KEEP_ALIVE;
        self.quiet.as_mut().reset(next);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
