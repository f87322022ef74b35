//! Permits: one slot for each turn that generates with a reader attached, shared out fairly
//! among keys.

use ibeam_core::{
    error::{ErrorCode, TurnError},
    limits::{Quota, SlotRequest, Why},
};
use tokio::time::Instant;

use super::{Admission, RequestOutline};
use crate::{
    keys::Caller,
    limits::{Permit, PermitClaim, owner},
};

impl Admission {
    /// A permit for a leg. Waits for one up to the deadline.
    pub(super) async fn permit(
        &self,
        outline: &RequestOutline,
        caller: &Caller,
        deadline: Instant,
    ) -> Result<Permit, TurnError> {
        let limit = caller.limit.unwrap_or(self.config.limits.turns_per_key);
        let quota = Quota { limit, assured: caller.assured() };
        let claim = PermitClaim { owner: owner(&caller.id), quota };
        if let Some(permit) = self.hub.slots.try_acquire(claim) {
            return Ok(permit);
        }
        // Only asked in a crowd: it may mean a question to the store.
        let kind = match &outline.results {
            Some(results) if self.knows(results.session, outline.scope()).await == Some(true) => {
                SlotRequest::Results
            }
            _ => SlotRequest::New,
        };
        let patience = deadline.saturating_duration_since(Instant::now());
        self.hub.slots.acquire(claim, kind, patience).await.map_err(|why| {
            let text = match why {
                Why::Total => return self.busy(),
                Why::Owner => format!(
                    "This key already runs {}, which is its limit. Try again shortly.",
                    if limit == 1 { "1 turn".to_owned() } else { format!("{limit} turns") }
                ),
                Why::Share => {
                    "This key has used its share of the turn slots; the remaining slots are \
                     reserved for other keys. Try again shortly, or give it a limit of its own: \
                     `ibeam keys add NAME --limit N`."
                        .to_owned()
                }
            };
            TurnError::new(ErrorCode::Overloaded, text)
        })
    }

    pub(super) fn busy(&self) -> TurnError {
        let taken = match self.config.limits.turns {
            1 => "The only turn slot is".to_owned(),
            all => format!("All {all} turn slots are"),
        };
        let text = format!("{taken} in use. Try again shortly, or raise `limits.turns`.");
        TurnError::new(ErrorCode::Overloaded, text)
    }
}
