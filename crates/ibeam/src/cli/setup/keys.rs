//! The key that a client is set up with.

use secrecy::SecretString;

use super::{own_key, refused};
use crate::{
    cli::Refusal,
    clients::{
        ClientSpec,
        engine::{MadeKey, SetupEngine},
    },
};
use ibeam_server::{
    clock,
    config::Config,
    keys::{self, KeyFile, KeyPolicy},
};

/// Where the key for the client is from.
pub(super) enum SetupKeys<'a> {
    /// None is needed, or it is another gateway's.
    Given(SecretString),
    /// One that was made by an earlier setup and is still good.
    Earlier(MadeKey),
    /// One is needed and will be made.
    New(KeyFile<'a>),
}

/// Stands for a key that is not there yet.
const TO_COME: &str = "ibk_to_be_made";

impl<'a> SetupKeys<'a> {
    pub(super) fn of(
        config: &'a Config,
        elsewhere: bool,
        engine: &SetupEngine,
        client: &ClientSpec,
    ) -> anyhow::Result<Self> {
        let door = keys::policy(config.access.keys_file.as_deref())
            .map_err(|error| crate::cli::keys::refused(&error))?;
        let asked = config.access.api_key.is_some() || door != KeyPolicy::Open;
        let path = config.access.keys_file.as_deref().filter(|_| asked && !elsewhere);
        let Some(path) = path else { return Ok(Self::Given(own_key(config))) };
        let file = KeyFile::at(path);
        let known = file.list().map_err(|error| crate::cli::keys::refused(&error))?;
        let earlier = engine.key(client).map_err(|error| refused(&error, client))?;
        Ok(match earlier.filter(|made| known.iter().any(|key| key.name == made.name)) {
            Some(made) => Self::Earlier(made),
            None => Self::New(file),
        })
    }

    pub(super) fn shown(&self) -> SecretString {
        match self {
            Self::Given(key) => key.clone(),
            Self::Earlier(made) => made.key(),
            Self::New(_) => SecretString::from(TO_COME),
        }
    }

    pub(super) fn are_to_come(&self) -> bool {
        matches!(self, Self::New(_))
    }

    pub(super) fn make(&self, client: &ClientSpec) -> anyhow::Result<SetupKey<'_, 'a>> {
        Ok(match self {
            Self::Given(key) => SetupKey::Given(key.clone()),
            Self::Earlier(made) => SetupKey::Earlier(made.clone()),
            Self::New(file) => {
                let name = free_name(file, client.name)?;
                let key = file
                    .add(&name, None, clock::unix_seconds())
                    .map_err(|error| crate::cli::keys::refused(&error))?;
                SetupKey::New(MadeKey::new(name, &key), file)
            }
        })
    }
}

/// The client's name, with a number where the user has such a key already.
fn free_name(file: &KeyFile<'_>, name: &str) -> anyhow::Result<String> {
    let known = file.list().map_err(|error| crate::cli::keys::refused(&error))?;
    let free = |name: &String| known.iter().all(|key| key.name != *name);
    let numbered = (2..100).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(free).ok_or_else(|| {
        Refusal::new("this client already has too many keys").hint("`ibeam keys list`").into()
    })
}

pub(super) enum SetupKey<'k, 'a> {
    Given(SecretString),
    Earlier(MadeKey),
    New(MadeKey, &'k KeyFile<'a>),
}

impl SetupKey<'_, '_> {
    pub(super) fn key(&self) -> SecretString {
        match self {
            Self::Given(key) => key.clone(),
            Self::Earlier(made) | Self::New(made, _) => made.key(),
        }
    }

    pub(super) fn record(&self) -> Option<MadeKey> {
        match self {
            Self::Given(_) => None,
            Self::Earlier(made) | Self::New(made, _) => Some(made.clone()),
        }
    }

    /// Whether it is that key.
    pub(super) fn is(&self, other: &MadeKey) -> bool {
        match self {
            Self::Given(_) => false,
            Self::Earlier(made) | Self::New(made, _) => made.name == other.name,
        }
    }

    /// The setup did not come to be.
    pub(super) fn forget(&self) {
        if let Self::New(made, file) = self {
            // The failure of the setup is what is told.
            let _ = file.revoke(&made.name);
        }
    }
}
