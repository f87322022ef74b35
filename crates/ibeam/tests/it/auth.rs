//! Tokens that end, are refused or renewed while requests come and go.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ibeam_server::{
    auth::{AccessTokens, Credential, CredentialFile, Profile, http::AuthHttp, login::keep},
    config::Transport,
    net::connect::Host,
};
use ibeam_sim::{Scenario, Sim, SimConfig};
use tempfile::TempDir;
use tokio::time::Instant;

use super::lab::{Lab, Reply, chat};

const EPOCH: u64 = 1_800_000_000;

fn token(expires: u64) -> String {
    let claims = format!(r#"{{"sub":"auth0|user_sim","iat":{},"exp":{expires}}}"#, EPOCH - 90_000);
    format!("e30.{}.{}", URL_SAFE_NO_PAD.encode(claims), Sim::SIGNATURE)
}

/// A gateway whose sign-in is in a file.
struct Signed {
    lab: Lab,
    dir: TempDir,
}

impl Signed {
    async fn with(access: &str, transport: Transport, change: impl FnOnce(&mut SimConfig)) -> Self {
        Self::skewed(access, transport, 0, change).await
    }

    /// Our clock is this number of seconds behind Cursor's.
    async fn skewed(
        access: &str,
        transport: Transport,
        behind: u64,
        change: impl FnOnce(&mut SimConfig),
    ) -> Self {
        let mut config = SimConfig { epoch: EPOCH, ..SimConfig::default() };
        config.sign_in.token_lifetime = Some(Duration::from_secs(5_184_000));
        config.sign_in.tokens.push(access.to_owned());
        change(&mut config);
        let dir = crate::watch::folder();
        let file = CredentialFile::at(dir.path(), &Profile::default());
        let credential = Credential {
            refresh_token: Some(access.into()),
            ..Credential::of_access_token(access)
        };
        keep(&file, &credential).await.unwrap();
        let started = Instant::now();
        let lab = Lab::signed_in(Sim::new(config), transport, |connector, tasks| {
            let host = Host::parse("http://127.0.0.1:1").unwrap();
            let wall = Arc::new(move || EPOCH - behind + started.elapsed().as_secs());
            AccessTokens::own_at(file, AuthHttp::new(connector, &host, tasks), wall, tasks)
        });
        Self { lab, dir }
    }

    async fn new(access: &str) -> Self {
        Self::with(access, Transport::Auto, |_| {}).await
    }

    fn refreshes(&self) -> u64 {
        self.lab.sim.stats().refreshes
    }

    /// The token in the file.
    fn kept(&self) -> String {
        let path = CredentialFile::at(self.dir.path(), &Profile::default());
        let text = std::fs::read_to_string(path.path()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["access"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn expired_token_is_renewed_before_the_first_turn() {
    let old = token(EPOCH - 10);
    let signed = Signed::new(&old).await;
    let (one, two) = tokio::join!(signed.lab.ask("Hello"), signed.lab.ask("Hello again"));
    assert!(!one.is_empty() && !two.is_empty());
    assert_eq!(signed.refreshes(), 1);
    assert_ne!(signed.kept(), old);
}

#[tokio::test(start_paused = true)]
async fn token_refused_between_turns_is_renewed_unnoticed() {
    for transport in [Transport::H2, Transport::H1] {
        let good = token(EPOCH + 900_000);
        let signed = Signed::with(&good, transport, |_| {}).await;
        assert!(!signed.lab.ask("Hello").await.is_empty());
        assert_eq!(signed.refreshes(), 0);
        signed.lab.sim.revoke(&good);
        let reply = signed.lab.stream("Hello again").await;
        assert_eq!(reply.status, 200, "{transport:?}: {}", reply.body);
        assert!(reply.body.contains("[DONE]") && !reply.body.contains("\"error\""));
        assert_eq!(signed.refreshes(), 1, "{transport:?}");
        assert!(!signed.lab.ask("And again").await.is_empty());
        assert_eq!(signed.refreshes(), 1, "{transport:?}");
        assert_eq!(signed.lab.get("/health").await.json()["auth"], "authenticated");
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_does_not_disturb_a_running_stream() {
    let good = token(EPOCH + 900_000);
    let slow = |sim: &mut SimConfig| sim.pace = Duration::from_secs(1);
    let signed = Signed::with(&good, Transport::Auto, slow).await;
    let running = signed.lab.open(chat("Tell me a story", true).to_string()).await;
    assert_eq!(running.status(), 200);
    assert_eq!(signed.lab.app.sessions().active, 1);
    signed.lab.sim.revoke(&good);
    let (whole, other) = tokio::join!(Reply::read(running), signed.lab.ask("Hello"));
    assert_eq!(signed.refreshes(), 1);
    assert!(!other.is_empty());
    assert!(whole.body.contains("[DONE]") && !whole.body.contains("\"error\""), "{}", whole.body);
}

#[tokio::test(start_paused = true)]
async fn dead_sign_in_is_one_clear_error() {
    let good = token(EPOCH + 900_000);
    let signed =
        Signed::with(&good, Transport::Auto, |sim| sim.sign_in.refuse_refresh = true).await;
    assert!(!signed.lab.ask("Hello").await.is_empty());
    signed.lab.sim.revoke(&good);
    for stream in [false, true] {
        let reply = signed.lab.post(chat("Hello", stream).to_string()).await;
        assert_eq!(reply.status, 401, "{}", reply.body);
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("Run `ibeam login`"), "{message}");
    }
    assert_eq!(signed.refreshes(), 0);
    assert_ne!(signed.lab.get("/health").await.json()["auth"], "authenticated");
    // A new sign-in, in another terminal.
    let file = CredentialFile::at(signed.dir.path(), &Profile::default());
    keep(&file, &Credential::of_access_token(Sim::TOKEN)).await.unwrap();
    assert!(!signed.lab.ask("Hello").await.is_empty());
    assert_eq!(signed.lab.get("/health").await.json()["auth"], "authenticated");
}

#[tokio::test(start_paused = true)]
async fn the_model_list_renews_a_refused_token_too() {
    let good = token(EPOCH + 900_000);
    let signed = Signed::new(&good).await;
    signed.lab.sim.revoke(&good);
    let reply = signed.lab.get("/v1/models").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(signed.refreshes(), 1);
}

/// The token ends while the stream runs, and is renewed beside it. Over HTTP/1.1 every
/// message of ours is a request of its own, and needs a token that is good at that time.
#[tokio::test(start_paused = true)]
async fn stream_outlives_the_token_that_opened_it() {
    let script = r#"
        [[rule]]
        when = { contains = "story" }
        steps = [{ text = { text = "tick ", repeat = 90, pace_ms = 1000 } }]
        [[rule]]
        steps = [{ text = "done" }]
    "#;
    for transport in [Transport::H2, Transport::H1] {
        let short = token(EPOCH + 30);
        let long = |sim: &mut SimConfig| sim.scenario = Scenario::from_toml(script).unwrap();
        let signed = Signed::with(&short, transport, long).await;
        let running = signed.lab.open(chat("Tell me a story", true).to_string()).await;
        assert_eq!(running.status(), 200);
        let later = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            signed.lab.ask("Hello").await
        };
        let (whole, other) = tokio::join!(Reply::read(running), later);
        assert_eq!(other, "done");
        assert_eq!(whole.body.matches("tick ").count(), 90, "{transport:?}: {}", whole.body);
        assert!(whole.body.contains("[DONE]") && !whole.body.contains("\"error\""));
        assert_eq!(signed.refreshes(), 1, "{transport:?}");
        assert_ne!(signed.kept(), short);
    }
}

/// The client has seen a part of the answer: another try would say it twice.
#[tokio::test(start_paused = true)]
async fn token_refused_during_an_answer_is_an_error_event() {
    let script = r#"
        [[rule]]
        when = { contains = "half" }
        steps = [
          { text = "half " },
          { error = { code = "unauthenticated", kind = "AUTH_TOKEN_EXPIRED", title = "Expired" } },
        ]
        [[rule]]
        steps = [{ text = "done" }]
    "#;
    let good = token(EPOCH + 900_000);
    let play = |sim: &mut SimConfig| sim.scenario = Scenario::from_toml(script).unwrap();
    let signed = Signed::with(&good, Transport::Auto, play).await;
    let reply = signed.lab.stream("half").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body.matches("half ").count(), 1, "{}", reply.body);
    assert_eq!(reply.body.matches("\"not_authenticated\"").count(), 1, "{}", reply.body);
    assert!(reply.body.contains("Expired") && reply.body.contains("ibeam login"), "{}", reply.body);
    assert_eq!(signed.refreshes(), 0);
    assert_eq!(signed.lab.ask("Hello").await, "done");
}

/// By our clock the token has a day to live. Cursor knows better, and that costs nothing.
#[tokio::test(start_paused = true)]
async fn late_clock_is_detected_by_a_refusal() {
    let over = token(EPOCH - 10);
    let signed = Signed::skewed(&over, Transport::Auto, 86_400, |_| {}).await;
    let reply = signed.lab.stream("Hello").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.body.contains("[DONE]") && !reply.body.contains("\"error\""));
    assert_eq!(signed.refreshes(), 1);
}
