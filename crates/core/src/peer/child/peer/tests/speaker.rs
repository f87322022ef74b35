//! A child's protocol made for tests: one line, one thing heard.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    error::{ErrorCode, TurnError},
    model::{FinishReason, Usage, UsageSource},
    peer::child::{ChildEvent, ChildRequest, Exit, Ready, Speaker, ToChild},
    peer::{PeerFailure, Remedy},
};

/// Says its prompt as the only input, with the name of the conversation it resumes before
/// it, and `cancel` when it shall stop.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    said: VecDeque<ToChild>,
    heard: VecDeque<ChildEvent>,
    over: bool,
    unknown: u64,
}

impl Scripted {
    fn push(&mut self, heard: ChildEvent) {
        if !self.over {
            self.over = matches!(heard, ChildEvent::Ended(_) | ChildEvent::Failed(_));
            self.heard.push_back(heard);
        }
    }
}

impl Speaker for Scripted {
    fn begin(&mut self, _ready: &Ready, ask: &ChildRequest) {
        let resumed = ask.resume.as_ref().map(|name| format!("[{name}] "));
        let prompt = format!("{}{}", resumed.unwrap_or_default(), ask.prompt.text);
        self.said.extend([ToChild::Input(prompt.into()), ToChild::CloseInput]);
    }

    fn on_output(&mut self, bytes: Bytes) {
        let line = String::from_utf8(bytes.to_vec()).unwrap();
        let line = line.trim_end_matches('\n');
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let failed = |remedy| {
            let error = TurnError::new(ErrorCode::UpstreamError, "scripted");
            ChildEvent::Failed(PeerFailure { error, remedy })
        };
        let heard = match (word, rest) {
            ("session", name) => ChildEvent::Session(name.to_owned()),
            ("text", text) => ChildEvent::Text(text.to_owned()),
            ("thought", text) => ChildEvent::Thought(text.to_owned()),
            ("did", line) => ChildEvent::Did(line.to_owned()),
            ("announced", _) => ChildEvent::Announced,
            ("usage", output) => ChildEvent::Usage(Usage {
                input: 100,
                output: output.parse().unwrap(),
                source: UsageSource::Backend,
                ..Usage::default()
            }),
            ("alive", _) => ChildEvent::Alive,
            ("end", _) => ChildEvent::Ended(FinishReason::Stop),
            ("length", _) => ChildEvent::Ended(FinishReason::Length),
            ("fail", "retry") => failed(Remedy::Retry),
            ("fail", "anew") => failed(Remedy::FreshConversation),
            ("fail", _) => failed(Remedy::None),
            _ => {
                self.unknown += 1;
                return;
            }
        };
        self.push(heard);
    }

    fn on_exit(&mut self, _exit: &Exit) {
        let error = TurnError::new(ErrorCode::UpstreamClosed, "exited");
        self.push(ChildEvent::Failed(PeerFailure { error, remedy: Remedy::Retry }));
    }

    fn cancel(&mut self) {
        self.said.push_back(ToChild::Input(Bytes::from_static(b"cancel")));
    }

    fn poll_send(&mut self) -> Option<ToChild> {
        self.said.pop_front()
    }

    fn poll_heard(&mut self) -> Option<ChildEvent> {
        self.heard.pop_front()
    }

    fn unknown(&self) -> u64 {
        self.unknown
    }
}
