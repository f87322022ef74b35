//! How long things are kept, whatever the clock says.

use super::*;

const NOW: u64 = 1_800_000_000;

fn open_at(path: &Path, now: u64) -> Store {
    Store::open_at(Some(path), LIMITS, &Tasks::new(), now).unwrap()
}

/// Time passes, for the gateway and for the wall clock.
async fn pass(days: u64) {
    tokio::time::advance(DAY * u32::try_from(days).unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn expired_conversations_are_deleted_at_the_start_and_on_saves() {
    let (_dir, path) = place();
    let (day, week) = (DAY.as_secs(), LIMITS.retention.as_secs());
    let store = open_at(&path, NOW);
    store.save(bare("old"), vec![blob("a", 3)], NOW).await.unwrap();
    store.save(bare("recent"), Vec::new(), NOW + 720).await.unwrap();
    drop(store);
    for days in [3, 6] {
        assert_eq!(ids(&open_at(&path, NOW + days * day).all().await), ["recent", "old"]);
    }

    let store = open_at(&path, NOW + week + 120);
    assert_eq!(ids(&store.all().await), ["recent"]);
    assert_eq!(store.stats().conversations, 1);

    let soon = NOW + week + 710;
    store.save(bare("new"), Vec::new(), soon).await.unwrap();
    assert_eq!(ids(&store.all().await), ["new", "recent"]);
    store.save(bare("new"), Vec::new(), soon + 30).await.unwrap();
    assert_eq!(ids(&store.all().await), ["new", "recent"], "it looks once a minute");
    store.save(bare("new"), Vec::new(), soon + 60).await.unwrap();
    assert_eq!(ids(&store.all().await), ["new"]);
    drop(store);
    assert_eq!(ids(&open_at(&path, soon + 60).all().await), ["new"]);
}

#[tokio::test(start_paused = true)]
async fn clock_jump_deletes_no_conversation() {
    let day = DAY.as_secs();
    for jump in [8 * day, 400 * day, 20_000 * day] {
        let (_dir, path) = place();
        let store = open_at(&path, NOW);
        store.save(bare("one"), Vec::new(), NOW).await.unwrap();
        // While the gateway runs, and at its next start.
        store.save(bare("two"), Vec::new(), NOW + jump).await.unwrap();
        assert_eq!(ids(&store.all().await), ["two", "one"]);
        drop(store);
        for now in [NOW + jump + 60, NOW + 60, NOW + 2 * jump, 0, NOW + 120] {
            let store = open_at(&path, now);
            assert_eq!(ids(&store.all().await), ["two", "one"], "{now}");
        }

        // With the clock as wrong as it is, what is really old goes.
        let wrong = NOW + 3 * jump;
        let store = open_at(&path, wrong);
        for days in 1..=9 {
            pass(1).await;
            store.save(bare("new"), Vec::new(), wrong + days * day).await.unwrap();
        }
        assert_eq!(ids(&store.all().await), ["new"]);
    }
}

/// An hour every ten days: no pause is believed at once, and each counts in the end.
#[tokio::test(start_paused = true)]
async fn expiry_works_on_a_machine_that_is_rarely_on() {
    let (_dir, path) = place();
    open_at(&path, NOW).save(bare("old"), Vec::new(), NOW).await.unwrap();
    let mut kept = Vec::new();
    for times in 1..=4 {
        let now = NOW + times * 10 * DAY.as_secs();
        let store = open_at(&path, now);
        tokio::time::advance(Duration::from_secs(3600)).await;
        store.save(bare("new"), Vec::new(), now + 3600).await.unwrap();
        kept.push(ids(&store.all().await).contains(&"old"));
    }
    assert_eq!(kept, [true, true, false, false]);
}

#[tokio::test]
async fn clock_jump_before_an_upgrade_deletes_nothing() {
    let (_dir, path) = place();
    let store = open_at(&path, NOW);
    store.save(bare("one"), Vec::new(), NOW).await.unwrap();
    // As an earlier version left it.
    store
        .sql(
            "DROP TABLE clocks;
             DROP INDEX by_opening;
             DROP INDEX responses_by_scope;
             DROP INDEX conversations_by_scope;
             ALTER TABLE conversations DROP COLUMN size;
             ALTER TABLE conversations DROP COLUMN highest_call;
             ALTER TABLE conversations DROP COLUMN opening;
             ALTER TABLE conversations ADD COLUMN opening BLOB NOT NULL DEFAULT x'00';
             ALTER TABLE conversations ADD COLUMN full_history INTEGER NOT NULL DEFAULT 1;
             PRAGMA user_version = 2",
        )
        .await;
    drop(store);
    let later = NOW + 100 * DAY.as_secs();
    assert_eq!(ids(&open_at(&path, later).all().await), ["one"]);
}

/// Compares the sizes by which conversations are evicted with the pages that they take.
async fn assert_close(store: &Store, what: &str) {
    let (_dir, path) = place();
    let empty = open(&path);
    let pages = async |store: &Store| {
        store.run(|vault| Ok(tables::used_bytes(vault.connection())?)).await.unwrap()
    };
    let real = i64::try_from(pages(store).await - pages(&empty).await).unwrap();
    let sizes = store.run(|vault| Ok(tables::scope_sizes(vault.connection())?)).await.unwrap();
    let sizes: i64 = sizes.iter().map(|(_, size)| size).sum();
    // Pages are not full.
    assert!(sizes * 2 > real && sizes < real * 3 / 2, "{what}: {sizes} for {real}");
}

/// Whatever a client fills its conversations with counts.
#[tokio::test]
async fn sizes_are_those_of_the_pages() {
    type Shape = (&'static str, u32, fn(u32) -> (StoredConversation, Vec<(Bytes, Bytes)>));
    let shapes: [Shape; 7] = [
        ("nothing", 400, |n| (bare(&n.to_string()), Vec::new())),
        ("arguments", 40, |n| {
            let mut talk = talk(&n.to_string());
            talk.calls[0].arguments = "ü".repeat(15_000);
            (talk, Vec::new())
        }),
        ("name", 40, |n| {
            let name = Some(format!("{n}{}", "x".repeat(5_000)));
            (StoredConversation { name, ..bare(&n.to_string()) }, Vec::new())
        }),
        ("checkpoint", 40, |n| {
            let checkpoint = Some(Bytes::from(vec![1; 10_000]));
            (StoredConversation { checkpoint, ..bare(&n.to_string()) }, Vec::new())
        }),
        ("tiny blobs", 40, |n| {
            let blobs = (0..200).map(|m| blob(&format!("{:032}", m * 7919 % 200), 1));
            (bare(&n.to_string()), blobs.collect())
        }),
        ("blobs that need a page more", 40, |n| {
            let blobs = (0..50).map(|m| blob(&format!("{:032}", m * 7919 % 50), 1_100));
            (bare(&n.to_string()), blobs.collect())
        }),
        ("large blobs", 40, |n| (bare(&n.to_string()), vec![blob("a", 100_000), blob("b", 5_000)])),
    ];
    for (what, count, shape) in shapes {
        let (_dir, path) = place();
        let store = open(&path);
        for n in 0..count {
            let (conversation, blobs) = shape(n);
            store.save(conversation, blobs, unix_seconds()).await.unwrap();
        }
        assert_close(&store, what).await;
        // Saved again, they take no more.
        for n in 0..count {
            let (conversation, blobs) = shape(n);
            store.save(conversation, blobs, unix_seconds()).await.unwrap();
        }
        assert_close(&store, &format!("{what}, twice")).await;
    }
}

/// The arguments of calls count towards the client that made them.
#[tokio::test]
async fn client_with_large_arguments_loses_its_own_conversations() {
    const OTHER: Scope = [9; 32];
    let (_dir, path) = place();
    let limits = StoreLimits { bytes: 1 << 20, ..LIMITS };
    let store = Store::open(Some(&path), limits, &Tasks::new()).unwrap();
    let theirs = StoredConversation { scope: OTHER, ..bare("theirs") };
    store.save(theirs, vec![blob("a", 50_000)], unix_seconds()).await.unwrap();
    for n in 0..60 {
        let mut mine = talk(&n.to_string());
        mine.calls[0].arguments = "x".repeat(60_000);
        store.save(mine, Vec::new(), unix_seconds()).await.unwrap();
    }
    assert_eq!(store.blobs(OTHER, "theirs").await.unwrap(), [blob("a", 50_000)]);
}

#[tokio::test]
async fn client_that_stores_much_loses_its_own_conversations() {
    const OTHER: Scope = [9; 32];
    let (_dir, path) = place();
    let limits = StoreLimits { bytes: 1 << 20, ..LIMITS };
    let store = Store::open(Some(&path), limits, &Tasks::new()).unwrap();
    let theirs = StoredConversation { scope: OTHER, ..bare("theirs") };
    store.save(theirs, vec![blob("a", 300_000)], unix_seconds()).await.unwrap();
    for n in 0..60 {
        store.save(bare(&n.to_string()), vec![blob("a", 40_000)], unix_seconds()).await.unwrap();
    }
    assert_eq!(store.blobs(OTHER, "theirs").await.unwrap(), [blob("a", 300_000)]);
    let mine = store.stats().conversations - 1;
    assert!((10..=18).contains(&mine), "{mine} of 40 kB are within the rest of 1 MiB");
    assert_eq!(ids(&store.all().await)[0], "59");

    // The same if one conversation grows: its checkpoint and its blobs replace earlier ones.
    for n in 0..60 {
        let mut one = bare("one");
        one.checkpoint = Some(Bytes::from(vec![n; 20_000]));
        let blobs = vec![blob("same", 10_000), blob(&n.to_string(), 10_000)];
        store.save(one, blobs, unix_seconds()).await.unwrap();
        assert_close(&store, &format!("after {n}")).await;
    }
    assert_eq!(store.blobs(OTHER, "theirs").await.unwrap(), [blob("a", 300_000)]);
}

/// As [`file_of_an_earlier_version_is_migrated`], for what an earlier version did not measure.
#[tokio::test]
async fn sizes_are_measured_when_a_file_is_migrated() {
    let (_dir, path) = place();
    let store = open(&path);
    store.save(talk("one"), vec![blob("a", 1_000)], unix_seconds()).await.unwrap();
    let sizes = async |store: &Store| {
        store.run(|vault| Ok(tables::scope_sizes(vault.connection())?)).await.unwrap()
    };
    let before = sizes(&store).await;
    assert!(before[0].1 > 1_512, "{before:?}");
    store
        .sql(
            "DROP INDEX conversations_by_scope;
             ALTER TABLE conversations DROP COLUMN size;
             PRAGMA user_version = 8",
        )
        .await;
    drop(store);
    assert_eq!(sizes(&open(&path)).await, before);
}
