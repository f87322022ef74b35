//! Each way to break a stream.

use std::time::Duration;

use ibeam_sim::{
    Chaos, Refuse, ResetCode, Scenario, ScenarioRule, Sim, SimConfig, SimHttp2, StreamCut,
    StreamFault,
};

use crate::peer::{Ended, Heard, Peer};

fn rule(rule: ScenarioRule) -> Sim {
    let scenario = Scenario { rules: vec![rule], ..Scenario::builtin() };
    Sim::new(SimConfig::scenario(scenario))
}

async fn cut(how: StreamFault) -> (Heard, Sim) {
    let sim = rule(ScenarioRule {
        cut: Some(StreamCut { after_frames: 8, how }),
        ..ScenarioRule::default()
    });
    let mut peer = Peer::new(&sim);
    peer.patience = Duration::from_secs(120);
    let heard = peer.ask("hello").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.stats().open_streams, 0);
    (heard, sim)
}

#[track_caller]
fn broken(heard: &Heard, part: &str) {
    assert!(
        matches!(&heard.ended, Some(Ended::Broken(text)) if text.contains(part)),
        "{:?}",
        heard.ended
    );
}

#[tokio::test(start_paused = true)]
async fn streams_end_as_scripted() {
    let (heard, _) = cut(StreamFault::Eof).await;
    assert_eq!(heard.ended, Some(Ended::Eof(false)));
    let (heard, _) = cut(StreamFault::Truncate).await;
    assert_eq!(heard.ended, Some(Ended::Eof(true)));
    let (heard, _) = cut(StreamFault::Reset(ResetCode::INTERNAL_ERROR)).await;
    broken(&heard, "internal error");
    assert!(!heard.updates.is_empty(), "frames before the reset arrive");
    let (heard, _) = cut(StreamFault::Reset(ResetCode(7))).await;
    broken(&heard, "refused");
    let (heard, _) = cut(StreamFault::GoawayNow).await;
    broken(&heard, "");
    let (heard, _) = cut(StreamFault::Disconnect).await;
    broken(&heard, "");
    let (heard, _) = cut(StreamFault::GarbageGzip).await;
    assert_eq!(heard.ended, Some(Ended::Undecodable));
    let (heard, _) = cut(StreamFault::Garbage).await;
    assert_eq!(heard.ended, Some(Ended::Undecodable));
    let (heard, sim) = cut(StreamFault::Error(ibeam_sim::ErrorSpec::kind("RATE_LIMITED"))).await;
    let Some(Ended::Error(error)) = heard.ended else { panic!("{:?}", heard.ended) };
    assert_eq!(error.detail.unwrap().kind, ibeam_proto::aiserver::ErrorKind::ErrorRateLimited);
    assert_eq!(sim.stats().runs_cut, 1);
}

#[tokio::test(start_paused = true)]
async fn goaway_lets_the_stream_finish() {
    let (heard, sim) = cut(StreamFault::Goaway).await;
    assert_eq!(heard.ended, Some(Ended::EndFrame));
    assert_eq!(sim.stats().open_connections, 0);
}

#[tokio::test(start_paused = true)]
async fn black_hole_is_silent_and_heartbeats_only_is_not() {
    let (heard, _) = cut(StreamFault::BlackHole).await;
    assert_eq!((heard.ended, heard.heartbeats), (None, 0));
    let (heard, _) = cut(StreamFault::HeartbeatsOnly).await;
    assert_eq!((heard.ended, heard.heartbeats), (None, 11));
}

#[tokio::test(start_paused = true)]
async fn frozen_connection_stays_open_and_silent() {
    let fault = StreamFault::BlackHoleConnection;
    let sim = rule(ScenarioRule {
        cut: Some(StreamCut { after_frames: 8, how: fault }),
        ..ScenarioRule::default()
    });
    let mut peer = Peer::new(&sim);
    peer.patience = Duration::from_secs(120);
    let heard = peer.ask("hello").await;
    assert_eq!(heard.ended, None);
    assert_eq!(sim.stats().open_connections, 1);
}

#[tokio::test(start_paused = true)]
async fn refusals_come_before_the_stream() {
    for status in [401, 429, 464, 503] {
        let refuse = Some(Refuse::status(status));
        let sim = rule(ScenarioRule { refuse, times: Some(1), ..ScenarioRule::default() });
        let heard = Peer::new(&sim).ask("hello").await;
        let code = http::StatusCode::from_u16(status).unwrap();
        assert_eq!(heard.ended, Some(Ended::Status(code)));
        assert_eq!(heard.headers.contains_key("retry-after"), matches!(status, 429 | 503));
        let heard = Peer::new(&sim).ask("hello").await;
        assert_eq!(heard.ended, Some(Ended::EndFrame), "once is enough");
    }
}

#[tokio::test(start_paused = true)]
async fn delay_comes_before_the_headers() {
    let sim = rule(ScenarioRule { delay_ms: 7000, ..ScenarioRule::default() });
    let start = tokio::time::Instant::now();
    let (tx, pending) = Peer::new(&sim).open().await;
    let request = Peer::new(&sim).request("hi");
    crate::peer::send(&tx, ibeam_proto::agent::agent_client_message::Message::RunRequest(request))
        .await;
    assert!(pending.response.await.is_ok());
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn gzip_is_used_when_accepted_and_splitting_changes_nothing() {
    let sim = rule(ScenarioRule { gzip: true, ..ScenarioRule::default() });
    let mut peer = Peer::new(&sim);
    let plain = peer.ask("hello").await;
    assert!(!plain.headers.contains_key("connect-content-encoding"));
    peer.headers.push(("connect-accept-encoding", "gzip"));
    let zipped = peer.ask("hello").await;
    assert_eq!(zipped.headers["connect-content-encoding"], "gzip");
    assert_eq!(zipped.ended, Some(Ended::EndFrame));
    assert_eq!(plain.text, zipped.text);

    let sim = rule(ScenarioRule { split: Some(3), ..ScenarioRule::default() });
    let split = Peer::new(&sim).ask("hello").await;
    assert!(split.chunks.iter().all(|len| *len <= 3));
    assert_eq!(split.text, plain.text);
}

#[tokio::test(start_paused = true)]
async fn http2_can_be_refused() {
    for (http2, want) in [(SimHttp2::Status(464), "464"), (SimHttp2::Status(421), "421")] {
        let sim = Sim::new(SimConfig { http2, ..SimConfig::default() });
        let heard = Peer::new(&sim).ask("hello").await;
        let Some(Ended::Status(status)) = heard.ended else { panic!("{:?}", heard.ended) };
        assert_eq!(status.as_str(), want);
    }
    let sim = Sim::new(SimConfig { http2: SimHttp2::Http11Required, ..SimConfig::default() });
    broken(&Peer::new(&sim).ask("hello").await, "HTTP/1.1");
    let sim = Sim::new(SimConfig { http2: SimHttp2::NotOffered, ..SimConfig::default() });
    broken(&Peer::new(&sim).ask("hello").await, "");
}

#[tokio::test(start_paused = true)]
async fn chaos_leaves_nothing_behind() {
    let sim = Sim::new(SimConfig { chaos: Some(Chaos::new(42)), ..SimConfig::default() });
    let (mut good, mut bad) = (0, 0);
    for _ in 0..150 {
        let mut peer = Peer::new(&sim);
        peer.patience = Duration::from_secs(60);
        match peer.ask("hello").await.ended {
            Some(Ended::EndFrame) => good += 1,
            _ => bad += 1,
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(good > 50 && bad > 20, "{good} good, {bad} bad");
    let stats = sim.stats();
    assert_eq!((stats.open_streams, stats.open_connections), (0, 0));
    assert_eq!(sim.tasks(), 0);
}
