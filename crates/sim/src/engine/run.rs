//! A run around its script: the questions before it, what is stored and reported after it, and
//! how the stream ends.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use ibeam_core::codec::connect::{Code, ConnectError};
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentRunRequest, RequestContextArgs, StepCompletedUpdate, StepStartedUpdate, UserMessage,
    UserMessageAppendedUpdate, agent_client_message::Message as FromClient, exec_client_message,
    interaction_update::Message as Update, request_context_result,
};
use serde_json::{Value, json};

use super::{
    SimState,
    call_batch::RunningExec,
    exec,
    prologue::RequestTraits,
    resume::KnownState,
    run_io::{CONTEXT, QuestionKey, RunIo, RunResult, RunStop, fail},
    usage::StepSums,
};
use crate::{
    behaviour::Behaviour,
    blobs::{BlobId, id_of},
    models::SimModel,
    prompt::{RunPrompt, image_ids, server_entries, validate},
    record::{add, sub},
    scenario::{EncodedArm, Quirk, ResetCode, UsageStep},
};

/// The model whose bare id is the fast tier.
const COMPOSER: &str = "composer-2.5";

/// A run in progress.
#[derive(Debug)]
pub(crate) struct SimRun {
    pub(crate) io: RunIo,
    pub(crate) prompt: RunPrompt,
    /// Whether the request was read.
    prepared: bool,
    /// Whether it is decided which rule the run plays.
    pub(super) decided: bool,
    pub(crate) number: u64,
    pub(crate) http1: bool,
    pub(crate) headers: RunHeaders,
    pub(crate) rule: Option<usize>,
    pub(crate) log: TurnLog,
    /// The text that is being streamed, and how much of it was sent.
    pub(crate) saying: Option<(String, usize)>,
    pub(crate) at_step: usize,
    /// The model has nothing more to say.
    pub(crate) played: bool,
    /// Execs of a batch, which are awaited together; `None` outside of one.
    pub(crate) batch: Option<Vec<RunningExec>>,
    pub(crate) usage: UsageStep,
    pub(crate) steps: StepSums,
    /// The model was asked, so that the run is billed.
    pub(crate) reached_model: bool,
    /// The tool catalogue was shown to the model.
    pub(crate) catalogue_shown: bool,
    /// The run has called a tool.
    pub(crate) calls_started: bool,
    /// The state of the MCP servers was asked for a second time.
    pub(crate) state_asked_again: bool,
    /// Calls of a batch that are announced together, until the first of them comes.
    pub(crate) listed_ahead: u32,
    pub(crate) calls: u32,
    /// How many responses of the model called tools and got their results.
    pub(crate) responses: u32,
    pub(crate) last_result: String,
    pub(crate) turn_ended: bool,
}

/// What the headers of a run say about it.
#[derive(Debug, Default)]
pub(crate) struct RunHeaders {
    /// `x-cursor-agent-allowed-tools`, when sent.
    pub(crate) allowed_tools: Option<String>,
    /// An append came without that header, although the stream has it.
    pub(crate) unlisted: Arc<AtomicBool>,
    pub(crate) streaming: bool,
    pub(crate) request_id: String,
    /// The account of the token.
    pub(crate) account: u64,
}

impl RunHeaders {
    /// Whether the header with the allowed tools is void, because an append came without it.
    pub(crate) fn tools_unlisted(&self) -> bool {
        self.unlisted.load(Ordering::Relaxed)
    }
}

/// The turn so far, for its checkpoints.
#[derive(Debug, Default)]
pub(crate) struct TurnLog {
    /// Answer and thinking so far.
    pub(crate) said: String,
    pub(crate) thought: String,
    /// How much of `said` is in `messages`.
    pub(crate) recorded_len: usize,
    /// How much of `thought` is in `messages`.
    pub(crate) recorded_thought: usize,
    /// Messages and steps of this turn besides the answer.
    pub(crate) messages: Vec<Value>,
    pub(crate) steps: Vec<Bytes>,
    /// Blobs the client has stored for us on this stream.
    pub(crate) stored: HashSet<BlobId>,
    /// The ids of the user's message in the prompt and in the turn, once it is stored.
    pub(crate) user_blobs: Option<(Bytes, Bytes)>,
    /// States that the client has of this turn.
    pub(crate) states: Vec<KnownState>,
}

impl SimRun {
    pub(crate) fn new(io: RunIo, number: u64, http1: bool, headers: RunHeaders) -> Self {
        Self {
            io,
            prompt: RunPrompt::default(),
            prepared: false,
            decided: false,
            number,
            http1,
            headers,
            rule: None,
            log: TurnLog::default(),
            saying: None,
            at_step: 0,
            played: false,
            batch: None,
            usage: UsageStep::default(),
            steps: StepSums::default(),
            reached_model: false,
            catalogue_shown: false,
            calls_started: false,
            state_asked_again: false,
            listed_ahead: 0,
            calls: 0,
            responses: 0,
            last_result: String::new(),
            turn_ended: false,
        }
    }

    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.io.quirks.has(quirk)
    }

    pub(crate) fn behaviour(&self) -> &Behaviour {
        &self.io.behaviour
    }

    pub(crate) fn sim(&self) -> &Arc<SimState> {
        &self.io.sim
    }

    pub(crate) fn prepare(&mut self, request: &AgentRunRequest) {
        self.prompt = RunPrompt::new(request);
        self.prepared = true;
    }

    /// Runs to the end, and counts how it ended.
    pub(crate) async fn drive(mut self, first: Option<FromClient>) {
        add(&self.sim().counters().runs_started);
        let _open = OpenStreamCount::new(self.io.sim.clone());
        let mut result = Box::pin(self.turn(first)).await;
        if matches!(result, Err(RunStop::HalfClosed)) {
            result = Box::pin(self.io.heartbeats_only()).await;
        }
        let sim = self.io.sim.clone();
        let left = matches!(result, Err(RunStop::Gone | RunStop::HalfClosed | RunStop::Silent));
        if self.reached_model && (!left || self.behaviour().usage_abandoned_billed) {
            sim.records.bill(self.bill(self.prompt.conversation.clone()));
        }
        let counters = &sim.counters();
        counters.server_frames.fetch_add(self.io.out.frames, Ordering::Relaxed);
        self.io.tally.ended(match &result {
            Ok(()) | Err(RunStop::Closed) => "finished",
            Err(RunStop::Cancelled) => "cancelled",
            Err(RunStop::Gone | RunStop::HalfClosed) => "abandoned",
            Err(RunStop::Silent) => "silent",
            Err(RunStop::Fail(_)) => "failed",
            Err(RunStop::Scripted(_) | RunStop::Cut) => "cut",
        });
        match result {
            Ok(()) | Err(RunStop::Closed) => add(&counters.runs_finished),
            Err(RunStop::Cancelled) => {
                add(&counters.runs_cancelled);
                let delay = tokio::time::sleep(sim.config.cancel_delay);
                tokio::select! {
                    () = delay => drop(Box::pin(self.io.end(None)).await),
                    () = self.io.out.tx.closed() => {}
                }
            }
            Err(RunStop::Gone | RunStop::HalfClosed) => add(&counters.runs_abandoned),
            Err(RunStop::Silent) => {
                add(&counters.runs_silent);
                self.io.reset(ResetCode::CANCEL).await;
            }
            Err(RunStop::Fail(error)) => {
                tracing::debug!(code = error.code.as_str(), error.message, "run refused");
                add(&counters.runs_failed);
                let _ = Box::pin(self.io.end(Some(&error))).await;
            }
            Err(RunStop::Scripted(error)) => {
                add(&counters.runs_cut);
                self.save();
                let _ = Box::pin(self.io.end(Some(&error))).await;
            }
            Err(RunStop::Cut) => {
                add(&counters.runs_cut);
                self.save();
            }
        }
    }

    async fn turn(&mut self, first: Option<FromClient>) -> RunResult {
        let first = match first {
            Some(first) => first,
            None => self.io.first().await?,
        };
        let FromClient::RunRequest(mut request) = first else {
            return Err(fail(Code::InvalidArgument, "The first message must be a run request"));
        };
        if !self.prepared {
            self.prepare(&request);
            if !self.sim().config.scenario.decides_late() {
                self.choose();
            }
        }
        self.io.tally.begun(&self.prompt.conversation, self.prompt.resume);
        self.io.tally.asked(&request);
        let behaviour = self.io.behaviour.clone();
        let model = validate::request(&request, &self.io.quirks, &behaviour);
        self.note_parameters(model.map_err(RunStop::Fail)?);
        let traits = RequestTraits::of(&request);
        self.refuse_by_switch(traits)?;
        // Some clients close their side with the request.
        self.io.listen().await?;
        self.refuse_by_quirk()?;
        if self.has(Quirk::IdsFromZero) {
            self.io.next_exec = 0;
            self.io.next_kv = 0;
            self.io.next_query = 0;
        }
        if !self.prompt.inline_context {
            Box::pin(self.ask_context()).await?;
        }
        // A run may wait for long, and does not need the request any more.
        let pushed = std::mem::take(&mut request.pre_fetched_blobs);
        drop(request);
        Box::pin(self.gather(pushed)).await?;
        Box::pin(self.choose_late()).await?;
        if self.is_empty_turn(traits) {
            return Box::pin(self.end_empty_turn()).await;
        }
        let start = self.find_resume_point();
        Box::pin(self.before_model(traits)).await?;
        self.reached_model = true;
        // Boxed one by one: a run that waits holds only what it still needs.
        Box::pin(self.open_turn()).await?;
        Box::pin(self.play(start)).await?;
        self.played = true;
        Box::pin(self.finish()).await
    }

    /// Records parameters that the model does not have.
    fn note_parameters(&self, model: &SimModel) {
        let counters = &self.sim().counters();
        for (id, value) in &self.prompt.parameters {
            if !model.knows(id, value) {
                counters.violation(format!("{} has no parameter {id}={value}", model.id));
            }
        }
        if model.max_only && !self.prompt.max_mode {
            counters.violation(format!("{} asked for without max mode", model.id));
        }
    }

    /// Row 12: the model that really answers.
    pub(crate) fn model_name(&self) -> String {
        let standard = self.prompt.parameters.iter().any(|(id, v)| id == "fast" && v == "false");
        match self.prompt.model.as_str() {
            COMPOSER if !standard && !self.has(Quirk::ComposerStandard) => {
                format!("{COMPOSER}-fast")
            }
            model => model.to_owned(),
        }
    }

    /// Refusals that a quirk asks for.
    fn refuse_by_quirk(&self) -> RunResult {
        let conversations = &self.sim().conversations;
        if self.has(Quirk::StuckConversation) && conversations.stuck(&self.prompt.conversation) {
            return Err(fail(Code::ResourceExhausted, "Error"));
        }
        self.check_images(self.prompt.user_message.as_ref())
    }

    /// Row 18: an image keeps the uuid it came with.
    pub(crate) fn check_images(&self, user: Option<&UserMessage>) -> RunResult {
        let conversations = &self.sim().conversations;
        if self.has(Quirk::ImageUuid) {
            for (uuid, image) in image_ids(user) {
                if conversations.renamed_image(&self.prompt.conversation, image, &uuid) {
                    return Err(fail(Code::Internal, "Image not found"));
                }
            }
        }
        Ok(())
    }

    /// Asks for the request context by exec.
    pub(crate) async fn ask_context(&mut self) -> RunResult {
        let payload = RequestContextArgs::default().to_wire();
        let arm = EncodedArm { field: CONTEXT, payload };
        let first = self.behaviour().fields_extra && !self.io.asked.contains(&QuestionKey::Exec(0));
        let key = match first {
            // Its id is absent.
            true => self.io.ask_exec(0, &self.exec_id(0), &arm).await?,
            false => self.ask_exec(&arm).await?,
        };
        let answer = self.io.exec_answer(key).await?;
        let Some(exec_client_message::Message::RequestContextResult(result)) = answer.reply else {
            return Err(fail(Code::Internal, "No request context"));
        };
        match result.result {
            Some(request_context_result::Result::Success(success)) => {
                let context = success.request_context.unwrap_or_default();
                validate::context(&context, &self.io.quirks).map_err(RunStop::Fail)?;
                self.prompt.add_context(&context);
                Ok(())
            }
            _ => Err(fail(Code::Internal, "No request context")),
        }
    }

    /// Sends an exec under the next id.
    pub(crate) async fn ask_exec(&mut self, arm: &EncodedArm) -> RunResult<QuestionKey> {
        let id = self.io.next_exec;
        self.io.next_exec += 1;
        let exec_id = self.exec_id(id);
        self.io.ask_exec(id, &exec_id, arm).await
    }

    pub(crate) fn exec_id(&self, id: u32) -> String {
        if self.has(Quirk::EmptyExecId) {
            return String::new();
        }
        let hash = id_of(format!("{}/{}/{id}", self.prompt.conversation, self.number).as_bytes());
        crate::protobuf::hex(hash.get(..8).unwrap_or_default())
    }

    // === begin and end ===

    async fn open_turn(&mut self) -> RunResult {
        if self.has(Quirk::Terse) {
            return Ok(());
        }
        if let Some(user) = self.prompt.user_message.clone().filter(|_| !self.prompt.resume) {
            self.store_user().await?;
            let appended = UserMessageAppendedUpdate { user_message: Some(user) };
            self.io.update(Update::UserMessageAppended(Box::new(appended))).await?;
        }
        let started = StepStartedUpdate { step_id: 1 };
        self.io.update(Update::StepStarted(started)).await
    }

    pub(crate) fn user_json(&self) -> Bytes {
        let user = self.prompt.user_message.as_ref();
        let text = user.map_or("", |user| &user.text);
        match self.behaviour().roots_fetch {
            true => message_json("user", &server_entries::query(text)).to_string().into(),
            false => message_json("user", text).to_string().into(),
        }
    }

    /// The usual end, as changed by the quirks that are about it.
    async fn finish(&mut self) -> RunResult {
        self.io.listen().await?;
        if self.has(Quirk::BareEof) {
            self.io.flush().await?;
            return Err(RunStop::Closed);
        }
        if !self.has(Quirk::Terse) || self.has(Quirk::NoEnd) || self.has(Quirk::BlobOnly) {
            self.store_answer().await?;
        }
        if self.has(Quirk::NoEnd) {
            return self.io.heartbeats_only().await;
        }
        if !self.has(Quirk::Terse) {
            self.checkpoint().await?;
            let completed = StepCompletedUpdate { step_id: 1, step_duration_ms: 1 };
            self.io.update(Update::StepCompleted(completed)).await?;
            if self.behaviour().fields_extra {
                // The same one, around the end of the step.
                self.checkpoint().await?;
            }
        }
        if !self.has(Quirk::NoTurnEnded) {
            self.end_turn().await?;
        }
        if self.behaviour().fields_extra && self.turn_ended {
            Box::pin(self.after_the_end()).await?;
        }
        if self.has(Quirk::NoEndFrame) {
            return self.io.heartbeats_only().await;
        }
        if self.has(Quirk::ErrorAfterTurnEnded) {
            let error = ConnectError::new(Code::Unavailable, "Unable to reach the model provider");
            return Err(RunStop::Scripted(error));
        }
        self.io.end(None).await
    }

    /// What the service still sends after `turn_ended`.
    async fn after_the_end(&mut self) -> RunResult {
        /// An update that no client knows.
        const UNKNOWN_UPDATE: u32 = 99;
        self.io.update(Update::FeedbackRequest(Bytes::new())).await?;
        let arm = EncodedArm { field: UNKNOWN_UPDATE, payload: Bytes::new() };
        self.io.emit_bytes(&exec::update(&arm)).await
    }

    pub(crate) async fn end_turn(&mut self) -> RunResult {
        if std::mem::replace(&mut self.turn_ended, true) {
            return Ok(());
        }
        let ended = self.turn_usage();
        self.io.turn_over = true;
        self.io.update(Update::TurnEnded(ended)).await
    }
}

pub(crate) fn message_json(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": [{ "type": "text", "text": text }] })
}

/// Counts an open stream for as long as it lives.
struct OpenStreamCount(Arc<SimState>);

impl OpenStreamCount {
    fn new(sim: Arc<SimState>) -> Self {
        add(&sim.counters().open_streams);
        Self(sim)
    }
}

impl Drop for OpenStreamCount {
    fn drop(&mut self) {
        sub(&self.0.counters().open_streams);
    }
}
