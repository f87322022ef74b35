//! The user of this process: where credentials for the settings are searched.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    AccessTokens, ConsentKind, Consents, CredentialFile, CredentialPaths, CredentialSource,
    DiscoverError, Discovery, Profile, discover,
    discover::foreign_files,
    http::AuthHttp,
    tokens::{NotRead, Reread},
};
use crate::{
    config::{Config, CredentialStorage, Env, environment},
    files::FileError,
    tasks::Tasks,
};

#[derive(Clone)]
pub struct LocalUser {
    env: Env,
    home: PathBuf,
    places: CredentialPaths,
    profile: Profile,
    keep: CredentialStorage,
}

/// The environment may hold secrets.
impl fmt::Debug for LocalUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { places, profile, .. } = self;
        let mut out = f.debug_struct("LocalUser");
        out.field("places", places).field("profile", profile).finish_non_exhaustive()
    }
}

/// Without a home there is nowhere to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the home directory is unknown, so credentials cannot be found; set HOME")]
pub struct NoHome;

impl LocalUser {
    /// As this process was started.
    ///
    /// # Errors
    /// The user has no home directory.
    pub fn of(config: &Config) -> Result<Self, NoHome> {
        let home = etcetera::home_dir().map_err(|_| NoHome)?;
        let here = Self::with(environment(), &home, config.account.profile.clone());
        Ok(Self { keep: config.account.credentials, ..here })
    }

    #[must_use]
    pub fn with(env: Env, home: &Path, profile: Profile) -> Self {
        let places = CredentialPaths::of(&env, home);
        Self { env, home: home.to_path_buf(), places, profile, keep: CredentialStorage::File }
    }

    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// ibeam's own directory.
    #[must_use]
    pub fn config_dir(&self) -> &Path {
        self.places.config()
    }

    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Files of other programs that may hold a credential, there or not.
    #[must_use]
    pub fn foreign_files(&self) -> Vec<(ConsentKind, PathBuf)> {
        foreign_files(&self.places)
    }

    /// ibeam's own file of the profile.
    #[must_use]
    pub fn file(&self) -> CredentialFile {
        CredentialFile::at(self.places.config(), &self.profile).keeping(self.keep)
    }

    /// The user's consents to read files of other programs.
    ///
    /// # Errors
    /// The consent file cannot be used.
    pub fn consents(&self) -> Result<Consents, FileError> {
        Consents::load(self.places.config())
    }

    /// Looks for the credential.
    ///
    /// # Errors
    /// One is there, and cannot be used.
    pub fn discover(&self) -> Result<Discovery, DiscoverError> {
        let search = |consents| discover(&self.env, &self.home, &self.profile, consents);
        match self.consents() {
            Ok(consents) => search(&consents),
            // What it says matters only where another program's file would be next.
            Err(error) => {
                let discovery = search(&Consents::none(self.places.config()))?;
                let needless = discovery.found.is_some() || discovery.refused.is_empty();
                if needless { Ok(discovery) } else { Err(error.into()) }
            }
        }
    }
}

/// The token of these settings, else of the credential that is found on this machine. A credential
/// that cannot be used is not skipped: requests fail with the reason.
#[must_use]
pub fn tokens(config: &Config, http: AuthHttp, tasks: &Tasks) -> AccessTokens {
    if let Some(token) = &config.account.access_token {
        return AccessTokens::fixed(token.clone(), "the setting `access_token`", tasks);
    }
    let here = match LocalUser::of(config) {
        Ok(here) => here,
        Err(error) => {
            let why: Reread = Arc::new(move || Err(NotRead::Unusable(error.to_string())));
            return AccessTokens::unusable(
                CredentialSource::Own(config.account.profile.clone()),
                why,
                tasks,
            );
        }
    };
    let file = here.file();
    let found = here.discover();
    let reread: Reread = Arc::new(move || Ok(here.discover()?.found));
    match found {
        Ok(Discovery { found: Some(found), .. }) => {
            AccessTokens::found(found, &file, reread, http, tasks)
        }
        Err(DiscoverError::Variable(_)) => {
            AccessTokens::unusable(CredentialSource::ApiKeyEnv, reread, tasks)
        }
        // ibeam's own file may be created or fixed while the program runs.
        Ok(Discovery { found: None, .. }) | Err(DiscoverError::File(_)) => {
            AccessTokens::own(file, http, tasks)
        }
    }
}
