//! Conversations by their names, and what earlier versions kept of them.

use super::*;

/// A client asks for titles under the name of its conversation, and there may be many.
#[tokio::test]
async fn of_one_name_those_with_the_preferred_setup_come_first() {
    let store = memory();
    store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
    let title = |id: &str| Conversation { setup: [9; 32], session: None, ..talk(id) };
    for n in 0..9 {
        store.save(title(&n.to_string()), Vec::new(), unix_seconds()).await.unwrap();
    }
    let preferred = store.by_name(ME, "work", Some(talk("one").setup)).await.unwrap();
    assert_eq!(ids(&preferred)[..2], ["one", "8"]);
    let newest = store.by_name(ME, "work", None).await.unwrap();
    assert_eq!(ids(&newest)[..2], ["8", "7"]);
}

/// The file of an earlier version, which kept how a client used to ask.
#[tokio::test]
async fn a_file_of_an_earlier_version_is_still_used() {
    let (_dir, path) = place();
    let store = open(&path);
    store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
    store
        .sql(
            "DROP INDEX by_opening;
             ALTER TABLE conversations DROP COLUMN opening;
             ALTER TABLE conversations ADD COLUMN opening BLOB NOT NULL DEFAULT x'00';
             ALTER TABLE conversations ADD COLUMN full_history INTEGER NOT NULL DEFAULT 1;
             ALTER TABLE clocks DROP COLUMN doubted;
             ALTER TABLE clocks DROP COLUMN since;
             PRAGMA user_version = 3",
        )
        .await;
    drop(store);

    let store = open(&path);
    store.save(talk("two"), Vec::new(), unix_seconds()).await.unwrap();
    let one = Conversation { opening: None, ..talk("one") };
    assert_eq!(store.all().await, [talk("two"), one]);
    assert!(!store.stats().in_memory);
}
