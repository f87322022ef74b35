//! The machine for children, driven by hand: a scripted speaker, a harness, and the tests
//! by theme.

mod again;
mod choice;
mod parked;
mod plain;
mod random;
mod recovery;
mod speaker;
mod tools;

use std::time::Duration;

use self::speaker::Scripted;
use super::*;
use crate::{
    model::{
        Dialect, FinishReason, Hints, Item, Message, Part, Role, Sampling, TerminalGuard, ToolCall,
        ToolChoice, ToolResult, TurnEvent, Usage, UsageSource,
        ids::{CallId, SessionId},
    },
    peer::child::{ChildStart, Exit, HostedCall, HostedResult, Ready, ToChild},
    turn::{Command, Settings, Turn, TurnCommand, TurnState},
};

fn user(text: &str) -> Item {
    Item::Message(Message { role: Role::User, parts: vec![Part::Text(text.to_owned())] })
}

fn assistant(text: &str) -> Item {
    Item::Message(Message { role: Role::Assistant, parts: vec![Part::Text(text.to_owned())] })
}

fn request(tools: &[&str]) -> TurnRequest {
    TurnRequest {
        model: "auto".into(),
        system: Vec::new(),
        items: vec![user("hi")],
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

fn plan(kept: Option<StoredState>) -> ChildPlan {
    ChildPlan {
        speaker: || Box::<Scripted>::default(),
        model: "auto".into(),
        conversation_id: "conv".into(),
        images: true,
        result_bytes: 1 << 20,
        kept,
        owner: ChildOwner { scope: [0; 32], assured: usize::MAX },
    }
}

/// A conversation that was kept under this name.
fn kept(name: &str, covers: usize, calls: Vec<ToolCall>) -> StoredState {
    let checkpoint = super::child_state::write(Some(name), "").unwrap();
    StoredState { checkpoint, blobs: Vec::new(), covers, calls, new_setup: false }
}

/// A turn with its clock, and everything it said so far.
struct Bench {
    turn: Turn<ChildPeer>,
    now: Millis,
    commands: Vec<TurnCommand<ChildPeer>>,
    events: Vec<TurnEvent>,
    guard: TerminalGuard,
}

impl Bench {
    /// A turn whose first child runs.
    fn open(tools: &[&str]) -> Self {
        Self::run(request(tools), None)
    }

    fn run(request: TurnRequest, kept: Option<StoredState>) -> Self {
        let mut bench = Self::closed(request, plan(kept), Settings::default());
        bench.ready();
        bench
    }

    fn closed(request: TurnRequest, plan: ChildPlan, settings: Settings) -> Self {
        let mut bench = Self {
            turn: Turn::new(
                request,
                plan,
                SessionId::from_random([0xab; 16]),
                settings,
                [7; 16],
                Millis(0),
            ),
            now: Millis(0),
            commands: Vec::new(),
            events: Vec::new(),
            guard: TerminalGuard::default(),
        };
        bench.drain();
        bench
    }

    fn drain(&mut self) {
        let now = self.now;
        if matches!(self.turn.state(), TurnState::Backoff { until } if until <= now) {
            self.turn.on_timeout(now);
        }
        while let Some(command) = self.turn.poll_command() {
            self.commands.push(command);
        }
        while let Some(event) = self.turn.poll_event() {
            assert_eq!(self.guard.check(&event), Ok(()));
            self.events.push(event);
        }
    }

    fn ready(&mut self) {
        self.turn.on_opened(self.now);
        self.hear(FromChild::Ready(Ready::default()));
    }

    fn hear(&mut self, heard: FromChild) {
        self.turn.on_message(heard, self.now);
        self.drain();
    }

    /// Lines of the script, see [`Scripted`].
    fn says(&mut self, script: &str) {
        for line in script.lines() {
            self.hear(FromChild::Output(format!("{}\n", line.trim()).into()));
        }
    }

    fn calls(&mut self, id: u64, tool: &str, arguments: &str) {
        let (name, arguments) = (tool.to_owned(), arguments.to_owned());
        self.hear(FromChild::Call(HostedCall { id, name, arguments }));
    }

    fn exits(&mut self, code: i32) {
        self.hear(FromChild::Exited(Exit { code: Some(code), stderr: String::new() }));
    }

    /// Lets time pass, waking the turn whenever it asks to be.
    fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.turn.poll_deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            self.turn.on_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    /// The client comes back with these after its earlier items.
    fn resume(&mut self, tools: &[&str], items: Vec<Item>) -> bool {
        let mut request = request(tools);
        request.items.extend(items);
        self.resume_with(request)
    }

    fn resume_with(&mut self, request: TurnRequest) -> bool {
        let resumed = self.turn.resume(request, self.now).is_ok();
        if resumed {
            self.next_leg();
        }
        self.drain();
        resumed
    }

    fn next_leg(&mut self) {
        self.guard = TerminalGuard::default();
        self.events.clear();
    }

    // === what came of it ===

    fn told(&self) -> Vec<&ToChild> {
        let told = self.commands.iter().filter_map(|command| match command {
            Command::Send(message) => Some(message),
            _ => None,
        });
        told.collect()
    }

    /// The prompts of all runs, behind the names they resumed.
    fn prompts(&self) -> Vec<String> {
        let told = self.told().into_iter().filter_map(|message| match message {
            ToChild::Input(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            _ => None,
        });
        told.filter(|text| text != "cancel").collect()
    }

    /// The results that were sent: their numbers and texts.
    fn results(&self) -> Vec<(u64, String)> {
        let results = self.told().into_iter().filter_map(|message| match message {
            ToChild::Result(result) => Some(result),
            _ => None,
        });
        results.map(|result| (result.id, shown(result))).collect()
    }

    fn released(&self) -> usize {
        self.told().iter().filter(|message| matches!(message, ToChild::Release { .. })).count()
    }

    fn cancelled(&self) -> bool {
        matches!(self.commands.last(), Some(Command::Close { cancel: true }))
    }

    fn starts(&self) -> Vec<&ChildStart> {
        let starts = self.commands.iter().filter_map(|command| match command {
            Command::Open(link) => Some(&*link.peer),
            _ => None,
        });
        starts.collect()
    }

    fn ending(&self) -> &TurnEvent {
        self.events.last().expect("no event")
    }

    fn failure(&self) -> ErrorCode {
        match self.ending() {
            TurnEvent::Failed(error) => error.code,
            other => panic!("not failed: {other:?}"),
        }
    }

    fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            TurnEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    fn thoughts(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            TurnEvent::Reasoning(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The calls that the client was given in this leg.
    fn begun(&self) -> Vec<(String, String)> {
        let begun = self.events.iter().filter_map(|event| match event {
            TurnEvent::ToolCallBegin { id, name } => Some((id.as_str().to_owned(), name.clone())),
            _ => None,
        });
        begun.collect()
    }
}

fn shown(result: &HostedResult) -> String {
    let texts = result.content.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Image(_) => "[image]",
    });
    let word = if result.is_error { "error: " } else { "" };
    format!("{word}{}", texts.collect::<Vec<_>>().join("\n"))
}

fn id(n: u32) -> CallId {
    CallId::in_session(SessionId::from_random([0xab; 16]), n)
}

/// The `n`th call as the client sends it back.
fn made(n: u32, name: &str) -> ToolCall {
    ToolCall { id: id(n).as_str().into(), name: name.into(), arguments: "{}".into() }
}

fn result(n: u32, text: &str) -> Item {
    Item::ToolResult(ToolResult {
        call_id: id(n).as_str().into(),
        content: vec![Part::Text(text.into())],
        is_error: false,
    })
}

/// The `n`th call and its result.
fn answered(n: u32, name: &str, text: &str) -> [Item; 2] {
    [Item::ToolCall(made(n, name)), result(n, text)]
}

const CALLS: TurnEvent = TurnEvent::Finished(FinishReason::ToolCalls);
const STOP: TurnEvent = TurnEvent::Finished(FinishReason::Stop);

/// Longer than siblings of a call are waited for.
const WINDOW: Duration = Duration::from_millis(30);

/// A turn with these tools called (1, 2, ...) and handed out.
fn parked(tools: &[&str]) -> Bench {
    let mut bench = Bench::open(tools);
    bench.says("session s1");
    for (n, tool) in (1..).zip(tools) {
        bench.calls(n, tool, r#"{"a":1}"#);
    }
    bench.wait(WINDOW);
    assert_eq!((bench.ending(), bench.turn.state()), (&CALLS, TurnState::AwaitingTools));
    bench
}

fn finish(bench: &mut Bench, text: &str) {
    bench.says(&format!("text {text}\nend"));
    assert_eq!(bench.ending(), &STOP);
    assert_eq!(bench.turn.state(), TurnState::Done);
}
