use std::time::Duration;

use ibeam_core::history::Fingerprint;

use super::*;
use crate::{
    store::{StoreLimits, StoredConversation},
    tasks::Tasks,
};

const ME: Scope = [1; 32];
const YOU: Scope = [2; 32];
const NOW: u64 = 1_800_000_000;
const DAY: u64 = 24 * 3600;

fn store(count: u64, bytes: u64) -> Store {
    let responses = ResponseLimits { retention: Duration::from_secs(DAY), count, bytes };
    let limits = StoreLimits { retention: Duration::from_secs(7 * DAY), bytes: 1 << 30, responses };
    Store::open(None, limits, &Tasks::new()).unwrap()
}

fn response(id: &str, previous: Option<&str>) -> StoredResponse {
    StoredResponse {
        id: id.to_owned(),
        previous: previous.map(ToOwned::to_owned),
        status: "completed".to_owned(),
        body: format!(r#"{{"id":"{id}"}}"#),
        input: format!(r#"["in {id}"]"#),
        output: format!(r#"["out {id}"]"#),
    }
}

async fn ids(store: &Store, now: u64, all: &[&str]) -> Vec<String> {
    let mut there = Vec::new();
    for id in all {
        there.extend(store.response(ME, id, now).await.unwrap().map(|found| found.id));
    }
    there
}

#[tokio::test]
async fn response_is_found_by_its_owner_until_deleted() {
    let store = store(10, 1 << 20);
    let one = response("one", None);
    store.save_response(ME, one.clone(), NOW).await.unwrap();
    assert_eq!(store.response(ME, "one", NOW).await.unwrap(), Some(one));
    assert_eq!(store.response(YOU, "one", NOW).await.unwrap(), None);
    assert!(!store.forget_response(YOU, "one").await.unwrap());
    assert!(store.forget_response(ME, "one").await.unwrap());
    assert!(!store.forget_response(ME, "one").await.unwrap());
    assert_eq!(store.response(ME, "one", NOW).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn chain_is_returned_in_order_and_kept_while_used() {
    let store = store(10, 1 << 20);
    store.save_response(ME, response("one", None), NOW).await.unwrap();
    store.save_response(ME, response("two", Some("one")), NOW).await.unwrap();
    store.save_response(ME, response("beside", None), NOW).await.unwrap();
    tokio::time::advance(Duration::from_secs(DAY)).await;
    let chain = store.chain(ME, "two", 1000, NOW + DAY).await.unwrap().unwrap();
    let told: Vec<&str> = chain.iter().map(|link| link.output.as_str()).collect();
    assert_eq!(told, [r#"["out one"]"#, r#"["out two"]"#]);
    // Another save looks for what is too old.
    let later = NOW + DAY + 1;
    store.save_response(ME, response("new", None), later).await.unwrap();
    assert_eq!(ids(&store, later, &["one", "two", "beside", "new"]).await, ["one", "two", "new"]);
    assert_eq!(
        store.chain(YOU, "two", 1000, later).await.unwrap(),
        Err(ChainError::Missing("two".to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn expired_response_is_not_found_before_cleanup() {
    let store = store(10, 1 << 20);
    store.save_response(ME, response("one", None), NOW).await.unwrap();
    // The wall clock alone may be wrong.
    assert_eq!(ids(&store, NOW + 2 * DAY, &["one"]).await, ["one"]);
    tokio::time::advance(Duration::from_secs(DAY)).await;
    assert_eq!(ids(&store, NOW + DAY, &["one"]).await, ["one"]);
    assert!(ids(&store, NOW + DAY + 1, &["one"]).await.is_empty());
}

#[tokio::test]
async fn chain_with_a_gap_or_failure_is_refused() {
    let store = store(10, 1 << 20);
    store.save_response(ME, response("two", Some("one")), NOW).await.unwrap();
    let failed = StoredResponse { status: "failed".to_owned(), ..response("bad", None) };
    store.save_response(ME, failed, NOW).await.unwrap();
    assert_eq!(
        store.chain(ME, "two", 1000, NOW).await.unwrap(),
        Err(ChainError::Missing("one".to_owned()))
    );
    assert_eq!(
        store.chain(ME, "bad", 1000, NOW).await.unwrap(),
        Err(ChainError::Unfinished { id: "bad".to_owned(), status: "failed".to_owned() })
    );
    store.save_response(ME, response("one", None), NOW).await.unwrap();
    assert_eq!(store.chain(ME, "two", 10, NOW).await.unwrap(), Err(ChainError::TooLong));
}

/// It can only come from a damaged file, and must not hang.
#[tokio::test]
async fn cyclic_chain_ends() {
    let store = store(10, 1 << 20);
    store.save_response(ME, response("one", Some("two")), NOW).await.unwrap();
    store.save_response(ME, response("two", Some("one")), NOW).await.unwrap();
    assert_eq!(store.chain(ME, "one", 1 << 30, NOW).await.unwrap(), Err(ChainError::TooLong));
}

#[tokio::test]
async fn oldest_responses_are_evicted_by_count_and_size() {
    let by_count = store(2, 1 << 20);
    for (at, id) in ["one", "two", "three"].into_iter().enumerate() {
        by_count.save_response(ME, response(id, None), NOW + at as u64).await.unwrap();
    }
    assert_eq!(ids(&by_count, NOW, &["one", "two", "three"]).await, ["two", "three"]);

    let by_size = store(10, 100);
    for id in ["one", "two", "three"] {
        by_size.save_response(ME, response(id, None), NOW).await.unwrap();
    }
    assert_eq!(ids(&by_size, NOW, &["one", "two", "three"]).await, ["two", "three"]);
    let huge = StoredResponse { body: "x".repeat(101), ..response("huge", None) };
    by_size.save_response(ME, huge, NOW).await.unwrap();
    assert_eq!(ids(&by_size, NOW, &["two", "three", "huge"]).await, ["two", "three"]);
}

#[tokio::test]
async fn expired_responses_are_deleted_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let retention = Duration::from_secs(DAY);
    let responses = ResponseLimits { retention, count: 10, bytes: 1 << 20 };
    let limits = StoreLimits { retention, bytes: 1 << 30, responses };
    let open = || Store::open(Some(&path), limits, &Tasks::new()).unwrap();
    let now = crate::clock::unix_seconds();
    let store = open();
    for (id, age) in [("old", DAY + 60), ("new", DAY - 60)] {
        let (saved, then) = (response(id, None), seconds(now - age));
        let save = store.run(move |vault| Ok(put(vault.connection(), ME, &saved, then)?));
        save.await.unwrap();
    }
    drop(store);
    let store = open();
    let (count, _) = store.run(|vault| Ok(weight(vault.connection())?)).await.unwrap();
    assert_eq!((count, ids(&store, now, &["old", "new"]).await), (1, vec!["new".to_owned()]));
}

#[tokio::test]
async fn clock_jump_deletes_no_response() {
    let store = store(10, 1 << 20);
    store.save_response(ME, response("one", None), NOW).await.unwrap();
    for now in [NOW + 2 * DAY, NOW + 9000 * DAY, NOW] {
        store.save_response(ME, response("two", None), now).await.unwrap();
        assert_eq!(ids(&store, now, &["one", "two"]).await, ["one", "two"]);
    }
}

/// They have limits of their own, and so do conversations.
#[tokio::test]
async fn responses_do_not_evict_conversations() {
    let day = Duration::from_secs(DAY);
    let responses = ResponseLimits { retention: day, count: 100, bytes: 1 << 20 };
    let limits = StoreLimits { retention: day, bytes: 200 << 10, responses };
    let store = Store::open(None, limits, &Tasks::new()).unwrap();
    let talk = |id: &str| StoredConversation {
        scope: ME,
        id: id.to_owned(),
        session: None,
        name: Some(id.to_owned()),
        setup: [3; 32],
        fingerprint: Fingerprint([4; 32]),
        opening: Some(Fingerprint([7; 32])),
        checkpoint: None,
        calls: Vec::new(),
        highest_call: None,
    };
    let now = crate::clock::unix_seconds();
    store.save(talk("first"), Vec::new(), now).await.unwrap();
    for id in 0..9 {
        let large = StoredResponse { body: "x".repeat(100 << 10), ..response("", None) };
        let large = StoredResponse { id: id.to_string(), ..large };
        store.save_response(ME, large, now).await.unwrap();
    }
    store.save(talk("second"), Vec::new(), now).await.unwrap();
    for id in ["first", "second"] {
        assert_eq!(store.by_name(ME, id, None).await.unwrap().len(), 1, "{id}");
    }
    assert_eq!(ids(&store, now, &["0", "8"]).await, ["0", "8"]);
}

/// The one that stores most makes room.
#[tokio::test]
async fn responses_of_one_key_do_not_delete_those_of_another() {
    let sized = |id: &str| StoredResponse { body: "x".repeat(600), ..response(id, None) };
    for store in [store(100, 3000), store(4, 1 << 20)] {
        store.save_response(YOU, response("small", None), NOW).await.unwrap();
        for at in 0..10 {
            store.save_response(ME, sized(&at.to_string()), NOW + 1 + at).await.unwrap();
        }
        assert!(store.response(YOU, "small", NOW + 10).await.unwrap().is_some());
        assert!(store.response(ME, "0", NOW + 10).await.unwrap().is_none());
        assert!(store.response(ME, "9", NOW + 10).await.unwrap().is_some());
    }
}
