use std::path::PathBuf;

use ibeam_core::model::ids::CallId;

use super::*;
use crate::clock::unix_seconds;

#[path = "store_names_tests.rs"]
mod names;

const LIMITS: StoreLimits = StoreLimits {
    retention: Duration::from_secs(7 * 24 * 3600),
    bytes: 1 << 30,
    responses: ResponseLimits { retention: DAY, count: 100, bytes: 1 << 20 },
};

const DAY: Duration = Duration::from_secs(24 * 3600);

const ME: Scope = [1; 32];
const YOU: Scope = [2; 32];

fn open(path: &Path) -> Store {
    Store::open(Some(path), LIMITS, &Tasks::new()).unwrap()
}

fn memory() -> Store {
    Store::open(None, LIMITS, &Tasks::new()).unwrap()
}

/// A folder, and the store's path in a folder in it that is not there yet.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ibeam/store.db");
    (dir, path)
}

fn with(path: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", path.display()))
}

fn session(byte: u8) -> SessionId {
    SessionId::from_random([byte; 16])
}

/// A conversation with something in every field.
fn talk(id: &str) -> StoredConversation {
    StoredConversation {
        scope: ME,
        id: id.to_owned(),
        session: Some(session(7)),
        name: Some("work".to_owned()),
        setup: [3; 32],
        fingerprint: Fingerprint([4; 32]),
        opening: Some(Fingerprint([7; 32])),
        checkpoint: Some(Bytes::from_static(b"\x0a\x00checkpoint")),
        calls: vec![ToolCall {
            id: CallId::in_session(session(7), 1).to_string(),
            name: "bash".to_owned(),
            arguments: r#"{"command":"echo \"ü\""}"#.to_owned(),
        }],
        highest_call: Some(3),
    }
}

fn bare(id: &str) -> StoredConversation {
    StoredConversation {
        session: None,
        name: None,
        checkpoint: None,
        calls: Vec::new(),
        highest_call: None,
        ..talk(id)
    }
}

fn blob(id: &str, size: usize) -> (Bytes, Bytes) {
    (Bytes::copy_from_slice(id.as_bytes()), Bytes::from(vec![b'x'; size]))
}

fn ids(found: &[StoredConversation]) -> Vec<&str> {
    found.iter().map(|conversation| conversation.id.as_str()).collect()
}

impl Store {
    async fn sql(&self, sql: &'static str) {
        self.run(move |vault| Ok(vault.connection().execute_batch(sql)?)).await.unwrap();
    }

    async fn all(&self) -> Vec<StoredConversation> {
        self.by_fingerprint(ME, Fingerprint([4; 32])).await.unwrap()
    }
}

#[tokio::test]
async fn saved_conversation_is_found_by_each_key() {
    let store = memory();
    let empty = (Bytes::from_static(b"\x00"), Bytes::new());
    let blobs = vec![blob("a", 3), empty];
    store.save(talk("one"), blobs.clone(), unix_seconds()).await.unwrap();
    store.save(bare("two"), Vec::new(), unix_seconds()).await.unwrap();

    assert_eq!(store.all().await, [bare("two"), talk("one")]);
    assert_eq!(store.by_name(ME, "work", None).await.unwrap(), [talk("one")]);
    assert_eq!(store.by_session(ME, session(7)).await.unwrap(), Some(talk("one")));
    assert!(store.has_opening(ME, Fingerprint([7; 32])).await.unwrap());
    assert!(!store.has_opening(ME, Fingerprint([4; 32])).await.unwrap());
    let mut kept = store.blobs(ME, "one").await.unwrap();
    kept.sort_by_key(|(id, _)| std::cmp::Reverse(id.clone()));
    assert_eq!(kept, blobs);
    assert_eq!(store.blobs(ME, "two").await.unwrap(), []);

    assert_eq!(store.by_fingerprint(ME, Fingerprint([5; 32])).await.unwrap(), []);
    assert_eq!(store.by_name(ME, "play", None).await.unwrap(), []);
    assert_eq!(store.by_session(ME, session(8)).await.unwrap(), None);
    let stats = store.stats();
    assert_eq!((stats.conversations, stats.in_memory, stats.failed_saves), (2, true, 0));
}

#[tokio::test]
async fn conversations_are_separated_by_owner() {
    let store = memory();
    store.save(talk("one"), vec![blob("a", 3)], unix_seconds()).await.unwrap();

    assert_eq!(store.by_fingerprint(YOU, Fingerprint([4; 32])).await.unwrap(), []);
    assert_eq!(store.by_name(YOU, "work", None).await.unwrap(), []);
    assert_eq!(store.by_session(YOU, session(7)).await.unwrap(), None);
    assert!(!store.has_opening(YOU, Fingerprint([7; 32])).await.unwrap());
    assert_eq!(store.blobs(YOU, "one").await.unwrap(), []);
    store.forget(YOU, "one").await.unwrap();
    let theirs = StoredConversation { scope: YOU, ..bare("one") };
    store.save(theirs.clone(), vec![blob("b", 1)], unix_seconds()).await.unwrap();

    assert_eq!(store.all().await, [talk("one")]);
    assert_eq!(store.blobs(ME, "one").await.unwrap(), [blob("a", 3)]);
    assert_eq!(store.blobs(YOU, "one").await.unwrap(), [blob("b", 1)]);
}

#[tokio::test]
async fn second_save_replaces_the_row_and_adds_blobs() {
    let store = memory();
    store.save(talk("one"), vec![blob("a", 3), blob("b", 3)], unix_seconds()).await.unwrap();
    let later = StoredConversation { fingerprint: Fingerprint([6; 32]), ..bare("one") };
    store.save(later.clone(), vec![blob("b", 9), blob("c", 3)], unix_seconds()).await.unwrap();

    assert_eq!(store.all().await, []);
    assert_eq!(store.by_fingerprint(ME, Fingerprint([6; 32])).await.unwrap(), [later]);
    assert_eq!(store.by_session(ME, session(7)).await.unwrap(), None);
    let kept = store.blobs(ME, "one").await.unwrap();
    assert_eq!(kept, [blob("a", 3), blob("b", 9), blob("c", 3)]);
    assert_eq!(store.stats().conversations, 1);
}

#[tokio::test]
async fn newest_eight_conversations_are_returned() {
    let store = memory();
    let now = unix_seconds();
    for n in 0..10 {
        // All within one second, and the clock goes back once.
        store.save(bare(&n.to_string()), Vec::new(), now - u64::from(n == 9)).await.unwrap();
    }
    store.save(bare("3"), Vec::new(), now).await.unwrap();
    assert_eq!(ids(&store.all().await), ["3", "9", "8", "7", "6", "5", "4", "2"]);
}

#[tokio::test]
async fn deleting_a_conversation_deletes_its_blobs() {
    let store = memory();
    store.save(talk("one"), vec![blob("a", 3)], unix_seconds()).await.unwrap();
    store.forget(ME, "one").await.unwrap();
    assert_eq!(store.all().await, []);
    let left = store.run(|vault| {
        let count = "SELECT count(*) FROM blobs";
        Ok(vault.connection().query_row(count, [], |row| row.get::<_, i64>(0))?)
    });
    assert_eq!(left.await.unwrap(), 0);
    assert_eq!(store.stats().conversations, 0);
    store.forget(ME, "one").await.unwrap();
}

#[tokio::test]
async fn file_is_readable_after_an_orderly_shutdown() {
    let (_dir, path) = place();
    let store = open(&path);
    store.save(talk("one"), vec![blob("a", 3)], unix_seconds()).await.unwrap();
    drop(store);
    assert!(!with(&path, "-wal").exists(), "closing it leaves one file");

    let store = open(&path);
    assert_eq!(store.all().await, [talk("one")]);
    assert_eq!(store.blobs(ME, "one").await.unwrap(), [blob("a", 3)]);
    let stats = store.stats();
    assert_eq!((stats.conversations, stats.in_memory), (1, false));
    assert!(stats.bytes > 0);
}

/// What the files are after `kill -9`: everything written, nothing closed.
#[tokio::test]
async fn file_is_readable_after_a_crash() {
    let (dir, path) = place();
    let store = open(&path);
    store.save(talk("one"), vec![blob("a", 3)], unix_seconds()).await.unwrap();
    let later = dir.path().join("later.db");
    for ending in ["", "-wal"] {
        std::fs::copy(with(&path, ending), with(&later, ending)).unwrap();
    }
    std::mem::forget(store);

    for path in [later, path] {
        let store = open(&path);
        assert_eq!(store.all().await, [talk("one")], "{}", path.display());
        assert_eq!(store.blobs(ME, "one").await.unwrap(), [blob("a", 3)]);
        assert!(!store.stats().in_memory);
    }
}

#[tokio::test]
async fn oldest_conversations_are_evicted_beyond_the_limit() {
    let (_dir, path) = place();
    let limits = StoreLimits { bytes: 1 << 20, ..LIMITS };
    let store = Store::open(Some(&path), limits, &Tasks::new()).unwrap();
    for n in 0..100 {
        let blobs = vec![blob("a", 20_000), blob("b", 20_000)];
        store.save(bare(&n.to_string()), blobs, unix_seconds()).await.unwrap();
        let used = store.run(|vault| Ok(tables::used_bytes(vault.connection())?)).await.unwrap();
        assert!(used <= 1 << 20, "{used} after {n}");
    }
    let kept = store.stats().conversations;
    assert!((15..=26).contains(&kept), "{kept} of 40 kB are within 1 MiB");
    assert_eq!(ids(&store.all().await), ["99", "98", "97", "96", "95", "94", "93", "92"]);
    drop(store);
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes < 1200 << 10, "the file itself is {bytes}");

    // With less room at the next start.
    let limits = StoreLimits { bytes: 200 << 10, ..LIMITS };
    let store = Store::open(Some(&path), limits, &Tasks::new()).unwrap();
    let kept = store.stats().conversations;
    assert!((1..=4).contains(&kept), "{kept}");
    assert_eq!(ids(&store.all().await)[0], "99");
}

#[cfg(unix)]
#[test]
fn store_files_are_private() {
    // The mask belongs to the whole process, so this takes one of its own.
    let test = "store::tests::store_modes_under_a_permissive_umask";
    let done = std::process::Command::new("sh")
        .args(["-c", "umask 000; exec \"$0\" --exact --ignored \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
#[ignore = "started by `store_files_are_private`"]
async fn store_modes_under_a_permissive_umask() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (dir, path) = place();
    let other = dir.path().join("other");
    std::fs::write(&other, "").unwrap();
    assert_eq!(mode(&other), 0o666, "the mask is permissive");

    let store = open(&path);
    store.save(talk("one"), vec![blob("a", 3)], unix_seconds()).await.unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(&with(&path, ending)), 0o600, "{ending}");
    }

    // A user's copy of a store, readable to all.
    drop(store);
    std::fs::copy(&path, &other).unwrap();
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o644)).unwrap();
    let store = open(&other);
    assert_eq!(store.all().await, [talk("one")]);
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(&with(&other, ending)), 0o600, "{ending}");
    }
}

#[tokio::test]
async fn foreign_files_are_not_touched() {
    let (_dir, path) = place();
    for sql in
        ["PRAGMA user_version = 99", "PRAGMA application_id = 1", "PRAGMA application_id = 0"]
    {
        let store = open(&path);
        store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
        store.sql(sql).await;
        drop(store);
        let before = std::fs::read(&path).unwrap();

        let store = open(&path);
        assert!(store.stats().in_memory, "{sql}");
        assert_eq!(store.all().await, []);
        store.save(bare("two"), Vec::new(), unix_seconds()).await.unwrap();
        assert_eq!(ids(&store.all().await), ["two"]);
        drop(store);
        assert_eq!(std::fs::read(&path).unwrap(), before, "{sql}");
        assert!(!with(&path, ".broken").exists());
        std::fs::remove_file(&path).unwrap();
    }
}

#[tokio::test]
async fn unusable_file_falls_back_to_memory() {
    let (dir, path) = place();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for bad in [dir.path(), &file.join("store.db"), Path::new(""), Path::new("/dev/null")] {
        let store = open(bad);
        assert!(store.stats().in_memory, "{}", bad.display());
        store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
        assert_eq!(store.all().await, [talk("one")]);
        assert!(!with(bad, ".lock").exists(), "{}", bad.display());
    }
    drop(open(&path));
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    // The superuser may write it all the same.
    let writable = std::fs::OpenOptions::new().append(true).open(&path).is_ok();
    assert_eq!(open(&path).stats().in_memory, !writable);
}

#[tokio::test]
async fn full_disk_fails_only_saves() {
    let (_dir, path) = place();
    let store = open(&path);
    store.save(talk("one"), vec![blob("a", 3)], unix_seconds()).await.unwrap();
    store.sql("PRAGMA max_page_count = 30").await;

    let more = StoredConversation { name: Some("more".to_owned()), ..talk("one") };
    let blobs = vec![blob("b", 10), blob("c", 1 << 20)];
    for failed in 1..=2 {
        let full = store.save(more.clone(), blobs.clone(), unix_seconds()).await.unwrap_err();
        assert!(full.to_string().contains("full"), "{full}");
        assert_eq!(store.stats().failed_saves, failed);
        assert!(store.stats().failing);
    }
    assert_eq!(store.all().await, [talk("one")], "all or nothing");
    assert_eq!(store.blobs(ME, "one").await.unwrap(), [blob("a", 3)]);
    assert!(!store.stats().in_memory && !with(&path, ".broken").exists());

    store.sql("PRAGMA max_page_count = 100000").await;
    store.save(more.clone(), blobs, unix_seconds()).await.unwrap();
    assert_eq!(store.all().await, [more]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_stores_can_share_a_file() {
    let (_dir, path) = place();
    let tasks = Tasks::new();
    let stores = [open(&path), open(&path)];
    for store in &stores {
        assert!(!store.stats().in_memory);
    }
    for n in 0..40 {
        let store = stores[n % 2].clone();
        tasks.spawn("save", async move {
            let blobs = vec![blob("a", 3), blob("b", 3)];
            store.save(bare(&n.to_string()), blobs, unix_seconds()).await.unwrap();
        });
    }
    tasks.join().await;
    for n in 0..40 {
        let id = n.to_string();
        for store in &stores {
            assert_eq!(store.blobs(ME, &id).await.unwrap().len(), 2, "{id}");
        }
    }
    assert_eq!(stores[0].stats().failed_saves + stores[1].stats().failed_saves, 0);
    assert_eq!(open(&path).stats().conversations, 40);
}

#[test]
fn two_stores_can_create_a_file_at_once() {
    let (_dir, path) = place();
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                assert!(!open(&path).stats().in_memory);
            });
        }
    });
}

/// A blocking task that runs for ever would hold the paused clock of every test that
/// has a store; a thread beside the runtime would let it run ahead.
#[tokio::test(start_paused = true)]
async fn paused_time_stands_still_during_a_save() {
    let store = memory();
    let before = tokio::time::Instant::now();
    let save = store.save(talk("one"), vec![blob("a", 1 << 20)], unix_seconds());
    tokio::time::timeout(Duration::from_millis(1), save).await.unwrap().unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(before.elapsed() >= Duration::from_secs(3600));
}

#[tokio::test]
async fn shutdown_waits_for_a_running_save() {
    let tasks = Tasks::new();
    let store = Store::open(None, LIMITS, &tasks).unwrap();
    let mut save = Box::pin(store.save(talk("one"), Vec::new(), unix_seconds()));
    assert!(poll_once(&mut save).await.is_none_or(|done| done.is_ok()));
    drop(save);
    tasks.join().await;
    assert_eq!(store.all().await, [talk("one")]);
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        use std::task::Poll;
        Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Run it with `--run-ignored=only --no-capture`, or cargo's `--ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement, for docs/dependencies.md"]
async fn save_duration_is_measured() {
    const SAVES: u32 = 2_000;
    let (_dir, path) = place();
    let store = open(&path);
    let started = tokio::time::Instant::now();
    for n in 0..SAVES {
        let blobs = (0..3).map(|piece| blob(&format!("{n} {piece}"), 500)).collect();
        store.save(talk(&(n % 100).to_string()), blobs, unix_seconds()).await.unwrap();
    }
    println!("one save with 3 blobs of 500 bytes: {:?}", started.elapsed() / SAVES);
}

#[path = "broken_tests.rs"]
mod broken;

#[path = "retention_tests.rs"]
mod retention;
