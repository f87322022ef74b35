//! A call of a tool, from its request to its answer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use ibeam_core::mcp::server::HostedToolCall;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::{
    feed::Feed,
    room::{CALLS, CallRefused, Inside},
};

/// How often a caller that wants to know hears that its call still waits.
pub(super) const PROGRESS: Duration = Duration::from_secs(5);

/// Waits for the answer, however long it takes. Without a feed there is no progress.
/// Dropping the future takes the call back.
pub(super) async fn answer(
    inside: &Arc<Inside>,
    call: &HostedToolCall,
    feed: Option<&Feed>,
) -> Bytes {
    let mut waits = match inside.begin(call.name.clone(), call.arguments.clone()).await {
        Ok(waits) => waits,
        // The model can read this one, and try again.
        Err(CallRefused::Full) => {
            let text = format!("{CALLS} calls are already waiting; call this tool again later");
            return call.failed(&text);
        }
        Err(CallRefused::Closed) => return call.over(),
    };
    let feed = feed.filter(|_| call.wants_progress());
    let began = Instant::now();
    let mut ticks = interval_at(began + PROGRESS, PROGRESS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            result = waits.answered() => {
                return result.map_or_else(|| call.over(), |result| call.result(&result));
            }
            _ = ticks.tick(), if feed.is_some() => {}
        }
        let progress = call.progress(began.elapsed().as_secs_f64());
        if let (Some(feed), Some(progress)) = (feed, progress) {
            feed.say(&progress);
        }
    }
}

/// Runs a call whose answer goes to a feed, until `gone` is cancelled.
pub(super) async fn run(
    inside: Arc<Inside>,
    call: HostedToolCall,
    feed: Arc<Feed>,
    gone: CancellationToken,
) {
    tokio::select! {
        () = gone.cancelled() => {}
        message = answer(&inside, &call, Some(&feed)) => feed.say(&message),
    }
    feed.end();
}
