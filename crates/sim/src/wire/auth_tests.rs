use super::*;
use crate::config::{SimSignIn, TOKEN};

#[test]
fn revoked_token_is_refused_and_can_be_refreshed() {
    let sim = Sim::default();
    let mut headers = HeaderMap::new();
    let value = format!("Bearer {TOKEN}").parse().unwrap();
    headers.insert(header::AUTHORIZATION, value);
    assert!(sim.service.auth.check(&headers).is_ok());
    sim.revoke(TOKEN);
    assert!(sim.service.auth.check(&headers).is_err());
    for path in ["/auth/refresh", "/auth/exchange_user_api_key"] {
        let reply = answer(&sim, &Method::POST, path, "", &headers, b"{}").unwrap();
        assert_eq!(reply.status(), 200, "{path}");
    }
    let body =
        json!({"grant_type": "refresh_token", "client_id": CLIENT_ID, "refresh_token": TOKEN});
    let reply = oauth_token(&sim, body.to_string().as_bytes());
    assert_eq!(reply.status(), 200);
    assert_eq!(sim.stats().refreshes, 3);
}

fn bearing(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    headers
}

async fn exchange(sim: &Sim, path: &str, token: &str) -> Option<String> {
    let reply = answer(sim, &Method::POST, path, "", &bearing(token), b"{}").unwrap();
    let status = reply.status();
    let body = responses::read_body(reply.into_body(), 65_536).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    (status == 200).then(|| body["accessToken"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn tokens_expire_by_the_simulators_clock_and_can_be_refreshed() {
    let lifetime = Some(Duration::from_secs(600));
    let sim = Sim::new(SimSignIn { token_lifetime: lifetime, ..SimSignIn::default() }.into());
    let kind = |token: &str| {
        let error = sim.service.auth.check(&bearing(token)).err()?;
        assert_eq!(error.code, Code::Unauthenticated);
        error.detail.map(|detail| detail.kind)
    };
    let token = exchange(&sim, "/auth/refresh", TOKEN).await.unwrap();
    assert_eq!(expiry_of(&token), Some(sim.config().epoch + 600));
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(kind(&token), None);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(kind(&token), Some(ErrorKind::ErrorAuthTokenExpired));
    // The constant one does not.
    tokio::time::advance(Duration::from_secs(86_400 * 365)).await;
    assert_eq!(kind(TOKEN), None);
    let fresh = exchange(&sim, "/auth/refresh", &token).await.unwrap();
    assert_eq!(kind(&fresh), None);

    // A fixed time in the past.
    let sim = Sim::new(SimSignIn { token_expiry: 1_000, ..SimSignIn::default() }.into());
    let token = exchange(&sim, "/auth/refresh", TOKEN).await.unwrap();
    assert!(sim.service.auth.check(&bearing(&token)).is_err());
}

#[tokio::test]
async fn api_keys_are_accepted_by_the_exchange_only() {
    let sim = Sim::default();
    let token = exchange(&sim, "/auth/exchange_user_api_key", Sim::API_KEY).await.unwrap();
    assert!(sim.service.auth.check(&bearing(&token)).is_ok());
    let error = sim.service.auth.check(&bearing(Sim::API_KEY)).unwrap_err();
    assert_eq!(error.detail.unwrap().kind, ErrorKind::ErrorUnauthorized);
    assert_eq!(exchange(&sim, "/auth/refresh", Sim::API_KEY).await, None);
    assert_eq!(exchange(&sim, "/auth/exchange_user_api_key", "crsr_other").await, None);
}
