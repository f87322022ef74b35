//! HTTP/2 with small windows, and the HTTP/1.1 pair when HTTP/2 is refused.

use ibeam_sim::{Scenario, SimConfig, SimHttp2};

use crate::lab::{Lab, chat};

const RUN_SSE: &str = "/agent.v1.AgentService/RunSSE";

fn refusing(http2: SimHttp2) -> Lab {
    Lab::with(SimConfig { http2, ..SimConfig::default() }, |_| {})
}

#[tokio::test(start_paused = true)]
async fn megabyte_fits_through_a_64_kib_window() {
    let sim = SimConfig {
        initial_window: Some(64 * 1024),
        connection_window: Some(64 * 1024),
        ..SimConfig::scenario(Scenario::from_toml("[[rule]]\nsteps = [{ text = \"ok\" }]").unwrap())
    };
    let lab = Lab::with(sim, |_| {});
    let text = "word ".repeat(200_000);
    let reply = lab.stream(&text).await;
    assert_eq!(reply.finish_reason().as_deref(), Some("stop"), "{}", reply.status);
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn http1_carries_the_same_answer_when_http2_is_refused() {
    let want = Lab::new().stream("Say hello").await.text();
    for http2 in [SimHttp2::Status(464), SimHttp2::Status(421), SimHttp2::Http11Required] {
        let lab = refusing(http2);
        for _ in 0..2 {
            assert_eq!(lab.stream("Say hello").await.text(), want, "{http2:?}");
        }
        let stats = lab.sim.stats();
        assert_eq!(stats.requests.get(RUN_SSE), Some(&2), "{http2:?}");
        assert_eq!(
            stats.requests.get("/agent.v1.AgentService/Run"),
            Some(&1),
            "{http2:?}: the refusal is remembered"
        );
        assert_eq!(stats.violations, Vec::<String>::new());
        lab.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn server_config_decides_before_the_first_attempt() {
    for policy in [1, 3] {
        let lab = Lab::with(SimConfig { http2_config: policy, ..SimConfig::default() }, |_| {});
        assert!(lab.stream("Say hello").await.done());
        let stats = lab.sim.stats();
        assert_eq!(stats.requests.get("/agent.v1.AgentService/Run"), None, "{policy}");
        assert_eq!(stats.requests.get(RUN_SSE), Some(&1), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn disconnect_cancels_over_http1_too() {
    let lab = refusing(SimHttp2::Status(464));
    let response = lab.open(chat("Say hello", true).to_string()).await;
    drop(response);
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn many_streams_share_connections_without_starving() {
    let lab = std::sync::Arc::new(Lab::with(SimConfig::default(), |config| {
        config.limits.turns = 300;
    }));
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..250 {
        let lab = std::sync::Arc::clone(&lab);
        all.spawn(async move { lab.stream("Say hello").await.done() });
    }
    while let Some(done) = all.join_next().await {
        assert!(done.unwrap());
    }
    lab.assert_clean().await;
}
