//! The calls by which a client shows how much of its plan is used.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use ibeam_core::codec::connect::{Code, ConnectError};
use serde_json::{Value, json};

use super::{
    Sim,
    responses::{self, SimResponse},
};
use crate::{record::UsageEvent, stream::BodyFormat};

const SERVICE: &str = "/aiserver.v1.DashboardService/";
/// The days of a billing cycle.
const CYCLE: u64 = 30 * 24 * 3600;
/// Cents of the plan, and what a million tokens cost, uncached.
const LIMIT_CENTS: u64 = 2000;
const CENTS_PER_MILLION: u64 = 300;

/// Answers the calls of this module; `None` for all others. They are JSON only.
pub(super) fn answer(
    sim: &Sim,
    path: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<SimResponse> {
    let method = path.strip_prefix(SERVICE)?;
    let page: fn(&Sim, &Value) -> Value = match method {
        "GetCurrentPeriodUsage" => period,
        "GetFilteredUsageEvents" => events,
        "GetPlanInfo" => plan,
        "GetMe" => me,
        _ => return None,
    };
    if BodyFormat::of(headers) != Some(BodyFormat::Json) {
        return Some(responses::unsupported());
    }
    if let Err(error) = sim.service.auth.check(headers) {
        return Some(responses::error(&error));
    }
    if !sim.service.state.behaviour.usage_rpc {
        let error = ConnectError::new(Code::PermissionDenied, "Not available for this token");
        return Some(responses::error(&error));
    }
    let body = serde_json::from_slice(body).unwrap_or_default();
    Some(responses::json(StatusCode::OK, &page(sim, &body)))
}

/// Both pools of the plan. Zeros are left out, as the service does.
fn period(sim: &Sim, _: &Value) -> Value {
    let events = billed(sim);
    let sum = |auto: bool| -> u64 {
        let mine = events.iter().filter(|(_, event)| event.auto == auto);
        mine.map(|(_, event)| cents(event)).sum()
    };
    let (auto, api) = (sum(true), sum(false));
    let spent = auto + api;
    let percent = |cents: u64| (cents * 10_000 / LIMIT_CENTS) as f64 / 100.0;
    let now = sim.service.auth.now();
    let start = now - now % CYCLE;
    let mut plan = json!({ "limit": LIMIT_CENTS });
    let parts = [
        ("totalSpend", json!(spent), spent),
        ("includedSpend", json!(spent.min(LIMIT_CENTS)), spent),
        ("remaining", json!(LIMIT_CENTS.saturating_sub(spent)), LIMIT_CENTS.saturating_sub(spent)),
        ("autoSpend", json!(auto), auto),
        ("apiSpend", json!(api), api),
        ("autoPercentUsed", json!(percent(auto)), auto),
        ("apiPercentUsed", json!(percent(api)), api),
        ("totalPercentUsed", json!(percent(spent)), spent),
    ];
    if let Some(table) = plan.as_object_mut() {
        let kept = parts.into_iter().filter(|(_, _, cents)| *cents > 0);
        table.extend(kept.map(|(name, value, _)| (name.to_owned(), value)));
    }
    json!({
        "billingCycleStart": (start * 1000).to_string(),
        "billingCycleEnd": ((start + CYCLE) * 1000).to_string(),
        "planUsage": plan,
        "enabled": true,
        "displayMessage": format!("You have used {} % of your plan", percent(spent)),
        "autoBucketModels": ["default", "composer-2.5"],
    })
}

/// The newest runs that were billed, a page of them.
fn events(sim: &Sim, body: &Value) -> Value {
    let number = |name: &str| {
        let value = body.get(name);
        value.and_then(|v| v.as_u64().or_else(|| v.as_str()?.parse().ok()))
    };
    let now = sim.service.auth.now_millis();
    let (from, until) = (number("startDate").unwrap_or(0), number("endDate").unwrap_or(u64::MAX));
    let size = usize::try_from(number("pageSize").unwrap_or(100)).unwrap_or(100);
    let page = usize::try_from(number("page").unwrap_or(1)).unwrap_or(1).max(1);
    let listed: Vec<_> = billed(sim)
        .into_iter()
        .map(|(age, event)| {
            let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            (now.saturating_sub(age), event)
        })
        .filter(|(at, _)| (from..=until).contains(at))
        .collect();
    let shown = listed.iter().skip((page - 1).saturating_mul(size)).take(size);
    let shown: Vec<_> = shown
        .map(|(at, event)| {
            json!({
                "conversationId": event.conversation,
                "timestamp": at.to_string(),
                "tokenUsage": {
                    "inputTokens": event.input,
                    "outputTokens": event.output,
                    "cacheReadTokens": event.cache_read,
                },
                "chargedCents": cents(event),
            })
        })
        .collect();
    json!({ "totalUsageEventsCount": listed.len(), "usageEventsDisplay": shown })
}

fn plan(_: &Sim, _: &Value) -> Value {
    json!({ "planInfo": { "planName": "Pro" } })
}

fn me(_: &Sim, _: &Value) -> Value {
    json!({ "email": "sim@example.com" })
}

fn billed(sim: &Sim) -> Vec<(Duration, UsageEvent)> {
    let delay = sim.service.state.behaviour.usage_events_delay.unwrap_or_default();
    sim.service.state.records.billed(delay)
}

/// What a run costs, rounded up.
fn cents(event: &UsageEvent) -> u64 {
    let tokens = event.input + event.cache_read / 10 + 5 * event.output;
    (tokens * CENTS_PER_MILLION).div_ceil(1_000_000)
}
