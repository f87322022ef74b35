//! Whatever a child does, each leg has one ending and no word is lost or doubled.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Says(String),
    Thinks,
    Does,
    Announces,
    Calls,
    Drops(u64),
    Waits(u64),
    Results,
    Exits,
    Ends,
    Fails(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => "[a-z ]{1,8}".prop_map(Step::Says),
        1 => Just(Step::Thinks),
        1 => Just(Step::Does),
        1 => Just(Step::Announces),
        4 => Just(Step::Calls),
        1 => (1_u64..5).prop_map(Step::Drops),
        3 => (0_u64..12_000).prop_map(Step::Waits),
        4 => Just(Step::Results),
        1 => Just(Step::Exits),
        1 => Just(Step::Ends),
        1 => prop_oneof![Just("retry"), Just("anew"), Just("none")].prop_map(Step::Fails),
    ]
}

/// What the client of the present leg should have seen, and what it did.
struct Check {
    bench: Bench,
    said: String,
    hosted: u64,
    items: Vec<Item>,
}

impl Check {
    fn endings(&self) -> usize {
        self.bench.events.iter().filter(|event| event.is_terminal()).count()
    }

    /// Starts the child that was asked for, if one was.
    fn start(&mut self) {
        if matches!(self.bench.turn.state(), TurnState::Backoff { .. } | TurnState::Opening) {
            self.bench.wait(Duration::from_secs(10));
            if self.bench.turn.state() == TurnState::Opening {
                self.bench.ready();
            }
        }
    }

    fn take(&mut self, step: Step) {
        let bench = &mut self.bench;
        match step {
            Step::Says(text) => {
                bench.says(&format!("text {text}x"));
                // A line of the script has no blanks at its end.
                self.said.push_str(&format!("{}x", text));
            }
            Step::Thinks => bench.says("thought hm"),
            Step::Does => bench.says("did read"),
            Step::Announces => bench.says("announced"),
            Step::Calls => {
                self.hosted += 1;
                let arguments = format!(r#"{{"n":{}}}"#, self.hosted);
                bench.calls(self.hosted, "read", &arguments);
            }
            Step::Drops(back) => {
                bench.hear(FromChild::Dropped(self.hosted.saturating_sub(back)));
            }
            Step::Waits(millis) => bench.wait(Duration::from_millis(millis)),
            Step::Results => {
                let calls = bench.turn.calls();
                let results = calls.iter().map(|call| {
                    Item::ToolResult(ToolResult {
                        call_id: call.id.clone(),
                        content: vec![Part::Text("A".into())],
                        is_error: false,
                    })
                });
                let mut items = self.items.clone();
                items.extend(calls.iter().cloned().map(Item::ToolCall));
                items.extend(results);
                // What was said while it was parked is part of the next leg.
                let meanwhile = self.said.split_off(bench.text().len());
                if bench.resume(&["read"], items.clone()) {
                    self.items = items;
                    self.said = meanwhile;
                } else {
                    self.said.push_str(&meanwhile);
                }
            }
            Step::Exits => bench.exits(1),
            Step::Ends => bench.says("end"),
            Step::Fails(remedy) => bench.says(&format!("fail {remedy}")),
        }
    }
}

proptest! {
    #[test]
    fn each_leg_has_one_ending_and_all_of_its_text(steps in prop::collection::vec(step(), 0..40)) {
        let bench = Bench::open(&["read"]);
        let mut check = Check { bench, said: String::new(), hosted: 0, items: Vec::new() };
        for step in steps {
            check.start();
            if check.bench.turn.state() == TurnState::Done {
                break;
            }
            check.take(step);
            let (phase, endings) = (check.bench.turn.state(), check.endings());
            let over = matches!(phase, TurnState::Done | TurnState::AwaitingTools);
            prop_assert_eq!(endings, usize::from(over), "{:?}", phase);
            let text = check.bench.text();
            if over {
                prop_assert!(check.said.starts_with(&text), "{:?} {:?}", text, check.said);
            } else {
                prop_assert_eq!(&text, &check.said);
            }
        }
    }
}
