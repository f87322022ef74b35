//! Legs over a scripted peer: no wire, no store, no task.

use std::collections::HashSet;

use super::*;
use crate::{
    controls,
    model::{
        Dialect, Hints, Item, Message, Part, Role, Sampling, Tool, ToolChoice, ids::SessionId,
    },
    models::Family,
    peer::{
        PeerEvent, Shown,
        testing::{Said, ScriptedPeer, Sent, call},
    },
    turn::{Command, Settings},
};

fn request(tools: &[&str]) -> TurnRequest {
    let parts = vec![Part::Text("hi".into())];
    TurnRequest {
        model: "auto".into(),
        system: Vec::new(),
        items: vec![Item::Message(Message { role: Role::User, parts })],
        tools: tools
            .iter()
            .map(|name| Tool { name: (*name).into(), description: String::new(), schema: None })
            .collect(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    }
}

/// A leg with its clock, and everything that came out of it.
struct Bench {
    leg: Leg<ScriptedPeer>,
    now: Millis,
    shown: Vec<String>,
    sent: Vec<Sent>,
}

impl Bench {
    fn new(mut request: TurnRequest, bridged: &[&str]) -> Self {
        let controls = controls::prepare(&mut request, Family::of("auto")).unwrap();
        let names: HashSet<String> = bridged.iter().map(|name| (*name).to_owned()).collect();
        let tools = (!names.is_empty()).then(|| BridgedTools::new(names, &request));
        let session = SessionId::from_random([1; 16]);
        let turn = Turn::new(request, (), session, Settings::default(), [7; 16], Millis(0));
        let mut bench = Self {
            leg: Leg::new(turn, tools),
            now: Millis(0),
            shown: Vec::new(),
            sent: Vec::new(),
        };
        bench.leg.begin(controls);
        bench.leg.turn_mut().on_opened(Millis(0));
        bench.drain();
        bench
    }

    fn says(&mut self, event: PeerEvent<u64>) {
        self.leg.turn_mut().on_message(Said(event), self.now);
        self.drain();
    }

    fn text(&mut self, text: &str) {
        self.says(PeerEvent::Text(text.into()));
    }

    fn ends(&mut self) {
        self.says(PeerEvent::Ended(FinishReason::Stop));
    }

    /// Waits for the end of a batch of calls.
    fn wait(&mut self) {
        self.now = self.leg.turn().poll_deadline().unwrap();
        self.leg.turn_mut().on_timeout(self.now);
        self.drain();
    }

    fn resume(&mut self, results: &[(&str, &str)]) -> bool {
        let mut request = request(&["read", "ours"]);
        for call in self.leg.turn().calls() {
            if results.iter().any(|(id, _)| *id == call.id) {
                request.items.push(Item::ToolCall(call));
            }
        }
        request.items.extend(results.iter().map(|(id, text)| {
            Item::ToolResult(ToolResult {
                call_id: (*id).to_owned(),
                content: vec![Part::Text((*text).to_owned())],
                is_error: false,
            })
        }));
        let resumed = self.leg.resume(request, self.now).is_ok();
        if resumed {
            self.leg.begin(None);
        }
        self.drain();
        resumed
    }

    /// Carries out what the leg asks for. Ten tokens are counted for everything.
    fn drain(&mut self) {
        loop {
            let now = self.now;
            if matches!(self.leg.turn().state(), TurnState::Backoff { until } if until <= now) {
                self.leg.turn_mut().on_timeout(now);
            }
            while let Some(command) = self.leg.turn_mut().poll_command() {
                if let Command::Send(message) = command {
                    self.sent.push(message);
                }
            }
            let Some(output) = self.leg.poll() else { return };
            match output {
                LegOutput::Event(event) => {
                    if event.is_terminal() {
                        self.leg.finish();
                    }
                    self.shown.push(match event {
                        TurnEvent::Started => "started".into(),
                        TurnEvent::Text(text) | TurnEvent::Reasoning(text) => text,
                        TurnEvent::ToolCallBegin { name, .. } => format!("call {name}"),
                        TurnEvent::ToolCallArgs { delta, .. } => delta,
                        TurnEvent::ToolCallEnd { .. } => "end of call".into(),
                        TurnEvent::Usage(usage) => format!("{} tokens", usage.output),
                        TurnEvent::Finished(reason) => format!("{reason:?}"),
                        TurnEvent::Failed(error) => format!("{:?}", error.code),
                    });
                }
                LegOutput::Save => self.shown.push("save".into()),
                LegOutput::Estimate => {
                    let source = UsageSource::Estimate;
                    self.leg.on_estimate(Usage { output: 10, source, ..Usage::default() });
                }
                LegOutput::Learn(_) => {}
                LegOutput::Judge(check) => {
                    let (controls, verdict) = check.judge();
                    self.leg.on_judged(controls, verdict);
                }
                LegOutput::Execute(calls) => {
                    let names = calls.into_iter().map(|call| format!("execute {}", call.name));
                    self.shown.extend(names);
                }
            }
        }
    }

    fn executed(&mut self, id: &str, text: &str) {
        let content = vec![Part::Text(text.to_owned())];
        let result = ToolResult { call_id: id.to_owned(), content, is_error: false };
        self.leg.on_tool_result(result);
        if self.leg.is_working() && !self.leg.is_executing() {
            self.leg.continue_with_results(self.now);
        }
        self.drain();
    }

    fn call_ids(&self) -> Vec<String> {
        self.leg.turn().calls().into_iter().map(|call| call.id).collect()
    }
}

#[test]
fn usage_precedes_the_ending_and_the_conversation_is_stored_between() {
    let mut bench = Bench::new(request(&[]), &[]);
    bench.says(PeerEvent::Started);
    bench.text("Hello.");
    bench.ends();
    assert_eq!(bench.shown, ["started", "Hello.", "10 tokens", "save", "Stop"]);
    assert_eq!(bench.leg.number(), None, "the leg is over");
}

#[test]
fn conversation_is_stored_before_the_client_sees_a_call() {
    let mut bench = Bench::new(request(&["read"]), &[]);
    bench.says(call(1, "read", "{}"));
    let position = |bench: &Bench, what: &str| bench.shown.iter().position(|one| one == what);
    assert!(position(&bench, "save") < position(&bench, "call read"), "{:?}", bench.shown);
}

#[test]
fn stop_sequence_cuts_the_answer_and_stops_the_backend() {
    let mut stopped = request(&[]);
    stopped.sampling.stop = vec!["END".into()];
    let mut bench = Bench::new(stopped, &[]);
    bench.text("before END after");
    assert_eq!(bench.shown.first().map(|text| text.trim()), Some("before"));
    assert_eq!(bench.shown.last().map(String::as_str), Some("StopSequence(0)"));
    assert_eq!(bench.sent, [Sent::Cancel]);
    assert_eq!(bench.leg.turn_mut().peer().shown, Some(Shown::Cut(Some("before ".into()))));
}

#[test]
fn answer_without_json_is_asked_for_once_more() {
    let mut json = request(&[]);
    json.sampling.format = crate::model::AnswerFormat::Json;
    let mut bench = Bench::new(json, &[]);
    bench.text("no object");
    bench.ends();
    assert!(bench.sent.is_empty() && bench.shown.is_empty(), "{:?}", bench.shown);
    bench.leg.turn_mut().on_opened(bench.now);
    bench.drain();
    assert!(matches!(&bench.sent[..], [Sent::Ask(_)]), "{:?}", bench.sent);
    bench.text("{\"a\":1}");
    bench.ends();
    assert!(bench.shown.contains(&"{\"a\":1}".to_owned()), "{:?}", bench.shown);
    assert_eq!(bench.shown.last().map(String::as_str), Some("Stop"));
    let Some(Shown::Other(text)) = &bench.leg.turn_mut().peer().shown else { panic!() };
    assert_eq!(text.as_deref(), Some("{\"a\":1}"), "the first answer was not shown");
}

#[test]
fn bridged_call_continues_the_same_leg_and_its_tokens_are_added() {
    let mut bench = Bench::new(request(&["ours"]), &["ours"]);
    bench.says(PeerEvent::Started);
    bench.text("I look. ");
    bench.says(call(1, "ours", "{}"));
    bench.wait();
    assert_eq!(bench.shown, ["started", "I look. ", "execute ours"], "no call, no ending");
    assert!(bench.leg.is_working());
    let id = bench.call_ids().remove(0);
    bench.executed(&id, "found");
    assert_eq!(bench.sent, [Sent::Result(1, "found".into())]);
    bench.says(PeerEvent::Started);
    bench.text("Done.");
    bench.ends();
    let rest: Vec<&str> = bench.shown.iter().skip(3).map(String::as_str).collect();
    assert_eq!(rest, ["Done.", "20 tokens", "save", "Stop"], "one leg, both parts counted");
}

#[test]
fn bridged_and_client_results_go_back_together() {
    let mut bench = Bench::new(request(&["ours", "read"]), &["ours"]);
    bench.says(call(1, "ours", "{}"));
    bench.says(call(2, "read", "{}"));
    bench.wait();
    assert_eq!(bench.shown.last().map(String::as_str), Some("ToolCalls"));
    assert!(!bench.shown.contains(&"call ours".to_owned()), "{:?}", bench.shown);
    assert!(bench.leg.is_executing());
    let ids = bench.call_ids();
    bench.executed(&ids[0], "ours");
    assert!(bench.sent.is_empty(), "the client's result is awaited");
    assert!(bench.resume(&[(&ids[1], "theirs")]));
    let want = [Sent::Result(1, "ours".into()), Sent::Result(2, "theirs".into())];
    assert_eq!(bench.sent, want);
}

#[test]
fn a_turn_executes_a_limited_number_of_bridged_calls() {
    let mut bench = Bench::new(request(&["ours"]), &["ours"]);
    for round in 0..=MOST_CALLS {
        assert_eq!(bench.shown.iter().filter(|one| *one == "execute ours").count(), round);
        bench.says(call(round as u64, "ours", &format!("{{\"n\":{round}}}")));
        bench.wait();
        if round < MOST_CALLS {
            let id = bench.call_ids().remove(0);
            bench.executed(&id, "again");
        }
    }
    // The model gets one message about it, and then the turn ends.
    bench.leg.continue_with_results(bench.now);
    bench.drain();
    bench.says(call(99, "ours", "{}"));
    bench.wait();
    assert_eq!(bench.shown.last().map(String::as_str), Some("ToolLoop"));
}

#[test]
fn failure_of_a_turn_is_the_last_event() {
    let mut bench = Bench::new(request(&[]), &[]);
    bench.text("half");
    bench.leg.turn_mut().abort(TurnError::new(ErrorCode::Unavailable, "gone"));
    bench.drain();
    assert_eq!(bench.shown, ["half", "Unavailable"]);
    bench.leg.fail(TurnError::new(ErrorCode::Internal, "again"));
    bench.drain();
    assert_eq!(bench.shown.len(), 2, "one ending");
}

/// A reader that attaches while another one is slow must not get an ending that is not stored.
#[test]
fn record_has_only_what_was_passed_on() {
    let mut bench = Bench::new(request(&[]), &[]);
    bench.text("Hello.");
    let leg = &mut bench.leg;
    leg.turn_mut().on_message(Said(PeerEvent::Ended(FinishReason::Stop)), bench.now);
    assert!(matches!(leg.poll(), Some(LegOutput::Estimate)));
    leg.on_estimate(Usage::default());
    assert!(matches!(leg.poll(), Some(LegOutput::Event(TurnEvent::Usage(_)))));
    let ends = |leg: &Leg<ScriptedPeer>| {
        leg.record().unwrap().events().unwrap().iter().any(TurnEvent::is_terminal)
    };
    assert!(!ends(leg), "the ending waits for the store");
    assert!(matches!(leg.poll(), Some(LegOutput::Save)));
    assert!(!ends(leg));
    assert!(matches!(leg.poll(), Some(LegOutput::Event(TurnEvent::Finished(_)))));
    assert!(ends(leg));
    assert!(leg.poll().is_none(), "until the leg is finished");
}
