//! `ibeam logout`: forgets the sign-in of a profile, and what was consented to.

use std::process::ExitCode;

use clap::Args;

use super::{Global, UpstreamOptions, block_on, children, options::sign_in_help, say};
use ibeam_server::{
    auth::{ConsentKind, Here, LOCK_WAIT},
    config::{CredentialStorage, RawConfig},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A running gateway refuses new requests until the next sign-in; answers that are being
written are finished. Cursor itself is not notified: other programs on this machine stay
signed in.

Examples:
  ibeam logout
  ibeam logout --profile work
  ibeam logout --backend cli            sign out of the Cursor CLI itself")]
pub(super) struct Logout {
    #[arg(long, value_name = "NAME", help = sign_in_help())]
    backend: Option<String>,
}

impl Logout {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let upstream = UpstreamOptions::through(self.backend.as_ref());
        let config = global.load_quietly(RawConfig::default(), &upstream)?;
        if config.uses_cursor_agent() {
            let code = children::hand_over(&config, "logout")?;
            children::tell(&config);
            return Ok(code);
        }
        let here = Here::of(&config)?;
        let file = here.file();
        // Where there is nothing, not even a lock is made.
        let nothing = config.credentials == CredentialStorage::File && !file.path().exists();
        let removed = match nothing {
            true => Ok(false),
            false => block_on(async { Ok(file.lock(LOCK_WAIT).await?.remove()?) }),
        };
        let mut revoked = Vec::new();
        if here.profile().is_default() {
            let mut consents = here.consents()?;
            for kind in ConsentKind::ALL {
                if consents.revoke(kind)? {
                    revoked.push(kind.owner());
                }
            }
        }
        let (removed, profile) = (removed?, here.profile());
        say(&match removed {
            true => format!("Signed out (profile `{profile}`)."),
            false => format!("Not signed in (profile `{profile}`)."),
        });
        if !revoked.is_empty() {
            say(&format!("ibeam no longer reads the sign-in of {}.", revoked.join(" or ")));
        }
        if config.access_token.is_some() {
            say("note: an access token is still set; `ibeam config show` shows where");
        } else if let Ok(discovery) = here.discover()
            && let Some(found) = discovery.found
        {
            say(&format!("note: {} is still there and will be used", found.source));
        }
        Ok(ExitCode::SUCCESS)
    }
}
