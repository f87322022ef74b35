//! The words of a failure of the backend: they say what its kind and code leave open.

use crate::{
    codec::connect::{ConnectError, ERROR_TYPE},
    error::ErrorCode,
    redact,
};

/// The texts of an error: what the caller is shown, and a lower-case copy to look
/// for the phrases that distinguish what the enum does not.
pub(super) struct ErrorWords {
    pub(super) public: String,
    lower: String,
    /// What the model's provider answered.
    pub(super) provider_status: Option<u16>,
    action_required: bool,
    /// The kind of the error is that of a policy.
    of_policy: bool,
}

impl ErrorWords {
    pub(super) fn of(error: &ConnectError) -> Self {
        let mut parts: Vec<&str> = Vec::new();
        if let Some(detail) = &error.detail {
            parts.extend([detail.title.as_str(), detail.detail.as_str()]);
        }
        parts.retain(|part| !part.is_empty());
        if parts.is_empty() && !error.message.is_empty() {
            parts.push(&error.message);
        }
        let public = if parts.is_empty() {
            error.code.as_str().replace('_', " ")
        } else {
            redact::text(&parts.join(": ")).into()
        };
        // The bare message may say more than the details do.
        let lower = format!("{public} {}", error.message).to_lowercase();
        let detail = error.detail.as_ref();
        let info = |name| detail.and_then(|detail| detail.additional_info.get(name));
        let status = info("providerStatusCode");
        let is_policy = |name: &String| name.contains("CONTENT_POLICY");
        Self {
            public,
            lower,
            provider_status: status.and_then(|status| status.parse().ok()),
            action_required: detail.is_some_and(|detail| !detail.action_required.is_empty()),
            of_policy: info(ERROR_TYPE).or_else(|| info("errorType")).is_some_and(is_policy),
        }
    }

    pub(super) fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.lower.contains(phrase))
    }

    /// The team or the model is not served where the user is. A new sign-in changes nothing.
    pub(super) fn names_region(&self) -> bool {
        self.says(&["region"]) && self.says(&["not available", "unavailable", "not supported"])
    }

    /// The request waits for a person at Cursor or at the user's team.
    pub(super) fn needs_review(&self) -> bool {
        self.action_required || self.of_policy || self.says(&["content_policy", "policy review"])
    }

    /// The account has too many fingerprints of machines; it is served again a day later.
    pub(super) fn names_computers(&self) -> bool {
        self.says(&["too many computers"])
    }

    /// The schema of a tool was not understood.
    pub(super) fn names_schema_bytes(&self) -> bool {
        self.says(&["parse binary"])
    }

    /// Named models are not part of a free plan; that is no matter of waiting.
    pub(super) fn is_about_plan(&self) -> bool {
        self.says(&["free plan", "free users", "free tier"]) && self.says(&["auto"])
    }

    /// A 429 or a generic error is often something else, as Cursor's words show.
    pub(super) fn code(&self) -> Option<ErrorCode> {
        if self.says(&[
            "country or region",
            "region is not supported",
            "available in your country",
            "available in your region",
            "unsupported region",
        ]) {
            Some(ErrorCode::RegionUnsupported)
        } else if self.says(&["unpaid invoice", "pay your invoice", "payment method"]) {
            Some(ErrorCode::InsufficientQuota)
        } else if self.says(&[
            "update required",
            "please update cursor",
            "please update to",
            "update your client",
            "outdated client",
            "to the latest version",
            "newer version of cursor",
            "client version is no longer supported",
        ]) {
            Some(ErrorCode::ClientOutdated)
        } else if self.says(&[
            "prompt is too long",
            "context length",
            "context window",
            "conversation is too long",
            "conversation too long",
            "input is too long",
            "maximum number of tokens",
            "too many tokens",
        ]) {
            Some(ErrorCode::ContextTooLong)
        } else if self.says(&["high load", "unable to reach the model provider"]) {
            Some(ErrorCode::Unavailable)
        } else if self.says(&[
            "usage limit",
            "spend limit",
            "spending limit",
            "out of requests",
            "quota exceeded",
            "exceeded your quota",
            "exceeded your current quota",
            "out of quota",
        ]) {
            // Before the plan: what is used up often comes with the advice to upgrade.
            Some(ErrorCode::InsufficientQuota)
        } else if self.says(&[
            "upgrade to pro",
            "upgrade your plan",
            "requires a pro",
            "requires a paid",
            "pro users only",
            "not included in your plan",
            "not available on your plan",
        ]) {
            Some(ErrorCode::PlanRequired)
        } else {
            None
        }
    }
}
