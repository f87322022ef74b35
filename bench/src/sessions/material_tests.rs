use super::{QUESTION_BYTES, SYSTEM_BYTES, Setup, padded};

#[test]
fn sizes_are_what_they_are_called() {
    assert_eq!(padded("short", QUESTION_BYTES).len(), QUESTION_BYTES);
    let agent = Setup::agent();
    assert_eq!(agent.system.len(), SYSTEM_BYTES);
    let tools = agent.bytes() - SYSTEM_BYTES;
    assert!((9_000..12_000).contains(&tools), "{tools}");
    assert!(Setup::small().bytes() < 1_024, "{}", Setup::small().bytes());
}
