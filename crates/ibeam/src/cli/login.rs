//! `ibeam login`: signing in with the browser, or consenting to use a sign-in that is
//! already on this machine.

use std::{
    io::{self, Read},
    process::ExitCode,
};

use clap::Args;
use ibeam_core::auth::{poll::PollError, refresh::RefreshError};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::{
    Global, INTERRUPTED, Refusal, UpstreamOptions, block_on, browser, children,
    options::sign_in_help,
    print, say,
    screen::{self, WaitingLine},
    whoami,
};
use ibeam_server::{
    auth::{
        Account, ConsentKind, Credential, CredentialFile, LocalUser,
        http::AuthHttp,
        login::{BrowserLogin, keep, with_key},
        tokens::login_command,
    },
    clock,
    config::{Config, RawConfig},
    driver::connector,
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibeam login
  ibeam login --no-browser              over ssh: open the link on another device
  ibeam login --profile work            a second account; choose it with --profile
  ibeam login --use cli                 use the sign-in of the Cursor CLI
  ibeam login --api-key-stdin < key     sign in with an API key of your account
  ibeam login --no-browser --json       for programs: prints the link, then the account
  ibeam login --backend cli             sign in to the Cursor CLI itself
  CURSOR_API_URL=http://127.0.0.1:9100 ibeam login --profile sim
                                        against `ibeam sim --port 9100 --login-page`")]
pub(super) struct LoginCommand {
    /// Print the link instead of opening a browser
    #[arg(long)]
    no_browser: bool,
    /// Use the sign-in of another program: cli, keychain, ide, legacy or opencode
    #[arg(long = "use", value_name = "SOURCE")]
    source: Option<ConsentKind>,
    /// Sign in with a Cursor API key, read from standard input
    #[arg(long, conflicts_with_all = ["no_browser", "source"])]
    api_key_stdin: bool,
    /// Print the account as JSON; with --no-browser, first a line with the link
    #[arg(long)]
    json: bool,
    #[arg(
        long,
        value_name = "NAME",
        help = sign_in_help(),
        conflicts_with_all = ["no_browser", "source", "json", "api_key_stdin"]
    )]
    backend: Option<String>,
}

impl LoginCommand {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let upstream = UpstreamOptions::through(self.backend.as_ref());
        let config = global.load_quietly(RawConfig::default(), &upstream)?;
        if config.uses_cursor_agent() && self.source.is_none() && !self.api_key_stdin {
            let code = children::hand_over(&config, "login")?;
            children::tell(&config);
            return Ok(code);
        }
        let here = LocalUser::of(&config)?;
        let account = match self.source {
            Some(kind) => {
                consent(&here, kind)?;
                block_on(whoami::in_use(&config, &here))?
            }
            None => {
                let way = match (self.no_browser, self.json) {
                    (false, _) => LoginWay::Browser,
                    (true, false) => LoginWay::Link,
                    (true, true) => LoginWay::Line,
                };
                let key =
                    if self.api_key_stdin { Some(read_key(io::stdin().lock())?) } else { None };
                // If it cannot be read, the new one takes its place all the same.
                let before = here.file().load().ok().flatten();
                if before.is_none() {
                    tell_of_others(&here)?;
                }
                let account = block_on(async {
                    match key {
                        Some(key) => sign_in_with(&config, &here.file(), key).await?,
                        None => sign_in(&config, &here.file(), way).await?,
                    };
                    tokio::select! {
                        account = whoami::kept(&config, &here) => account,
                        _ = tokio::signal::ctrl_c() => Err(kept_unseen().into()),
                    }
                })?;
                if let Some(name) = before.and_then(|before| before.account).and_then(Account::name)
                    && !account.is(&name)
                {
                    say(&format!(
                        "note: this replaces the sign-in of {name} (profile `{}`)",
                        here.profile()
                    ));
                }
                account
            }
        };
        if self.json && self.no_browser {
            let account = serde_json::to_value(&account)?;
            print(&json!({ "event": "signed_in", "account": account }).to_string())?;
        } else if self.json {
            print(&account.json()?)?;
        } else {
            say(&account.greeting());
        }
        if config.account.access_token.is_some() {
            say("note: an access token is set, too (`ibeam config show`), and takes precedence");
        } else if std::env::var_os("CURSOR_API_KEY").is_some_and(|key| !key.is_empty()) {
            say("note: CURSOR_API_KEY is set, too, and takes precedence");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How the user gets to the page.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoginWay {
    /// It is opened here, unless the user is on another machine.
    Browser,
    /// The link is shown.
    Link,
    /// A program gets the link, and shows it.
    Line,
}

/// The longest key that is taken.
const KEY_CAP: u64 = 4096;

/// A key from a pipe. On a command line every user of the machine could read it.
fn read_key(input: impl Read) -> anyhow::Result<SecretString> {
    let mut text = String::new();
    let read = input.take(KEY_CAP + 1).read_to_string(&mut text);
    // Overwritten when it is let go, whatever comes of it.
    let text = SecretString::from(text);
    read.map_err(|error| Refusal::new(format!("cannot read the key: {error}")))?;
    let key = text.expose_secret().trim();
    let fits = |byte: u8| byte.is_ascii_graphic();
    if key.is_empty() || key.len() as u64 > KEY_CAP || !key.bytes().all(fits) {
        let refusal = Refusal::new("standard input holds no API key");
        return Err(refusal.hint("create one at https://cursor.com/dashboard").into());
    }
    Ok(SecretString::from(key))
}

/// Consents to a source. One that has nothing to offer is not consented to.
fn consent(here: &LocalUser, kind: ConsentKind) -> anyhow::Result<()> {
    if !here.profile().is_default() {
        let text = "other programs have no profiles: `--use` works with the default profile only";
        return Err(Refusal::new(text).into());
    }
    if kind == ConsentKind::Keychain && cfg!(not(target_os = "macos")) {
        let text = "only macOS has that keychain; the sign-in of the Cursor CLI is `--use cli`";
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
        Some(found) if unusable.is_none() && is_there(here, kind) => {
            say(&format!("note: {} takes precedence", found.source));
            return Ok(());
        }
        Some(_) | None => {}
    }
    if !had {
        consents.revoke(kind)?;
    }
    let none = || format!("not signed in to {} on this machine", kind.owner());
    Err(Refusal::new(unusable.unwrap_or_else(none)).hint("sign in with `ibeam login`").into())
}

fn is_there(here: &LocalUser, kind: ConsentKind) -> bool {
    // What is in a keychain only the search knows, and it stops at what goes before.
    let file = here.foreign_files().into_iter().any(|(of, path)| of == kind && path.exists());
    file || kind == ConsentKind::Keychain
}

/// Sign-ins of other programs that would do as well.
pub(super) fn tell_of_others(here: &LocalUser) -> anyhow::Result<()> {
    for refused in here.discover()?.refused {
        say(&format!("note: {refused}"));
    }
    Ok(())
}

/// Signs in with the browser and keeps what comes of it.
pub(super) async fn sign_in(
    config: &Config,
    file: &CredentialFile,
    way: LoginWay,
) -> anyhow::Result<Credential> {
    // Before the user goes to the browser for nothing.
    file.reach()?;
    let tasks = Tasks::new();
    let http = AuthHttp::new(&connector(config), &config.upstream.api, &tasks);
    let pending = BrowserLogin::begin(http, config.clocks.login);
    invite(&pending, way)?;
    let waiting = WaitingLine::until(pending.deadline());
    let outcome = tokio::select! {
        biased;
        outcome = pending.wait() => outcome,
        _ = tokio::signal::ctrl_c() => Err(PollError::Cancelled),
        () = waiting.show() => Err(PollError::TimedOut),
    };
    waiting.clear();
    let refusal = |error| refusal(&error, &login_command(&config.account.profile));
    let credential = outcome.map_err(refusal)?;
    let saved = tokio::select! {
        biased;
        kept = keep(file, &credential) => kept?,
        // Another process may have the file for a while.
        _ = tokio::signal::ctrl_c() => return Err(refusal(PollError::Cancelled).into()),
    };
    for note in saved.notes() {
        say(&format!("note: {note}"));
    }
    Ok(credential)
}

/// Exchanges an API key for a token, and keeps both.
async fn sign_in_with(
    config: &Config,
    file: &CredentialFile,
    key: SecretString,
) -> anyhow::Result<Credential> {
    file.reach()?;
    let tasks = Tasks::new();
    let http = AuthHttp::new(&connector(config), &config.upstream.api, &tasks);
    let credential = with_key(&http, key).await.map_err(|error| match error {
        RefreshError::SignedOut(_) => Refusal::new("Cursor rejected this API key")
            .hint("check it, or create another one, at https://cursor.com/dashboard"),
        RefreshError::Unavailable(why) => {
            Refusal::new(why).hint("check the network and a proxy (HTTPS_PROXY), then try again")
        }
    })?;
    for note in keep(file, &credential).await?.notes() {
        say(&format!("note: {note}"));
    }
    Ok(credential)
}

/// The account of a new sign-in as the sign-in itself names it, without a request.
pub(super) fn signed_in(credential: &Credential) -> String {
    match credential.account.clone().and_then(Account::name) {
        Some(name) => format!("Signed in as {name}."),
        None => "Signed in.".to_owned(),
    }
}

/// The user stopped us after the sign-in and before it was known whose it is.
fn kept_unseen() -> Refusal {
    let refusal = Refusal::new("interrupted, but you are signed in");
    Refusal { code: INTERRUPTED, ..refusal }.hint("`ibeam whoami` shows the account")
}

/// `command` is the one that signs in.
fn refusal(error: &PollError, command: &str) -> Refusal {
    let refusal = Refusal::new(error.to_string());
    match error {
        PollError::Refused(_) => refusal.hint("ask the administrator of your Cursor team"),
        PollError::TimedOut => {
            refusal.hint(format!("run `{command}` again; this link no longer works"))
        }
        PollError::GaveUp(_) => refusal.hint(format!(
            "check the network and a proxy (HTTPS_PROXY), then run `{command}` again"
        )),
        PollError::Cancelled => Refusal { code: INTERRUPTED, ..refusal },
    }
}

/// Shows the link, and opens it where that is of use.
fn invite(pending: &BrowserLogin, way: LoginWay) -> anyhow::Result<()> {
    let url = pending.url();
    match way {
        // A program reads this line; its user reads the prose.
        LoginWay::Line => {
            let seconds = pending.time_left().as_secs();
            print(&json!({ "event": "link", "url": url, "expires_in": seconds }).to_string())?;
        }
        LoginWay::Browser if browser::open(url) => {
            say(&format!(
                "Your browser opens to sign in to Cursor. If it does not, open\n\n  {url}\n"
            ));
            return Ok(());
        }
        LoginWay::Browser | LoginWay::Link => {}
    }
    say(&format!("Open this link to sign in to Cursor, on any device:\n\n  {url}\n"));
    if let Some(picture) = screen::size().and_then(|size| screen::picture(url, size)) {
        say(&picture);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ibeam_server::auth::Account;

    #[test]
    fn each_failure_suggests_a_fix() {
        let of = |error: PollError| refusal(&error, "ibeam login --profile work");
        let text = of(PollError::Refused("Use SSO".into()));
        assert!(text.message.contains("Use SSO") && text.hints.concat().contains("administrator"));
        assert_eq!(of(PollError::Cancelled).code, INTERRUPTED);
        assert!(of(PollError::Cancelled).hints.is_empty());
        for error in [PollError::TimedOut, PollError::GaveUp("x".into())] {
            assert!(of(error).hints.concat().contains("run `ibeam login --profile work` again"));
        }
        assert!(of(PollError::GaveUp("x".into())).hints.concat().contains("HTTPS_PROXY"));
        assert_eq!(kept_unseen().code, INTERRUPTED);
    }

    #[test]
    fn key_is_one_word_of_limited_length() {
        let read = |text: &[u8]| read_key(text).map(|key| key.expose_secret().to_owned());
        assert_eq!(read(b" crsr_1\r\n").unwrap(), "crsr_1");
        let long = vec![b'k'; 5000];
        for wrong in [&b""[..], b"\n", b"two words", b"crsr_\x07", b"\xff", &long] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(!error.contains("crsr_") && !error.contains("two"), "{error}");
        }
    }

    #[test]
    fn new_sign_in_names_its_account() {
        let mut credential = Credential::of_access_token("opaque");
        assert_eq!(signed_in(&credential), "Signed in.");
        let account = Account { email: None, sub: Some("auth0|user_1".to_owned()) };
        credential.account = Some(account.clone());
        assert_eq!(signed_in(&credential), "Signed in as auth0|user_1.");
        credential.account = Some(Account { email: Some("me@example.com".to_owned()), ..account });
        assert_eq!(signed_in(&credential), "Signed in as me@example.com.");
    }
}
