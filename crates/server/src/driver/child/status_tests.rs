use std::path::Path;

use super::*;
use crate::driver::{
    Driver as _,
    child::{
        cli::protocol,
        tests::{Bench, bench},
    },
};

fn asked(count: &Path) -> usize {
    std::fs::read_to_string(count).unwrap_or_default().lines().count()
}

fn counting(count: &Path, says: &str) -> Bench {
    let text = format!("test \"$1\" = status && echo x >> '{}'; {says}", count.display());
    bench(protocol, &text, |config| config.agent.auth_timeout = Duration::from_secs(20))
}

async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn good_status_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let bench = counting(&count, "echo ' ✓ Logged in as me@example.com'");
    let gate = bench.driver.cli.gate.clone();
    assert_eq!(Delegate::account(&gate), "");
    let (one, two) = tokio::join!(gate.account(), gate.account());
    assert_eq!((one.unwrap(), two.unwrap()), ("me@example.com".into(), "me@example.com".into()));
    assert_eq!(asked(&count), 1, "once for both");
    assert!(gate.signed_in());
    assert_eq!(Delegate::account(&gate), "me@example.com");
    pass(GOOD + Duration::from_secs(1)).await;
    gate.account().await.unwrap();
    assert_eq!(asked(&count), 2);
    gate.doubt();
    gate.check().await.unwrap();
    assert_eq!(asked(&count), 3);
}

/// A program that serves asks when it starts; until it knows, it says nothing bad.
#[tokio::test]
async fn status_is_requested_in_advance() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let bench = counting(&count, "echo 'Not logged in'; exit 1");
    let gate = bench.driver.cli.gate.clone();
    bench.driver.warm_up();
    assert!(gate.signed_in());
    while gate.fresh().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!gate.signed_in());
    assert_eq!(asked(&count), 1);
}

#[tokio::test]
async fn bad_status_is_cached_for_less_time() {
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    let bench = counting(&count, "echo 'Not logged in'; exit 1");
    let gate = bench.driver.cli.gate.clone();
    for _ in 0..2 {
        let error = gate.account().await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NotAuthenticated);
        assert!(error.message.contains("ibeam login --backend cli"), "{error}");
    }
    assert_eq!(asked(&count), 1);
    assert!(!gate.signed_in());
    pass(BAD + Duration::from_secs(1)).await;
    gate.account().await.unwrap_err();
    assert_eq!(asked(&count), 2);
}

#[tokio::test]
async fn unresponsive_program_is_not_waited_for() {
    let bench = bench(protocol, "exec sleep 1000", |config| {
        config.agent.auth_timeout = Duration::from_millis(50);
    });
    let error = bench.driver.cli.gate.clone().account().await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    assert!(error.message.contains("50 ms"), "{error}");
    assert!(error.message.contains("cursor_agent.auth_timeout"), "{error}");
}
