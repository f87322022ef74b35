//! A client of the Agent API for tests: answers questions, and records what it receives.

mod messages;
mod wire;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ibeam_core::codec::{
    connect::{self, ConnectError, Decoder, Envelope},
    pbwalk,
};
use ibeam_proto::agent::{
    AgentClientMessage, AgentRunRequest, AgentServerMessage, ConversationAction,
    ConversationStateStructure, ExecClientMessage, ExecServerMessage, GetBlobResult,
    KvClientMessage, McpToolDefinition, RequestContext, RequestContextResult,
    RequestContextSuccess, RequestedModel, SetBlobResult, ToolCallCompletedUpdate, TurnEndedUpdate,
    UserMessage, UserMessageAction, agent_client_message::Message as ToServer,
    agent_server_message::Message as FromServer, conversation_action,
    exec_client_message::Message as Result_, exec_server_message::Message as Exec,
    interaction_update::Message as Update, kv_client_message, kv_server_message,
    request_context_result, tool_call,
};
use ibeam_sim::{Preset, Sim, SimConfig};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

pub(crate) use self::{
    messages::{approval, mcp_text, parameter, resume, user_message},
    wire::{ChannelBody, PendingResponse, beats, call, error_text, send, spawn},
};

/// The service of the summer, for tests of what only that generation does, or that count its frames
/// and questions one by one. What differs since then is tested in `behaviour`.
pub(crate) fn summer(config: SimConfig) -> SimConfig {
    SimConfig { behaviour: Preset::Summer.into(), ..config }
}

pub(crate) const CONVERSATION: &str = "22222222-2222-4222-8222-222222222222";

/// How a stream ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    EndFrame,
    Error(ConnectError),
    /// The stream closed without an end frame; `true` in the middle of a frame.
    Eof(bool),
    Broken(String),
    Undecodable,
    Status(StatusCode),
}

/// Everything that a turn sent.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) heartbeats: u32,
    pub(crate) turn_ended: Option<TurnEndedUpdate>,
    pub(crate) execs: Vec<ExecServerMessage>,
    pub(crate) queries: u32,
    pub(crate) aborted: Vec<u32>,
    /// `args_text_delta` of each partial tool call, and whether the tool was named.
    pub(crate) partials: Vec<(String, bool)>,
    pub(crate) checkpoint: Option<ConversationStateStructure>,
    pub(crate) updates: Vec<String>,
    /// Tool-call updates, announced counts and execs in their order, such as `listed 2`.
    pub(crate) order: Vec<String>,
    pub(crate) completed: Vec<ToolCallCompletedUpdate>,
    /// Blobs that were asked for.
    pub(crate) gets: Vec<Bytes>,
    pub(crate) checkpoints: u32,
    /// Messages with the times until the first token, and updates with a start time.
    pub(crate) timed: u32,
    pub(crate) started_at: u32,
    pub(crate) chunks: Vec<usize>,
    pub(crate) headers: http::HeaderMap,
    pub(crate) ended: Option<Ended>,
}

/// What the client offers and how it answers.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) sim: Sim,
    pub(crate) blobs: HashMap<Bytes, Bytes>,
    pub(crate) tools: Vec<McpToolDefinition>,
    pub(crate) cloud_rule: Option<String>,
    pub(crate) mcp_text: String,
    pub(crate) inline_context: bool,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// The name of the host that requests are for.
    pub(crate) host: &'static str,
    pub(crate) token: String,
    /// Files for the execs that read and write; without it those are refused.
    pub(crate) files: Option<Arc<Mutex<HashMap<String, String>>>>,
    /// Whether the state of the MCP servers is answered.
    pub(crate) mcp_state: bool,
    /// Whether questions for permission are answered with an approval.
    pub(crate) approves: bool,
    /// Whether a shell stream is followed by its result and `stream_close`.
    pub(crate) closes_shells: bool,
    /// The id of a RunSSE stream.
    pub(crate) stream: String,
    /// How long a client tool takes.
    pub(crate) tool_time: Duration,
    /// Nothing is answered and nothing is sent after the first message.
    pub(crate) mute: bool,
    /// How long to read at most.
    pub(crate) patience: Duration,
}

impl Peer {
    pub(crate) fn new(sim: &Sim) -> Self {
        Self {
            sim: sim.clone(),
            blobs: HashMap::new(),
            tools: Vec::new(),
            cloud_rule: None,
            mcp_text: "tool says hi".to_owned(),
            inline_context: false,
            host: "sim",
            headers: vec![
                ("x-cursor-client-type", "cli"),
                ("x-cursor-client-version", "cli-2026.01.09-231024f"),
                ("x-ghost-mode", "true"),
                ("x-request-id", "33333333-3333-4333-8333-333333333333"),
                ("connect-protocol-version", "1"),
                ("x-cursor-streaming", "true"),
            ],
            token: Sim::TOKEN.to_owned(),
            files: None,
            mcp_state: true,
            approves: true,
            closes_shells: false,
            stream: "33333333-3333-4333-8333-333333333333".to_owned(),
            tool_time: Duration::ZERO,
            mute: false,
            patience: Duration::from_secs(3600),
        }
    }

    pub(crate) fn tool(mut self, name: &str, schema: Bytes) -> Self {
        self.tools.push(McpToolDefinition {
            name: name.to_owned(),
            tool_name: name.to_owned(),
            provider_identifier: "peer".to_owned(),
            input_schema: schema,
            ..McpToolDefinition::default()
        });
        self
    }

    pub(crate) fn request(&self, text: &str) -> AgentRunRequest {
        let action = UserMessageAction {
            user_message: Some(UserMessage {
                text: text.to_owned(),
                message_id: "11111111-1111-4111-8111-111111111111".to_owned(),
                mode: 1,
                ..UserMessage::default()
            }),
            request_context: self.inline_context.then(|| self.context()),
            ..UserMessageAction::default()
        };
        AgentRunRequest {
            conversation_state: Some(ConversationStateStructure::default()),
            action: Some(ConversationAction {
                action: Some(conversation_action::Action::UserMessageAction(action)),
            }),
            requested_model: Some(RequestedModel {
                model_id: "default".to_owned(),
                ..RequestedModel::default()
            }),
            conversation_id: Some(CONVERSATION.to_owned()),
            ..AgentRunRequest::default()
        }
    }

    fn context(&self) -> RequestContext {
        RequestContext {
            tools: self.tools.clone(),
            cloud_rule: self.cloud_rule.clone(),
            ..RequestContext::default()
        }
    }

    pub(crate) fn put_blob(&mut self, data: impl Into<Bytes>) -> Bytes {
        let data = data.into();
        let id = Bytes::copy_from_slice(&Sha256::digest(&data));
        self.blobs.insert(id.clone(), data);
        id
    }

    /// Asks over HTTP/2 and answers until the stream ends.
    pub(crate) async fn ask(&mut self, text: &str) -> Heard {
        let request = self.request(text);
        self.run(request).await
    }

    pub(crate) async fn run(&mut self, request: AgentRunRequest) -> Heard {
        let (tx, response) = self.open().await;
        send(&tx, ToServer::RunRequest(request)).await;
        let beat = beats(&tx, self.mute);
        let heard = self.listen(response, &tx).await;
        beat.abort();
        heard
    }

    /// Opens `Run`; the response is read in the background.
    pub(crate) async fn open(&self) -> (mpsc::Sender<Bytes>, PendingResponse) {
        let io = TokioIo::new(self.sim.connect());
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        let keep = spawn(async move {
            let _ = connection.await;
        });
        let (tx, rx) = mpsc::channel(64);
        let request = self.head("/agent.v1.AgentService/Run", "application/connect+proto");
        let response = sender.send_request(request.body(ChannelBody(rx)).unwrap());
        (tx, PendingResponse { response: Box::pin(response), _keep: (keep, Box::new(sender)) })
    }

    pub(crate) fn head(&self, path: &str, mime: &str) -> http::request::Builder {
        let mut request = Request::post(format!("http://{}{path}", self.host))
            .header("content-type", mime)
            .header("authorization", format!("Bearer {}", self.token));
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        request
    }

    pub(crate) async fn listen(
        &mut self,
        pending: PendingResponse,
        tx: &mpsc::Sender<Bytes>,
    ) -> Heard {
        let mut heard = Heard::default();
        let patience = self.patience;
        let PendingResponse { response, _keep } = pending;
        let response = match response.await {
            Ok(response) => response,
            Err(error) => {
                heard.ended = Some(Ended::Broken(error_text(&error)));
                return heard;
            }
        };
        let work = self.read(response, &mut heard, async |message: Bytes| {
            let _ = tx.send(connect::frame(0, &message)).await;
        });
        let _ = tokio::time::timeout(patience, work).await;
        heard
    }

    /// Reads a response to its end and answers through `reply`, in encoded messages.
    pub(crate) async fn read(
        &mut self,
        response: Response<Incoming>,
        heard: &mut Heard,
        mut reply: impl AsyncFnMut(Bytes),
    ) {
        heard.headers = response.headers().clone();
        if response.status() != StatusCode::OK {
            heard.ended = Some(Ended::Status(response.status()));
            return;
        }
        let mut body = response.into_body();
        let mut decoder = Decoder::new();
        loop {
            match body.frame().await {
                None => {
                    heard.ended.get_or_insert(Ended::Eof(decoder.mid_frame()));
                    return;
                }
                Some(Err(error)) => {
                    heard.ended = Some(Ended::Broken(error_text(&error)));
                    return;
                }
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    heard.chunks.push(data.len());
                    decoder.push(data);
                }
            }
            loop {
                match decoder.next() {
                    Ok(None) => break,
                    Ok(Some(Envelope::End(None))) => heard.ended = Some(Ended::EndFrame),
                    Ok(Some(Envelope::End(Some(error)))) => heard.ended = Some(Ended::Error(error)),
                    Err(_) => {
                        heard.ended = Some(Ended::Undecodable);
                        return;
                    }
                    Ok(Some(Envelope::Message(bytes))) => {
                        if let Some(answer) = self.hear(&bytes, heard)
                            && !self.mute
                        {
                            if !self.tool_time.is_zero() && is_tool(&bytes) {
                                tokio::time::sleep(self.tool_time).await;
                            }
                            reply(answer).await;
                            for end in messages::shell_end(&bytes, self.closes_shells) {
                                reply(end).await;
                            }
                        }
                    }
                }
            }
        }
    }

    fn hear(&mut self, raw: &Bytes, heard: &mut Heard) -> Option<Bytes> {
        let decoded = AgentServerMessage::decode(raw.clone()).unwrap();
        let message = decoded.message?;
        heard.timed += u32::from(decoded.ttft_breakdown.is_some());
        if let FromServer::InteractionQuery(query) = &message {
            heard.queries += 1;
            // The arm may be outside the schema: the answer goes under its number.
            let inner = pbwalk::fields(raw).find_map(|field| field.payload).unwrap();
            let arm = pbwalk::fields(inner).find(|field| field.number != 1).unwrap().number;
            return Some(approval(query.id, arm, &[0x0a, 0]));
        }
        let answer = self.hear_message(message, heard)?;
        Some(AgentClientMessage { message: Some(answer) }.encode_to_vec().into())
    }

    fn hear_message(&mut self, message: FromServer, heard: &mut Heard) -> Option<ToServer> {
        match message {
            FromServer::InteractionUpdate(update) => {
                heard.started_at += u32::from(update.message_started_at_ms.is_some());
                let update = update.message?;
                let name = format!("{update:?}");
                let name = name.split(['(', ' ']).next().unwrap();
                heard.updates.push(name.to_owned());
                if name.contains("ToolCall") {
                    heard.order.push(name.to_owned());
                }
                match update {
                    Update::ToolRequestsListed(listed) => {
                        heard.order.push(format!("listed {}", listed.call_count));
                    }
                    Update::ToolCallCompleted(completed) => heard.completed.push(*completed),
                    Update::TextDelta(delta) => heard.text.push_str(&delta.text),
                    Update::ThinkingDelta(delta) => heard.thinking.push_str(&delta.text),
                    Update::Heartbeat(_) => heard.heartbeats += 1,
                    Update::PartialToolCall(partial) => {
                        let named = matches!(
                            partial.tool_call.and_then(|call| call.tool),
                            Some(tool_call::Tool::McpToolCall(mcp)) if mcp.args.is_some()
                        );
                        heard.partials.push((partial.args_text_delta, named));
                    }
                    Update::TurnEnded(ended) => heard.turn_ended = Some(ended),
                    _ => {}
                }
                None
            }
            FromServer::ExecServerMessage(exec) => {
                let answer = self.answer_exec(&exec);
                if !matches!(exec.message, Some(Exec::RequestContextArgs(_))) {
                    heard.order.push("exec".to_owned());
                }
                heard.execs.push(*exec);
                answer
            }
            FromServer::ConversationCheckpointUpdate(state) => {
                heard.checkpoint = Some(*state);
                heard.checkpoints += 1;
                None
            }
            FromServer::KvServerMessage(kv) => {
                let message = match kv.message? {
                    kv_server_message::Message::GetBlobArgs(get) => {
                        heard.gets.push(get.blob_id.clone());
                        kv_client_message::Message::GetBlobResult(GetBlobResult {
                            blob_data: self.blobs.get(&get.blob_id).cloned(),
                            ..GetBlobResult::default()
                        })
                    }
                    kv_server_message::Message::SetBlobArgs(set) => {
                        self.blobs.insert(set.blob_id, set.blob_data);
                        kv_client_message::Message::SetBlobResult(SetBlobResult::default())
                    }
                };
                Some(ToServer::KvClientMessage(KvClientMessage {
                    id: kv.id,
                    message: Some(message),
                }))
            }
            FromServer::ExecServerControlMessage(control) => {
                if let Some(ibeam_proto::agent::exec_server_control_message::Message::Abort(
                    abort,
                )) = control.message
                {
                    heard.aborted.push(abort.id);
                }
                None
            }
            FromServer::InteractionQuery(_) => None,
        }
    }

    fn answer_exec(&self, exec: &ExecServerMessage) -> Option<ToServer> {
        let message = match &exec.message {
            Some(Exec::RequestContextArgs(_)) => {
                Result_::RequestContextResult(RequestContextResult {
                    result: Some(request_context_result::Result::Success(RequestContextSuccess {
                        request_context: Some(self.context()),
                        served_from_disk_cache: None,
                    })),
                })
            }
            Some(Exec::McpStateExecArgs(_)) if !self.mcp_state => return None,
            Some(Exec::McpStateExecArgs(_)) => {
                Result_::McpStateExecResult(messages::mcp_state(&self.tools))
            }
            Some(Exec::McpArgs(args)) if args.smart_mode_approval_only => {
                Result_::McpResult(messages::approval_result(self.approves))
            }
            Some(Exec::McpArgs(_)) => Result_::McpResult(mcp_text(&self.mcp_text)),
            Some(other) if self.files.is_some() => self.native(other),
            _ => {
                use ibeam_proto::agent::{
                    ExecClientControlMessage, ExecClientThrow, exec_client_control_message,
                };
                let throw = ExecClientThrow {
                    id: exec.id,
                    error: "unsupported".to_owned(),
                    stack_trace: None,
                };
                return Some(ToServer::ExecClientControlMessage(ExecClientControlMessage {
                    message: Some(exec_client_control_message::Message::Throw(throw)),
                }));
            }
        };
        Some(ToServer::ExecClientMessage(ExecClientMessage {
            id: exec.id,
            exec_id: exec.exec_id.clone(),
            message: Some(message),
            ..ExecClientMessage::default()
        }))
    }
}

impl Peer {
    /// Answers the service's own tools from the files.
    fn native(&self, exec: &Exec) -> Result_ {
        use ibeam_proto::agent::{
            ReadFileNotFound, ReadResult, ReadSuccess, ShellStream, ShellStreamExit, WriteResult,
            WriteSuccess, read_result, read_success, shell_stream, write_result,
        };
        let mut files = self.files.as_ref().unwrap().lock().unwrap();
        match exec {
            Exec::ReadArgs(args) => Result_::ReadResult(ReadResult {
                result: Some(match files.get(&args.path) {
                    Some(text) => read_result::Result::Success(ReadSuccess {
                        path: args.path.clone(),
                        output: Some(read_success::Output::Content(text.clone())),
                        ..ReadSuccess::default()
                    }),
                    None => read_result::Result::FileNotFound(ReadFileNotFound::default()),
                }),
            }),
            Exec::WriteArgs(args) => {
                files.insert(args.path.clone(), args.file_text.clone());
                let path = args.path.clone();
                let success = WriteSuccess { path, ..WriteSuccess::default() };
                let result = Some(write_result::Result::Success(success));
                Result_::WriteResult(WriteResult { result })
            }
            Exec::ShellStreamArgs(_) => Result_::ShellStream(ShellStream {
                event: Some(shell_stream::Event::Exit(ShellStreamExit::default())),
            }),
            other => panic!("not expected: {other:?}"),
        }
    }
}

fn is_tool(raw: &Bytes) -> bool {
    let message = AgentServerMessage::decode(raw.clone()).unwrap().message;
    let Some(FromServer::ExecServerMessage(exec)) = message else { return false };
    !matches!(exec.message, Some(Exec::RequestContextArgs(_)))
}
