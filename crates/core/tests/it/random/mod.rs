//! Random requests, nearly right, from their bytes to the first message for the backend:
//! whatever comes, there is a plan or an error, and never a panic.

mod author;
mod corpus;
mod grammar;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use bytes::BytesMut;
use ibeam_core::{
    controls::{self, ControlVerdict},
    error::TurnError,
    history::{self, HistoryChain},
    model::{FinishReason, Millis, TurnEvent, TurnRequest, ids::SessionId},
    models::ModelPick,
    models::{Family, ModelList},
    peer::agent::{
        AgentPeer, BlobLimits, Environment, HistorySetting, Permissions, Plan, Surroundings,
    },
    turn::{Command, Settings, Turn},
    wire::{Encode as _, chat, completions, messages, responses},
};

use self::author::Author;
use crate::sse;

/// A dialect's request: how it is written, and how it becomes a turn.
struct Spoken {
    name: &'static str,
    write: fn(&mut Author) -> String,
    read: fn(&[u8]) -> Result<TurnRequest, TurnError>,
}

const SPOKEN: [Spoken; 4] = [
    Spoken { name: "chat", write: Author::chat, read: chat::decode },
    Spoken { name: "responses", write: Author::responses, read: read_response },
    Spoken { name: "messages", write: Author::messages, read: read_message },
    Spoken { name: "completions", write: Author::completions, read: completions::decode },
];

fn read_message(body: &[u8]) -> Result<TurnRequest, TurnError> {
    messages::decode(body).map(|request| request.turn)
}

/// With nothing kept to go on from.
fn read_response(body: &[u8]) -> Result<TurnRequest, TurnError> {
    let mut request = responses::decode(body)?;
    // What the response repeats of the request must fit into its stream.
    let mut encoder =
        responses::ResponsesEncoder::new("resp_1".to_owned(), 0, request.echo.clone());
    let mut out = BytesMut::new();
    encoder.on_event(&TurnEvent::Finished(FinishReason::Stop), &mut out);
    for frame in sse::parse(&out).expect("a stream") {
        serde_json::from_str::<serde::de::IgnoredAny>(&frame.data).expect("JSON");
    }
    if !request.is_whole() {
        request.resolve(&[], 0)?;
        request.after(&[])?;
    }
    Ok(request.turn)
}

/// Everything between a request and the backend that only computes.
fn plan(mut request: TurnRequest) -> Result<(), TurnError> {
    let family = Family::of(&request.model);
    if let Some(mut controls) = controls::prepare(&mut request, family)? {
        let text = || TurnEvent::Text("{\"path\":\"END\"}".to_owned());
        for event in [TurnEvent::Started, text(), text(), TurnEvent::Finished(FinishReason::Stop)] {
            if controls.on_event(event) != ControlVerdict::Go {
                break;
            }
        }
    }
    let _ = (history::setup(&request), HistoryChain::of(&request.items).fingerprint());
    let _ = ModelList::default().resolve(&request.model, request.sampling.effort);
    let surroundings =
        Surroundings::new(&request, &Environment::default(), Permissions::default(), true);
    let plan = Plan {
        model: ModelPick { id: "default".to_owned(), ..ModelPick::default() },
        conversation_id: "conversation".to_owned(),
        surroundings: Arc::new(surroundings),
        limits: BlobLimits::default(),
        inline_context: false,
        kept: None,
        history: HistorySetting::default(),
        memory: Arc::default(),
        signed: Vec::new(),
        scope: [0; 32],
        run_seed: String::new(),
        host_changes: None,
    };
    let session = SessionId::from_random([0xab; 16]);
    let mut turn =
        Turn::<AgentPeer>::new(request, plan, session, Settings::default(), [7; 16], Millis(0));
    assert!(matches!(turn.poll_command(), Some(Command::Open(_))), "it opens a stream");
    turn.on_opened(Millis(0));
    assert!(matches!(turn.poll_command(), Some(Command::Send(_))), "it asks for something");
    Ok(())
}

/// What became of the requests of one dialect.
#[derive(Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    /// What was at fault: codes, and fields without the numbers in them.
    faults: BTreeMap<String, u64>,
}

/// The `number`th request, whatever thread it is made on.
fn body(spoken: &Spoken, number: u64) -> Vec<u8> {
    let mut author = Author::new(number);
    let text = (spoken.write)(&mut author);
    author.harm(text)
}

fn judge(spoken: &Spoken, number: u64, tally: &mut Tally) {
    let body = body(spoken, number);
    let judged = catch_unwind(AssertUnwindSafe(|| (spoken.read)(&body).and_then(plan)));
    match judged {
        Ok(Ok(())) => tally.accepted += 1,
        Ok(Err(error)) => {
            let status = error.code.row().status;
            assert!((400..500).contains(&status), "{status} for {error:?}");
            tally.refused += 1;
            let place = error.param.unwrap_or_default();
            let place = place.replace(|c: char| c.is_ascii_digit(), "");
            *tally.faults.entry(format!("{:?} {place}", error.code)).or_default() += 1;
        }
        Err(_) => {
            let body = String::from_utf8_lossy(&body);
            panic!("{} request {number} made it panic:\n{body}", spoken.name)
        }
    }
}

/// Judges this number of requests on as many threads as there are cores.
fn judge_all(count: u64) -> Vec<Tally> {
    let threads = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let run = |first: u64| {
        let mut tallies: Vec<Tally> = SPOKEN.iter().map(|_| Tally::default()).collect();
        for number in (first..count).step_by(usize::try_from(threads).unwrap()) {
            let at = usize::try_from(number).unwrap() % SPOKEN.len();
            judge(&SPOKEN[at], number / 4, &mut tallies[at]);
        }
        tallies
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|first| scope.spawn(move || run(first))).collect();
        let mut all: Vec<Tally> = SPOKEN.iter().map(|_| Tally::default()).collect();
        for worker in workers {
            for (sum, part) in all.iter_mut().zip(worker.join().expect("a worker")) {
                sum.accepted += part.accepted;
                sum.refused += part.refused;
                for (fault, count) in part.faults {
                    *sum.faults.entry(fault).or_default() += count;
                }
            }
        }
        all
    })
}

/// How many of the commonest faults of a dialect are printed.
const SHOWN: usize = 14;

/// Judges them, prints what became of them, and sees to it that the generator writes
/// both kinds.
fn check(count: u64) {
    for (spoken, tally) in SPOKEN.iter().zip(judge_all(count)) {
        let Tally { accepted, refused, faults } = tally;
        let kinds = faults.len();
        println!("{:<12}{accepted:>8} accepted {refused:>8} refused, {kinds} kinds", spoken.name);
        let mut common: Vec<_> = faults.iter().map(|(fault, count)| (count, fault)).collect();
        common.sort_unstable_by(|a, b| b.cmp(a));
        for (count, fault) in common.iter().take(SHOWN) {
            println!("{count:>20} {fault}");
        }
        let all = accepted + refused;
        assert!(accepted * 4 > all, "{}: hardly any is accepted", spoken.name);
        assert!(refused * 10 > all, "{}: hardly any is refused", spoken.name);
        assert!(kinds >= 15, "{}: always the same faults: {faults:?}", spoken.name);
    }
}

#[test]
fn thousands_of_random_requests() {
    check(8_000);
}

/// The step `random-requests` of `cargo xtask test`. The variable `IBEAM_RANDOM_REQUESTS` sets
/// another number.
#[test]
#[ignore = "keeps all cores busy for half a minute"]
#[expect(clippy::disallowed_methods, reason = "a measurement for a person")]
fn many_random_requests() {
    let count =
        std::env::var("IBEAM_RANDOM_REQUESTS").map_or(150_000, |text| text.parse().unwrap());
    let started = std::time::Instant::now();
    check(count);
    let took = started.elapsed().as_secs_f64();
    println!("{count} requests in {took:.1} s, {:.0} per second", count as f64 / took);
}

#[test]
fn equal_seeds_give_equal_requests() {
    for spoken in &SPOKEN {
        assert_eq!(body(spoken, 7), body(spoken, 7));
        assert_ne!(body(spoken, 7), body(spoken, 8));
    }
}
