//! The conversation as blobs: fetched from the client before a turn, stored at the client after
//! it, and referenced by checkpoints.

use std::collections::HashMap;

use bytes::Bytes;
use ibeam_core::codec::connect::Code;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentConversationTurnStructure, AssistantMessage, ConversationStateStructure, ConversationStep,
    ConversationTokenDetails, ConversationTurnStructure, GetBlobArgs, KvServerMessage, SetBlobArgs,
    UserMessage, agent_server_message::Message as ToClient, conversation_step,
    conversation_turn_structure, kv_server_message::Message as KvAsk,
};
use serde_json::{Value, json};

use super::{
    client_messages::{KV_GET, KV_SET},
    run::{SimRun, message_json},
    run_io::{ClientAnswer, QuestionKey, RunResult, fail},
};
use crate::{
    behaviour::SignedReasoning,
    blobs::{BlobId, id_of},
    models::{self, SimModel},
    prompt::{root_checks, server_entries},
    record::add,
    scenario::Quirk,
};

/// Blobs asked for at the same time.
const FETCH_BATCH: usize = 64;

impl SimRun {
    pub(super) async fn fetch(
        &mut self,
        ids: Vec<Bytes>,
        blobs: &mut HashMap<BlobId, Bytes>,
    ) -> RunResult {
        let text = match self.behaviour().roots_fetch {
            true => "Conversation data missing: a blob cannot be restored",
            false => "Blob not found",
        };
        let missing = || fail(Code::Internal, text);
        let kept = self.sim().config.keep_blobs;
        let mut wanted = Vec::new();
        for id in ids {
            let Ok(id) = BlobId::try_from(&id[..]) else {
                self.io.violation("blob id is not 32 bytes");
                return Err(missing());
            };
            if blobs.contains_key(&id) || wanted.contains(&id) {
                continue;
            }
            match self.sim().blobs.get(&id).filter(|_| kept) {
                Some(data) => drop(blobs.insert(id, data)),
                None => wanted.push(id),
            }
        }
        let batch = if self.behaviour().roots_fetch { wanted.len().max(1) } else { FETCH_BATCH };
        for batch in wanted.chunks(batch) {
            let mut keys = Vec::with_capacity(batch.len());
            for id in batch {
                keys.push(self.ask_blob(id).await?);
            }
            self.io.answered(&keys).await?;
            for (key, id) in keys.into_iter().zip(batch) {
                let Some(ClientAnswer::Kv(Some(data))) = self.io.take_answer(key) else {
                    return Err(missing());
                };
                if id_of(&data) != *id {
                    self.io.violation("blob does not have the hash of its id");
                    return Err(missing());
                }
                if kept {
                    self.sim().blobs.put(*id, data.clone());
                }
                self.log.stored.insert(*id);
                blobs.insert(*id, data);
            }
        }
        Ok(())
    }

    pub(crate) async fn ask_blob(&mut self, id: &[u8]) -> RunResult<QuestionKey> {
        add(&self.sim().counters().kv_gets);
        let ask = KvAsk::GetBlobArgs(GetBlobArgs { blob_id: Bytes::copy_from_slice(id) });
        self.ask_kv(ask).await
    }

    async fn ask_kv(&mut self, ask: KvAsk) -> RunResult<QuestionKey> {
        let id = self.io.next_kv;
        self.io.next_kv += 1;
        let key = QuestionKey::Kv(id);
        let field = if matches!(ask, KvAsk::GetBlobArgs(_)) { KV_GET } else { KV_SET };
        let message = KvServerMessage { id, message: Some(ask), span_context: None };
        let message = ibeam_proto::agent::AgentServerMessage {
            message: Some(ToClient::KvServerMessage(message)),
            ..Default::default()
        };
        self.io.ask(key, field, &message.to_wire()).await?;
        Ok(key)
    }

    /// Stores a blob at the client; `None` when it is there already.
    pub(crate) async fn store(&mut self, id: &[u8], data: Bytes) -> RunResult<Option<QuestionKey>> {
        if let Ok(id) = BlobId::try_from(id)
            && !self.log.stored.insert(id)
        {
            return Ok(None);
        }
        if self.sim().config.keep_blobs {
            self.sim().blobs.put(id_of(&data), data.clone());
        }
        add(&self.sim().counters().kv_sets);
        let blob_id = Bytes::copy_from_slice(id);
        self.ask_kv(KvAsk::SetBlobArgs(SetBlobArgs { blob_id, blob_data: data })).await.map(Some)
    }

    /// Stores several, waits for all, and returns their ids.
    pub(crate) async fn store_all(&mut self, blobs: Vec<Bytes>) -> RunResult<Vec<Bytes>> {
        let (mut ids, mut keys) = (Vec::with_capacity(blobs.len()), Vec::new());
        for data in blobs {
            let id = id_of(&data);
            keys.extend(self.store(&id, data).await?);
            ids.push(Bytes::copy_from_slice(&id));
        }
        self.io.answered(&keys).await?;
        for key in keys {
            self.io.take_answer(key);
        }
        Ok(ids)
    }

    /// Stores the user's message, if there is one. It may be large, so it is encoded and hashed
    /// once, and other tasks may run in between.
    pub(crate) async fn store_user(&mut self) -> RunResult<Option<(Bytes, Bytes)>> {
        if self.log.user_blobs.is_none()
            && let Some(user) = &self.prompt.user_message
        {
            let wire = user.to_wire();
            let message = self.user_json();
            tokio::task::yield_now().await;
            let mut ids = self.store_all(vec![message, wire]).await?.into_iter();
            self.log.user_blobs = ids.next().zip(ids.next());
        }
        Ok(self.log.user_blobs.clone())
    }

    // === the turn as blobs ===

    /// Stores the answer as a blob at the client.
    pub(crate) async fn store_answer(&mut self) -> RunResult {
        if self.log.said.is_empty() {
            return Ok(());
        }
        let blobs =
            vec![self.answer_json(&self.log.said).to_string().into(), answer_step(&self.log.said)];
        self.store_all(blobs).await.map(drop)
    }

    fn answer_json(&self, said: &str) -> Value {
        let unsigned = || match &self.log.thought {
            thought if thought.is_empty() => None,
            thought => Some(json!({ "type": "reasoning", "text": thought })),
        };
        let mut parts: Vec<Value> = match self.behaviour().reasoning_signed {
            SignedReasoning::Off => unsigned().into_iter().collect(),
            SignedReasoning::Accepted | SignedReasoning::Refused => {
                self.signed_thought().into_iter().collect()
            }
        };
        parts.push(json!({ "type": "text", "text": said }));
        json!({ "role": "assistant", "id": "1", "content": parts })
    }

    /// What was thought since the last call, with the signature of the model.
    fn signed_thought(&self) -> Option<Value> {
        let thought = self.log.thought.get(self.log.recorded_thought..).unwrap_or_default();
        let is_signed = self.behaviour().reasoning_signed != SignedReasoning::Off;
        (is_signed && !thought.is_empty()).then(|| {
            json!({
                "type": "reasoning",
                "text": thought,
                "signature": root_checks::signature(&self.prompt.model, thought),
                "providerOptions": { "cursor": { "modelName": self.prompt.model } },
            })
        })
    }

    /// The same, once: it becomes a part of the message that is recorded next.
    pub(crate) fn take_signed_thought(&mut self) -> Option<Value> {
        let thought = self.signed_thought();
        self.log.recorded_thought = self.log.thought.len();
        thought
    }

    /// Adds the text since the last call to the turn, before the next call.
    pub(crate) fn record_text_so_far(&mut self) {
        let text = self.log.said.get(self.log.recorded_len..).unwrap_or_default().to_owned();
        if !text.is_empty() {
            let mut message = message_json("assistant", &text);
            if let (Some(thought), Some(parts)) = (
                self.take_signed_thought(),
                message.get_mut("content").and_then(Value::as_array_mut),
            ) {
                parts.insert(0, thought);
            }
            self.log.messages.push(message);
            self.log.steps.push(answer_step(&text));
            self.log.recorded_len = self.log.said.len();
        }
    }

    /// Sends the newest state of the conversation.
    pub(crate) async fn checkpoint(&mut self) -> RunResult {
        let mut root = self.earlier_entries().await?;
        let (mut turns, last) = self.past_turns().await?;
        let request_id = Some(self.headers.request_id.clone());
        let mut turn = AgentConversationTurnStructure {
            request_id: request_id.clone(),
            ..AgentConversationTurnStructure::default()
        };
        if self.prompt.user_message.is_none()
            && let Some(last) = last
        {
            // This run continues the turn of an earlier one.
            turns.pop();
            turn = AgentConversationTurnStructure {
                request_id: last.request_id.clone().or(request_id),
                ..last
            };
        }
        if let Some((message, wire)) = self.store_user().await? {
            root.push(message);
            turn.user_message = wire;
        }
        let mut messages: Vec<Bytes> =
            self.log.messages.iter().map(|message| message.to_string().into()).collect();
        let mut steps = self.log.steps.clone();
        let text = self.log.said.get(self.log.recorded_len..).unwrap_or_default();
        if !text.is_empty() {
            messages.push(self.answer_json(text).to_string().into());
            steps.push(answer_step(text));
        }
        root.extend(self.store_all(messages).await?);
        turn.steps.extend(self.store_all(steps).await?);
        let turn = ConversationTurnStructure {
            turn: Some(conversation_turn_structure::Turn::AgentConversationTurn(turn)),
        };
        turns.extend(self.store_all(vec![turn.to_wire()]).await?);
        let used = self.context_tokens();
        let max_tokens = models::family(&self.prompt.model).map_or(200_000, SimModel::context);
        let state = ConversationStateStructure {
            root_prompt_messages_json: root,
            turns,
            token_details: Some(ConversationTokenDetails {
                used_tokens: u32::try_from(used).unwrap_or(u32::MAX),
                max_tokens,
                breakdown: self.behaviour().roots_fetch.then(|| self.token_breakdown(max_tokens)),
                ..ConversationTokenDetails::default()
            }),
            mode: Some(self.prompt.mode),
            pending_tool_calls: self.routed_model(),
            ..ConversationStateStructure::default()
        };
        self.bind(&state);
        self.remember_state(&state, true);
        self.io.emit(ToClient::ConversationCheckpointUpdate(Box::new(state))).await
    }

    /// The root entries before this run.
    async fn earlier_entries(&mut self) -> RunResult<Vec<Bytes>> {
        let entries = self.prompt.state.root_prompt_messages_json.clone();
        if self.behaviour().roots_fetch {
            return self.entries_with_own(entries).await;
        }
        // Earlier user entries are blank, as the service once had them: clients must not build
        // prompts from them. Their text is in the turns, one for each.
        let blank = Bytes::from(message_json("user", "").to_string());
        let mut root = Vec::new();
        for (id, role) in entries.into_iter().zip(self.prompt.root_roles.clone()) {
            if role == "user" {
                root.extend(self.store_all(vec![blank.clone()]).await?);
            } else {
                root.push(id);
            }
        }
        Ok(root)
    }

    /// The entries with those that the service writes at the beginning.
    async fn entries_with_own(&mut self, mut entries: Vec<Bytes>) -> RunResult<Vec<Bytes>> {
        if !self.behaviour().roots_uma_slot0
            || (self.prompt.resume && self.behaviour().roots_resume_verbatim)
        {
            return Ok(entries);
        }
        let mut own = vec![server_entries::system_entry()];
        let has_system = self.prompt.root_roles.first().is_some_and(|role| role == "system");
        let mut replaced = usize::from(has_system);
        if self.prompt.context_shown {
            let namespaces = self.prompt.namespaces();
            let text = server_entries::context_text(&self.prompt.rules, &namespaces);
            own.push(message_json("user", &text).to_string().into());
            replaced += usize::from(self.prompt.server_context);
        }
        let own = self.store_all(own).await?;
        entries.splice(..replaced.min(entries.len()), own);
        Ok(entries)
    }

    /// The turns before this run, one for each user entry, and the last one decoded.
    async fn past_turns(
        &mut self,
    ) -> RunResult<(Vec<Bytes>, Option<AgentConversationTurnStructure>)> {
        let mut turns = self.prompt.state.turns.clone();
        let mut last = self.prompt.last_turn.clone();
        if self.behaviour().roots_fetch {
            // Nothing reads their contents.
            return Ok((turns, last));
        }
        let texts: Vec<String> = self.prompt.user_texts.iter().skip(turns.len()).cloned().collect();
        for text in texts {
            let user = UserMessage { text, mode: 1, ..UserMessage::default() };
            let user = self.store_all(vec![user.to_wire()]).await?;
            let turn = AgentConversationTurnStructure {
                user_message: user.into_iter().next().unwrap_or_default(),
                ..AgentConversationTurnStructure::default()
            };
            last = Some(turn.clone());
            let turn = ConversationTurnStructure {
                turn: Some(conversation_turn_structure::Turn::AgentConversationTurn(turn)),
            };
            turns.extend(self.store_all(vec![turn.to_wire()]).await?);
        }
        Ok((turns, last))
    }

    /// Ties a checkpoint, known by its last turn, to the account it was made for.
    fn bind(&self, state: &ConversationStateStructure) {
        if let Some(turn) = state.turns.last() {
            self.sim().conversations.bind(turn, self.headers.account);
        }
    }

    /// Fails when the state is a checkpoint of another account.
    pub(super) fn check_account(&self) -> RunResult {
        let theirs = |turn| self.sim().conversations.foreign(turn, self.headers.account);
        if self.prompt.state.turns.last().is_some_and(theirs) {
            return Err(fail(Code::Internal, "Blob not found"));
        }
        Ok(())
    }

    fn routed_model(&self) -> Vec<String> {
        let options = json!({ "cursor": { "modelName": "composer-2.5" } });
        let call = json!({ "toolName": "none", "providerOptions": options });
        if self.has(Quirk::RoutedModel) { vec![call.to_string()] } else { Vec::new() }
    }
}

fn answer_step(text: &str) -> Bytes {
    let text = AssistantMessage { text: text.to_owned() };
    let message = Some(conversation_step::Message::AssistantMessage(text));
    ConversationStep { message }.to_wire()
}
