//! What the stand-in remembers between starts: conversations, how often it ran, and whether it is
//! signed in. It is a folder of small files; the counts are under a lock.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{blobs::id_of, protobuf::hex};

/// The largest conversation that is read back.
const CONVERSATION_CAP: u64 = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(super) struct StateDir {
    folder: PathBuf,
}

/// A conversation. Its messages are in the service's format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredChat {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) cwd: String,
    pub(super) rules: Vec<String>,
    pub(super) messages: Vec<Value>,
}

/// Counts over all runs in this folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RunCounts {
    /// How many ids were made.
    ids: u64,
    pub(super) runs: u64,
    /// How often each rule of the scenario was used.
    pub(super) hits: Vec<u64>,
    scenario: String,
}

impl StateDir {
    /// # Errors
    /// The folder cannot be made.
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        let chats = folder.join("chats");
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        // Conversations are private to the user.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(chats)?;
        Ok(Self { folder })
    }

    /// Changes the counts under a lock.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn counted<T>(&self, change: impl FnOnce(&mut RunCounts) -> T) -> io::Result<T> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.folder.join("counts.json"))?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A start that was killed while writing leaves an incomplete file.
        let mut counts: RunCounts = serde_json::from_str(&text).unwrap_or_default();
        let out = change(&mut counts);
        let text = serde_json::to_string(&counts)?;
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        Ok(out)
    }

    /// A new id in the format of a uuid, unique in this folder.
    ///
    /// # Errors
    /// The count cannot be written.
    pub(super) fn new_id(&self) -> io::Result<String> {
        let number = self.counted(|counts| {
            counts.ids += 1;
            counts.ids
        })?;
        let seed = format!("{}/{number}/{}", self.folder.display(), std::process::id());
        Ok(uuid(&seed))
    }

    /// Stores a conversation, as the newest one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn keep(&self, chat: &StoredChat) -> io::Result<()> {
        self.put(&self.chat_path(&chat.id), &serde_json::to_vec(chat)?)?;
        self.mark(chat)?;
        self.put(&self.folder.join("newest"), chat.id.as_bytes())
    }

    /// Leaves the files by which others find a conversation: `chats/HASH/ID` with the store and
    /// its notes. (The real one has the MD5 of the folder's path as the hash.)
    fn mark(&self, chat: &StoredChat) -> io::Result<()> {
        let hash = hex(id_of(chat.cwd.as_bytes()).get(..16).unwrap_or_default());
        let folder = self.folder.join("chats").join(hash).join(&chat.id);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("store.db"), b"")?;
        let meta = serde_json::json!({ "cwd": chat.cwd, "hasConversation": true });
        fs::write(folder.join("meta.json"), meta.to_string())
    }

    /// The conversation with this id.
    pub(super) fn chat(&self, id: &str) -> Option<StoredChat> {
        // The id becomes part of a path, so only characters of our ids are allowed.
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if id.is_empty() || !id.chars().all(good) {
            return None;
        }
        let file = File::open(self.chat_path(id)).ok()?;
        let mut text = Vec::new();
        file.take(CONVERSATION_CAP).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn newest(&self) -> Option<StoredChat> {
        let id = fs::read_to_string(self.folder.join("newest")).ok()?;
        self.chat(id.trim())
    }

    /// All conversations, in the order of their ids.
    pub(super) fn chats(&self) -> Vec<StoredChat> {
        let files = fs::read_dir(self.folder.join("chats")).into_iter().flatten().flatten();
        let mut ids: Vec<_> = files
            .filter_map(|file| file.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
            .collect();
        ids.sort_unstable();
        ids.iter().filter_map(|id| self.chat(id)).collect()
    }

    /// Approves MCP servers, by their keys.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn approve(&self, keys: Vec<String>) -> io::Result<()> {
        let mut all = self.approved();
        all.extend(keys.into_iter().filter(|key| !all.contains(key)).collect::<Vec<_>>());
        self.put(&self.folder.join("mcp-approvals.json"), &serde_json::to_vec(&all)?)
    }

    /// The keys of approved MCP servers.
    pub(super) fn approved(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("mcp-approvals.json"));
        text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    pub(super) fn signed_in(&self) -> bool {
        !self.folder.join("signed-out").exists()
    }

    /// # Errors
    /// The mark cannot be set or removed.
    pub(super) fn sign(&self, signed_in: bool) -> io::Result<()> {
        let mark = self.folder.join("signed-out");
        match signed_in {
            false => fs::write(mark, b""),
            true if mark.exists() => fs::remove_file(mark),
            true => Ok(()),
        }
    }

    fn chat_path(&self, id: &str) -> PathBuf {
        self.folder.join("chats").join(format!("{id}.json"))
    }

    /// Replaces a file atomically: another start may read it at any time.
    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let fresh = self.folder.join(format!("fresh-{}", std::process::id()));
        fs::write(&fresh, bytes)?;
        fs::rename(fresh, path)
    }
}

impl RunCounts {
    /// The counts of this scenario; those of another one are dropped.
    pub(super) fn of(&mut self, scenario: &str, rules: usize) -> &mut Vec<u64> {
        if self.scenario != scenario || self.hits.len() != rules {
            scenario.clone_into(&mut self.scenario);
            self.hits = vec![0; rules];
        }
        &mut self.hits
    }
}

/// A uuid derived from a text.
pub(super) fn uuid(seed: &str) -> String {
    let digits = hex(id_of(seed.as_bytes()).get(..16).unwrap_or_default());
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    // With version and variant, so that strict parsers accept it.
    format!("{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
#[path = "state_dir_tests.rs"]
mod tests;
