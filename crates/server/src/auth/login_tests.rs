use std::sync::Arc;

use ibeam_sim::{Sim, SimSignIn};

use super::*;
use crate::{
    net::connect::{Connector, Host},
    tasks::Tasks,
};

fn pending(connector: &Connector) -> BrowserLogin {
    let host = Host::parse("http://127.0.0.1:1").unwrap();
    BrowserLogin::begin(AuthHttp::new(connector, &host, &Tasks::new()), Duration::MAX)
}

fn before(sim: &Sim) -> BrowserLogin {
    let sim = sim.clone();
    pending(&Connector::Memory(Arc::new(move || sim.connect())))
}

#[tokio::test(start_paused = true)]
async fn login_waits_for_a_slow_user() {
    let sim = Sim::new(SimSignIn { poll_pending: Some(40), ..SimSignIn::default() }.into());
    let pending = before(&sim);
    assert!(pending.url().starts_with("http://127.0.0.1:1/loginDeepControl?challenge="));
    let started = Instant::now();
    let credential = pending.wait().await.unwrap();
    assert!(started.elapsed() > Duration::from_secs(300), "with the documented back-off");
    assert_eq!(credential.account.unwrap().sub.as_deref(), Some("auth0|user_sim"));
    assert!(credential.refresh_token.is_some());
    assert_eq!(credential.expires, Some(sim.config().sign_in.token_expiry));
}

#[tokio::test(start_paused = true)]
async fn login_times_out_without_the_user() {
    let sim = Sim::new(SimSignIn { poll_pending: None, ..SimSignIn::default() }.into());
    let pending = before(&sim);
    let (deadline, started) = (pending.deadline(), Instant::now());
    assert_eq!(pending.wait().await.unwrap_err(), PollError::TimedOut);
    assert!(started.elapsed() > Duration::from_secs(20 * 60));
    assert!(Instant::now() <= deadline + Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn login_reports_a_team_policy() {
    let sim = Sim::new(SimSignIn { poll_refused: true, ..SimSignIn::default() }.into());
    let error = before(&sim).wait().await.unwrap_err();
    assert_eq!(error, PollError::Refused("Your team does not allow this sign-in".into()));
}

#[tokio::test(start_paused = true)]
async fn login_reports_an_unreachable_service() {
    let connector = Connector::Memory(Arc::new(|| tokio::io::duplex(64).0));
    let error = pending(&connector).wait().await.unwrap_err();
    let PollError::GaveUp(why) = error else { panic!("{error:?}") };
    assert!(why.contains("127.0.0.1:1 cannot be reached"), "{why}");
    assert!(!why.contains("verifier"), "{why}");
}

#[test]
fn login_page_is_on_cursors_website() {
    let site = |url: &str| {
        let connector = Connector::Memory(Arc::new(|| tokio::io::duplex(64).0));
        AuthHttp::new(&connector, &Host::parse(url).unwrap(), &Tasks::new()).site()
    };
    assert_eq!(site("https://api2.cursor.sh"), "https://cursor.com");
    assert_eq!(site("http://127.0.0.1:9100"), "http://127.0.0.1:9100");
    assert_eq!(site("https://gateway.example"), "https://gateway.example");
}

#[test]
fn missing_fields_of_a_grant_keep_their_values() {
    let before = Credential {
        refresh_token: Some("kept".into()),
        account: Some(Account { email: Some("me@example.com".into()), sub: Some("a".into()) }),
        ..Credential::of_access_token("old")
    };
    let grant = Grant { access: "opaque".into(), refresh: None };
    let after = credential(grant, Some(before.clone()));
    assert_eq!(after.access_token.unwrap().expose_secret(), "opaque");
    assert_eq!(after.refresh_token.unwrap().expose_secret(), "kept");
    assert_eq!(after.account, before.account);
    // A new refresh token takes the place of the old one.
    let rotated = Grant { access: "opaque".into(), refresh: Some("next".into()) };
    let rotated = credential(rotated, Some(before.clone()));
    assert_eq!(rotated.refresh_token.unwrap().expose_secret(), "next");
    // A token of another account: the name does not fit any more.
    let other = Grant { access: Sim::TOKEN.into(), refresh: None };
    let account = credential(other, Some(before)).account.unwrap();
    assert_eq!(account, Account { email: None, sub: Some("auth0|user_sim".into()) });
}
