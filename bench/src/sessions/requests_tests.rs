use super::{ClientSetup, QUESTION_BYTES, SYSTEM_BYTES, padded};

#[test]
fn sizes_match_their_constants() {
    assert_eq!(padded("short", QUESTION_BYTES).len(), QUESTION_BYTES);
    let agent = ClientSetup::agent();
    assert_eq!(agent.system.len(), SYSTEM_BYTES);
    let tools = agent.bytes() - SYSTEM_BYTES;
    assert!((9_000..12_000).contains(&tools), "{tools}");
    assert!(ClientSetup::small().bytes() < 1_024, "{}", ClientSetup::small().bytes());
}
