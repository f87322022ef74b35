//! Requests that come a second time: nothing runs twice, and two equal requests are
//! still two.

use std::time::Duration;

use http_body_util::BodyExt as _;
use ibeam_server::{config::Config, tasks::Tasks};
use ibeam_sim::{Scenario, SimConfig};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::lab::{Lab, Reply, Talk, chat};

/// Speaks for ten seconds.
const SLOW: &str =
    "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 10, pace_ms = 1000 } }]";

/// The same text for every reader, and the id of the conversation in it.
const NAMED: &str = "[[rule]]\nsteps = [{ text = \"{conversation}\" }]";

const KEY: &[(&str, &str)] = &[("idempotency-key", "k-1")];
const RETRY: &[(&str, &str)] = &[("x-stainless-retry-count", "1")];

fn ticks(reply: &Reply) -> usize {
    reply.text().matches("tick").count()
}

/// Reads some of an answer, then leaves.
async fn leave(lab: &Lab, body: &Value, headers: &[(&str, &str)]) {
    let mut response = lab.open_with(body.to_string(), headers).await.into_body();
    response.frame().await.unwrap().unwrap();
    sleep(Duration::from_secs(3)).await;
}

#[tokio::test(start_paused = true)]
async fn idempotency_key_attaches_to_the_running_answer() {
    let lab = Lab::scenario(SLOW);
    let body = chat("hi", true);
    leave(&lab, &body, KEY).await;
    sleep(Duration::from_secs(1)).await;
    let again = lab.post_with(&body, KEY).await;
    assert_eq!((ticks(&again), again.done()), (10, true), "from the start: {}", again.body);
    assert_eq!((lab.sim.stats().runs_started, lab.fates().attached), (1, 1));
    assert_eq!(lab.app.sessions().cancelled, 0);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn sdk_retry_attaches_to_the_running_answer() {
    let lab = Lab::scenario(SLOW);
    let body = chat("hi", true);
    leave(&lab, &body, &[]).await;
    let again = lab.post_with(&body, RETRY).await;
    assert_eq!(ticks(&again), 10);
    assert_eq!(lab.sim.stats().runs_started, 1);
    // With another body it is not a retry of that.
    let other = lab.post_with(&chat("ho", true), RETRY).await;
    assert_eq!((ticks(&other), lab.sim.stats().runs_started), (10, 2));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn finished_answer_is_replayed_for_a_while() {
    let lab = Lab::scenario(NAMED);
    let body = chat("hi", true);
    let first = lab.post_with(&body, KEY).await;
    let again = lab.post_with(&body, KEY).await;
    assert_eq!(first.text(), again.text());
    assert_eq!(again.finish_reason().as_deref(), Some("stop"));
    let whole = {
        // The same answer in another form is another request.
        let mut body = body.clone();
        body["stream"] = json!(false);
        lab.post_with(&body, KEY).await.json()
    };
    assert_ne!(whole["choices"][0]["message"]["content"].as_str().unwrap(), first.text());
    assert_eq!((lab.sim.stats().runs_started, lab.fates().replayed), (2, 1));
    // That one took the key over.
    assert_ne!(lab.post_with(&body, KEY).await.text(), first.text());
    sleep(lab.app.config().sessions.replay + Duration::from_secs(1)).await;
    lab.post_with(&body, KEY).await;
    assert_eq!(lab.sim.stats().runs_started, 4);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn equal_requests_without_a_key_are_two_turns() {
    let lab = Lab::scenario(NAMED);
    let body = chat("hi", true);
    let (one, two) = (lab.post_with(&body, &[]).await, lab.post_with(&body, &[]).await);
    assert_ne!(one.text(), two.text());
    let other = [("idempotency-key", "k-2")];
    assert_ne!(lab.post_with(&body, KEY).await.text(), lab.post_with(&body, &other).await.text());
    let mine = [("idempotency-key", "k-3"), ("authorization", "Bearer mine")];
    let yours = [("idempotency-key", "k-3"), ("authorization", "Bearer yours")];
    assert_ne!(lab.post_with(&body, &mine).await.text(), lab.post_with(&body, &yours).await.text());
    assert_eq!((lab.fates().attached, lab.fates().replayed), (0, 0));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn failed_answer_is_run_again() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        when = { nth = 1 }
        steps = [{ text = "half" }, { error = { code = "internal" } }]
        [[rule]]
        steps = [{ text = "whole" }]
        "#,
    );
    let body = chat("hi", true);
    let first = lab.post_with(&body, KEY).await;
    assert!(first.error().is_some(), "{}", first.body);
    assert_eq!(lab.post_with(&body, KEY).await.text(), "whole");
    assert_eq!(lab.fates().replayed, 0);
    lab.assert_gone().await;
}

const TOOL: &str = r#"
    [[rule]]
    when = { nth = 1 }
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = { text = "tick ", repeat = 5, pace_ms = 1000 } },
    ]
    [[rule]]
    steps = [{ text = "told anew" }]
"#;

#[tokio::test(start_paused = true)]
async fn repeated_results_get_one_answer() {
    let lab = Lab::scenario(TOOL);
    let mut talk = Talk::new("look");
    let call = talk.ask(&lab).await.call();
    talk.result(&call, "a b c");
    let (one, two) = tokio::join!(talk.send(&lab), async {
        sleep(Duration::from_secs(2)).await;
        talk.send(&lab).await
    });
    assert_eq!((ticks(&one), ticks(&two)), (5, 5), "{}\n{}", one.body, two.body);
    // Late, when all is over.
    assert_eq!(ticks(&talk.send(&lab).await), 5);
    assert_eq!(lab.sim.stats().runs_started, 1);
    let fates = lab.fates();
    assert_eq!((fates.resumed, fates.attached, fates.replayed), (1, 1, 1));
    // The same results and a message: that is not a repetition.
    talk.say("and?");
    assert_eq!(talk.send(&lab).await.text(), "told anew");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_results_get_one_answer() {
    let lab = Lab::scenario(TOOL);
    let mut talk = Talk::new("look");
    let call = talk.ask(&lab).await.call();
    talk.result(&call, "a b c");
    let (one, two) = tokio::join!(talk.send(&lab), talk.send(&lab));
    assert_eq!((ticks(&one), ticks(&two)), (5, 5), "{}\n{}", one.body, two.body);
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn answer_with_calls_can_be_requested_again() {
    let lab = Lab::scenario(TOOL);
    let talk = Talk::new("look");
    let first = lab.post_with(&talk.body, KEY).await;
    let again = lab.post_with(&talk.body, KEY).await;
    assert_eq!(first.call(), again.call());
    assert_eq!((lab.sim.stats().runs_started, lab.app.sessions().parked), (1, 1));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn remaining_reader_gets_the_whole_answer() {
    let lab = Lab::scenario(SLOW);
    let body = chat("hi", true);
    let first = async { lab.post_with(&body, KEY).await };
    let second = async {
        sleep(Duration::from_secs(2)).await;
        leave(&lab, &body, KEY).await;
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!((ticks(&first), first.done()), (10, true));
    assert_eq!((lab.fates().attached, lab.app.sessions().cancelled), (1, 0));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn number_of_readers_is_limited() {
    let lab = Lab::scenario(SLOW);
    let body = chat("hi", true).to_string();
    let mut readers = Vec::new();
    for _ in 0..4 {
        readers.push(lab.open_with(body.clone(), KEY).await);
    }
    let fifth = Reply::read(lab.open_with(body, KEY).await).await;
    assert_eq!(fifth.status, 429, "{}", fifth.body);
    drop(readers);
    lab.assert_gone().await;
}

/// A second reader that takes nothing is cut, and the first gets everything.
#[tokio::test(start_paused = true)]
async fn sleeping_reader_does_not_block_others() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = { text = \"0123456789\", repeat = 5000, pace_ms = 10 } }]",
    );
    let body = chat("hi", true);
    let sleeper = async {
        sleep(Duration::from_secs(1)).await;
        let response = lab.open_with(body.to_string(), KEY).await;
        sleep(Duration::from_secs(600)).await;
        Reply::read(response).await
    };
    let (first, sleeper) = tokio::join!(lab.post_with(&body, KEY), sleeper);
    assert_eq!((first.text().len(), first.done()), (50_000, true));
    assert!(sleeper.body.contains("stopped reading for too long"), "{}", sleeper.body.len());
    lab.assert_gone().await;
}

/// Two windows ask the same; the one that left comes back.
#[tokio::test(start_paused = true)]
async fn retry_finds_its_own_turn_among_equal_requests() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = \"{conversation} \" }, \
         { text = { text = \"tick \", repeat = 10, pace_ms = 1000 } }]",
    );
    let body = chat("hi", true);
    let mut left = lab.open_with(body.to_string(), &[]).await.into_body();
    let begun = left.frame().await.unwrap().unwrap().into_data().unwrap();
    let begun = String::from_utf8(begun.to_vec()).unwrap();
    let stays = async { lab.post_with(&body, &[]).await };
    let returns = async {
        sleep(Duration::from_secs(1)).await;
        drop(left);
        sleep(Duration::from_secs(1)).await;
        lab.post_with(&body, RETRY).await
    };
    let (stays, returns) = tokio::join!(stays, returns);
    let id = |reply: &Reply| reply.text().split(' ').next().unwrap().to_owned();
    assert_ne!(id(&stays), id(&returns));
    assert!(begun.contains(&id(&returns)[..8]), "{begun}");
    assert_eq!((ticks(&returns), lab.sim.stats().runs_started), (10, 2));
    lab.assert_gone().await;
}

/// A copy that comes while the first has no place yet waits for it.
#[tokio::test(start_paused = true)]
async fn pipelined_copies_are_one_turn() {
    let one_place = |config: &mut Config| config.limits.turns = 1;
    let lab = Lab::with(SimConfig::scenario(Scenario::from_toml(SLOW).unwrap()), one_place);
    let (other, body) = (chat("first", true), chat("hi", true));
    let ((), one, two) = tokio::join!(
        async {
            lab.post_with(&other, &[]).await;
        },
        async {
            sleep(Duration::from_secs(1)).await;
            lab.post_with(&body, KEY).await
        },
        async {
            sleep(Duration::from_secs(2)).await;
            lab.post_with(&body, KEY).await
        },
    );
    assert_eq!((ticks(&one), ticks(&two)), (10, 10), "{}\n{}", one.body, two.body);
    assert_eq!((lab.sim.stats().runs_started, lab.fates().attached), (2, 1));
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn simultaneous_copies_are_one_turn() {
    let lab = Lab::scenario(SLOW);
    let body = chat("hi", true);
    let (one, two) = tokio::join!(lab.post_with(&body, KEY), lab.post_with(&body, KEY));
    assert_eq!((ticks(&one), ticks(&two)), (10, 10));
    assert_eq!(lab.sim.stats().runs_started, 1);
    lab.assert_gone().await;
}

/// The first gives up its place in the queue; the copy gets it.
#[tokio::test(start_paused = true)]
async fn copy_continues_when_the_first_client_leaves() {
    let one_place = |config: &mut Config| config.limits.turns = 1;
    let lab = Lab::with(SimConfig::scenario(Scenario::from_toml(SLOW).unwrap()), one_place);
    let (other, body) = (chat("first", true), chat("hi", true));
    let ((), (), two) = tokio::join!(
        async {
            lab.post_with(&other, &[]).await;
        },
        async {
            sleep(Duration::from_secs(1)).await;
            let first = lab.open_with(body.to_string(), KEY);
            assert!(tokio::time::timeout(Duration::from_secs(3), first).await.is_err());
        },
        async {
            sleep(Duration::from_secs(2)).await;
            lab.post_with(&body, KEY).await
        },
    );
    assert_eq!((ticks(&two), lab.sim.stats().runs_started), (10, 2));
    lab.assert_gone().await;
}

/// An edited result is another one, however soon it comes.
#[tokio::test(start_paused = true)]
async fn different_result_gets_a_different_answer() {
    let lab = Lab::scenario(TOOL);
    let mut talk = Talk::new("look");
    let call = talk.ask(&lab).await.call();
    let mut edited = talk.clone();
    talk.result(&call, "a b c");
    edited.result(&call, "x y z");
    let (one, two) = tokio::join!(talk.send(&lab), async {
        sleep(Duration::from_secs(2)).await;
        edited.send(&lab).await
    });
    assert_eq!((ticks(&one), two.text().as_str()), (5, "told anew"));
    assert_eq!((lab.fates().attached, lab.fates().replayed), (0, 0));
    lab.assert_gone().await;
}

/// A client that goes away in the moment in which the backend says something is missed all
/// the same, whichever of the two is seen first.
#[tokio::test(start_paused = true)]
async fn reader_that_leaves_during_a_read_is_detected() {
    let scenario =
        "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 100, pace_ms = 1000 } }]";
    for rounds in 0..40 {
        let lab = Lab::scenario(scenario);
        let mut body = lab.open(chat("hi", true).to_string()).await.into_body();
        body.frame().await.unwrap().unwrap();
        // It wakes together with the next words, and lets others go before so many times.
        Tasks::new().spawn("client", async move {
            sleep(Duration::from_secs(3)).await;
            let mut left = rounds;
            std::future::poll_fn(move |cx| {
                if left == 0 {
                    return std::task::Poll::Ready(());
                }
                left -= 1;
                cx.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
            drop(body);
        });
        sleep(lab.app.config().clocks.cancel_grace + Duration::from_secs(6)).await;
        assert_eq!(lab.app.sessions().cancelled, 1, "{rounds}");
        assert_eq!(lab.app.free_turns(), lab.app.config().limits.turns, "{rounds}");
        lab.assert_gone().await;
    }
}

/// The answer is complete, and its reader has not taken it yet: a retry gets the same one.
#[tokio::test(start_paused = true)]
async fn slow_reader_keeps_its_leg() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ batch = [{ text = { text = \"0123456789\", repeat = 400 } }, \
         \"turn_ended\", \"end\"] }]",
    );
    let body = chat("hi", true);
    let mut slow = lab.open_with(body.to_string(), KEY).await.into_body();
    // Enough to make the gateway read the rest, which is more than waits for a client.
    let mut taken = String::new();
    while taken.matches("0123456789").count() < 150 {
        let frame = slow.frame().await.unwrap().unwrap().into_data().unwrap();
        taken.push_str(std::str::from_utf8(&frame).unwrap());
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_secs(10)).await;
    assert_eq!((lab.sim.stats().runs_finished, lab.app.sessions().active), (1, 1));
    let again = lab.post_with(&body, KEY);
    let (rest, again) = tokio::join!(slow.collect(), again);
    taken.push_str(std::str::from_utf8(&rest.unwrap().to_bytes()).unwrap());
    assert_eq!(taken.matches("0123456789").count(), 400);
    assert_eq!((again.text().len(), again.done()), (4000, true));
    assert_eq!((lab.sim.stats().runs_started, lab.fates().attached), (1, 1));
    lab.assert_gone().await;
}
