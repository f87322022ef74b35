//! A client's session: the calls in it, and the streams that they are answered on.

use std::sync::Arc;

use ibeam_core::{
    codec::jsonrpc::RpcId,
    mcp::server::{EventId, EventLog, HostedToolCall},
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    call,
    feed::{EventBody, Feed},
    room::Inside,
};
use crate::tasks::Tasks;

/// Calls and streams end when it is dropped.
pub(super) struct HostSession {
    inside: Arc<Inside>,
    over: CancellationToken,
    state: Mutex<HostSessionState>,
}

#[derive(Default)]
struct HostSessionState {
    /// The number of the next stream.
    next: u64,
    /// The calls that wait. The room has a limit for them.
    calls: Vec<WaitingCall>,
}

struct WaitingCall {
    id: RpcId,
    stream: u64,
    feed: Arc<Feed>,
    gone: CancellationToken,
}

impl HostSession {
    /// `over` ends it from outside, too.
    pub(super) fn new(inside: &Arc<Inside>, over: &CancellationToken) -> Arc<Self> {
        let (inside, over) = (Arc::clone(inside), over.child_token());
        Arc::new(Self { inside, over, state: Mutex::default() })
    }

    /// The stream of a request that is answered already.
    pub(super) fn answered(&self, message: &[u8]) -> EventBody {
        let feed = Feed::new(EventLog::numbered(self.number()));
        feed.say(message);
        feed.end();
        feed.body(0, self.over.clone())
    }

    /// The stream of a call that begins. The call goes on when the stream is lost.
    pub(super) fn begin(self: &Arc<Self>, call: HostedToolCall, tasks: &Tasks) -> EventBody {
        let stream = self.number();
        let feed = Feed::new(EventLog::numbered(stream));
        let gone = self.over.child_token();
        let waiting = WaitingCall {
            id: call.id.clone(),
            stream,
            feed: Arc::clone(&feed),
            gone: gone.clone(),
        };
        self.state.lock().calls.push(waiting);
        let body = feed.body(0, self.over.clone());
        // Not the session itself: it may be dropped while the call waits.
        let (inside, session) = (Arc::clone(&self.inside), Arc::downgrade(self));
        tasks.spawn("mcp call", async move {
            call::run(inside, call, feed, gone).await;
            if let Some(session) = session.upgrade() {
                session.state.lock().calls.retain(|waiting| waiting.stream != stream);
            }
        });
        body
    }

    /// The caller of a request does not wait for it any more.
    pub(super) fn cancel(&self, id: &RpcId) {
        for waiting in self.state.lock().calls.iter().filter(|waiting| waiting.id == *id) {
            waiting.gone.cancel();
        }
    }

    /// The stream that belongs to no request. Nothing is said on it.
    pub(super) fn listen(&self) -> EventBody {
        Feed::new(EventLog::of_session()).body(0, self.over.clone())
    }

    /// The rest of a stream, after this event. `None` if its call was answered meanwhile.
    pub(super) fn resume(&self, last: EventId) -> Option<EventBody> {
        let Some(stream) = last.stream else { return Some(self.listen()) };
        let state = self.state.lock();
        let waiting = state.calls.iter().find(|waiting| waiting.stream == stream)?;
        Some(waiting.feed.body(last.index.saturating_add(1), self.over.clone()))
    }

    /// Ends its calls and streams.
    pub(super) fn close(&self) {
        self.over.cancel();
    }

    fn number(&self) -> u64 {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        number
    }
}

impl Drop for HostSession {
    fn drop(&mut self) {
        self.over.cancel();
    }
}
