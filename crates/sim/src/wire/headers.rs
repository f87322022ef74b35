//! The headers that a run must have.

use http::HeaderMap;
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::aiserver::ErrorKind;

use super::{Sim, responses};
use crate::{behaviour::BlobKeyHeader, engine::too_many_computers};

/// Headers by which the IDE names its machine.
const IDE_HEADERS: &[&str] = &["x-cursor-checksum", "x-client-key", "x-session-id"];

/// Checks the headers of a run.
///
/// # Errors
/// The token, the client type or the version is not acceptable.
pub(super) fn check_run(sim: &Sim, headers: &HeaderMap) -> Result<(), ConnectError> {
    sim.service.auth.check(headers)?;
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if text("x-cursor-client-type") != "cli" {
        sim.counters().violation("x-cursor-client-type is not cli".to_owned());
        return Err(ConnectError::new(Code::InvalidArgument, "Unsupported client type"));
    }
    for name in ["x-request-id", "x-ghost-mode", "connect-protocol-version"] {
        // Documented as required, but the service accepts requests without some of them.
        if text(name).is_empty() {
            sim.counters().violation(format!("header {name} is missing"));
        }
    }
    let behaviour = &sim.service.state.behaviour;
    if behaviour.error_too_many_computers && IDE_HEADERS.iter().any(|name| !text(name).is_empty()) {
        return Err(too_many_computers());
    }
    let refused = match (behaviour.headers_blob_key, text("x-blob-encryption-key").is_empty()) {
        (BlobKeyHeader::Ignored, _)
        | (BlobKeyHeader::Refused, true)
        | (BlobKeyHeader::Required, false) => None,
        (BlobKeyHeader::Refused, false) => Some("A key for blobs is not allowed"),
        (BlobKeyHeader::Required, true) => Some("A key for blobs is required"),
    };
    if let Some(text) = refused {
        return Err(ConnectError::new(Code::InvalidArgument, text));
    }
    let version = text("x-cursor-client-version");
    if behaviour.version_floor.as_ref().is_some_and(|floor| outdated(version, floor)) {
        return Err(responses::cursor_error(
            Code::FailedPrecondition,
            ErrorKind::ErrorOutdatedClient,
            "Update Required",
            "This version of Cursor is no longer supported. Please update.",
        ));
    }
    Ok(())
}

/// Whether a version such as `cli-2026.01.09-231024f` is older than `floor`. Versions without a
/// date pass; a missing version does not.
fn outdated(version: &str, floor: &str) -> bool {
    let Some(build) = version.strip_prefix("cli-") else { return true };
    let date = build.split('-').next().unwrap_or_default();
    date.starts_with(|c: char| c.is_ascii_digit()) && date < floor
}

#[cfg(test)]
mod tests {
    use super::outdated;

    #[test]
    fn versions_before_the_floor_are_outdated() {
        for (version, old) in [
            ("cli-2026.01.09-231024f", false),
            ("cli-2024.01.09-231024f", true),
            ("cli-unknown", false),
            ("", true),
            ("2026.01.09", true),
        ] {
            assert_eq!(outdated(version, "2025.06.01"), old, "{version}");
        }
    }
}
