//! Conversations by their names, and what earlier versions kept of them.

use super::*;

/// A client asks for titles under the name of its conversation, and there may be many.
#[tokio::test]
async fn preferred_setup_comes_first_among_equal_names() {
    let store = memory();
    store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
    let title = |id: &str| StoredConversation { setup: [9; 32], session: None, ..talk(id) };
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
async fn file_of_an_earlier_version_is_migrated() {
    let (_dir, path) = place();
    let store = open(&path);
    store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
    store
        .sql(
            "DROP INDEX by_opening;
             DROP INDEX responses_by_scope;
             DROP INDEX conversations_by_scope;
             ALTER TABLE conversations DROP COLUMN size;
             ALTER TABLE conversations DROP COLUMN highest_call;
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
    let one = StoredConversation { opening: None, highest_call: None, ..talk("one") };
    assert_eq!(store.all().await, [talk("two"), one]);
    assert!(!store.stats().in_memory);
}
