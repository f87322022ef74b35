//! The keychain of this system: the Secret Service of a Linux or BSD desktop, the login
//! keychain of macOS, the Credential Manager of Windows.

use super::{Keychain, KeychainError};

#[derive(Debug)]
pub(super) struct SystemKeychain;

#[cfg(not(feature = "keychain"))]
mod absent {
    use secrecy::SecretString;

    use super::{Keychain, KeychainError, SystemKeychain};

    impl Keychain for SystemKeychain {
        fn get(&self, _: &str) -> Result<Option<SecretString>, KeychainError> {
            Err(KeychainError::NotBuilt)
        }

        fn set(&self, _: &str, _: &SecretString) -> Result<(), KeychainError> {
            Err(KeychainError::NotBuilt)
        }

        fn delete(&self, _: &str) -> Result<bool, KeychainError> {
            Err(KeychainError::NotBuilt)
        }
    }
}

#[cfg(feature = "keychain")]
mod built {
    #[cfg(target_os = "macos")]
    use apple_native_keyring_store::keychain::Store;
    use keyring_core::{Entry, Error, api::CredentialStoreApi as _};
    use secrecy::{ExposeSecret as _, SecretString};
    #[cfg(windows)]
    use windows_native_keyring_store::Store;
    #[cfg(all(unix, not(target_os = "macos")))]
    use zbus_secret_service_keyring_store::Store;

    use super::{super::SERVICE, Keychain, KeychainError, SystemKeychain};

    impl Keychain for SystemKeychain {
        fn get(&self, account: &str) -> Result<Option<SecretString>, KeychainError> {
            let bytes = match entry(account)?.get_secret() {
                Err(Error::NoEntry) => return Ok(None),
                outcome => outcome.map_err(|error| failed(&error))?,
            };
            let what = "it is not text".to_owned();
            let malformed = KeychainError::Malformed { account: account.to_owned(), what };
            String::from_utf8(bytes).map(|text| Some(text.into())).map_err(|_| malformed)
        }

        fn set(&self, account: &str, text: &SecretString) -> Result<(), KeychainError> {
            // As bytes: as a password, Windows would take twice the room for it.
            let bytes = text.expose_secret().as_bytes();
            entry(account)?.set_secret(bytes).map_err(|error| failed(&error))
        }

        fn delete(&self, account: &str) -> Result<bool, KeychainError> {
            match entry(account)?.delete_credential() {
                Err(Error::NoEntry) => Ok(false),
                outcome => outcome.map(|()| true).map_err(|error| failed(&error)),
            }
        }
    }

    /// Connects each time: the service may have been started, stopped or restarted.
    fn entry(account: &str) -> Result<Entry, KeychainError> {
        let store = Store::new().map_err(|error| match error {
            Error::PlatformFailure(why) => KeychainError::Unavailable(why.to_string()),
            error => failed(&error),
        })?;
        store.build(SERVICE, account, None).map_err(|error| failed(&error))
    }

    /// The library's own text may quote what was in the item.
    fn failed(error: &Error) -> KeychainError {
        match error {
            Error::NoStorageAccess(why) => KeychainError::Closed(why.to_string()),
            Error::PlatformFailure(why) => KeychainError::Failed(why.to_string()),
            Error::TooLong(_, limit) => KeychainError::TooLong(*limit),
            Error::Ambiguous(items) => {
                let count = items.len();
                KeychainError::Failed(format!("it has {count} items where there should be one"))
            }
            Error::NotSupportedByStore(why) => KeychainError::Failed(why.clone()),
            _ => KeychainError::Failed("it returned unexpected data".to_owned()),
        }
    }
}
