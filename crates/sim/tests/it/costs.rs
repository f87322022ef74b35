//! What a run costs: the wait for the model, and the bytes in both directions.

use std::time::Duration;

use bytes::Bytes;
use ibeam_sim::{Sim, SimConfig};
use serde_json::Value;

use crate::{
    http1,
    peer::{CONVERSATION, Ended, Peer, call, resume, summer},
};

#[tokio::test(start_paused = true)]
async fn every_run_waits_for_the_model_once() {
    let bootstrap = Duration::from_secs(25);
    let config = SimConfig { bootstrap, pace: Duration::ZERO, ..SimConfig::default() };
    let sim = Sim::new(summer(config));
    let mut peer = Peer::new(&sim).tool("bash", Bytes::new());
    let start = tokio::time::Instant::now();
    let heard = peer.ask("run `a`, then run `b`, then run `c`").await;
    assert_eq!((heard.ended, heard.execs.len()), (Some(Ended::EndFrame), 4));
    assert_eq!((start.elapsed(), heard.heartbeats), (bootstrap, 2));
    assert_eq!(sim.stats().bootstraps, 1);
    let request = resume(peer.request(""));
    peer.run(request).await;
    assert_eq!((start.elapsed(), sim.stats().bootstraps), (bootstrap * 2, 2));
}

#[tokio::test(start_paused = true)]
async fn bytes_are_counted_per_run_and_in_total() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim).tool("bash", Bytes::new());
    let heard = peer.ask("run `a`, then run `b`").await;
    let received: usize = heard.chunks.iter().sum();
    let small = sim.runs()[0].clone();
    assert_eq!(small.bytes_out, received as u64);
    assert_eq!((small.execs, small.transport, small.ended), (2, "run", "finished"));
    assert_eq!((small.run, small.conversation.as_str()), (1, CONVERSATION));
    assert!(!small.resumed);

    let padding = 10_000;
    peer.ask(&format!("run `a`, then run `b` {}", "x".repeat(padding))).await;
    let large = sim.runs()[1].clone();
    // The text counts once upwards; its two copies in blobs count downwards.
    assert!((padding as u64..padding as u64 + 200).contains(&(large.bytes_in - small.bytes_in)));

    // Appends also count their bodies, with the hex inside.
    let request = resume(peer.request(""));
    http1::run_sse(&mut peer, request).await;
    let runs = sim.runs();
    assert_eq!((runs[2].transport, runs[2].resumed), ("run_sse", true));
    let stats = sim.stats();
    assert_eq!(stats.bytes_in, runs.iter().map(|run| run.bytes_in).sum::<u64>());
    assert_eq!(stats.bytes_out, runs.iter().map(|run| run.bytes_out).sum::<u64>());
    assert_eq!(stats.conversations[CONVERSATION], 3);
}

#[tokio::test(start_paused = true)]
async fn other_processes_can_read_the_counters() {
    let sim = Sim::default();
    let mut peer = Peer::new(&sim);
    peer.ask("hello").await;
    let request = http::Request::get("/sim/stats");
    let response = call(&sim, request, Bytes::new()).await;
    assert_eq!(response.status(), 200);
    let stats: Value = serde_json::from_slice(response.body()).unwrap();
    assert_eq!((&stats["runs_finished"], &stats["bootstraps"]), (&1.into(), &1.into()));
    assert_eq!(stats["conversations"][CONVERSATION], 1);
    assert_eq!(stats["runs"][0]["ended"], "finished");
    assert_eq!(stats["runs"][0]["request_id"], "33333333-3333-4333-8333-333333333333");
    assert_eq!(stats["runs"][0]["bytes_in"], stats["bytes_in"]);
    // Reading the counters does not change them.
    assert!(!sim.stats().requests.contains_key("/sim/stats"));
    let request = http::Request::post("/sim/stats");
    assert_eq!(call(&sim, request, Bytes::new()).await.status(), 404);
}
