//! Plays the steps of a script.

use std::time::Duration;

use ibeam_core::codec::connect::{self, Code};
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentServerMessage, InteractionUpdate, StepCompletedUpdate, StepStartedUpdate, TextDeltaUpdate,
    ThinkingCompletedUpdate, ThinkingDeltaUpdate, TokenDeltaUpdate,
    agent_server_message::Message as ToClient, interaction_update::Message as Update,
};

use super::{
    call_batch::broken,
    exec,
    resume::{self, ResumePoint},
    run::SimRun,
    run_io::{ClientAnswer, QuestionKey, RunResult, RunStop, fail},
};
use crate::{
    blobs::id_of,
    protobuf::unhex,
    record::add,
    scenario::{Blob, BlobRef, EncodedArm, Quirk, Say, ScenarioStep, message_bytes},
};

impl SimRun {
    /// Plays the script of the chosen rule, or the assistant's turn; on a resume, from where it
    /// was interrupted.
    pub(crate) async fn play(&mut self, start: ResumePoint) -> RunResult {
        let steps = self.chosen().map(|rule| rule.steps.clone()).unwrap_or_default();
        let mut from = start.step;
        if let Some(rest) = start.rest {
            from += 1;
            if !rest.is_empty() {
                let pace = self.sim().config.pace;
                self.say_now(Speech::Text, rest, 4, pace).await?;
            }
            if steps.is_empty() {
                return Ok(());
            }
        } else if self.prompt.goes_on() && !start.known {
            if self.answered_already() {
                return Ok(());
            }
            let results = self.results();
            from = resume::step_after_results(&steps, results.len());
            self.last_result =
                results.last().map(|said| said.result().to_owned()).unwrap_or_default();
        }
        if steps.is_empty() {
            return Box::pin(self.assist()).await;
        }
        for (at, step) in steps.into_iter().enumerate().skip(from) {
            self.at_step = at;
            Box::pin(self.step(step)).await?;
        }
        Ok(())
    }

    pub(crate) async fn step(&mut self, step: ScenarioStep) -> RunResult {
        match step {
            ScenarioStep::Text(say) => self.say(Speech::Text, &say).await,
            ScenarioStep::Thinking(say) => self.say(Speech::Thinking, &say).await,
            ScenarioStep::TokenDelta(tokens) => {
                self.io.update(Update::TokenDelta(TokenDeltaUpdate { tokens })).await
            }
            ScenarioStep::KvSet(blob) => self.kv_set(&blob).await,
            ScenarioStep::KvGet(blob) => self.kv_get(&blob).await,
            ScenarioStep::Checkpoint => self.checkpoint().await,
            ScenarioStep::AskContext => self.ask_context().await,
            ScenarioStep::Exec(exec) => self.execs(&[exec]).await,
            ScenarioStep::Execs(execs) => self.execs(&execs).await,
            ScenarioStep::Batch(steps) => self.in_batch(steps).await,
            ScenarioStep::Abort(abort) => {
                let key = self.start_exec(&abort.exec).await?;
                self.io.sleep(Duration::from_millis(abort.after_ms)).await?;
                self.abort(key).await
            }
            ScenarioStep::UnknownExec(arm) => {
                let key = self.ask_exec(&arm.arm().map_err(|e| broken(&e))?).await?;
                let answer = self.io.exec_answer(key).await?;
                self.last_result = answer.text;
                Ok(())
            }
            ScenarioStep::Query(query) => {
                let arm = query.arm("agent.v1.InteractionQuery").map_err(|e| broken(&e))?;
                self.query(&arm).await
            }
            ScenarioStep::UnknownQuery(arm) => {
                self.query(&arm.arm().map_err(|e| broken(&e))?).await
            }
            ScenarioStep::Update(query) => {
                let arm = query.arm("agent.v1.InteractionUpdate").map_err(|e| broken(&e))?;
                self.io.emit_bytes(&exec::update(&arm)).await
            }
            ScenarioStep::Message(table) => {
                let bytes = message_bytes(&table).map_err(|e| broken(&e))?;
                self.io.emit_bytes(&bytes).await
            }
            ScenarioStep::Usage(usage) => {
                self.usage = usage;
                Ok(())
            }
            ScenarioStep::StepStarted => {
                let started = StepStartedUpdate { step_id: 2 };
                self.io.update(Update::StepStarted(started)).await
            }
            ScenarioStep::StepCompleted => {
                let completed = StepCompletedUpdate { step_id: 2, step_duration_ms: 1 };
                self.io.update(Update::StepCompleted(completed)).await
            }
            ScenarioStep::RawHex(hex) => self.io.emit_frame(&unhex(&hex).unwrap_or_default()).await,
            ScenarioStep::Frame(frame) => {
                let payload = match frame.text.as_str() {
                    "" => unhex(&frame.hex).unwrap_or_default(),
                    text => text.as_bytes().to_vec(),
                };
                self.io.emit_frame(&connect::frame(frame.flags, &payload)).await
            }
            ScenarioStep::WaitMs(ms) => self.io.sleep(Duration::from_millis(ms)).await,
            ScenarioStep::Silence(seconds) => self.io.sleep(Duration::from_secs(seconds)).await,
            ScenarioStep::Assistant => Box::pin(self.assist()).await,
            ScenarioStep::TurnEnded => self.end_turn().await,
            ScenarioStep::End => {
                self.io.end(None).await?;
                Err(RunStop::Closed)
            }
            ScenarioStep::Error(spec) => Err(RunStop::Scripted(spec.connect_error(Code::Internal))),
            ScenarioStep::Fault(fault) => self.io.inject_fault(fault, &[0, 0, 0, 0, 4, 10]).await,
        }
    }

    // === speech ===

    pub(crate) async fn say(&mut self, speech: Speech, say: &Say) -> RunResult {
        let text = self.fill(&say.text);
        let pace = say.pace_ms.map_or(self.sim().config.pace, Duration::from_millis);
        match say.repeat {
            None => self.say_now(speech, text, say.chunk, pace).await,
            Some(times) if pace.is_zero() && say.chunk == 0 => {
                self.say_often(speech, &text, times).await
            }
            Some(times) => {
                for _ in 0..times {
                    // Filled in again: the clock has moved.
                    let text = self.fill(&say.text);
                    self.say_now(speech, text, say.chunk, pace).await?;
                }
                Ok(())
            }
        }
    }

    /// Streams a text in deltas of `chunk` characters.
    pub(crate) async fn say_now(
        &mut self,
        speech: Speech,
        mut text: String,
        chunk: usize,
        pace: Duration,
    ) -> RunResult {
        let thinking = speech == Speech::Thinking;
        let leaked = thinking && self.has(Quirk::LeakedThink);
        let before = self.output_tokens();
        if thinking {
            self.log.thought.push_str(&text);
        } else {
            self.log.said.push_str(&text);
        }
        if leaked {
            text = format!("<think>{text}</think>");
        }
        if self.silent() {
            return Ok(());
        }
        if !thinking && self.has(Quirk::TextAndBlob) {
            Box::pin(self.store_answer()).await?;
        }
        // Counted over the whole text, so that small deltas do not add up to more.
        let count = self.output_tokens().saturating_sub(before);
        let speech = if leaked { Speech::Text } else { speech };
        self.saying = (speech == Speech::Text && !leaked).then(|| (text.clone(), 0));
        let mut at = 0;
        while at < text.len() {
            let rest = text.get(at..).unwrap_or_default();
            let step = rest.char_indices().nth(chunk).map_or(rest.len(), |(end, _)| end);
            let step = if chunk == 0 { rest.len() } else { step };
            let delta = rest.get(..step).unwrap_or_default().to_owned();
            self.io.update(speech.update(delta)).await?;
            at += step;
            if let Some(saying) = &mut self.saying {
                saying.1 = at;
            }
            self.io.sleep(pace).await?;
        }
        if speech == Speech::Thinking {
            let done = ThinkingCompletedUpdate { thinking_duration_ms: 1 };
            self.io.update(Update::ThinkingCompleted(done)).await?;
        }
        if !self.has(Quirk::Terse) {
            let tokens = i32::try_from(count).unwrap_or(i32::MAX);
            self.io.update(Update::TokenDelta(TokenDeltaUpdate { tokens })).await?;
        }
        self.saying = None;
        Ok(())
    }

    /// Repeats one delta that is encoded once: the load for benchmarks.
    async fn say_often(&mut self, speech: Speech, text: &str, times: u64) -> RunResult {
        let update = InteractionUpdate {
            message: Some(speech.update(text.to_owned())),
            ..InteractionUpdate::default()
        };
        let message = AgentServerMessage {
            message: Some(ToClient::InteractionUpdate(update)),
            ..AgentServerMessage::default()
        };
        let frame = self.io.out.frame_of(&message.to_wire());
        for _ in 0..times {
            self.io.emit_frame(&frame).await?;
        }
        let said = match speech {
            Speech::Text => &mut self.log.said,
            Speech::Thinking => &mut self.log.thought,
        };
        said.push_str(&text.repeat(usize::try_from(times).unwrap_or_default().min(65_536)));
        Ok(())
    }

    /// Whether the answer is kept out of the stream.
    fn silent(&self) -> bool {
        self.has(Quirk::BlobOnly)
            || (self.has(Quirk::BlobWithoutStreamingHeader)
                && self.http1
                && !self.headers.streaming)
    }

    fn fill(&self, text: &str) -> String {
        if !text.contains('{') {
            return text.to_owned();
        }
        let history: Vec<_> =
            self.prompt.history.iter().map(|s| format!("{}: {}", s.role, s.text)).collect();
        text.replace("{result}", &self.last_result)
            .replace("{prompt}", &self.prompt.text)
            .replace("{system}", &self.prompt.rules.join("\n"))
            .replace("{history}", &history.join("\n"))
            .replace("{images}", &self.prompt.images.to_string())
            .replace("{model}", &self.model_name())
            .replace("{conversation}", &self.prompt.conversation)
            .replace("{uptime_us}", &self.sim().born.elapsed().as_micros().to_string())
    }

    // === blobs ===

    async fn kv_set(&mut self, blob: &Blob) -> RunResult {
        let data = blob.bytes().map_err(|e| broken(&e))?;
        let id = match &blob.id {
            Some(id) => unhex(id).unwrap_or_default(),
            None => id_of(&data).to_vec(),
        };
        if let Some(key) = self.store(&id, data).await? {
            self.io.answered(&[key]).await?;
            self.io.take_answer(key);
        }
        Ok(())
    }

    async fn kv_get(&mut self, blob: &BlobRef) -> RunResult {
        let id = match &blob.id {
            Some(id) => unhex(id).unwrap_or_default(),
            None => id_of(blob.data.as_bytes()).to_vec(),
        };
        let key = self.ask_blob(&id).await?;
        self.io.answered(&[key]).await?;
        match self.io.take_answer(key) {
            Some(ClientAnswer::Kv(Some(data))) => {
                self.last_result = String::from_utf8_lossy(&data).into_owned();
                Ok(())
            }
            _ if blob.optional => Ok(()),
            _ => Err(fail(Code::Internal, "Blob not found")),
        }
    }

    // === queries ===

    async fn query(&mut self, arm: &EncodedArm) -> RunResult {
        let id = self.io.next_query;
        self.io.next_query += 1;
        let key = QuestionKey::Query(id);
        add(&self.sim().counters().queries_sent);
        self.io.ask(key, arm.field, &exec::query(id, arm)).await?;
        self.io.answered(&[key]).await?;
        if let Some(ClientAnswer::Query(response)) = self.io.take_answer(key) {
            self.last_result = format!("{:?}", response.result);
        }
        Ok(())
    }
}

/// What kind of text is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    Text,
    Thinking,
}

impl Speech {
    fn update(self, text: String) -> Update {
        match self {
            Self::Text => Update::TextDelta(TextDeltaUpdate { text, ..TextDeltaUpdate::default() }),
            Self::Thinking => Update::ThinkingDelta(ThinkingDeltaUpdate {
                text,
                ..ThinkingDeltaUpdate::default()
            }),
        }
    }
}
