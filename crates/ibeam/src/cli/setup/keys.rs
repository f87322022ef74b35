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

/// The key that a client gets.
pub(super) struct SetupKey<'a> {
    key: SecretString,
    /// It was created for this client, now or by an earlier setup.
    made: Option<MadeKey>,
    /// Where this setup creates one, if one is needed.
    file: Option<KeyFile<'a>>,
}

/// Stands for a key that is not there yet.
const TO_COME: &str = "ibk_to_be_made";

impl<'a> SetupKey<'a> {
    pub(super) fn of(
        config: &'a Config,
        elsewhere: bool,
        engine: &SetupEngine,
        client: &ClientSpec,
    ) -> anyhow::Result<Self> {
        let policy = keys::policy(config.keys_file.as_deref())
            .map_err(|error| crate::cli::keys::refused(&error))?;
        let asked = config.api_key.is_some() || policy != KeyPolicy::Open;
        let path = config.keys_file.as_deref().filter(|_| asked && !elsewhere);
        let Some(path) = path else { return Ok(Self::given(own_key(config))) };
        let file = KeyFile::at(path);
        let known = file.list().map_err(|error| crate::cli::keys::refused(&error))?;
        let earlier = engine.key(client).map_err(|error| refused(&error, client))?;
        Ok(match earlier.filter(|made| known.iter().any(|key| key.name == made.name)) {
            Some(made) => Self { key: made.key(), made: Some(made), file: None },
            None => Self { key: SecretString::from(TO_COME), made: None, file: Some(file) },
        })
    }

    /// One that is not created for the client: none is needed, or it is another gateway's.
    pub(super) fn given(key: SecretString) -> Self {
        Self { key, made: None, file: None }
    }

    pub(super) fn key(&self) -> SecretString {
        self.key.clone()
    }

    pub(super) fn is_to_come(&self) -> bool {
        self.file.is_some() && self.made.is_none()
    }

    /// Creates it, if it is not there yet.
    pub(super) fn make(mut self, client: &ClientSpec) -> anyhow::Result<Self> {
        if let (Some(file), None) = (&self.file, &self.made) {
            let name = free_name(file, client.name)?;
            self.key = file
                .add(&name, None, clock::unix_seconds())
                .map_err(|error| crate::cli::keys::refused(&error))?;
            self.made = Some(MadeKey::new(name, &self.key));
        }
        Ok(self)
    }

    pub(super) fn record(&self) -> Option<MadeKey> {
        self.made.clone()
    }

    /// Whether it is that key.
    pub(super) fn is(&self, other: &MadeKey) -> bool {
        self.made.as_ref().is_some_and(|made| made.name == other.name)
    }

    /// Revokes a key that was created for a setup which failed.
    pub(super) fn forget(&self) {
        if let (Some(file), Some(made)) = (&self.file, &self.made) {
            // The failure of the setup is what is reported.
            let _ = file.revoke(&made.name);
        }
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
