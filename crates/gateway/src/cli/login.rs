//! `ibeam login`: signing in with the browser, or consenting to use a sign-in that is
//! already on this machine.

use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use ibeam_core::auth::poll::PollError;
use qrcode::{QrCode, render::unicode::Dense1x2};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Global, INTERRUPTED, Refusal, Upstream, block_on, print, say, whoami};
use crate::{
    app::connector,
    auth::{
        Credential, CredentialFile, Here, Kind,
        http::AuthHttp,
        login::{Pending, keep},
    },
    clock,
    config::{Config, RawConfig},
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam login
  ibeam login --no-browser              over ssh: open the link on another device
  ibeam login --profile work            a second account, used where you name it
  ibeam login --use cli                 use the sign-in of the Cursor CLI")]
pub(super) struct Login {
    /// Only print the link
    #[arg(long)]
    no_browser: bool,
    /// Let ibeam read a sign-in of another program: cli, keychain, ide, legacy or opencode
    #[arg(long = "use", value_name = "SOURCE")]
    source: Option<Kind>,
    /// Print who is signed in as JSON
    #[arg(long)]
    json: bool,
}

impl Login {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let config = global.load_quietly(RawConfig::default(), &Upstream::default())?;
        let here = Here::of(&config)?;
        let account = match self.source {
            Some(kind) => {
                consent(&here, kind)?;
                block_on(whoami::in_use(&config, &here))?
            }
            None => {
                let way = Way { browser: !self.no_browser };
                block_on(async {
                    sign_in(&config, &here.file(), way).await?;
                    whoami::kept(&config, &here).await
                })?
            }
        };
        if self.json {
            print(&account.json()?)?;
        } else {
            say(&account.greeting());
        }
        if config.access_token.is_some() {
            say("note: an access token is set, too (`ibeam config show`), and goes before this");
        } else if std::env::var_os("CURSOR_API_KEY").is_some_and(|key| !key.is_empty()) {
            say("note: CURSOR_API_KEY is set, too, and goes before this");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How the user gets to the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Open it here, unless this is somebody else's screen.
    pub(super) browser: bool,
}

/// Consents to a source. One that has nothing to offer is not consented to.
fn consent(here: &Here, kind: Kind) -> anyhow::Result<()> {
    if !here.profile().is_default() {
        let text = "other programs know no profiles: `--use` is for the default one";
        return Err(Refusal::new(text).into());
    }
    let mut consents = here.consents()?;
    let had = consents.has(kind);
    consents.grant(kind, clock::unix_seconds())?;
    let discovery = here.discover()?;
    let unusable = discovery.refused.iter().find(|refused| refused.kind == kind);
    let unusable = unusable.map(ToString::to_string);
    match discovery.found {
        Some(found) if found.source.kind() == Some(kind) => return Ok(()),
        // It is used as soon as what goes before it is gone.
        Some(found) => {
            say(&format!("note: {} goes before it", found.source));
            return Ok(());
        }
        None => {}
    }
    if !had {
        consents.revoke(kind)?;
    }
    let none = || format!("nobody is signed in to {} on this machine", kind.owner());
    Err(Refusal::new(unusable.unwrap_or_else(none)).hint("sign in with `ibeam login`").into())
}

/// Signs in with the browser and keeps what comes of it.
pub(super) async fn sign_in(
    config: &Config,
    file: &CredentialFile,
    way: Way,
) -> anyhow::Result<Credential> {
    // Before the user goes to the browser for nothing.
    file.reach()?;
    let tasks = Tasks::new();
    let http = AuthHttp::new(&connector(config), &config.api, &tasks);
    let pending = Pending::begin(http);
    invite(pending.url(), way);
    let waiting = Waiting { deadline: pending.deadline(), live: is_live() };
    let outcome = tokio::select! {
        biased;
        outcome = pending.wait() => outcome,
        _ = tokio::signal::ctrl_c() => Err(PollError::Cancelled),
        () = waiting.show() => Err(PollError::TimedOut),
    };
    waiting.clear();
    let credential = outcome.map_err(|error| refusal(&error))?;
    for note in keep(file, &credential).await?.notes() {
        say(&format!("note: {note}"));
    }
    Ok(credential)
}

fn refusal(error: &PollError) -> Refusal {
    let refusal = Refusal::new(error.to_string());
    match error {
        PollError::Refused(_) => refusal.hint("ask the administrator of your Cursor team"),
        PollError::TimedOut => refusal.hint("run `ibeam login` again; the link works once"),
        PollError::GaveUp(_) => {
            refusal.hint("check the network and a proxy (HTTPS_PROXY), then run it again")
        }
        PollError::Cancelled => Refusal { code: INTERRUPTED, ..refusal },
    }
}

/// Shows the link, and opens it where that is of use.
fn invite(url: &str, way: Way) {
    let far = std::env::var_os("SSH_CONNECTION").is_some() || std::env::var_os("SSH_TTY").is_some();
    let opened = way.browser && !far && open::that_detached(url).is_ok();
    if opened {
        say(&format!("Your browser opens to sign in to Cursor. If it does not, open\n\n  {url}\n"));
        return;
    }
    say(&format!("Open this link to sign in to Cursor, on any device:\n\n  {url}\n"));
    if std::io::stderr().is_terminal()
        && let Some(code) = picture(url)
    {
        say(&code);
    }
}

/// The link for a phone's camera. A filled cell is light: most terminals are dark.
fn picture(url: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(url, qrcode::EcLevel::L).ok()?;
    let mut picture = code.render::<Dense1x2>();
    Some(picture.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}

/// Whether a line can be written over.
fn is_live() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Shows how much time is left.
#[derive(Clone, Copy)]
struct Waiting {
    deadline: Instant,
    live: bool,
}

impl Waiting {
    async fn show(&self) {
        const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        let mut frames = FRAMES.iter().cycle();
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The login itself has the last word on this.
                sleep_until(self.deadline + Duration::from_secs(60)).await;
                return;
            }
            let text = format!("Waiting for you to sign in, {} left.", clock_face(left));
            if self.live {
                let frame = frames.next().copied().unwrap_or_default();
                write_over(&format!("{frame} {text} Ctrl-C stops."));
                sleep(Duration::from_millis(120).min(left)).await;
            } else {
                say(&text);
                sleep(Duration::from_secs(60).min(left)).await;
            }
        }
    }

    fn clear(&self) {
        if self.live {
            write_over("");
        }
    }
}

/// Puts a text in place of the line that is there.
fn write_over(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
}

/// `23:05`.
fn clock_face(left: Duration) -> String {
    let seconds = left.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_fits_on_a_screen_as_a_picture() {
        let url = format!("https://cursor.com/loginDeepControl?challenge={}", "x".repeat(130));
        let picture = picture(&url).unwrap();
        assert!(picture.lines().count() <= 40, "{picture}");
        assert!(picture.starts_with("████"), "the margin is light: {picture}");
        assert!(picture.lines().all(|line| line.chars().count() <= 78), "{picture}");
    }

    #[test]
    fn time_is_told_as_clocks_do() {
        assert_eq!(clock_face(Duration::from_secs(1385)), "23:05");
        assert_eq!(clock_face(Duration::from_secs(9)), "0:09");
    }

    #[test]
    fn each_failure_says_what_helps() {
        let text = refusal(&PollError::Refused("Use SSO".into()));
        assert!(text.message.contains("Use SSO") && text.hints.concat().contains("administrator"));
        assert_eq!(refusal(&PollError::Cancelled).code, INTERRUPTED);
        assert!(refusal(&PollError::TimedOut).hints.concat().contains("ibeam login"));
        assert!(refusal(&PollError::GaveUp("x".into())).hints.concat().contains("HTTPS_PROXY"));
    }
}
