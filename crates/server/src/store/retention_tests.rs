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
        let sums = "SELECT sum(512 + coalesce(length(checkpoint), 0)
                               + (SELECT sum(length(data)) FROM blobs WHERE conversation = key))
                    FROM conversations";
        let (sizes, real): (i64, i64) = store
            .run(move |vault| {
                let sizes = tables::scope_sizes(vault.connection())?;
                let real = vault.connection().query_row(sums, [], |row| row.get(0))?;
                Ok((sizes.iter().map(|(_, size)| size).sum(), real))
            })
            .await
            .unwrap();
        assert_eq!(sizes, real, "after {n}");
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
