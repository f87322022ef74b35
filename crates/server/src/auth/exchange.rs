//! Runs a refresh to its end.

use ibeam_core::{
    auth::{
        Grant,
        refresh::{Proof, Refresh, RefreshError, RefreshStep},
        schedule::Skew,
    },
    model::Millis,
};
use tokio::time::{Duration, Instant, sleep_until};

use super::http::AuthHttp;
use crate::random;

/// What came of it, and what was learnt about the service's clock.
pub(super) async fn exchange(
    proof: Proof,
    http: &AuthHttp,
    skew: &mut Skew,
    local_now: impl Fn() -> u64,
) -> Result<Box<Grant>, RefreshError> {
    let started = Instant::now();
    let now = || Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    let mut refresh = Refresh::new(proof, random::fraction());
    loop {
        match refresh.step(now()) {
            RefreshStep::Wait(until) => sleep_until(started + Duration::from_millis(until.0)).await,
            RefreshStep::Ask(request) => {
                let heard = http.ask(request).await;
                if let Some(date) = heard.date {
                    skew.note_date(date, local_now());
                }
                refresh.on_outcome(&heard.outcome, now());
            }
            RefreshStep::Done(how) => return how,
        }
    }
}
