//! A conversation of thirty turns with tools, cut after every frame. Whatever happens to the
//! stream, the model that answers in the end knows the system prompt, every earlier message and
//! every result, or the client gets an error.

use ibeam_core::peer::agent::HistoryForm;
use serde_json::json;

use super::{SYSTEM, Setup, called, contents, newest, unknown};
use crate::lab::{Lab, Talk};

/// How a stream is cut; one after the other.
const WAYS: [&str; 4] =
    ["\"eof\"", "{ reset = \"internal_error\" }", "\"disconnect\"", "\"black_hole\""];
/// One call and an answer that has its result.
const STEPS: &str = "steps = [\n\
    { exec = { arm = \"mcp\", args = { name = \"look\", args = { at = \"it\" } } } },\n\
    { text = { text = \"Seen: {result}\", chunk = 16 } },\n]";
const TURNS: usize = 30;
/// A client gives up after so many attempts.
const PATIENCE: usize = 6;

/// A result that is in no other turn.
fn result(turn: usize) -> String {
    format!("result {turn} is {}.", (turn + 1) * 7919)
}

/// The history of all turns but the last, and the question of that.
fn history(setup: Setup) -> Talk {
    let mut talk = setup.talk(&["look"], &question(0));
    for turn in 0..TURNS - 1 {
        let id = format!("call_{turn}");
        for message in called(&id, "look", &json!({ "at": turn }), &result(turn)) {
            talk.push(message);
        }
        let answer = format!("Seen: {}", result(turn));
        talk.push(json!({ "role": "assistant", "content": answer }));
        talk.say(&question(turn + 1));
    }
    talk
}

fn question(turn: usize) -> String {
    format!("Question {turn}, look.")
}

/// What came of one turn.
#[derive(Debug, Default)]
struct Outcome {
    errors: usize,
    /// The client gave up.
    lost: bool,
}

/// Does one turn as a client does: carries out calls, and sends a request again that failed.
async fn turn(lab: &Lab, talk: &mut Talk, turn: usize, forgets: bool) -> Outcome {
    let mut outcome = Outcome::default();
    while outcome.errors < PATIENCE {
        let reply = talk.send(lab).await;
        if reply.error().is_some() {
            outcome.errors += 1;
            continue;
        }
        let calls = reply.calls();
        let ended = reply.finish_reason();
        assert!(ended.is_some(), "neither an ending nor an error: {}", reply.body);
        if forgets {
            only_system(talk);
        } else {
            talk.hear(&reply);
        }
        if calls.is_empty() {
            return outcome;
        }
        for call in &calls {
            talk.result(call, result(turn));
        }
    }
    outcome.lost = true;
    outcome
}

/// Leaves nothing but the system prompt in the next request.
fn only_system(talk: &mut Talk) {
    talk.body["messages"] = json!([{ "role": "system", "content": SYSTEM }]);
}

/// A scenario whose run with this number is cut.
fn cut(when: &str, frames: usize, way: usize) -> String {
    let way = WAYS[way % WAYS.len()];
    format!(
        "[[rule]]\nwhen = {{ {when} }}\ntimes = 1\n\
         cut = {{ after_frames = {frames}, how = {way} }}\n{STEPS}\n"
    )
}

/// Which of the frames streams are cut after.
#[derive(Clone, Copy)]
struct Cuts {
    from: usize,
    step: usize,
    /// How often the whole conversation is held.
    passes: usize,
}

/// Some of the frames, other ones for each form.
const fn some(from: usize) -> Cuts {
    Cuts { from, step: 11, passes: 1 }
}

const EVERY: Cuts = Cuts { from: 0, step: 1, passes: SPREAD };

/// So many frames has a run of one turn, without those that fetch the history.
const SPREAD: usize = 37;

/// The last of thirty turns comes with the whole history, as after a restart, and its first run
/// is cut after each of these frames in turn.
async fn rebuilt_history_survives(setup: Setup, cuts: Cuts) {
    let (mut frames, mut errors, mut count) = (cuts.from, 0, 0);
    loop {
        let scenario = format!("{}[[rule]]\n{STEPS}\n", cut("nth = 1", frames, frames));
        let lab = setup.lab(&scenario);
        let mut talk = history(setup);
        let outcome = turn(&lab, &mut talk, TURNS - 1, false).await;
        errors += outcome.errors;
        assert!(!outcome.lost, "cut after {frames}");
        let wanted = contents(&talk);
        let last = wanted.len() - 1;
        let lost = unknown(&newest(&lab), &wanted[..last]).join(", ");
        assert!(lost.is_empty(), "cut after {frames}: the model does not know {lost}");
        lab.assert_clean().await;
        if lab.sim.stats().runs_cut == 0 {
            break;
        }
        count += 1;
        frames += cuts.step;
    }
    let head = setup.head().join(", ");
    println!("rebuilt, {head}: {count} cuts after up to {frames} frames, {errors} errors");
    assert!(frames > 20, "{frames}");
}

/// A conversation of thirty turns in which the first run of every turn is cut, each at another
/// frame. `named`: the client sends only what is new, under a name.
async fn conversation_survives(setup: Setup, cuts: Cuts, named: bool) {
    let (mut errors, mut count, mut given_up) = (0, 0, 0);
    for pass in 0..cuts.passes {
        let rules = (0..TURNS).map(|turn| {
            let when = format!("contains = \"Question {turn},\"");
            cut(&when, (cuts.from + pass + turn) % SPREAD, pass + turn)
        });
        let scenario = format!("{}[[rule]]\n{STEPS}\n", rules.collect::<String>());
        let lab = setup.lab(&scenario);
        let mut talk = setup.talk(&["look"], &question(0));
        if named {
            talk.headers.push(("x-session-id", format!("pass-{pass}")));
        }
        let mut wanted = Vec::new();
        for number in 0..TURNS {
            if number > 0 {
                talk.say(&question(number));
            }
            let outcome = turn(&lab, &mut talk, number, named).await;
            errors += outcome.errors;
            given_up += usize::from(outcome.lost);
            if outcome.lost {
                // The client knows that this turn failed, and begins another conversation.
                break;
            }
            wanted.extend([question(number), result(number)]);
            let lost = unknown(&newest(&lab), &wanted).join(", ");
            let at = format!("pass {pass}, turn {number}");
            assert!(lost.is_empty(), "{at}: the model does not know {lost}");
        }
        count += lab.sim.stats().runs_cut;
        lab.assert_clean().await;
    }
    let head = setup.head().join(", ");
    println!("named: {named}, {head}: {count} cuts, {errors} errors, {given_up} given up");
    assert!(count >= 20, "{count}");
}

/// Every form, and the choice by model.
fn setups() -> [Setup; 4] {
    let forms = [HistoryForm::ResumeRoots, HistoryForm::UserRoots, HistoryForm::Transcript];
    let [resume, user, transcript] = forms.map(Setup::autumn);
    [resume, user, transcript, Setup::DEFAULT]
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_a_rebuilt_history_is_cut() {
    for (at, setup) in setups().into_iter().enumerate() {
        rebuilt_history_survives(setup, some(at * 3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_every_turn_is_cut() {
    for (at, setup) in setups().into_iter().enumerate() {
        conversation_survives(setup, some(at * 9), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_every_turn_of_a_named_conversation_is_cut() {
    for (at, setup) in setups().into_iter().enumerate() {
        conversation_survives(setup, some(at * 9), true).await;
    }
}

/// Each of these takes minutes.
macro_rules! every_frame {
    ($($name:ident = $setup:expr;)*) => {
        mod every_frame {
            use super::*;

            $(mod $name {
                use super::*;

                #[tokio::test(start_paused = true)]
                #[ignore = "minutes; `cargo xtask test --only cuts` runs it"]
                async fn of_a_rebuilt_history() {
                    rebuilt_history_survives($setup, EVERY).await;
                }

                #[tokio::test(start_paused = true)]
                #[ignore = "minutes; `cargo xtask test --only cuts` runs it"]
                async fn of_every_turn() {
                    conversation_survives($setup, EVERY, false).await;
                }

                #[tokio::test(start_paused = true)]
                #[ignore = "minutes; `cargo xtask test --only cuts` runs it"]
                async fn of_every_named_turn() {
                    conversation_survives($setup, EVERY, true).await;
                }
            })*
        }
    };
}

every_frame! {
    resume_roots = Setup::autumn(HistoryForm::ResumeRoots);
    user_roots = Setup::autumn(HistoryForm::UserRoots);
    transcript = Setup::autumn(HistoryForm::Transcript);
    auto = Setup::DEFAULT;
}
