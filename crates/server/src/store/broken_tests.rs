//! Damaged files.

use super::*;

impl Store {
    /// The state after a statement that found the file damaged.
    async fn find_broken(&self) {
        let found = self.run(|vault| {
            vault.start_afresh();
            Ok(())
        });
        found.await.unwrap();
    }
}

#[tokio::test]
async fn old_damaged_file_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (old, new) = (with(&path, ".broken"), with(&path, ".broken-wal"));
    for file in [&old, &new] {
        std::fs::write(file, "x").unwrap();
    }
    let retention = Duration::from_secs(24 * 3600);
    let before = std::time::UNIX_EPOCH + retention;
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(before).unwrap();
    let limits = StoreLimits { retention, bytes: 1 << 20, ..LIMITS };
    let _store = Store::open(Some(&path), limits, &Tasks::new()).unwrap();
    assert_eq!((old.exists(), new.exists()), (false, true));
}

#[tokio::test]
async fn damaged_file_is_moved_aside() {
    let (_dir, path) = place();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let broken = with(&path, ".broken");
    for round in ["first", "second"] {
        let text = format!("{round}: {}", "not a database ".repeat(500));
        std::fs::write(&path, &text).unwrap();
        let store = open(&path);
        assert!(!store.stats().in_memory);
        store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
        assert_eq!(store.all().await, [talk("one")]);
        assert_eq!(std::fs::read_to_string(&broken).unwrap(), text);
    }
}

#[tokio::test]
async fn file_damaged_while_open_is_moved_aside() {
    let (_dir, path) = place();
    let store = open(&path);
    for n in 0..50 {
        store.save(bare(&n.to_string()), vec![blob("a", 9_000)], unix_seconds()).await.unwrap();
    }
    drop(store);
    // The first page stays, with the names of the tables.
    let mut data = std::fs::read(&path).unwrap();
    data[4096..].fill(0xee);
    std::fs::write(&path, &data).unwrap();

    let store = open(&path);
    let _one_may_fail = store.by_name(ME, "work", None).await;
    store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
    assert_eq!(store.all().await, [talk("one")]);
    assert!(!store.stats().in_memory);
    assert_eq!(store.stats().conversations, 1);
    assert_eq!(std::fs::read(with(&path, ".broken")).unwrap(), data);
}

/// A file with all pages damaged except the first, which has the names of the tables.
async fn damaged(path: &Path) {
    let store = open(path);
    for n in 0..50 {
        store.save(bare(&n.to_string()), vec![blob("a", 9_000)], unix_seconds()).await.unwrap();
    }
    drop(store);
    let mut data = std::fs::read(path).unwrap();
    data[4096..].fill(0xee);
    std::fs::write(path, &data).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn new_file_of_another_process_is_opened() {
    let (_dir, path) = place();
    let [first, second] = [open(&path), open(&path)];
    let seen = file::FileId::at(&path);
    // Both saw the old file; the first one replaces it.
    first.find_broken().await;
    first.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
    let new = file::FileId::at(&path);
    assert_ne!(new, seen);

    second.find_broken().await;
    assert_eq!(file::FileId::at(&path), new, "it is where the first one put it");
    assert!(!second.stats().in_memory);
    assert_eq!(second.all().await, [talk("one")]);
    second.save(bare("two"), Vec::new(), unix_seconds()).await.unwrap();
    assert_eq!(ids(&first.all().await), ["two", "one"]);
    drop((first, second));
    assert_eq!(ids(&open(&path).all().await), ["two", "one"]);
}

#[test]
fn damaged_file_is_replaced_once_by_concurrent_processes() {
    let (_dir, path) = place();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let text = "this is not a database ".repeat(500);
    for _ in 0..10 {
        std::fs::write(&path, &text).unwrap();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    assert!(!open(&path).stats().in_memory);
                });
            }
        });
        let broken = with(&path, ".broken");
        assert_eq!(std::fs::read_to_string(&broken).unwrap(), text, "not a new file");
        std::fs::remove_file(&path).unwrap();
        for ending in ["-wal", "-shm", ".broken-wal", ".broken-shm"] {
            std::fs::remove_file(with(&path, ending)).ok();
        }
    }
}

/// SQLite finds a log by its name: one that opens the file while it is moved away would take the
/// log of the new one for its own.
#[test]
fn file_is_not_opened_while_another_process_replaces_it() {
    let (_dir, path) = place();
    drop(open(&path));
    let file = with(&path, ".lock");
    let replacing = crate::files::lock::acquire_blocking(&file, Duration::ZERO).unwrap();
    let (sender, opened) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.send(open(&path)));
        assert!(opened.recv_timeout(Duration::from_millis(50)).is_err());
        drop(replacing);
        assert!(!opened.recv().unwrap().stats().in_memory);
    });
}

/// Requests wait while the store is replaced, and without the lock the log may be that of another
/// file.
#[tokio::test]
async fn store_goes_on_in_memory_while_a_stopped_process_has_the_lock() {
    let (_dir, path) = place();
    let store = open(&path);
    store.save(talk("one"), Vec::new(), unix_seconds()).await.unwrap();
    let log = std::fs::read(with(&path, "-wal")).unwrap();
    assert!(!log.is_empty());
    let lock = with(&path, ".lock");
    let stopped = crate::files::lock::acquire_blocking(&lock, Duration::ZERO).unwrap();
    let began = tokio::time::Instant::now();
    store.find_broken().await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(store.stats().in_memory);
    store.save(talk("two"), Vec::new(), unix_seconds()).await.unwrap();
    assert_eq!(ids(&store.all().await), ["two"]);
    assert_eq!(std::fs::read(with(&path, "-wal")).unwrap(), log, "the log is as it was");
    drop(stopped);
    assert_eq!(ids(&open(&path).all().await), ["one"]);
}

#[tokio::test]
async fn two_stores_share_the_replacement_of_a_damaged_file() {
    let (_dir, path) = place();
    damaged(&path).await;
    let stores = [open(&path), open(&path)];
    for (store, id) in stores.iter().zip(["one", "two"]) {
        let _one_may_fail = store.by_name(ME, "work", None).await;
        store.save(bare(id), Vec::new(), unix_seconds()).await.unwrap();
    }
    for store in &stores {
        assert_eq!(ids(&store.all().await), ["two", "one"]);
        assert!(!store.stats().in_memory);
    }
}

/// Another user may have put it there, where the folder is open to others.
#[cfg(unix)]
#[tokio::test]
async fn linked_lock_file_is_not_followed() {
    let (dir, path) = place();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let text = "this is not a database ".repeat(500);
    std::fs::write(&path, &text).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, with(&path, ".lock")).unwrap();
    let store = open(&path);
    assert!(!elsewhere.exists(), "a file was made through the link");
    assert!(store.stats().in_memory);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "it is left as it was");
}

#[cfg(unix)]
#[tokio::test]
async fn store_follows_a_replaced_file() {
    let (_dir, path) = place();
    let [first, second] = [open(&path), open(&path)];
    first.find_broken().await;
    let now = unix_seconds();
    // Goes to the old file: the replacement is found at the next check.
    second.save(bare("lost"), Vec::new(), now + 120).await.unwrap();
    second.save(bare("kept"), Vec::new(), now + 240).await.unwrap();
    assert_eq!(ids(&first.all().await), ["kept"]);
}
