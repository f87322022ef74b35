//! A turn of the stand-in: the client of a simulator run in this process, without a wire. This
//! way a scenario gives the same answers here as over Cursor's agent interface.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use ibeam_core::codec::{
    connect::{ConnectError, Decoder, Envelope},
    pbwalk,
};
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, AgentServerMessage, ConversationAction,
    ConversationStateStructure, CursorRule, ExecClientControlMessage, ExecClientMessage,
    ExecClientThrow, ExecServerMessage, GetBlobResult, KvClientMessage, KvServerMessage,
    McpToolDefinition, PreFetchedBlob, RequestContext, RequestContextResult, RequestContextSuccess,
    RequestedModel, ResumeAction, SelectedContext, SelectedImage, SetBlobResult, TurnEndedUpdate,
    UserMessage, UserMessageAction, agent_client_message::Message as ToSim,
    agent_server_message::Message as FromSim, conversation_action::Action,
    exec_client_control_message, exec_client_message::Message as Reply,
    exec_server_message::Message as Exec, interaction_update::Message as Update, kv_client_message,
    kv_server_message, request_context_result, selected_image,
};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    tool_calls::ToolActivity,
    toolbox::{FakeTools, McpTool},
};
use crate::{
    blobs::id_of,
    engine::{RunHeaders, RunIo, SimRun, SimState},
    protobuf::{put_bytes_field, value_to_proto},
    record::{RunReport, RunTally},
    stream::{
        BodyFormat, CHUNKS_CAP, Chunk, ConnectionControl, FrameStyle, RunInbound, RunOutbound,
    },
};

/// Answers that wait for the run to read them.
const ANSWERS_CAP: usize = 16;
/// `AgentServerMessage.interaction_query` and `AgentClientMessage.interaction_response`.
const QUERY: u32 = 7;
const RESPONSE: u32 = 6;

/// The input of a turn.
#[derive(Debug, Default)]
pub(super) struct FakeTurnRequest {
    pub(super) session: String,
    /// The number of the run, from 1.
    pub(super) number: u64,
    pub(super) model: String,
    pub(super) mode: i32,
    /// `None`: no new message, continue with the results.
    pub(super) text: Option<String>,
    pub(super) images: Vec<PromptImage>,
    pub(super) rules: Vec<String>,
    pub(super) history: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptImage {
    pub(super) mime: String,
    pub(super) data: Bytes,
}

#[derive(Debug)]
pub(super) enum FakeTurnEvent {
    Text(String),
    Thought(String),
    ThoughtOver,
    Started(ToolActivity),
    Completed(ToolActivity),
    /// The last event of a turn that succeeds.
    Ended(TurnEndedUpdate),
    /// The last event of a turn that fails, with the service's error message.
    Failed(String),
}

/// A running turn.
#[derive(Debug)]
pub(super) struct FakeTurn {
    /// Shows when a fault breaks the connection.
    control: Arc<ConnectionControl>,
    tools: Arc<FakeTools>,
    context: RequestContext,
    to_sim: mpsc::Sender<Bytes>,
    from_sim: mpsc::Receiver<Chunk>,
    decoder: Decoder,
    blobs: HashMap<Bytes, Bytes>,
    /// Running tools, which return their answers.
    work: JoinSet<Vec<Bytes>>,
    events: VecDeque<FakeTurnEvent>,
    over: bool,
}

impl FakeTurn {
    /// Starts a run. `choose` makes it choose its rule.
    pub(super) async fn begin(
        sim: &Arc<SimState>,
        ask: FakeTurnRequest,
        tools: Arc<FakeTools>,
        choose: impl FnOnce(&mut SimRun),
    ) -> Self {
        let (to_sim, answers) = mpsc::channel(ANSWERS_CAP);
        let (tx, from_sim) = mpsc::channel(CHUNKS_CAP);
        let style =
            FrameStyle { format: BodyFormat::Connect, gzip: false, split: None, per_chunk: 1 };
        let report = RunReport { run: ask.number, transport: "cli", ..RunReport::default() };
        let control = Arc::<ConnectionControl>::default();
        let io = RunIo::new(
            sim,
            Arc::clone(&control),
            RunInbound::Appends(answers),
            RunOutbound::new(tx, style),
            RunTally::open(&sim.records, report, None),
            ask.number,
        );
        let request_id = ask.session.clone();
        let headers = RunHeaders { streaming: true, request_id, ..RunHeaders::default() };
        let mut run = SimRun::new(io, ask.number, false, headers);
        let context = context(&ask, &tools.offers);
        let request = request(ask, context.clone());
        run.prepare(&request);
        choose(&mut run);
        let mut turn = Self {
            control,
            tools,
            context,
            to_sim,
            from_sim,
            decoder: Decoder::new(),
            blobs: HashMap::new(),
            work: JoinSet::new(),
            events: VecDeque::new(),
            over: false,
        };
        if let Some(refuse) = run.refusal().await {
            turn.fail(words(&refuse.connect_error()));
            return turn;
        }
        let first = ToSim::RunRequest(request);
        sim.tasks.spawn(Box::pin(run.drive(Some(first))));
        turn
    }

    /// The next event; `None` when the turn has ended.
    pub(super) async fn next(&mut self) -> Option<FakeTurnEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            tokio::select! {
                chunk = self.from_sim.recv() => match chunk {
                    Some(Ok(chunk)) => self.take(chunk).await,
                    Some(Err(code)) => self.fail(format!("fetch failed: ECONNRESET ({})", code.0)),
                    None => self.fail("fetch failed: the connection was closed".to_owned()),
                },
                () = self.control.killed() => self.fail("fetch failed: ECONNRESET".to_owned()),
                Some(done) = self.work.join_next() => {
                    for answer in done.unwrap_or_default() {
                        self.send(answer).await;
                    }
                }
            }
        }
    }

    async fn take(&mut self, chunk: Bytes) {
        self.decoder.push(chunk);
        while !self.over {
            match self.decoder.next() {
                Ok(Some(Envelope::Message(bytes))) => self.on_message(&bytes).await,
                Ok(Some(Envelope::End(None))) => self.end(TurnEndedUpdate::default()),
                Ok(Some(Envelope::End(Some(error)))) => self.fail(words(&error)),
                Ok(None) => return,
                Err(error) => self.fail(format!("network error: {error}")),
            }
        }
    }

    async fn on_message(&mut self, bytes: &Bytes) {
        let message = AgentServerMessage::from_wire(bytes.clone()).unwrap_or_default().message;
        match message {
            Some(FromSim::InteractionUpdate(update)) => {
                if let Some(update) = update.message {
                    self.note(update);
                }
            }
            Some(FromSim::ExecServerMessage(exec)) => self.exec(*exec),
            Some(FromSim::KvServerMessage(ask)) => {
                let answer = self.kv(ask);
                self.send(client(ToSim::KvClientMessage(answer))).await;
            }
            Some(FromSim::InteractionQuery(query)) => self.send(approve(query.id, bytes)).await,
            _ => {}
        }
    }

    fn note(&mut self, update: Update) {
        let act = |call_id: String, call, model: String| ToolActivity::new(call_id, call, model);
        let event = match update {
            Update::TextDelta(delta) => FakeTurnEvent::Text(delta.text),
            Update::ThinkingDelta(delta) => FakeTurnEvent::Thought(delta.text),
            Update::ThinkingCompleted(_) => FakeTurnEvent::ThoughtOver,
            Update::ToolCallStarted(call) => {
                let Some(act) = act(call.call_id, call.tool_call, call.model_call_id) else {
                    return;
                };
                FakeTurnEvent::Started(act)
            }
            Update::ToolCallCompleted(call) => {
                let Some(act) = act(call.call_id, call.tool_call, call.model_call_id) else {
                    return;
                };
                FakeTurnEvent::Completed(act)
            }
            Update::TurnEnded(ended) => return self.end(ended),
            _ => return,
        };
        self.events.push_back(event);
    }

    /// Starts a tool; its answer is sent later.
    fn exec(&mut self, message: ExecServerMessage) {
        let ExecServerMessage { id, exec_id, message, .. } = message;
        let tools = Arc::clone(&self.tools);
        let context =
            matches!(message, Some(Exec::RequestContextArgs(_))).then(|| self.context.clone());
        self.work.spawn(async move {
            let replies = match message {
                Some(Exec::RequestContextArgs(_)) => vec![context_reply(context)],
                Some(Exec::McpArgs(args)) => vec![Reply::McpResult(tools.call(args).await)],
                Some(exec) => tools.own(exec).await,
                // An arm that this build does not know.
                None => Vec::new(),
            };
            if replies.is_empty() {
                return vec![throw(id)];
            }
            let reply = |reply| {
                let message = Some(reply);
                let exec_id = exec_id.clone();
                client(ToSim::ExecClientMessage(ExecClientMessage {
                    id,
                    exec_id,
                    message,
                    ..ExecClientMessage::default()
                }))
            };
            replies.into_iter().map(reply).collect()
        });
    }

    fn kv(&mut self, ask: KvServerMessage) -> KvClientMessage {
        use kv_client_message::Message as Answer;
        use kv_server_message::Message as Question;
        let message = match ask.message {
            Some(Question::GetBlobArgs(get)) => {
                let blob_data = self.blobs.get(&get.blob_id).cloned();
                Some(Answer::GetBlobResult(GetBlobResult { blob_data, ..GetBlobResult::default() }))
            }
            Some(Question::SetBlobArgs(set)) => {
                self.blobs.insert(set.blob_id, set.blob_data);
                Some(Answer::SetBlobResult(SetBlobResult::default()))
            }
            None => None,
        };
        KvClientMessage { id: ask.id, message }
    }

    /// Sends to the run; one that has ended does not need the message.
    async fn send(&self, message: Bytes) {
        let _ = self.to_sim.send(message).await;
    }

    fn end(&mut self, usage: TurnEndedUpdate) {
        self.events.push_back(FakeTurnEvent::Ended(usage));
        self.over = true;
    }

    fn fail(&mut self, message: String) {
        self.events.push_back(FakeTurnEvent::Failed(message));
        self.over = true;
    }
}

// === messages ===

fn request(ask: FakeTurnRequest, context: RequestContext) -> AgentRunRequest {
    let blobs: Vec<_> = ask
        .history
        .iter()
        .map(|message| {
            let value = Bytes::from(message.to_string());
            PreFetchedBlob { id: Bytes::copy_from_slice(&id_of(&value)), value }
        })
        .collect();
    let state = ConversationStateStructure {
        root_prompt_messages_json: blobs.iter().map(|blob| blob.id.clone()).collect(),
        ..ConversationStateStructure::default()
    };
    let action = match ask.text {
        Some(text) => Action::UserMessageAction(UserMessageAction {
            user_message: Some(user(text, &ask.session, ask.mode, ask.images)),
            request_context: Some(context),
            ..UserMessageAction::default()
        }),
        None => Action::ResumeAction(ResumeAction { request_context: Some(context) }),
    };
    let variant = crate::models::split_variant(&ask.model).is_some();
    AgentRunRequest {
        conversation_state: Some(state),
        action: Some(ConversationAction { action: Some(action) }),
        conversation_id: Some(ask.session),
        requested_model: Some(RequestedModel {
            model_id: if ask.model == "auto" { "default".to_owned() } else { ask.model },
            is_variant_string_representation: variant.then_some(true),
            ..RequestedModel::default()
        }),
        pre_fetched_blobs: blobs,
        ..AgentRunRequest::default()
    }
}

fn user(text: String, session: &str, mode: i32, images: Vec<PromptImage>) -> UserMessage {
    let image = |(at, image): (usize, PromptImage)| SelectedImage {
        uuid: super::state_dir::uuid(&format!("{session}/{at}")),
        mime_type: image.mime,
        data_or_blob_id: Some(selected_image::DataOrBlobId::Data(image.data)),
        ..SelectedImage::default()
    };
    let selected_images: Vec<_> = images.into_iter().enumerate().map(image).collect();
    let context = SelectedContext { selected_images, ..SelectedContext::default() };
    let message_id = super::state_dir::uuid(&format!("{session}/{text}"));
    UserMessage {
        text,
        message_id,
        mode,
        selected_context: Some(context),
        ..UserMessage::default()
    }
}

fn context(ask: &FakeTurnRequest, offers: &[McpTool]) -> RequestContext {
    let rule = |content: &String| CursorRule { content: content.clone(), ..CursorRule::default() };
    let tool = |offer: &McpTool| McpToolDefinition {
        name: format!("{}-{}", offer.server, offer.name),
        description: offer.description.clone(),
        input_schema: value_to_proto(&offer.schema),
        provider_identifier: offer.server.clone(),
        tool_name: offer.name.clone(),
        ..McpToolDefinition::default()
    };
    RequestContext {
        rules: ask.rules.iter().map(rule).collect(),
        tools: offers.iter().map(tool).collect(),
        ..RequestContext::default()
    }
}

fn context_reply(context: Option<RequestContext>) -> Reply {
    let success =
        RequestContextSuccess { request_context: context, ..RequestContextSuccess::default() };
    let result = Some(request_context_result::Result::Success(success));
    Reply::RequestContextResult(RequestContextResult { result })
}

fn client(message: ToSim) -> Bytes {
    AgentClientMessage { message: Some(message) }.to_wire()
}

fn throw(id: u32) -> Bytes {
    let error = "Tool not available".to_owned();
    let throw = ExecClientThrow { id, error, ..ExecClientThrow::default() };
    let message = Some(exec_client_control_message::Message::Throw(throw));
    client(ToSim::ExecClientControlMessage(ExecClientControlMessage { message }))
}

/// Approves a query of any arm, known or not: under its own number, field 1 of the answer is the
/// approval.
fn approve(id: u32, question: &[u8]) -> Bytes {
    const ID: u32 = 1;
    let arm = pbwalk::fields(question)
        .filter(|field| field.number == QUERY)
        .filter_map(|field| field.payload)
        .flat_map(pbwalk::fields)
        .map(|field| field.number)
        .find(|number| *number != ID);
    let mut answer = bytes::BytesMut::new();
    crate::protobuf::put_varint_field(&mut answer, ID, u64::from(id));
    put_bytes_field(&mut answer, arm.unwrap_or_default().max(2), &[0x0a, 0]);
    let mut message = bytes::BytesMut::new();
    put_bytes_field(&mut message, RESPONSE, &answer);
    message.freeze()
}

/// An error as the CLI prints it.
fn words(error: &ConnectError) -> String {
    let code = error.code.as_str();
    match &error.detail {
        Some(detail) if !detail.detail.is_empty() => {
            format!("ConnectError: [{code}] {}: {}", detail.title, detail.detail)
        }
        Some(detail) if !detail.title.is_empty() => {
            format!("ConnectError: [{code}] {}", detail.title)
        }
        _ => format!("ConnectError: [{code}] {}", error.message),
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
