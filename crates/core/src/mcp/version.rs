//! The versions of the protocol. They are dates, so they compare as texts.

/// All that are spoken.
pub const KNOWN: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", STATELESS];

/// The newest one that begins with `initialize`.
pub const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";

/// From this one on there is no handshake and no session: each request names its version.
pub const STATELESS: &str = "2026-07-28";

#[must_use]
pub fn is_known(version: &str) -> bool {
    KNOWN.contains(&version)
}

#[must_use]
pub fn has_handshake(version: &str) -> bool {
    version < STATELESS
}

/// What a server answers to a client that asks for `requested` in its `initialize`.
#[must_use]
pub fn negotiated(requested: &str) -> &'static str {
    let same = KNOWN.into_iter().find(|known| *known == requested && has_handshake(known));
    same.unwrap_or(NEWEST_WITH_HANDSHAKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_versions_are_accepted_and_others_replaced() {
        for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(negotiated(known), known);
        }
        for other in [STATELESS, "2024-10-07", "1999-01-01", "2030-01-01", ""] {
            assert_eq!(negotiated(other), NEWEST_WITH_HANDSHAKE);
        }
    }
}
