//! Which conversations Cursor's CLI has. With `--resume` it begins an empty one, without a word,
//! under an id that it does not have for its working folder; so that is looked up first. It keeps
//! a conversation as `chats/HASH/ID` in its configuration folder, where the hash is that of the
//! working folder's path.

use std::{
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;

use super::environment::SIMULATED_HOME;

/// The file without which there is no conversation.
const STORE: &str = "store.db";

/// So many folders are looked into.
const MOST_FOLDERS: usize = 10_000;

/// What a child that cannot resume its conversation says, as older builds do by themselves.
pub(super) const LOST: &str = "Chat not found: cursor-agent no longer has it for this folder";

/// The folder of the CLI's conversations, if it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredChats(Option<PathBuf>);

/// What is known of a conversation beside its content.
#[derive(Deserialize)]
struct ChatMeta {
    cwd: Option<PathBuf>,
}

impl StoredChats {
    #[cfg(test)]
    pub(super) fn at(folder: PathBuf) -> Self {
        Self(Some(folder))
    }

    /// Where the CLI, or its stand-in, keeps them in this environment.
    pub(super) fn of(env: impl Fn(&str) -> Option<OsString>, simulated: bool) -> Self {
        let path = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = if simulated {
            path(SIMULATED_HOME)
        } else {
            path("CURSOR_CONFIG_DIR")
                .or_else(|| Some(path("XDG_CONFIG_HOME")?.join("cursor")))
                .or_else(|| Some(path("HOME").or_else(|| path("USERPROFILE"))?.join(".cursor")))
        };
        Self(config.map(|config| config.join("chats")))
    }

    /// Whether the CLI may have this conversation for this working folder. False only if it
    /// certainly does not: builds may keep them in another way. This reads the disk.
    pub(super) fn may_have(&self, id: &str, workspace: &Path) -> bool {
        let mut parts = Path::new(id).components();
        let is_name = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
        let Some(chats) = self.0.as_ref().filter(|_| is_name) else { return true };
        let Ok(entries) = fs::read_dir(chats) else { return true };
        let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        let mut is_known_layout = false;
        for folder in folders.take(MOST_FOLDERS) {
            is_known_layout = true;
            let chat = folder.join(id);
            if chat.join(STORE).exists() && is_of(&chat, workspace) {
                return true;
            }
        }
        !is_known_layout
    }
}

/// Whether a conversation was held in this folder, as far as its notes say.
fn is_of(chat: &Path, workspace: &Path) -> bool {
    let text = fs::read(chat.join("meta.json")).unwrap_or_default();
    let held_in = serde_json::from_slice::<ChatMeta>(&text).ok().and_then(|meta| meta.cwd);
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    held_in.is_none_or(|cwd| cwd == workspace || real(&cwd) == real(workspace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(chats: &Path, hash: &str, id: &str, meta: &str) {
        let chat = chats.join(hash).join(id);
        fs::create_dir_all(&chat).unwrap();
        fs::write(chat.join(STORE), "").unwrap();
        if !meta.is_empty() {
            fs::write(chat.join("meta.json"), meta).unwrap();
        }
    }

    #[test]
    fn section_9_a_conversation_is_looked_up_before_it_is_resumed() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().canonicalize().unwrap();
        let (chats, here) = (root.join("chats"), root.join("work"));
        fs::create_dir_all(&here).unwrap();
        let stored = StoredChats::at(chats.clone());
        assert!(stored.may_have("one", &here), "nothing is known without the folder");
        fs::create_dir_all(&chats).unwrap();
        fs::write(chats.join("one.json"), "").unwrap();
        assert!(stored.may_have("one", &here), "another build");
        let cwd = |path: &Path| format!(r#"{{"cwd":{:?},"title":"x"}}"#, path.to_str().unwrap());
        put(&chats, "aa", "here", &cwd(&here));
        put(&chats, "bb", "elsewhere", &cwd(&root));
        put(&chats, "bb", "unnamed", "");
        fs::create_dir_all(chats.join("aa/empty")).unwrap();
        for (id, want) in [
            ("here", true),
            ("unnamed", true),
            ("elsewhere", false),
            ("empty", false),
            ("one", false),
            ("../aa/here", true),
        ] {
            assert_eq!(stored.may_have(id, &here), want, "{id}");
        }
        assert!(StoredChats::default().may_have("one", &here));
    }

    #[test]
    fn section_9_the_configuration_folder_is_that_of_the_cli() {
        let of = |names: &[(&'static str, &'static str)], simulated| {
            let value = |name: &str| {
                let found = names.iter().find(|(own, _)| *own == name);
                found.map(|(_, value)| OsString::from(*value))
            };
            StoredChats::of(value, simulated).0
        };
        let (own, xdg) = (("CURSOR_CONFIG_DIR", "/c"), ("XDG_CONFIG_HOME", "/x"));
        let (home, fake) = (("HOME", "/h"), (SIMULATED_HOME, "/f"));
        assert_eq!(of(&[home, xdg, own, fake], false), Some("/c/chats".into()));
        assert_eq!(of(&[home, xdg], false), Some("/x/cursor/chats".into()));
        assert_eq!(of(&[home, ("XDG_CONFIG_HOME", "")], false), Some("/h/.cursor/chats".into()));
        assert_eq!(of(&[home, own, fake], true), Some("/f/chats".into()));
        assert_eq!(of(&[], false), None);
    }
}
