//! Errors for callers that cannot get a token.

use std::fmt;

use ibeam_core::{
    auth::refresh::RefreshError,
    error::{ErrorCode, TurnError},
};

use super::{AccessTokens, Holder};
use crate::{
    auth::{AuthFileError, Profile},
    net::chain,
};

/// The command that helps, for a profile.
#[must_use]
pub fn login_command(profile: &Profile) -> String {
    if profile.is_default() {
        "ibeam login".to_owned()
    } else {
        format!("ibeam login --profile {profile}")
    }
}

impl AccessTokens {
    fn command(&self) -> String {
        match &self.inner.holder {
            Holder::Own(file) => login_command(file.profile()),
            Holder::Fixed(_) | Holder::Key(_) | Holder::Borrowed(..) => "ibeam login".to_owned(),
            Holder::Delegated(_) => "ibeam login --backend cli".to_owned(),
        }
    }

    pub(super) fn nobody(&self) -> TurnError {
        let text = format!(
            "Not signed in to Cursor. Run `{}`, or try ibeam without an account: `ibeam up --sim`.",
            self.command()
        );
        TurnError::new(ErrorCode::NotAuthenticated, text)
    }

    pub(super) fn signed_out(&self, error: &RefreshError) -> TurnError {
        let text = match &self.inner.holder {
            Holder::Key(_) => format!(
                "Cursor refused the API key in CURSOR_API_KEY. Make a new one at cursor.com, or \
                 unset it and run `{}`.",
                self.command()
            ),
            _ => format!("{error}. Run `{}`.", self.command()),
        };
        TurnError::new(ErrorCode::NotAuthenticated, text).cause(error.to_string())
    }

    pub(super) fn refused_new(&self) -> TurnError {
        let text = format!(
            "Cursor rejected a token that it has just issued. If this continues, run `{}`.",
            self.command()
        );
        TurnError::new(ErrorCode::NotAuthenticated, text)
    }
}

pub(super) fn refused_fixed(place: &str) -> TurnError {
    let text = format!(
        "Cursor refused the access token from {place}. Replace it, or remove it and run `ibeam \
         login`; `ibeam config show` shows where it is set, such as in CURSOR_ACCESS_TOKEN."
    );
    TurnError::new(ErrorCode::NotAuthenticated, text)
}

pub(super) fn unavailable(why: &str) -> TurnError {
    let text = format!("The sign-in cannot be renewed now: {why}. Try again later.");
    TurnError::new(ErrorCode::Unavailable, text)
}

pub(super) fn unusable(error: &impl fmt::Display) -> TurnError {
    let text = format!("The sign-in cannot be used: {error}");
    TurnError::new(ErrorCode::NotAuthenticated, text)
}

/// ibeam's own file. That it cannot be read or locked now says nothing about the sign-in.
pub(super) fn unusable_file(error: &AuthFileError) -> TurnError {
    if !error.is_temporary() {
        return unusable(error);
    }
    unreadable(&chain(error))
}

pub(super) fn unreadable(why: &str) -> TurnError {
    let text = format!("The sign-in cannot be read now: {why}.");
    TurnError::new(ErrorCode::Unavailable, text)
}
