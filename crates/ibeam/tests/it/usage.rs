//! The token counts that clients get: docs/tokens.md has the rules.

use ibeam_core::{tokens::Vocabulary, wire::chat as wire};
use ibeam_server::api::CountedBody;
use serde_json::Value;

use crate::lab::{Lab, Reply, Talk, chat};

/// A run of two legs. Its end says how many tokens the whole of it was.
const RUN: &str = r#"
    steps = [
      { text = "Let me look at the files first." },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "There are two." },
      { usage = { input = 500, output = 60, cache_read = 300, reasoning = 0 } },
    ]
"#;

fn usage(reply: &Reply) -> Value {
    let chunks = reply.chunks();
    let last = chunks.iter().find(|chunk| chunk["usage"].is_object());
    last.unwrap_or_else(|| panic!("no usage: {}", reply.body))["usage"].clone()
}

fn number(usage: &Value, name: &str) -> u64 {
    usage[name].as_u64().unwrap_or_else(|| panic!("no {name}: {usage}"))
}

/// Both legs of the run, as their clients saw them.
async fn legs(lab: &Lab) -> [Value; 2] {
    let mut talk = Talk::new("what is here?");
    talk.body["stream_options"] = serde_json::json!({ "include_usage": true });
    let first = talk.ask(lab).await;
    talk.result(&first.call(), "a.txt\nb.txt");
    let last = talk.ask(lab).await;
    assert_eq!(last.text(), "There are two.");
    assert_eq!(lab.sim.stats().runs_started, 1, "one run, two legs");
    [usage(&first), usage(&last)]
}

fn assert_consistent(legs: &[Value]) {
    for usage in legs {
        let total = number(usage, "prompt_tokens") + number(usage, "completion_tokens");
        assert_eq!(number(usage, "total_tokens"), total);
        let cached = number(&usage["prompt_tokens_details"], "cached_tokens");
        assert!(cached <= number(usage, "prompt_tokens"), "{usage}");
        let reasoning = number(&usage["completion_tokens_details"], "reasoning_tokens");
        assert!(reasoning <= number(usage, "completion_tokens"), "{usage}");
    }
}

#[tokio::test(start_paused = true)]
async fn usage_of_legs_adds_up_to_the_backends_total() {
    // With running counters, and without: then the first leg is an estimate.
    for (quirks, summed) in [("", true), ("quirks = [\"terse\"]", false)] {
        let lab = Lab::scenario(&format!("[[rule]]\n{quirks}\n{RUN}"));
        let legs = legs(&lab).await;
        assert_consistent(&legs);
        let output: u64 = legs.iter().map(|usage| number(usage, "completion_tokens")).sum();
        assert_eq!(output, 60, "{quirks}: {legs:?}");
        assert!(legs.iter().all(|usage| number(usage, "completion_tokens") > 0), "{legs:?}");
        assert!(number(&legs[0], "prompt_tokens") > 0);
        let prompt = number(&legs[1], "prompt_tokens");
        // More than the context can be is the input of all steps: then the context counts.
        assert!(prompt == 500 || (summed && prompt < 500), "{prompt}: read last");
        let cached = number(&legs[1]["prompt_tokens_details"], "cached_tokens");
        assert_eq!(cached, prompt * 300 / 500, "{legs:?}");
        lab.assert_clean().await;
    }
}

#[tokio::test(start_paused = true)]
async fn prompt_tokens_include_cached_tokens() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = \"Hello.\" }, { usage = { input = 20, cache_read = 300 } }]",
    );
    let reply = lab.post(chat("hi", false).to_string()).await.json();
    assert_consistent(&[reply["usage"].clone()]);
    assert_eq!(number(&reply["usage"], "prompt_tokens"), 320);
}

#[tokio::test(start_paused = true)]
async fn each_run_is_counted_for_itself() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = \"Hello.\" }, { usage = { input = 90, output = 7 } }]",
    );
    let mut talk = Talk::new("hi");
    talk.body["stream_options"] = serde_json::json!({ "include_usage": true });
    for _ in 0..3 {
        assert_eq!(number(&usage(&talk.ask(&lab).await), "completion_tokens"), 7);
        talk.say("and again");
    }
}

/// The simulator counts four letters to a token, unlike any tokenizer: a good teacher.
#[tokio::test]
async fn counts_come_closer_to_the_backends_with_every_answer() {
    let words = "plain words of an answer that goes on for a while, ".repeat(20);
    let scenario = format!("[[rule]]\nsteps = [{{ text = \"{words}\" }}]");
    let lab = Lab::scenario(&scenario);
    let body = chat(&words, false).to_string();
    let count = async || {
        let request = wire::decode(body.as_bytes()).unwrap();
        lab.app.count(request, CountedBody::Messages([7; 32]), &[0; 32]).await.unwrap()
    };
    let before = count().await;
    assert!(!before.exact);
    assert!(Vocabulary::default().is_loaded(), "only then is anything learned");
    let backends = (words.len() as u64).div_ceil(4);
    let off = |counted: u64| counted.abs_diff(backends);
    assert!(off(before.tokens) > backends / 50, "{before:?} against {backends}");
    // Samples that come while one is looked at are let go, so a few more are sent.
    let mut after = before;
    for _ in 0..100 {
        lab.ask("hi").await;
        after = count().await;
        if off(after.tokens) <= backends / 50 {
            break;
        }
    }
    assert!(off(after.tokens) <= backends / 50, "{after:?} against {backends}");
    assert!(!after.exact, "it is an estimate all the same");
}
