use super::*;

#[test]
fn the_challenge_is_the_hash_of_the_verifier_text() {
    let verifier = "A".repeat(43);
    assert_eq!(challenge_of(&verifier), "DwBzhbb51LfusnSGBa_hqYSgo7-j8BTQnip4TOnlzRo");
}

#[test]
fn parameters_are_decoded() {
    assert_eq!(param("a=1&uuid=x%2Dy+z", "uuid"), "x-y z");
    assert_eq!(param("a=1", "uuid"), "");
}

fn get(sim: &Sim, path: &str, query: &str) -> u16 {
    let reply = answer(sim, &Method::GET, path, query, &HeaderMap::new(), b"");
    reply.unwrap().status().as_u16()
}

#[test]
fn a_poll_succeeds_after_some_tries_or_after_the_page_was_opened() {
    let sim = Sim::default();
    let query = "uuid=u&verifier=v";
    let polls: Vec<_> = (0..3).map(|_| get(&sim, "/auth/poll", query)).collect();
    assert_eq!(polls, [404, 404, 200]);

    let sim = Sim::new(SimConfig { poll_pending: None, ..SimConfig::default() });
    assert_eq!(get(&sim, "/auth/poll", query), 404);
    let page = format!("challenge={}&uuid=u&mode=login", challenge_of("v"));
    assert_eq!(get(&sim, "/loginDeepControl", &page), 200);
    assert_eq!(get(&sim, "/auth/poll", "uuid=u&verifier=wrong"), 404);
    assert_eq!(get(&sim, "/auth/poll", query), 200);
    assert_eq!(sim.stats().violations.len(), 1);
}

#[test]
fn a_revoked_token_is_refused_and_can_be_refreshed() {
    let sim = Sim::default();
    let mut headers = HeaderMap::new();
    let value = format!("Bearer {TOKEN}").parse().unwrap();
    headers.insert(header::AUTHORIZATION, value);
    assert!(sim.inner.auth.check(&headers).is_ok());
    sim.revoke(TOKEN);
    assert!(sim.inner.auth.check(&headers).is_err());
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
    let body = reply::read_body(reply.into_body(), 65_536).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    (status == 200).then(|| body["accessToken"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn tokens_expire_by_the_simulators_clock_and_can_be_refreshed() {
    let lifetime = Some(Duration::from_secs(600));
    let sim = Sim::new(SimConfig { token_lifetime: lifetime, ..SimConfig::default() });
    let kind = |token: &str| {
        let error = sim.inner.auth.check(&bearing(token)).err()?;
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
    let sim = Sim::new(SimConfig { token_expiry: 1_000, ..SimConfig::default() });
    let token = exchange(&sim, "/auth/refresh", TOKEN).await.unwrap();
    assert!(sim.inner.auth.check(&bearing(&token)).is_err());
}

#[tokio::test]
async fn api_keys_are_good_for_the_exchange_only() {
    let sim = Sim::default();
    let token = exchange(&sim, "/auth/exchange_user_api_key", Sim::API_KEY).await.unwrap();
    assert!(sim.inner.auth.check(&bearing(&token)).is_ok());
    let error = sim.inner.auth.check(&bearing(Sim::API_KEY)).unwrap_err();
    assert_eq!(error.detail.unwrap().kind, ErrorKind::ErrorUnauthorized);
    assert_eq!(exchange(&sim, "/auth/refresh", Sim::API_KEY).await, None);
    assert_eq!(exchange(&sim, "/auth/exchange_user_api_key", "crsr_other").await, None);
}
