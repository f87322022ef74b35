//! Where ibeam keeps its own credentials.

use std::str::FromStr;

/// How to get a program that can use a keychain.
pub(crate) const KEYCHAIN_BUILD: &str = "cargo build --release --features keychain";

/// Where the user wants the secrets to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CredentialStorage {
    #[default]
    File,
    Keychain,
}

impl FromStr for CredentialStorage {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "file" => Ok(Self::File),
            "keychain" if cfg!(feature = "keychain") => Ok(Self::Keychain),
            "keychain" => Err(format!("needs an ibeam built with `{KEYCHAIN_BUILD}`")),
            _ => Err("must be `file` or `keychain`".to_owned()),
        }
    }
}
