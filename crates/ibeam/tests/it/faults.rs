//! Faults before, in and after the stream: the right code, in the right place, and
//! nothing left behind.

use ibeam_sim::{Chaos, SimConfig};

use crate::lab::{Lab, Talk, chat};

#[tokio::test(start_paused = true)]
async fn refusals_before_the_first_byte_have_their_status() {
    for (status, code, runs) in [
        (401, "not_authenticated", 1),
        (403, "policy_denied", 1),
        (429, "quota_exceeded", 1),
        (503, "unavailable", 4),
    ] {
        let lab = Lab::scenario(&format!("[[rule]]\nrefuse = {{ status = {status} }}"));
        let reply = lab.stream("hi").await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.body);
        assert_eq!(reply.error().as_deref(), Some(code), "{status}");
        assert_eq!(reply.json()["error"]["status"], status);
        let path = "/agent.v1.AgentService/Run";
        assert_eq!(lab.sim.stats().requests.get(path), Some(&runs), "{status}");
        lab.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_the_backend_is_passed_on() {
    let lab = Lab::scenario("[[rule]]\nrefuse = { status = 429, retry_after = 17 }");
    let reply = lab.stream("hi").await;
    assert_eq!(reply.headers["retry-after"], "17");

    let lab = Lab::scenario("[[rule]]\nrefuse = { status = 429 }");
    assert_eq!(lab.stream("hi").await.headers["retry-after"], "5");
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_plan_must_not_be_retried() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        steps = [{ error = { code = "resource_exhausted", kind = "PRO_USER_USAGE_LIMIT",
                             title = "Limit", detail = "You've hit your usage limit" } }]
        "#,
    );
    let reply = lab.stream("hi").await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.error().as_deref(), Some("insufficient_quota"));
    assert_eq!(reply.headers["x-should-retry"], "false");
    assert!(reply.body.contains("You've hit your usage limit"), "{}", reply.body);
}

#[tokio::test(start_paused = true)]
async fn temporary_failure_before_the_first_message_is_hidden() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        times = 2
        refuse = { status = 503 }
        [[rule]]
        steps = [{ text = "third time lucky" }]
        "#,
    );
    assert_eq!(lab.ask("hi").await, "third time lucky");
}

/// An outage with a client that retries by itself, as Codex and the SDKs do.
#[tokio::test(start_paused = true)]
async fn retries_of_client_and_gateway_do_not_multiply() {
    let outages = ["refuse = { status = 503 }", "steps = [{ error = { code = \"unavailable\" } }]"];
    for outage in outages {
        let lab = Lab::scenario(&format!("[[rule]]\n{outage}"));
        let runs = || lab.sim.stats().requests.get("/agent.v1.AgentService/Run").copied();
        for attempt in 1..=6 {
            // The same request in other bytes, as Codex writes it.
            let body = format!("{}{}", chat("hi", true), " ".repeat(attempt));
            assert_eq!(lab.post(body).await.status, 503);
            let attempt = u64::try_from(attempt).unwrap();
            assert_eq!(runs(), Some(3 + attempt), "{outage}");
        }
        // Another conversation has a budget of its own, and so has the next minute.
        lab.stream("something else").await;
        assert_eq!(runs(), Some(9 + 4), "{outage}");
        tokio::time::advance(std::time::Duration::from_secs(61)).await;
        lab.stream("hi").await;
        assert_eq!(runs(), Some(13 + 4), "{outage}");
        // An SDK says that it retries.
        let retry = [("x-stainless-retry-count", "1")];
        lab.post_with(&chat("a third one", true), &retry).await;
        assert_eq!(runs(), Some(17 + 2), "{outage}");
        lab.assert_clean().await;
    }
}

/// Results come with another body than the question did, later, and maybe from a client that
/// retries by itself.
#[tokio::test(start_paused = true)]
async fn results_get_the_retries_of_their_own_request() {
    let parked = async |headers: &[(&'static str, &str)]| {
        let lab = Lab::scenario(
            r#"
            [[rule]]
            times = 1
            steps = [
              { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
              { error = { code = "unavailable" } },
            ]
            [[rule]]
            refuse = { status = 503 }
            "#,
        );
        let mut talk = Talk::new("go");
        talk.headers.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let call = talk.ask(&lab).await.call();
        talk.result(&call, "done");
        (lab, talk)
    };
    let runs = |lab: &Lab| lab.sim.stats().requests["/agent.v1.AgentService/Run"];

    // The waiting run, the history sent once more, and three retries; then one run each.
    let (lab, talk) = parked(&[]).await;
    for total in 5..=9 {
        assert_eq!(talk.send(&lab).await.status, 503);
        assert_eq!(runs(&lab), total);
    }
    lab.assert_clean().await;

    let (lab, mut talk) = parked(&[]).await;
    talk.headers.push(("x-stainless-retry-count", "1".to_owned()));
    assert_eq!(talk.send(&lab).await.status, 503);
    assert_eq!(runs(&lab), 3, "one retry for a client that retries by itself");

    // Another request of the conversation has used its retries meanwhile.
    let name = [("x-session-id", "s")];
    let (lab, talk) = parked(&name).await;
    lab.post_with(&chat("a title, please", true), &name).await;
    assert_eq!(runs(&lab), 5);
    assert_eq!(talk.send(&lab).await.status, 503);
    assert_eq!(runs(&lab), 6);
    assert_eq!(lab.fates().resumed, 1);
}

/// The stream is cut after every possible frame, in every way.
#[tokio::test(start_paused = true)]
async fn cut_stream_ends_in_an_error() {
    let faults = [
        "\"eof\"",
        "\"truncate\"",
        "{ reset = \"internal_error\" }",
        "{ reset = \"cancel\" }",
        "\"goaway_now\"",
        "\"disconnect\"",
        "\"garbage\"",
        "\"garbage_gzip\"",
        "\"black_hole\"",
    ];
    for fault in faults {
        for frames in 0..9 {
            let lab = Lab::scenario(&format!(
                "[[rule]]\ncut = {{ after_frames = {frames}, how = {fault} }}\n\
                 quirks = [\"terse\"]\n\
                 steps = [{{ text = {{ text = \"abcdefghijkl\", chunk = 2 }} }}]"
            ));
            let reply = lab.stream("hi").await;
            let whole = reply.text() == "abcdefghijkl";
            let clean = reply.finish_reason().as_deref() == Some("stop");
            // A cut after the last text may find the turn already over.
            assert!(!clean || whole, "{fault} after {frames}: {}", reply.body);
            assert!(clean || reply.error().is_some(), "{fault} after {frames}: {}", reply.body);
            assert!("abcdefghijkl".starts_with(&reply.text()), "{fault} after {frames}");
            lab.assert_clean().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_resumed_from_its_checkpoint() {
    let lab = Lab::scenario(
        r#"
        [[rule]]
        steps = [{ text = "one " }, "checkpoint", { fault = "disconnect" }, { text = "two" }]
        "#,
    );
    let reply = lab.stream("hi").await;
    assert_eq!(reply.text(), "one two", "{}", reply.body);
    assert_eq!(reply.finish_reason().as_deref(), Some("stop"));
    assert_eq!(lab.sim.stats().resumes, 1);
    lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn gzip_and_any_split_of_the_bytes_change_nothing() {
    let plain = Lab::new().stream("Tell me something").await.text();
    for manner in ["gzip = true", "split = 1", "split = 7", "frames_per_chunk = 50"] {
        let lab = Lab::scenario(&format!("[[rule]]\n{manner}"));
        assert_eq!(lab.stream("Tell me something").await.text(), plain, "{manner}");
    }
}

/// A thousand turns, most of them hit by a fault: each has one ending, and no
/// session, stream or permit stays behind.
#[tokio::test(start_paused = true)]
async fn a_thousand_turns_with_random_faults_leave_nothing_behind() {
    let sim = SimConfig {
        chaos: Some(Chaos { seed: 2026, percent: 70, frames: 30 }),
        ..SimConfig::default()
    };
    let lab = std::sync::Arc::new(Lab::with(sim, |_| {}));
    let (mut good, mut bad) = (0, 0);
    for _ in 0..50 {
        let mut batch = tokio::task::JoinSet::new();
        for n in 0..20 {
            let lab = std::sync::Arc::clone(&lab);
            batch.spawn(async move {
                let reply = lab.post(chat("Say hello", n % 2 == 0).to_string()).await;
                if !reply.status.is_success() {
                    assert!(reply.error().is_some(), "{}", reply.body);
                    return false;
                }
                if n % 2 == 1 {
                    assert_eq!(reply.json()["choices"][0]["finish_reason"], "stop");
                    return true;
                }
                let stopped = reply.finish_reason().is_some();
                assert_ne!(stopped, reply.error().is_some(), "one ending: {}", reply.body);
                stopped
            });
        }
        while let Some(ended) = batch.join_next().await {
            if ended.unwrap() { good += 1 } else { bad += 1 }
        }
    }
    assert_eq!(good + bad, 1000);
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad: the faults must matter");
    lab.assert_clean().await;
    let sessions = lab.app.sessions();
    assert_eq!(sessions.started, sessions.finished + sessions.failed + sessions.cancelled);
    let Ok(lab) = std::sync::Arc::try_unwrap(lab) else { panic!("the lab is still in use") };
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn resume_without_output_is_an_error() {
    let sim = ibeam_sim::SimConfig::scenario(
        ibeam_sim::Scenario::from_toml(
            r#"
            [[rule]]
            quirks = ["empty_resume"]
            steps = [
              { text = "half " }, "checkpoint",
              { fault = { reset = "internal_error" } }, { text = "whole" },
            ]
            "#,
        )
        .unwrap(),
    );
    // Over HTTP/2 alone the resume is empty; with HTTP/1.1 at hand it works.
    let forced =
        Lab::with(sim.clone(), |config| config.transport = ibeam_server::config::Transport::H2);
    let reply = forced.stream("hi").await;
    assert_eq!(reply.error().as_deref(), Some("upstream_closed"), "{}", reply.body);
    assert_eq!(reply.finish_reason(), None);
    forced.assert_clean().await;
    let free = Lab::with(sim, |_| {});
    let reply = free.stream("hi").await;
    assert_eq!(reply.text(), "half whole", "{}", reply.body);
    free.assert_clean().await;
}
