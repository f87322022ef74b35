//! Time: when a turn wants to be woken, and what it does then.

use bytes::Bytes;
use ibeam_proto::agent::{
    AgentClientMessage, ClientHeartbeat, agent_client_message::Message as ToServer,
};

use super::{
    Command, Phase, Turn,
    stream::{Link, OpenLink, Stored},
};
use crate::{
    agent::classify::{Failure, Remedy},
    codec::connect,
    error::{ErrorCode, TurnError},
    model::Millis,
};

impl Turn {
    /// When [`Self::on_timeout`] is due at the latest.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        let clocks = &self.settings.clocks;
        let whole = self.started + clocks.whole_turn;
        match &self.link {
            Link::Done => None,
            // Nobody waits for an answer: only the stream itself can be late.
            Link::Open(link) if self.awaiting => {
                let silence = link.reading.then(|| link.last_frame + clocks.no_frame);
                [silence, link.next_heartbeat].into_iter().flatten().min()
            }
            Link::Waiting { until, .. } => Some(whole.min(*until)),
            Link::Opening { .. } => Some(whole),
            Link::Open(link) => {
                let silence = link.reading.then(|| {
                    (link.last_frame + clocks.no_frame + link.upload)
                        .min(link.last_progress + clocks.heartbeat_only)
                });
                let quiet =
                    self.looks_complete(link).then(|| link.last_progress + clocks.quiet_end);
                [silence, quiet, link.ended_until, link.batch_until, link.next_heartbeat]
                    .into_iter()
                    .flatten()
                    .fold(whole, Millis::min)
                    .into()
            }
        }
    }

    pub fn on_timeout(&mut self, now: Millis) {
        let clocks = self.settings.clocks;
        let running = matches!(self.phase(), Phase::Opening | Phase::Streaming);
        if running && now >= self.started + clocks.whole_turn {
            self.fail_by_clock("The turn took longer than `clocks.turn` allows.");
            return;
        }
        match &mut self.link {
            Link::Waiting { until, purpose, prefer_h1 } if now >= *until => {
                let (purpose, prefer_h1) = (*purpose, *prefer_h1);
                self.open(purpose, prefer_h1);
            }
            Link::Open(link) => {
                if link.next_heartbeat.is_some_and(|at| now >= at) {
                    link.next_heartbeat = Some(now + clocks.heartbeat);
                    self.commands.push_back(Command::Send(Self::heartbeat()));
                }
                self.on_stream_timeout(now);
            }
            Link::Waiting { .. } | Link::Opening { .. } | Link::Done => {}
        }
    }

    /// Whether the caller reads the stream; while it does not, silence proves
    /// nothing about the backend.
    pub fn set_reading(&mut self, reading: bool, now: Millis) {
        if let Link::Open(link) = &mut self.link
            && link.reading != reading
        {
            link.reading = reading;
            link.last_frame = now;
            link.last_progress = now;
        }
    }

    /// The framed heartbeat of a stream.
    #[must_use]
    pub fn heartbeat() -> Bytes {
        let beat = ToServer::ClientHeartbeat(ClientHeartbeat {});
        connect::encode(&AgentClientMessage { message: Some(beat) })
    }

    /// Somebody else sends the heartbeats of this parked stream, until it goes on.
    pub fn relieve(&mut self) {
        if let Link::Open(link) = &mut self.link
            && self.awaiting
        {
            link.next_heartbeat = None;
        }
    }

    fn on_stream_timeout(&mut self, now: Millis) {
        let clocks = self.settings.clocks;
        let Link::Open(link) = &self.link else { return };
        let due = |at: Option<Millis>| at.is_some_and(|at| now >= at);
        if self.awaiting {
            if link.reading && now >= link.last_frame + clocks.no_frame {
                self.hang_up(true);
            }
        } else if due(link.batch_until) {
            self.flush_batch(now);
        } else if due(link.ended_until)
            || (self.looks_complete(link) && now >= link.last_progress + clocks.quiet_end)
        {
            self.finish_stop(now, true);
        } else if link.reading && now >= link.last_frame + clocks.no_frame + link.upload {
            let text = format!("Cursor sent nothing for {} s.", clocks.no_frame.as_secs());
            let error = TurnError::new(ErrorCode::Timeout, text);
            let error = if link.heard { error } else { error.unreachable() };
            self.recover(Failure { error, remedy: Remedy::Resume }, false, now);
        } else if link.reading && now >= link.last_progress + clocks.heartbeat_only {
            self.fail_by_clock(
                "Cursor sent only heartbeats for longer than `clocks.heartbeats_only` allows.",
            );
        }
    }

    /// An answer came, it was stored, and since then only heartbeats, with nothing
    /// under way that could bring more.
    fn looks_complete(&self, link: &OpenLink) -> bool {
        let settled = match link.stored {
            Stored::Nothing => false,
            Stored::Something => link.open_steps == 0,
            Stored::Answer => true,
        };
        let idle = link.begun.is_empty() && self.calls.is_empty();
        self.answer.has_answer() && settled && link.heartbeats >= 2 && idle
    }

    fn fail_by_clock(&mut self, text: &'static str) {
        self.fail(TurnError::new(ErrorCode::Timeout, text), true);
    }
}
