mod borrowed;
mod unkept;

use std::sync::atomic::{AtomicI64, Ordering};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::FutureExt as _;
use ibeam_core::error::ErrorCode;
use ibeam_sim::{Sim, SimConfig};
use tempfile::TempDir;

use super::*;
use crate::{
    auth::{LOCK_WAIT, Profile},
    net::connect::{Connector, Host},
};

/// When the simulator's clock starts.
const EPOCH: u64 = 1_800_000_000;

fn token(issued: u64, expires: u64) -> String {
    let claims =
        format!(r#"{{"sub":"auth0|user_1","iat":{issued},"exp":{expires},"type":"session"}}"#);
    format!("e30.{}.{}", URL_SAFE_NO_PAD.encode(claims), Sim::SIGNATURE)
}

struct Bench {
    sim: Sim,
    dir: TempDir,
    tasks: Tasks,
    /// How far our clock is ahead of the simulator's.
    ahead: Arc<AtomicI64>,
    started: Instant,
}

impl Bench {
    fn new(known: &[&str]) -> Self {
        Self::with(known, |_| {})
    }

    fn with(known: &[&str], change: impl FnOnce(&mut SimConfig)) -> Self {
        let mut config = SimConfig { epoch: EPOCH, ..SimConfig::default() };
        config.sign_in.token_lifetime = Some(Duration::from_secs(5_184_000));
        config.sign_in.tokens.extend(known.iter().map(|token| (*token).to_owned()));
        change(&mut config);
        Self {
            sim: Sim::new(config),
            dir: tempfile::tempdir().unwrap(),
            tasks: Tasks::new(),
            ahead: Arc::default(),
            started: Instant::now(),
        }
    }

    fn borrowing(&self, found: FoundCredential, reread: Reread) -> AccessTokens {
        let holder = Holder::Borrowed(found.source, reread);
        let (own, http, credential) = (self.file(), Some(self.http()), found.credential);
        AccessTokens::with(holder, Some(&own), |_| Some(credential), http, self.wall(), &self.tasks)
    }

    fn wall(&self) -> WallClock {
        let (ahead, started) = (Arc::clone(&self.ahead), self.started);
        Arc::new(move || {
            let now = EPOCH + started.elapsed().as_secs();
            now.saturating_add_signed(ahead.load(Ordering::Relaxed))
        })
    }

    fn http(&self) -> AuthHttp {
        let sim = self.sim.clone();
        let connector = Connector::Memory(Arc::new(move || sim.connect()));
        AuthHttp::new(&connector, &host(), &self.tasks)
    }

    fn file(&self) -> CredentialFile {
        CredentialFile::at(self.dir.path(), &Profile::default())
    }

    async fn save(&self, access: &str) {
        let credential = Credential {
            access_token: Some(SecretString::from(access)),
            refresh_token: Some(SecretString::from(access)),
            ..Credential::default()
        };
        crate::auth::login::keep(&self.file(), &credential).await.unwrap();
    }

    fn tokens(&self) -> AccessTokens {
        AccessTokens::own_at(self.file(), self.http(), self.wall(), &self.tasks)
    }

    fn refreshes(&self) -> u64 {
        self.sim.stats().refreshes
    }

    fn on_disk(&self) -> String {
        let credential = self.file().load().unwrap().unwrap();
        credential.access_token.unwrap().expose_secret().to_owned()
    }
}

fn host() -> Host {
    Host::parse("http://127.0.0.1:1").unwrap()
}

fn text(token: TokenOutcome) -> String {
    token.unwrap().expose_secret().to_owned()
}

#[tokio::test(start_paused = true)]
async fn valid_token_is_used_unchanged() {
    let good = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&good]);
    bench.save(&good).await;
    let tokens = bench.tokens();
    assert!(tokens.signed_in());
    assert_eq!(tokens.account(), "auth0|user_1");
    assert_eq!(text(tokens.current().await), good);
    assert_eq!(bench.refreshes(), 0);
    assert!(!format!("{tokens:?}").contains(&good));
}

#[tokio::test(start_paused = true)]
async fn expired_token_is_renewed_once_for_all_waiters() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let tokens = bench.tokens();
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let tokens = tokens.clone();
            bench.tasks.spawn("one of many", async move { text(tokens.current().await) })
        })
        .collect();
    let mut seen = Vec::new();
    for one in crowd {
        seen.push(one.await.unwrap());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
    assert_ne!(seen[0], old);
    assert_eq!(bench.refreshes(), 1);
    assert_eq!(bench.on_disk(), seen[0], "kept for the next start");
    assert_eq!(text(bench.tokens().current().await), seen[0]);
    assert_eq!(bench.refreshes(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_request_does_not_lose_the_new_tokens() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let tokens = bench.tokens();
    // Polled once, so that no other task runs before it is dropped.
    assert!(tokens.current().now_or_never().is_none(), "the token is renewed first");
    bench.tasks.join().await;
    assert_eq!(bench.refreshes(), 1);
    assert_ne!(bench.on_disk(), old);
}

#[tokio::test(start_paused = true)]
async fn token_is_renewed_in_the_background_before_it_expires() {
    let old = token(EPOCH - 9_000, EPOCH + 200);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let tokens = bench.tokens();
    assert_eq!(text(tokens.current().await), old, "no request waits");
    bench.tasks.join_within(Duration::from_secs(1)).await;
    let new = text(tokens.current().await);
    assert_ne!(new, old);
    assert_eq!(bench.refreshes(), 1);
}

#[tokio::test(start_paused = true)]
async fn token_renewed_by_another_process_is_used() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let new = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&old, &new]);
    bench.save(&old).await;
    let tokens = bench.tokens();
    bench.save(&new).await;
    assert_eq!(text(tokens.current().await), new);
    assert_eq!(bench.refreshes(), 0);
}

#[tokio::test(start_paused = true)]
async fn dead_sign_in_is_reported_and_a_new_one_is_found() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::with(&[&old], |sim| sim.sign_in.refuse_refresh = true);
    bench.save(&old).await;
    let tokens = bench.tokens();
    for _ in 0..3 {
        let error = tokens.current().await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NotAuthenticated);
        assert!(error.message.contains("Run `ibeam login`"), "{}", error.message);
    }
    assert!(!tokens.signed_in());
    // In another terminal.
    let new = token(EPOCH, EPOCH + 9_000);
    bench.save(&new).await;
    assert_eq!(text(tokens.current().await), new);
    assert!(tokens.signed_in());
    // And out again.
    bench.file().lock(LOCK_WAIT).await.unwrap().remove().unwrap();
    let error = tokens.renew(&SecretString::from(new)).await.unwrap_err();
    assert!(error.message.contains("Not signed in to Cursor"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn last_token_stays_valid_after_the_sign_in_is_dead() {
    let last = token(EPOCH - 9_000, EPOCH + 200);
    let bench = Bench::with(&[&last], |sim| sim.sign_in.refuse_refresh = true);
    bench.save(&last).await;
    let tokens = bench.tokens();
    for _ in 0..2 {
        assert_eq!(text(tokens.current().await), last);
        bench.tasks.join_within(Duration::from_secs(1)).await;
        assert!(tokens.signed_in());
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    let error = tokens.current().await.unwrap_err();
    assert!(error.message.contains("Run `ibeam login`"), "{}", error.message);
    assert!(!tokens.signed_in());
}

#[tokio::test(start_paused = true)]
async fn unreachable_service_leaves_the_token_in_use_until_it_expires() {
    let short = token(EPOCH - 9_000, EPOCH + 120);
    let bench = Bench::new(&[]);
    bench.save(&short).await;
    // No service is at the other end.
    let connector = Connector::Memory(Arc::new(|| tokio::io::duplex(64).0));
    let http = AuthHttp::new(&connector, &host(), &bench.tasks);
    let tokens = AccessTokens::own_at(bench.file(), http, bench.wall(), &bench.tasks);
    assert_eq!(text(tokens.current().await), short);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(text(tokens.current().await), short);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let error = tokens.current().await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(tokens.signed_in(), "that says nothing about the sign-in");
}

#[tokio::test(start_paused = true)]
async fn rejected_token_is_replaced_once() {
    let good = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&good]);
    bench.save(&good).await;
    let tokens = bench.tokens();
    let used = tokens.current().await.unwrap();
    let (one, two) = tokio::join!(tokens.renew(&used), tokens.renew(&used));
    let new = text(one);
    assert_eq!(new, text(two));
    assert_ne!(new, good);
    assert_eq!(text(tokens.renew(&used).await), new, "a late request gets the new one");
    assert_eq!(bench.refreshes(), 1);
    // A new token that is refused at once: renewing again would never end.
    let error = tokens.renew(&SecretString::from(new.clone())).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotAuthenticated);
    assert_eq!(bench.refreshes(), 1);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_ne!(text(tokens.renew(&SecretString::from(new)).await), good);
    assert_eq!(bench.refreshes(), 2);
}

#[tokio::test(start_paused = true)]
async fn fixed_token_is_never_renewed() {
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let tokens =
        AccessTokens::fixed(SecretString::from(old.clone()), "CURSOR_ACCESS_TOKEN", &Tasks::new());
    let used = tokens.current().await.unwrap();
    assert_eq!(used.expose_secret(), old);
    let error = tokens.renew(&used).await.unwrap_err();
    assert!(error.message.contains("CURSOR_ACCESS_TOKEN"), "{}", error.message);
    assert!(error.message.contains("ibeam login"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn api_key_is_exchanged_each_time_the_token_expires() {
    let bench =
        Bench::with(&[], |sim| sim.sign_in.token_lifetime = Some(Duration::from_secs(1_200)));
    let key = SecretString::from(Sim::API_KEY);
    let make = |key| {
        let (http, wall) = (Some(bench.http()), bench.wall());
        AccessTokens::with(Holder::Key(key), None, |_| None, http, wall, &bench.tasks)
    };
    let tokens = make(key);
    assert!(tokens.signed_in() && !tokens.account().is_empty());
    let first = text(tokens.current().await);
    assert_eq!(text(tokens.current().await), first);
    assert_eq!(bench.refreshes(), 1);
    // A minute before it expires at the latest, in the background.
    tokio::time::sleep(Duration::from_secs(1_145)).await;
    assert_eq!(text(tokens.current().await), first);
    bench.tasks.join_within(Duration::from_secs(1)).await;
    let second = text(tokens.current().await);
    assert_ne!(second, first);
    assert_eq!(bench.refreshes(), 2);
    // Without a request in time, the next one waits.
    tokio::time::sleep(Duration::from_secs(1_300)).await;
    assert_ne!(text(tokens.current().await), second);
    assert_eq!(bench.refreshes(), 3);
    let error = make(SecretString::from("crsr_unknown")).current().await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotAuthenticated);
    assert!(error.message.contains("CURSOR_API_KEY"), "{}", error.message);
    assert!(!bench.file().path().exists(), "nothing is written");
}

/// A sign-in of another program.
fn lent(token: &str) -> FoundCredential {
    let credential = Credential {
        refresh_token: Some(SecretString::from(token)),
        ..Credential::of_access_token(token)
    };
    FoundCredential { credential, source: CredentialSource::CliFile("auth.json".into()) }
}

#[tokio::test(start_paused = true)]
async fn fast_clock_costs_one_renewal() {
    let good = token(EPOCH, EPOCH + 9_000);
    let bench =
        Bench::with(&[&good], |sim| sim.sign_in.token_lifetime = Some(Duration::from_secs(7_200)));
    bench.save(&good).await;
    bench.ahead.store(86_400, Ordering::Relaxed);
    let tokens = bench.tokens();
    let new = text(tokens.current().await);
    assert_ne!(new, good, "by our clock it is over");
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(text(tokens.current().await), new);
    }
    assert_eq!(bench.refreshes(), 1);
    // By the service's clock, its end is near.
    tokio::time::sleep(Duration::from_secs(3_500)).await;
    tokens.current().await.unwrap();
    bench.tasks.join_within(Duration::from_secs(1)).await;
    assert_eq!(bench.refreshes(), 2);
}

#[tokio::test(start_paused = true)]
async fn slow_clock_is_corrected_by_the_token() {
    let good = token(EPOCH, EPOCH + 600);
    let bench = Bench::new(&[&good]);
    bench.save(&good).await;
    bench.ahead.store(-86_400, Ordering::Relaxed);
    let tokens = bench.tokens();
    assert_eq!(text(tokens.current().await), good);
    tokio::time::sleep(Duration::from_secs(610)).await;
    assert_ne!(text(tokens.current().await), good, "it is over, though not by our clock");
    assert_eq!(bench.refreshes(), 1);
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn credential_file_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let good = token(EPOCH, EPOCH + 9_000);
    let bench = Bench::new(&[&good]);
    bench.save(&good).await;
    let path = bench.file().path().to_owned();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = bench.tokens().current().await.unwrap_err();
    assert!(error.message.contains("chmod"), "{}", error.message);
}

fn of_account(name: &str, expires: u64) -> String {
    let claims = format!(r#"{{"sub":"auth0|{name}","iat":{EPOCH},"exp":{expires}}}"#);
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

/// `ibeam logout` and `ibeam login`, in another terminal.
#[tokio::test(start_paused = true)]
async fn sign_out_and_sign_in_are_noticed_with_the_next_token() {
    let (one, two) = (of_account("one", EPOCH + 9_000), of_account("two", EPOCH + 9_000));
    let bench = Bench::new(&[&one, &two]);
    bench.save(&one).await;
    let tokens = bench.tokens();
    assert_eq!(text(tokens.current().await), one);

    assert!(bench.file().lock(LOCK_WAIT).await.unwrap().remove().unwrap());
    assert!(!tokens.signed_in(), "known before the first request");
    let error = tokens.current().await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NotAuthenticated);
    assert!(error.message.contains("ibeam login"), "{}", error.message);
    assert_eq!(tokens.account(), "");

    bench.save(&two).await;
    assert_eq!(text(tokens.current().await), two);
    assert_eq!((tokens.account().as_str(), tokens.signed_in()), ("auth0|two", true));
    // Without a logout in between.
    bench.save(&one).await;
    let (first, second) = tokio::join!(tokens.current(), tokens.current());
    assert_eq!((text(first), text(second)), (one.clone(), one));
    assert_eq!(bench.refreshes(), 0, "nothing of that needs a new token");
}

/// Saving the same token is not a change, and a file that others can read is not a sign-in.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn rewritten_file_with_the_same_token_changes_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let old = token(EPOCH - 9_000, EPOCH - 1);
    let bench = Bench::new(&[&old]);
    bench.save(&old).await;
    let tokens = bench.tokens();
    let new = text(tokens.current().await);
    assert_eq!((bench.on_disk(), bench.refreshes()), (new.clone(), 1));
    bench.save(&new).await;
    assert_eq!(text(tokens.current().await), new);
    let chmod = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(bench.file().path(), mode).unwrap();
    };
    chmod(0o644);
    let error = tokens.current().await.unwrap_err();
    assert!(error.message.contains("chmod 600"), "{}", error.message);
    chmod(0o600);
    assert_eq!(text(tokens.current().await), new);
    assert_eq!(bench.refreshes(), 1);
}
