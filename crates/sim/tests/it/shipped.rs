//! The scenario files of this crate: all are valid, and the important ones run as described.

use ibeam_proto::agent::exec_server_message::Message as Exec;
use ibeam_sim::{Scenario, Sim, SimConfig};

use crate::peer::{Ended, Peer, summer};

fn load(name: &str) -> Scenario {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    Scenario::from_path(format!("{dir}/{name}.toml")).unwrap()
}

fn sim(name: &str) -> Sim {
    Sim::new(SimConfig::scenario(load(name)))
}

/// As the summer played it: without a question about MCP servers, and with calls of tools that
/// the client does not offer.
fn summer_sim(name: &str) -> Sim {
    Sim::new(summer(SimConfig::scenario(load(name))))
}

#[test]
fn all_files_are_valid() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            Scenario::from_path(path).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(count >= 6);
    // So is the example in the guide.
    let guide = std::fs::read_to_string(format!("{dir}/README.md")).unwrap();
    let example = guide.split("```toml").nth(1).unwrap().split("```").next().unwrap();
    Scenario::from_toml(example).unwrap_or_else(|error| panic!("{error}"));
}

#[tokio::test(start_paused = true)]
async fn scripted_tool_call_gets_its_ids_and_provider() {
    let sim = summer_sim("weather");
    let mut peer = Peer::new(&sim).tool("get_weather", bytes::Bytes::new());
    peer.mcp_text = "12C".to_owned();
    let heard = peer.ask("How is the weather?").await;
    assert_eq!(heard.text, "In Oslo it is: 12C");
    let Some(Exec::McpArgs(args)) = &heard.execs[1].message else { panic!("no mcp call") };
    assert_eq!(
        (args.provider_identifier.as_str(), args.tool_name.as_str()),
        ("peer", "get_weather")
    );
    assert!(args.tool_call_id.starts_with("call_"));
    let usage = heard.turn_ended.unwrap();
    assert_eq!((usage.input_tokens, usage.cache_read_tokens), (Some(120), Some(100)));
    // Without tools the rule does not match: the assistant answers.
    let heard = Peer::new(&sim).ask("How is the weather?").await;
    assert!(heard.text.starts_with("I understand"));
}

#[tokio::test(start_paused = true)]
async fn every_arm_can_be_sent_and_is_awaited() {
    let sim = summer_sim("exec-arms");
    let heard = Peer::new(&sim).ask("go").await;
    assert_eq!(heard.text, "All arms were answered.");
    assert_eq!(heard.queries, 10);
    // One more than in the file: the context at the start.
    assert_eq!(heard.execs.len(), 42);
    let stats = sim.stats();
    assert_eq!(stats.execs_sent, 42);
    assert_eq!(stats.exec_throws, 38);
}

#[tokio::test(start_paused = true)]
async fn parallel_results_are_joined_and_an_abort_needs_no_answer() {
    let sim = summer_sim("parallel");
    let heard = Peer::new(&sim).ask("go").await;
    assert_eq!(heard.text, "Both answered: tool says hi\ntool says hi Never mind the rest.");
    assert_eq!(heard.aborted.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn fast_stream_is_packed_or_single() {
    let heard = Peer::new(&sim("fast")).ask("go").await;
    assert_eq!(heard.text.len(), 60_000);
    assert!(heard.chunks.len() < 200, "{} chunks", heard.chunks.len());
    let heard = Peer::new(&sim("fast-single")).ask("go").await;
    assert_eq!(heard.text.len(), 60_000);
    assert!(heard.chunks.len() >= 10_000, "{} chunks", heard.chunks.len());
}

#[tokio::test(start_paused = true)]
async fn errors_are_sent_as_scripted() {
    let sim = sim("errors");
    let heard = Peer::new(&sim).ask("hit the rate limit").await;
    assert_eq!(heard.ended, Some(Ended::Status(http::StatusCode::TOO_MANY_REQUESTS)));
    assert_eq!(heard.headers["retry-after"], "3");
    let heard = Peer::new(&sim).ask("ask the provider").await;
    assert_eq!(heard.text, "Just a moment");
    let Some(Ended::Error(error)) = heard.ended else { panic!("{:?}", heard.ended) };
    assert_eq!(error.detail.unwrap().retryable, Some(true));
    let heard = Peer::new(&sim).ask("cut a frame").await;
    assert_eq!(heard.ended, Some(Ended::Eof(true)));
}
