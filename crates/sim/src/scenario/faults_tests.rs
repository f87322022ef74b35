use super::*;

#[test]
fn chaos_is_deterministic_for_a_seed_and_run() {
    let chaos = Chaos::new(7);
    let first: Vec<_> = (0..200).map(|run| chaos.effect(run)).collect();
    let again: Vec<_> = (0..200).map(|run| chaos.effect(run)).collect();
    assert_eq!(first, again);
    let other: Vec<_> = (0..200).map(|run| Chaos::new(8).effect(run)).collect();
    assert_ne!(first, other);
    let hit = first.iter().flatten().count();
    assert!((60..140).contains(&hit), "{hit} of 200");
}

#[test]
fn errors_have_the_kinds_of_cursor() {
    let spec = ErrorSpec { detail: "Slow down".into(), ..ErrorSpec::kind("rate_limited") };
    let error = spec.connect_error(Code::ResourceExhausted);
    assert_eq!(error.code, Code::ResourceExhausted);
    assert_eq!(error.detail.unwrap().kind, ErrorKind::ErrorRateLimited);
    assert!(ErrorSpec::kind("NO_SUCH").check().is_err());
}
