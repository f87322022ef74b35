//! Every way a turn can end, and silence that is not an ending.

use std::time::Duration;

use tokio::time::Instant;

use crate::lab::Lab;

#[tokio::test(start_paused = true)]
async fn every_ending_of_the_backend_has_an_ending_for_clients() {
    for (quirk, code) in [
        ("no_turn_ended", None),
        ("no_end_frame", None),
        ("no_end", None),
        ("blob_only", None),
        ("text_and_blob", None),
        ("reask_context", None),
        ("empty_exec_id", None),
        ("ids_from_zero", None),
        ("error_after_turn_ended", Some("unavailable")),
        ("bare_eof", Some("upstream_closed")),
    ] {
        let lab = Lab::scenario(&format!(
            "[[rule]]\nquirks = [\"{quirk}\"]\nsteps = [{{ text = \"The answer.\" }}]"
        ));
        let reply = lab.stream("hi").await;
        match code {
            None => {
                assert_eq!(reply.text(), "The answer.", "{quirk}: {}", reply.body);
                assert_eq!(reply.finish_reason().as_deref(), Some("stop"), "{quirk}");
                assert!(reply.done(), "{quirk}");
            }
            Some(code) => {
                assert!(reply.finish_reason().is_none(), "{quirk}: {}", reply.body);
                assert_eq!(reply.error().as_deref(), Some(code), "{quirk}: {}", reply.body);
            }
        }
        lab.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn leaked_thinking_is_reasoning() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = { text = \"<think>why</think>because\", chunk = 2 } }]",
    );
    let reply = lab.stream("hi").await;
    assert_eq!((reply.text().as_str(), reply.reasoning().as_str()), ("because", "why"));
}

#[tokio::test(start_paused = true)]
async fn empty_turn_is_retried_once_under_a_new_id() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        times = 1
        quirks = ["empty_turn"]
        [[rule]]
        steps = [{ text = "second try" }]
        "#,
    );
    assert_eq!(lab.ask("hi").await, "second try");
    assert_eq!(lab.sim.stats().runs_started, 2);

    let lab = Lab::scenario("[[rule]]\nquirks = [\"empty_turn\"]");
    let reply = lab.stream("hi").await;
    assert_eq!((reply.status.as_u16(), reply.error().as_deref()), (502, Some("upstream_error")));
    assert_eq!(lab.sim.stats().runs_started, 2);
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn stuck_conversation_is_replaced_by_a_new_one() {
    let lab = Lab::scenario(
        "[[rule]]\nquirks = [\"stuck_conversation\"]\nsteps = [{ text = \"healed\" }]",
    );
    assert_eq!(lab.ask("hi").await, "healed");
    lab.assert_clean().await;
}

/// Nine minutes before the first token: healthy as long as heartbeats come.
#[tokio::test(start_paused = true)]
async fn long_silence_with_heartbeats_is_waited_for() {
    let lab = Lab::scenario("[[rule]]\nsteps = [{ silence = 540 }, { text = \"at last\" }]");
    let start = Instant::now();
    let reply = lab.stream("hi").await;
    assert_eq!(reply.text(), "at last");
    assert!(start.elapsed() >= Duration::from_secs(540));
    let stats = lab.sim.stats();
    assert!(stats.client_heartbeats >= 107, "{}", stats.client_heartbeats);
    assert_eq!(stats.runs_silent, 0);
    assert!(reply.body.contains(": keep-alive"), "comments keep the client's connection alive");
    lab.assert_clean().await;
}

/// A park's length, with the clock for quiet models raised.
#[tokio::test(start_paused = true)]
async fn fifteen_minutes_of_heartbeats_lose_nothing() {
    let scenario = ibeam_sim::Scenario::from_toml(
        "[[rule]]\nsteps = [{ text = \"before \" }, { silence = 900 }, { text = \"after\" }]",
    );
    let sim = ibeam_sim::SimConfig::scenario(scenario.unwrap());
    let lab = Lab::with(sim, |config| config.clocks.heartbeats_only = Duration::from_secs(1200));
    let reply = lab.stream("hi").await;
    assert_eq!(reply.text(), "before after");
    assert!(lab.sim.stats().client_heartbeats >= 179);
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn clocks_end_hanging_turns() {
    for (fault, limit) in [("black_hole", 200), ("heartbeats_only", 700)] {
        let lab = Lab::scenario(&format!(
            "[[rule]]\nsteps = [{{ text = \"x\" }}, {{ fault = \"{fault}\" }}]"
        ));
        let start = Instant::now();
        let reply = lab.stream("hi").await;
        assert_eq!(reply.error().as_deref(), Some("timeout"), "{fault}: {}", reply.body);
        assert!(start.elapsed() < Duration::from_secs(limit), "{fault}");
        assert_eq!(reply.text(), "x");
        lab.assert_clean().await;
    }
}
