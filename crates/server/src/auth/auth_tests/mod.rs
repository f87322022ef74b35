mod consent;
mod discover;
mod file;
mod foreign;
mod places;
mod processes;
#[cfg(target_os = "linux")]
mod strace;
mod wire;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;

use super::*;
use crate::{config::Env, files::FileError};

/// A user's home, with nothing in it.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        // Characters that a URI or a shell would take for something else.
        let dir = tempfile::Builder::new().prefix("a b'c%3f?d#").tempdir().unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn at(&self, relative: &str) -> PathBuf {
        self.path().join(relative)
    }

    fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.at(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// ibeam's own directory in it.
    fn config(&self) -> PathBuf {
        CredentialPaths::of(&Env::new(), self.path()).config().to_path_buf()
    }

    fn file(&self, profile: &str) -> CredentialFile {
        CredentialFile::at(&self.config(), &profile.parse().unwrap())
    }

    async fn save(&self, profile: &str, credential: &Credential) {
        let lock = self.file(profile).lock(SHORT).await.unwrap();
        lock.save(credential).unwrap();
    }

    fn consents(&self, kinds: &[ConsentKind]) -> Consents {
        let mut consents = Consents::load(&self.config()).unwrap();
        for kind in kinds {
            consents.grant(*kind, 1_700_000_000).unwrap();
        }
        consents
    }
}

/// No other process holds the lock in these tests.
const SHORT: Duration = Duration::from_secs(5);

fn env(pairs: &[(&str, &str)]) -> Env {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A credential that differs from others by its mark.
fn credential(mark: &str) -> Credential {
    Credential {
        access_token: Some(format!("access-{mark}").into()),
        refresh_token: Some(format!("refresh-{mark}").into()),
        api_key: None,
        account: Some(Account { email: Some(format!("{mark}@example.com")), sub: None }),
        expires: Some(1_800_000_000),
    }
}

/// All of it, to compare.
type Plain = (Option<String>, Option<String>, Option<String>, Option<Account>, Option<u64>);

fn plain(credential: &Credential) -> Plain {
    let shown = |secret: &Option<SecretString>| {
        secret.as_ref().map(|secret| secret.expose_secret().to_owned())
    };
    (
        shown(&credential.access_token),
        shown(&credential.refresh_token),
        shown(&credential.api_key),
        credential.account.clone(),
        credential.expires,
    )
}

/// The three secrets, which most tests are about.
fn secrets(credential: &Credential) -> [String; 3] {
    let (access, refresh, key, ..) = plain(credential);
    [access, refresh, key].map(Option::unwrap_or_default)
}

/// An error as a user sees it, causes and all.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    crate::net::chain(error)
}

#[tokio::test]
async fn debug_output_contains_no_secret() {
    let home = Home::new();
    let secret = Credential {
        access_token: Some("MARKED-access".into()),
        refresh_token: Some("MARKED-refresh".into()),
        api_key: Some("MARKED-key".into()),
        ..Credential::default()
    };
    home.save("default", &secret).await;
    let lock = home.file("default").lock(SHORT).await.unwrap();
    let discovery = super::discover(
        &Env::new(),
        home.path(),
        &Profile::default(),
        &Consents::none(&home.config()),
    )
    .unwrap();
    let mut all = format!("{secret:?} {lock:?} {discovery:?} {:#?}", lock.load());
    assert!(discovery.found.is_some());
    for broken in [r#"{"type":"oauth","access":"MARKED a"}"#, r#"{"access":"MARKED"#, "\"MARKED\""]
    {
        fs::write(home.file("default").path(), broken).unwrap();
        let error = home.file("default").load().unwrap_err();
        all.push_str(&format!("{error} {error:?}"));
    }
    assert!(!all.contains("MARKED"), "{all}");
}
