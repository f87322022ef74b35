use std::path::PathBuf;

use super::{StateDir, StoredChat, uuid};

/// A folder that is deleted with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ibeam-home-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn conversation_is_stored_and_found() {
    let folder = Folder::new("chat");
    let home = StateDir::open(folder.0.clone()).unwrap();
    let id = home.new_id().unwrap();
    let chat = StoredChat { id: id.clone(), model: "auto".to_owned(), ..StoredChat::default() };
    home.keep(&chat).unwrap();
    assert_eq!(home.chat(&id), Some(chat.clone()));
    assert_eq!(home.newest(), Some(chat.clone()));
    assert_eq!(home.chats(), [chat]);
    assert_eq!(home.chat("../counts"), None);
    assert_ne!(home.new_id().unwrap(), id);
}

#[test]
fn incomplete_counts_start_from_zero() {
    let folder = Folder::new("counts");
    let home = StateDir::open(folder.0.clone()).unwrap();
    assert_eq!(home.counted(|counts| counts.of("a", 2).len()).unwrap(), 2);
    home.counted(|counts| counts.runs += 1).unwrap();
    assert_eq!(home.counted(|counts| counts.runs).unwrap(), 1);
    std::fs::write(folder.0.join("counts.json"), "{\"runs\":").unwrap();
    assert_eq!(home.counted(|counts| counts.runs).unwrap(), 0);
}

#[test]
fn signing_out_is_remembered() {
    let folder = Folder::new("sign");
    let home = StateDir::open(folder.0.clone()).unwrap();
    assert!(home.signed_in());
    home.sign(false).unwrap();
    assert!(!home.signed_in());
    home.sign(true).unwrap();
    home.sign(true).unwrap();
    assert!(home.signed_in());
}

#[test]
fn ids_have_the_format_of_a_uuid() {
    let id = uuid("x");
    let lengths: Vec<_> = id.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(id.as_bytes()[14], b'4');
}
