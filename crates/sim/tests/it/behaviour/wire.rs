//! Hosts, models, versions and errors for whole runs.

use std::time::Duration;

use bytes::Bytes;
use ibeam_core::codec::connect::Code;
use ibeam_proto::{
    agent::{ModelDetails, RequestedModel},
    aiserver::ErrorKind,
};
use serde_json::Value;
use tokio::time::Instant;

use super::{answered, autumn, error};
use crate::peer::{Ended, Peer, call, parameter};

#[tokio::test(start_paused = true)]
async fn server_config_has_the_addresses_for_runs() {
    for (value, agent, agentn) in [
        ("both", true, true),
        ("agent", true, false),
        ("agentn", false, true),
        ("none", false, false),
    ] {
        let sim = autumn(&[("host.config", value)]);
        let head = Peer::new(&sim)
            .head("/aiserver.v1.ServerConfigService/GetServerConfig", "application/json");
        let config = call(&sim, head, Bytes::from_static(b"{}")).await;
        let config: Value = serde_json::from_slice(config.body()).unwrap();
        let has = |name: &str| {
            config["agentUrlConfig"][name].as_str().is_some_and(|url| url.ends_with(".cursor.sh"))
        };
        assert_eq!((has("agentUrl"), has("agentnUrl")), (agent, agentn));
    }
}

#[tokio::test(start_paused = true)]
async fn one_host_may_refuse_the_region() {
    let sim = autumn(&[("host.region_error", "agentn")]);
    let mut peer = Peer::new(&sim);
    peer.host = "agentn.global.api5.cursor.sh";
    let refused = error(peer.ask("hello").await);
    assert_eq!(refused.code, Code::Unauthenticated);
    let detail = refused.detail.unwrap();
    assert_eq!(detail.title, "Unauthorized request.");
    assert!(detail.detail.contains("region"));
    peer.host = "agent.global.api5.cursor.sh";
    answered(&peer.ask("hello").await);
    let mut peer = Peer::new(&autumn(&[]));
    peer.host = "agentn.global.api5.cursor.sh";
    answered(&peer.ask("hello").await);
}

#[tokio::test(start_paused = true)]
async fn agentn_refuses_http1() {
    for (value, status) in [("on", 464), ("off", 400)] {
        let sim = autumn(&[("host.agentn_464", value)]);
        let mut peer = Peer::new(&sim);
        peer.host = "agentn.global.api5.cursor.sh";
        let head = peer.head("/agent.v1.AgentService/RunSSE", "application/connect+proto");
        // Without the name of the peer, `call` would add that of the simulator.
        let response = call(&sim, head, Bytes::new()).await;
        assert_eq!(response.status().as_u16(), status, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn http2_may_open_slowly() {
    for (value, seconds) in [("20s", 20), ("off", 0)] {
        let sim = autumn(&[("host.h2_delay", value)]);
        let start = Instant::now();
        answered(&Peer::new(&sim).ask("hello").await);
        assert_eq!(start.elapsed().as_secs(), seconds);
        // HTTP/1.1 is as fast as ever.
        let start = Instant::now();
        call(&sim, http::Request::get("http://sim/sim/stats"), Bytes::new()).await;
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn models_may_need_max_mode() {
    for (value, model, fails) in [
        ("listed", "claude-opus-4-7", true),
        ("listed", "claude-opus-5", false),
        ("all", "claude-opus-5", true),
        ("off", "claude-opus-4-7", false),
    ] {
        let sim = autumn(&[("model.max_required", value)]);
        let mut peer = Peer::new(&sim);
        let mut request = super::with_model(peer.request("hello"), model);
        let heard = peer.run(request.clone()).await;
        if !fails {
            answered(&heard);
            continue;
        }
        let error = error(heard);
        assert_eq!(error.code, Code::FailedPrecondition);
        assert_eq!(error.detail.unwrap().kind, ErrorKind::ErrorMaxModeRequired);
        request.requested_model.as_mut().unwrap().max_mode = true;
        answered(&peer.run(request).await);
    }
}

#[tokio::test(start_paused = true)]
async fn model_fields_may_be_missing_or_in_conflict() {
    let details = ModelDetails { model_id: "claude-opus-5".to_owned(), ..ModelDetails::default() };
    let requested = RequestedModel {
        model_id: "claude-opus-5".to_owned(),
        parameters: vec![parameter("effort", "high")],
        ..RequestedModel::default()
    };
    for (name, value, both, outcome) in [
        ("model.details_missing_empty", "on", false, "empty"),
        ("model.details_missing_empty", "on", true, "answer"),
        ("model.details_missing_empty", "off", false, "answer"),
        ("model.both_conflict", "on", true, "error"),
        ("model.both_conflict", "on", false, "answer"),
        ("model.both_conflict", "off", true, "answer"),
    ] {
        let mut peer = Peer::new(&autumn(&[(name, value)]));
        let mut request = peer.request("hello");
        request.requested_model = Some(requested.clone());
        request.model_details = both.then(|| details.clone());
        let heard = peer.run(request).await;
        match outcome {
            "empty" => assert!(heard.text.is_empty() && heard.turn_ended.is_some()),
            "error" => assert_eq!(error(heard).code, Code::InvalidArgument),
            _ => answered(&heard),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_error_has_its_code_and_its_details() {
    use ErrorKind as K;
    for (name, code, kind) in [
        ("error.plan_limit", Code::ResourceExhausted, None),
        ("error.provider_refused", Code::ResourceExhausted, Some(K::ErrorProviderError)),
        ("error.provider_busy", Code::ResourceExhausted, Some(K::ErrorProviderError)),
        ("error.free_plan", Code::ResourceExhausted, Some(K::ErrorRateLimitedChangeable)),
        ("error.trial_limit", Code::ResourceExhausted, Some(K::ErrorRateLimited)),
        ("error.region_model", Code::ResourceExhausted, Some(K::ErrorUnsupportedRegion)),
        ("error.model_blocked", Code::FailedPrecondition, Some(K::ErrorModelBlocked)),
        ("error.policy_review", Code::InvalidArgument, Some(K::ErrorOpenai)),
        ("error.late_invalid", Code::InvalidArgument, None),
        ("error.data_missing", Code::Internal, None),
        ("error.schema_bytes", Code::Internal, None),
        ("error.not_logged_in", Code::Unauthenticated, Some(K::ErrorNotLoggedIn)),
        ("model.not_found", Code::NotFound, Some(K::ErrorBadModelName)),
    ] {
        let sim = autumn(&[(name, "first")]);
        let refused = error(Peer::new(&sim).ask("hello").await);
        assert_eq!(refused.code, code, "{name}");
        assert_eq!(refused.detail.as_ref().map(|detail| detail.kind), kind, "{name}");
        let action = refused.detail.map(|detail| detail.action_required).unwrap_or_default();
        match name {
            "error.policy_review" => assert_eq!(action, "cyber_policy_review"),
            "error.model_blocked" => assert_eq!(action, "config"),
            _ => assert_eq!(action, ""),
        }
        // Only the first run fails.
        answered(&Peer::new(&sim).ask("hello").await);
        let sim = autumn(&[(name, "always")]);
        for _ in 0..2 {
            assert_eq!(error(Peer::new(&sim).ask("hello").await).code, code);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stream_may_close_without_a_frame() {
    let sim = autumn(&[("error.instant_close", "first")]);
    let heard = Peer::new(&sim).ask("hello").await;
    assert_eq!((heard.ended, heard.chunks.iter().sum::<usize>()), (Some(Ended::Eof(false)), 0));
    answered(&Peer::new(&sim).ask("hello").await);
}

#[tokio::test(start_paused = true)]
async fn headers_of_the_ide_are_refused_as_too_many_computers() {
    for (value, status) in [("on", 429), ("off", 200)] {
        let sim = autumn(&[("error.too_many_computers", value)]);
        let mut peer = Peer::new(&sim);
        peer.headers.push(("x-cursor-checksum", "abc"));
        let heard = peer.ask("hello").await;
        match status {
            200 => answered(&heard),
            status => {
                let status = http::StatusCode::from_u16(status).unwrap();
                assert_eq!(heard.ended, Some(Ended::Status(status)));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn old_versions_are_refused_below_the_floor() {
    for (value, refused) in [("2026.09.23", true), ("2026.01.01", false), ("off", false)] {
        let sim = autumn(&[("version.floor", value)]);
        let heard = Peer::new(&sim).ask("hello").await;
        assert_eq!(matches!(heard.ended, Some(Ended::Status(_))), refused, "{value}");
    }
}
