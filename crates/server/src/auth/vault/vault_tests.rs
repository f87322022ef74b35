//! The secrets in a keychain: moved there and back, with a keychain that fails in every
//! way, hangs, or has been tampered with.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
};

use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::{
    auth::{AuthFileError, Credential, CredentialFile, login},
    files::FileError,
};

const LONG: Duration = Duration::from_secs(30);

/// A keychain in memory, which fails on request.
#[derive(Debug, Default)]
struct Memory {
    items: Mutex<HashMap<String, SecretString>>,
    /// What each call fails with, by its name.
    failing: Mutex<HashMap<&'static str, KeychainError>>,
    calls: Mutex<Vec<&'static str>>,
    /// Takes everything and keeps nothing.
    forgetful: bool,
    /// A dialog: the call waits until the test answers.
    dialog: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Memory {
    fn fail(&self, call: &'static str, error: KeychainError) {
        self.failing.lock().insert(call, error);
    }

    fn heal(&self) {
        self.failing.lock().clear();
    }

    fn item(&self, account: &str) -> Option<String> {
        self.items.lock().get(account).map(|text| text.expose_secret().to_owned())
    }

    fn put(&self, account: &str, text: &str) {
        self.items.lock().insert(account.to_owned(), text.into());
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock())
    }

    fn enter(&self, call: &'static str) -> Result<(), KeychainError> {
        self.calls.lock().push(call);
        let dialog = self.dialog.lock().take();
        if let Some(dialog) = dialog {
            dialog.recv().unwrap();
        }
        self.failing.lock().get(call).cloned().map_or(Ok(()), Err)
    }
}

impl Keychain for Memory {
    fn get(&self, account: &str) -> Result<Option<SecretString>, KeychainError> {
        self.enter("get")?;
        Ok(self.items.lock().get(account).cloned())
    }

    fn set(&self, account: &str, text: &SecretString) -> Result<(), KeychainError> {
        self.enter("set")?;
        if !self.forgetful {
            self.items.lock().insert(account.to_owned(), text.clone());
        }
        Ok(())
    }

    fn delete(&self, account: &str) -> Result<bool, KeychainError> {
        self.enter("delete")?;
        Ok(self.items.lock().remove(account).is_some())
    }
}

struct Bench {
    dir: TempDir,
    keychain: Arc<Memory>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Memory::default())
    }

    fn with(keychain: Memory) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), keychain: Arc::new(keychain) }
    }

    fn file(&self, keep: CredentialStorage) -> CredentialFile {
        self.patient_for(keep, LONG)
    }

    fn patient_for(&self, keep: CredentialStorage, wait: Duration) -> CredentialFile {
        let keychain: Arc<dyn Keychain> = self.keychain.clone();
        let file = CredentialFile::at(self.dir.path(), &Profile::default());
        file.with_vault(CredentialVault::of(keep, keychain, wait))
    }

    fn path(&self) -> PathBuf {
        self.file(CredentialStorage::File).path().to_path_buf()
    }

    fn fields(&self) -> Map<String, Value> {
        serde_json::from_str(&fs::read_to_string(self.path()).unwrap()).unwrap()
    }

    async fn save(
        &self,
        keep: CredentialStorage,
        mark: &str,
    ) -> Result<SavedCredential, AuthFileError> {
        login::keep(&self.file(keep), &credential(mark)).await
    }

    /// The account that is signed in, with either setting.
    fn who(&self) -> String {
        let marks = [CredentialStorage::File, CredentialStorage::Keychain].map(|keep| {
            let found = self.file(keep).load().unwrap().unwrap();
            assert_eq!(found.expires, Some(1_800_000_000));
            let secrets = [found.access_token, found.refresh_token, found.api_key];
            let secrets = secrets.map(|secret| secret.unwrap().expose_secret().to_owned());
            let mark = secrets[0].strip_prefix("access-").unwrap().to_owned();
            assert_eq!(secrets[1..], [format!("refresh-{mark}"), format!("crsr_{mark}")]);
            mark
        });
        assert_eq!(marks[0], marks[1]);
        marks[0].clone()
    }
}

fn credential(mark: &str) -> Credential {
    Credential {
        access_token: Some(format!("access-{mark}").into()),
        refresh_token: Some(format!("refresh-{mark}").into()),
        api_key: Some(format!("crsr_{mark}").into()),
        account: None,
        expires: Some(1_800_000_000),
    }
}

/// All that is on the disk.
fn all_text(dir: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all += &if path.is_dir() { all_text(&path) } else { fs::read_to_string(path).unwrap() };
    }
    all
}

fn refused() -> KeychainError {
    KeychainError::Closed("the window was closed".to_owned())
}

fn the(error: &AuthFileError) -> &KeychainError {
    let AuthFileError::Keychain(error) = error else { panic!("{error:?}") };
    error
}

#[tokio::test]
async fn secrets_are_only_in_the_keychain_item() {
    let bench = Bench::new();
    assert!(bench.file(CredentialStorage::Keychain).load().unwrap().is_none());
    assert_eq!(bench.keychain.calls(), [""; 0], "the keychain is not called");

    assert_eq!(
        bench.save(CredentialStorage::Keychain, "a").await.unwrap(),
        SavedCredential::default()
    );
    assert_eq!(bench.who(), "a");
    let on_disk = all_text(bench.dir.path());
    for secret in ["access-a", "refresh-a", "crsr_a"] {
        assert!(!on_disk.contains(secret), "{on_disk}");
    }
    let expect = serde_json::json!({
        "type": "oauth", "secrets": "keychain", "expires": 1_800_000_000_000_u64,
    });
    assert_eq!(Value::Object(bench.fields()), expect);
    let item: Value = serde_json::from_str(&bench.keychain.item("default").unwrap()).unwrap();
    let expect =
        serde_json::json!({ "access": "access-a", "refresh": "refresh-a", "apiKey": "crsr_a" });
    assert_eq!(item, expect);

    // What a credential has no more is in neither place.
    let file = bench.file(CredentialStorage::Keychain);
    login::keep(&file, &Credential::of_access_token("t")).await.unwrap();
    assert_eq!(bench.keychain.item("default").unwrap(), r#"{"access":"t"}"#);
    assert!(!bench.fields().contains_key("expires"));
}

#[tokio::test]
async fn changed_storage_takes_effect_with_the_next_write() {
    let bench = Bench::new();
    assert_eq!(bench.save(CredentialStorage::File, "a").await.unwrap(), SavedCredential::default());
    assert_eq!(bench.keychain.calls(), [""; 0], "a file needs no keychain");
    assert_eq!(bench.who(), "a");

    let saved = bench.save(CredentialStorage::Keychain, "b").await.unwrap();
    assert_eq!(saved.moved, Some(CredentialStorage::Keychain));
    assert!(saved.notes()[0].ends_with("from ibeam's file to the keychain"));
    assert_eq!(bench.keychain.calls(), ["set", "get"], "moved secrets are read back");
    assert_eq!(bench.who(), "b");
    assert!(!all_text(bench.dir.path()).contains("access-"));
    assert_eq!(
        bench.save(CredentialStorage::Keychain, "c").await.unwrap(),
        SavedCredential::default()
    );
    bench.keychain.calls();
    assert_eq!(bench.who(), "c");

    let saved = bench.save(CredentialStorage::File, "d").await.unwrap();
    assert_eq!(saved, SavedCredential { moved: Some(CredentialStorage::File), left: None });
    assert!(saved.notes()[0].ends_with("from the keychain to ibeam's file"));
    assert_eq!((bench.who().as_str(), bench.keychain.item("default")), ("d", None));
    assert!(!bench.fields().contains_key(PLACE));
    assert_eq!(bench.save(CredentialStorage::File, "e").await.unwrap(), SavedCredential::default());
}

#[tokio::test]
async fn unknown_fields_stay_in_the_file() {
    let bench = Bench::new();
    bench.save(CredentialStorage::File, "a").await.unwrap();
    let mut fields = bench.fields();
    fields.insert("later".to_owned(), 1.into());
    fs::write(bench.path(), Value::Object(fields).to_string()).unwrap();
    for keep in [CredentialStorage::Keychain, CredentialStorage::File] {
        bench.save(keep, "b").await.unwrap();
        assert_eq!(bench.fields()["later"], 1);
    }
}

#[tokio::test]
async fn failed_keychain_write_keeps_the_file() {
    let bench = Bench::new();
    bench.save(CredentialStorage::File, "old").await.unwrap();
    let before = fs::read(bench.path()).unwrap();
    bench.keychain.fail("set", refused());
    let error = bench.save(CredentialStorage::Keychain, "new").await.unwrap_err();
    assert_eq!(the(&error), &refused());
    let text = error.to_string();
    assert!(text.contains("the window was closed") && text.contains("IBEAM_CREDENTIALS=file"));
    assert_eq!(fs::read(bench.path()).unwrap(), before);
    assert_eq!(bench.who(), "old");

    // Neither does one that says that it took it, nor one that cannot say.
    let forgetful = Bench::with(Memory { forgetful: true, ..Memory::default() });
    forgetful.save(CredentialStorage::File, "old").await.unwrap();
    let error = forgetful.save(CredentialStorage::Keychain, "new").await.unwrap_err();
    assert!(matches!(the(&error), KeychainError::Failed(_)), "{error:?}");
    assert_eq!(forgetful.who(), "old");
    let bench = Bench::new();
    bench.save(CredentialStorage::File, "old").await.unwrap();
    bench.keychain.fail("get", refused());
    bench.save(CredentialStorage::Keychain, "new").await.unwrap_err();
    assert_eq!(bench.who(), "old", "the file is not asked to look elsewhere");
}

#[tokio::test]
async fn failed_keychain_renewal_keeps_the_older_secrets() {
    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "old").await.unwrap();
    bench.keychain.fail("set", refused());
    bench.save(CredentialStorage::Keychain, "new").await.unwrap_err();
    assert_eq!(bench.who(), "old");
}

#[tokio::test]
async fn failed_file_write_keeps_the_old_secrets() {
    /// Puts a folder in the file's place at the last moment; a file cannot replace it.
    #[derive(Debug)]
    struct Sabotage(PathBuf, Memory);

    impl Keychain for Sabotage {
        fn get(&self, account: &str) -> Result<Option<SecretString>, KeychainError> {
            self.1.get(account)
        }

        fn set(&self, account: &str, text: &SecretString) -> Result<(), KeychainError> {
            fs::rename(&self.0, self.0.with_extension("aside")).unwrap();
            fs::create_dir(&self.0).unwrap();
            self.1.set(account, text)
        }

        fn delete(&self, _: &str) -> Result<bool, KeychainError> {
            unreachable!()
        }
    }

    let bench = Bench::new();
    bench.save(CredentialStorage::File, "old").await.unwrap();
    let path = bench.path();
    let keychain = Arc::new(Sabotage(path.clone(), Memory::default()));
    let file = bench.file(CredentialStorage::File).with_vault(CredentialVault::of(
        CredentialStorage::Keychain,
        keychain,
        LONG,
    ));
    let error = login::keep(&file, &credential("new")).await.unwrap_err();
    assert!(matches!(error, AuthFileError::File(FileError::Io { what: "write", .. })), "{error:?}");
    fs::remove_dir(&path).unwrap();
    fs::rename(path.with_extension("aside"), path).unwrap();
    assert_eq!(bench.who(), "old");
}

#[tokio::test]
async fn copy_left_in_the_keychain_is_reported() {
    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "a").await.unwrap();
    bench.keychain.fail("delete", refused());
    let saved = bench.save(CredentialStorage::File, "b").await.unwrap();
    assert_eq!(
        saved,
        SavedCredential { moved: Some(CredentialStorage::File), left: Some(refused()) }
    );
    assert!(saved.notes()[1].contains("ibeam logout"), "{saved:?}");
    bench.keychain.calls();
    assert_eq!(bench.who(), "b");
    assert_eq!(bench.keychain.calls(), [""; 0], "and is not read any more");

    // The next write finds it, or signing out.
    let again = bench.save(CredentialStorage::File, "c").await.unwrap();
    assert_eq!(again, SavedCredential { moved: None, left: Some(refused()) });
    bench.keychain.failing.lock().clear();
    assert_eq!(bench.save(CredentialStorage::File, "d").await.unwrap(), SavedCredential::default());
    assert_eq!((bench.who().as_str(), bench.keychain.item("default")), ("d", None));
    assert!(!bench.fields().contains_key(PLACE));

    bench.save(CredentialStorage::Keychain, "e").await.unwrap();
    bench.keychain.fail("delete", refused());
    bench.save(CredentialStorage::File, "f").await.unwrap();
    bench.keychain.failing.lock().clear();
    assert!(bench.file(CredentialStorage::File).lock(LONG).await.unwrap().remove().unwrap());
    assert_eq!(bench.keychain.item("default"), None);
}

#[tokio::test]
async fn sign_out_deletes_file_and_keychain_item() {
    for (kept, chosen) in [
        (CredentialStorage::File, CredentialStorage::File),
        (CredentialStorage::File, CredentialStorage::Keychain),
        (CredentialStorage::Keychain, CredentialStorage::File),
        (CredentialStorage::Keychain, CredentialStorage::Keychain),
    ] {
        let bench = Bench::new();
        bench.save(kept, "a").await.unwrap();
        let lock = bench.file(chosen).lock(LONG).await.unwrap();
        assert!(lock.remove().unwrap());
        assert!(!bench.path().exists() && bench.keychain.item("default").is_none());
        assert!(!lock.remove().unwrap());
    }
    // The file may be gone already, and items of other programs are not touched.
    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "a").await.unwrap();
    bench.keychain.put("work", "theirs");
    fs::remove_file(bench.path()).unwrap();
    assert!(bench.file(CredentialStorage::Keychain).lock(LONG).await.unwrap().remove().unwrap());
    assert_eq!(bench.keychain.item("work").unwrap(), "theirs");
}

#[tokio::test]
async fn sign_out_reports_what_it_could_not_delete() {
    let none = KeychainError::Unavailable("no bus".to_owned());
    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "a").await.unwrap();
    bench.keychain.fail("delete", none.clone());
    let error = bench.file(CredentialStorage::File).lock(LONG).await.unwrap().remove().unwrap_err();
    assert_eq!(the(&error), &none);
    assert!(bench.path().exists(), "only the file refers to the item");
    bench.keychain.heal();
    assert!(bench.file(CredentialStorage::File).lock(LONG).await.unwrap().remove().unwrap());
    assert!(!bench.path().exists() && bench.keychain.item("default").is_none());

    // Without a keychain item, no error mentions the keychain.
    bench.save(CredentialStorage::File, "b").await.unwrap();
    bench.keychain.calls();
    assert!(bench.file(CredentialStorage::File).lock(LONG).await.unwrap().remove().unwrap());
    assert_eq!(bench.keychain.calls(), [""; 0]);
}

#[tokio::test]
async fn missing_or_damaged_item_is_fixed_by_a_login() {
    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "a").await.unwrap();
    bench.keychain.items.lock().clear();
    let error = bench.file(CredentialStorage::File).load().unwrap_err();
    assert_eq!(the(&error), &KeychainError::Gone("default".to_owned()));
    for (text, expect) in [
        ("MARKED", "not a JSON object"),
        ("[\"MARKED\"]", "not a JSON object"),
        ("{\"other\":\"MARKED\"}", "no token"),
        ("{\"access\":null}", "no token"),
    ] {
        bench.keychain.put("default", text);
        let error = bench.file(CredentialStorage::File).load().unwrap_err();
        let words = format!("{error} {error:?}");
        assert!(words.contains(expect) && words.contains("ibeam login"), "{words}");
        assert!(!words.contains("MARKED"), "{words}");
    }
    bench.save(CredentialStorage::Keychain, "b").await.unwrap();
    assert_eq!(bench.who(), "b");
}

#[tokio::test]
async fn move_by_another_process_during_a_load_is_noticed() {
    /// Moves the secrets to the file as soon as it is asked for them.
    #[derive(Debug)]
    struct Moving(PathBuf);

    impl Keychain for Moving {
        fn get(&self, _: &str) -> Result<Option<SecretString>, KeychainError> {
            fs::write(&self.0, r#"{"access":"moved"}"#).unwrap();
            Ok(None)
        }

        fn set(&self, _: &str, _: &SecretString) -> Result<(), KeychainError> {
            unreachable!()
        }

        fn delete(&self, _: &str) -> Result<bool, KeychainError> {
            unreachable!()
        }
    }

    let bench = Bench::new();
    bench.save(CredentialStorage::Keychain, "a").await.unwrap();
    let moving = Arc::new(Moving(bench.path()));
    let file = bench.file(CredentialStorage::File).with_vault(CredentialVault::of(
        CredentialStorage::File,
        moving,
        LONG,
    ));
    let found = file.load().unwrap().unwrap();
    assert_eq!(found.access_token.unwrap().expose_secret(), "moved");
}

#[path = "trouble_tests.rs"]
mod trouble;
