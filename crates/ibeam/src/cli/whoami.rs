//! `ibeam whoami`: the account that requests are made for.

use std::process::ExitCode;

use clap::Args;
use ibeam_core::{auth::jwt, backend::Needs, error::ErrorCode};
use secrecy::ExposeSecret as _;
use serde::Serialize;

use super::{
    Global, Refusal, UpstreamOptions, block_on, children, not_signed_in, options::sign_in_help,
    print, print_json,
};
use crate::doctor::span;
use ibeam_server::{
    auth::{
        Account, Here, Tokens,
        http::{AuthHttp, PageError},
        local_user,
        tokens::login_command,
    },
    clock,
    config::{Config, RawConfig},
    driver::connector,
    tasks::Tasks,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 when not signed in.

Examples:
  ibeam whoami
  ibeam whoami --profile work
  ibeam whoami --backend cli            of the Cursor CLI
  ibeam whoami --json | jq -r .account.sub")]
pub(super) struct Whoami {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "NAME", help = sign_in_help())]
    backend: Option<String>,
}

/// Cursor's CLI has one sign-in for all.
const CLI_PROFILE: &str = "default";

/// Where Cursor reports the plan of an account.
const PLAN_PAGE: &str = "/auth/full_stripe_profile";

/// What is known of a sign-in.
#[derive(Debug, Serialize)]
pub(super) struct AccountIdentity {
    signed_in: bool,
    account: AccountNames,
    /// `null`: Cursor did not say.
    plan: Option<String>,
    /// In seconds since 1970.
    expires: Option<u64>,
    source: String,
    profile: String,
    backends: Vec<&'static str>,
    #[serde(skip)]
    now: u64,
    /// Cursor could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct AccountNames {
    email: Option<String>,
    sub: Option<String>,
}

impl Whoami {
    pub(super) fn run(&self, global: &Global) -> anyhow::Result<ExitCode> {
        let upstream = UpstreamOptions::through(self.backend.as_ref());
        let config = global.load_quietly(RawConfig::default(), &upstream)?;
        if config.uses_cursor_agent() {
            return match children::account(&config) {
                Ok(account) => self.show(&AccountIdentity::of_cli(account)),
                Err(error) => {
                    if error.code == ErrorCode::NotAuthenticated {
                        self.show_signed_out(CLI_PROFILE)?;
                    }
                    Err(children::refusal(&error).into())
                }
            };
        }
        let here = Here::of(&config)?;
        if config.access_token.is_none() {
            let discovery = here.discover()?;
            if discovery.found.is_none() {
                if let Some(account) = children::instead(&config) {
                    return self.show(&AccountIdentity::of_cli(account));
                }
                self.show_signed_out(here.profile().as_str())?;
                return Err(not_signed_in(&here, &discovery.refused).into());
            }
        }
        self.show(&block_on(in_use(&config, &here))?)
    }

    fn show(&self, identity: &AccountIdentity) -> anyhow::Result<ExitCode> {
        print(&if self.json { identity.json()? } else { identity.table() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// For programs; people read the error.
    fn show_signed_out(&self, profile: &str) -> anyhow::Result<()> {
        if self.json {
            print_json(&serde_json::json!({ "signed_in": false, "profile": profile }))?;
        }
        Ok(())
    }
}

/// The account that requests are made for.
pub(super) async fn in_use(config: &Config, here: &Here) -> anyhow::Result<AccountIdentity> {
    let tasks = Tasks::new();
    let http = AuthHttp::new(&connector(config), &config.api, &tasks);
    let known = match config.access_token {
        None => here.discover()?.found.and_then(|found| found.credential.account),
        Some(_) => None,
    };
    let tokens = local_user::tokens(config, http.clone(), &tasks);
    look(&http, &tokens, known, here).await
}

/// The account of the profile's own file, whatever goes before it.
pub(super) async fn kept(config: &Config, here: &Here) -> anyhow::Result<AccountIdentity> {
    let tasks = Tasks::new();
    let http = AuthHttp::new(&connector(config), &config.api, &tasks);
    let known = here.file().load()?.and_then(|credential| credential.account);
    let tokens = Tokens::own(here.file(), http.clone(), &tasks);
    look(&http, &tokens, known, here).await
}

/// Finds out whose a sign-in is, and whether Cursor takes it.
async fn look(
    http: &AuthHttp,
    tokens: &Tokens,
    known: Option<Account>,
    here: &Here,
) -> anyhow::Result<AccountIdentity> {
    let token = tokens.current().await?;
    let claims = jwt::claims(token.expose_secret());
    let Account { email, sub } = known.unwrap_or_default();
    let mut page = http.page(PLAN_PAGE, &token).await;
    if page == Err(PageError::Status(401)) {
        let token = tokens.renew(&token).await?;
        page = http.page(PLAN_PAGE, &token).await;
    }
    let (plan, problem) = match page {
        Ok(page) => {
            let plan = page.get("membershipType").and_then(|plan| plan.as_str());
            (plan.map(str::to_owned), None)
        }
        Err(PageError::Status(401)) => {
            let refusal = Refusal::new("Cursor rejected this sign-in");
            return Err(refusal.hint(format!("run `{}`", login_command(here.profile()))).into());
        }
        Err(why) => (None, Some(why.to_string())),
    };
    Ok(AccountIdentity {
        signed_in: true,
        account: AccountNames { email: claims.email.or(email), sub: claims.subject.or(sub) },
        plan,
        expires: tokens.expires(),
        source: tokens.source(),
        profile: here.profile().to_string(),
        backends: Needs::Account.backends().collect(),
        now: clock::unix_seconds(),
        problem,
    })
}

impl AccountIdentity {
    /// Of Cursor's CLI, which knows at most a name.
    fn of_cli(account: String) -> Self {
        Self {
            signed_in: true,
            account: AccountNames { email: Some(account), sub: None },
            plan: None,
            expires: None,
            source: "cursor-agent".to_owned(),
            profile: CLI_PROFILE.to_owned(),
            backends: Needs::CursorAgent.backends().collect(),
            now: 0,
            problem: None,
        }
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// The end of a sign-in: who it is, and what to do now.
    pub(super) fn greeting(&self) -> String {
        let plan = match &self.plan {
            Some(plan) => format!(" ({plan})"),
            None => String::new(),
        };
        let flag = match self.profile.as_str() {
            "default" => String::new(),
            profile => format!(" --profile {profile}"),
        };
        format!("Signed in as {}{plan}.\nNext: `ibeam up{flag}`", self.name())
    }

    /// Whether that is one of its names.
    pub(super) fn is(&self, name: &str) -> bool {
        let AccountNames { email, sub } = &self.account;
        [email, sub].into_iter().any(|known| known.as_deref() == Some(name))
    }

    fn name(&self) -> &str {
        let AccountNames { email, sub } = &self.account;
        email.as_deref().or(sub.as_deref()).unwrap_or("an account without a name")
    }

    fn table(&self) -> String {
        let plan = match (&self.plan, &self.problem) {
            (Some(plan), _) => plan.clone(),
            (None, Some(why)) => format!("unknown ({why})"),
            (None, None) => "unknown".to_owned(),
        };
        let expires = match self.expires {
            Some(end) if end > self.now => format!("in {}", span(end - self.now)),
            Some(_) => "over".to_owned(),
            None => "unknown".to_owned(),
        };
        let rows = [
            ("Account", self.name().to_owned()),
            ("Plan", plan),
            ("Expires", expires),
            ("Source", self.source.clone()),
            ("Profile", self.profile.clone()),
            ("Backends", self.backends.join(", ")),
        ];
        let rows = rows.iter().map(|(name, value)| format!("{name:<9} {value}"));
        rows.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> AccountIdentity {
        AccountIdentity {
            signed_in: true,
            account: AccountNames { email: None, sub: Some("auth0|user_1".to_owned()) },
            plan: Some("pro".to_owned()),
            expires: Some(1_000_000),
            source: "profile `work`".to_owned(),
            profile: "work".to_owned(),
            backends: vec!["agent"],
            now: 0,
            problem: None,
        }
    }

    #[test]
    fn greeting_has_the_account_and_the_next_command() {
        let text = identity().greeting();
        assert_eq!(text, "Signed in as auth0|user_1 (pro).\nNext: `ibeam up --profile work`");
        let table = identity().table();
        assert!(table.contains("Expires   in 11 days"), "{table}");
        let value: serde_json::Value = serde_json::from_str(&identity().json().unwrap()).unwrap();
        assert_eq!(value["account"]["sub"], "auth0|user_1");
        assert_eq!(value["expires"], 1_000_000);
        assert_eq!(value["backends"][0], "agent");
        assert!(value.get("problem").is_none() && value.get("now").is_none());
    }

    #[test]
    fn spans_are_rounded_to_one_unit() {
        for (seconds, want) in
            [(5, "5 seconds"), (119, "119 seconds"), (121, "2 minutes"), (7_300, "2 hours")]
        {
            assert_eq!(span(seconds), want);
        }
    }
}
