//! How a recorded turn began: its request, its plan, its settings.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    event::millis,
    mask::Mask,
    request::{ItemRecord, RequestRecord},
    tree::{WireField, WireTree, WireValue},
};
use crate::{
    backend::BackendKind,
    model::{Item, TurnRequest, ids::SessionId},
    models::ModelPick,
    peer::{
        AgentPlanRecord, ChildPlanRecord, PlanRecord, SIGN_IN, StoredState, TurnClocks,
        acp::{AcpSpeaker, ToolPolicy},
        agent::{
            BlobLimits, Environment, HistoryForm, HistorySetting, ModelFacts, Permissions,
            ServiceFacts, SignedItem, SignedReasoning,
        },
        child::Speaker,
        cli::CliSpeaker,
    },
    retry::Backoff,
    turn::{Settings, TurnSeed},
};

/// What a turn was started with.
#[derive(Debug)]
pub struct TurnStart {
    pub request: TurnRequest,
    pub plan: PlanRecord,
    pub session: SessionId,
    pub settings: Settings,
    pub seed: TurnSeed,
}

/// The same, as a recording has it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StartRecord {
    pub outline: RequestOutlineRecord,
    pub session: String,
    /// In hexadecimal digits. With placeholders, of another turn.
    pub seed: String,
    pub jitter: String,
    pub settings: SettingsRecord,
    pub plan: PlanJson,
    pub request: RequestRecord,
}

/// The request in numbers, for people.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct RequestOutlineRecord {
    pub messages: usize,
    pub calls: usize,
    pub results: usize,
    pub images: usize,
    pub tools: usize,
    pub system_bytes: usize,
    pub bytes: usize,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SettingsRecord {
    pub heartbeat_ms: u64,
    pub no_frame_ms: u64,
    pub heartbeats_only_ms: u64,
    pub turn_ms: u64,
    pub end_wait_ms: u64,
    pub quiet_end_ms: u64,
    pub tool_batch_ms: u64,
    pub retry_base_ms: u64,
    pub retry_cap_ms: u64,
    pub retries: u32,
    pub park: bool,
    pub parked_bytes: usize,
    pub max_repeat: u32,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanJson {
    Agent(Box<AgentPlanJson>),
    Child(ChildPlanJson),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AgentPlanJson {
    pub model: String,
    pub parameters: Vec<(String, String)>,
    pub max_mode: bool,
    pub conversation: String,
    pub os_version: String,
    pub shell: String,
    pub time_zone: String,
    pub workspaces: Vec<String>,
    pub web_search: bool,
    pub web_fetch: bool,
    pub native: bool,
    pub blob_count: usize,
    pub blob_bytes: usize,
    pub blobs_bytes: usize,
    pub inline_context: bool,
    pub history: String,
    /// What was known of the model: a form of the history, the maximum mode, allowed tools.
    pub known_history: Option<String>,
    pub known_max_mode: bool,
    pub known_tools: Vec<String>,
    #[serde(default)]
    pub one_model_field: bool,
    #[serde(default)]
    pub refuses_reasoning: bool,
    /// The reasoning in the request of which a signature was known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signed: Vec<SignedItemRecord>,
    /// What was known of the service. All of it: what is usual changes.
    #[serde(default = "early_service", deserialize_with = "service")]
    pub service: Box<ServiceFacts>,
    #[serde(default)]
    pub run_seed: String,
    #[serde(default)]
    pub host_changes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptRecord>,
}

/// Reasoning that could be sent again.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct SignedItemRecord {
    /// Which item of the request it is.
    pub item: usize,
    pub signature: String,
    /// JSON, as it was stored.
    pub options: String,
}

/// What was usual when recordings left that out.
fn early_service() -> Box<ServiceFacts> {
    Box::new(ServiceFacts { aliases_builtins: false, ..ServiceFacts::default() })
}

/// A fact that a recording does not have is that of its time.
fn service<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Box<ServiceFacts>, D::Error> {
    let mut facts = serde_json::Map::deserialize(from)?;
    facts.entry("aliases_builtins").or_insert(false.into());
    serde_json::from_value(facts.into()).map_err(serde::de::Error::custom)
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ChildPlanJson {
    pub model: String,
    pub conversation: String,
    pub images: bool,
    pub result_bytes: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptRecord>,
}

/// The state from which the conversation continued.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct KeptRecord {
    /// A message of the Agent API as a tree, or what a child's name is kept in.
    pub state: serde_json::Value,
    /// Ids in hexadecimal digits, and contents.
    pub blobs: Vec<(String, serde_json::Value)>,
    pub covers: usize,
    pub calls: Vec<ItemRecord>,
    pub new_setup: bool,
}

const STATE: &str = "agent.v1.ConversationStateStructure";

impl StartRecord {
    #[must_use]
    pub fn of(start: &TurnStart, mask: &mut Mask) -> Self {
        let TurnStart { request, plan, session, settings, seed } = start;
        Self {
            outline: RequestOutlineRecord::of(request),
            session: mask.session(*session).to_string(),
            seed: crate::model::ids::hex(&mask.seed(seed.ids)),
            jitter: crate::model::ids::hex(&seed.jitter),
            settings: SettingsRecord::of(settings),
            plan: PlanJson::of(plan, mask),
            request: RequestRecord::of(request, mask),
        }
    }

    #[must_use]
    pub fn turn_seed(&self) -> Option<TurnSeed> {
        Some(TurnSeed { ids: bytes_of(&self.seed)?, jitter: bytes_of(&self.jitter)? })
    }
}

/// Sixteen bytes from their hexadecimal digits.
fn bytes_of(digits: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(digits, 16).ok()?;
    (digits.len() == 32).then(|| number.to_be_bytes())
}

impl RequestOutlineRecord {
    #[must_use]
    pub fn of(request: &TurnRequest) -> Self {
        let mut outline = Self {
            images: request.images(),
            tools: request.tools.len(),
            system_bytes: request.system.iter().map(String::len).sum(),
            bytes: request.bytes(),
            ..Self::default()
        };
        for item in &request.items {
            match item {
                Item::Message(_) | Item::Reasoning(_) => outline.messages += 1,
                Item::ToolCall(_) => outline.calls += 1,
                Item::ToolResult(_) => outline.results += 1,
            }
        }
        outline
    }
}

impl SettingsRecord {
    fn of(settings: &Settings) -> Self {
        let clocks = &settings.clocks;
        Self {
            heartbeat_ms: millis(clocks.heartbeat),
            no_frame_ms: millis(clocks.no_frame),
            heartbeats_only_ms: millis(clocks.heartbeat_only),
            turn_ms: millis(clocks.whole_turn),
            end_wait_ms: millis(clocks.end_wait),
            quiet_end_ms: millis(clocks.quiet_end),
            tool_batch_ms: millis(clocks.tool_batch),
            retry_base_ms: millis(settings.backoff.base),
            retry_cap_ms: millis(settings.backoff.cap),
            retries: settings.backoff.retries,
            park: settings.park,
            parked_bytes: settings.parked_bytes,
            max_repeat: settings.max_repeat,
        }
    }

    #[must_use]
    pub fn settings(&self) -> Settings {
        let time = Duration::from_millis;
        Settings {
            clocks: TurnClocks {
                heartbeat: time(self.heartbeat_ms),
                no_frame: time(self.no_frame_ms),
                heartbeat_only: time(self.heartbeats_only_ms),
                whole_turn: time(self.turn_ms),
                end_wait: time(self.end_wait_ms),
                quiet_end: time(self.quiet_end_ms),
                tool_batch: time(self.tool_batch_ms),
            },
            backoff: Backoff {
                base: time(self.retry_base_ms),
                cap: time(self.retry_cap_ms),
                retries: self.retries,
            },
            park: self.park,
            parked_bytes: self.parked_bytes,
            max_repeat: self.max_repeat,
            // The name of a profile is not recorded.
            sign_in: Cow::Borrowed(SIGN_IN),
        }
    }
}

impl PlanJson {
    fn of(plan: &PlanRecord, mask: &mut Mask) -> Self {
        match plan {
            PlanRecord::Agent(plan) => Self::Agent(Box::new(AgentPlanJson::of(plan, mask))),
            PlanRecord::Child(plan) => Self::Child(ChildPlanJson {
                model: mask.model(&plan.model),
                conversation: mask.id(&plan.conversation_id),
                images: plan.images,
                result_bytes: plan.result_bytes,
                kept: plan.kept.as_ref().map(|kept| KeptRecord::of(kept, mask)),
            }),
        }
    }

    /// The plan as the peer of this backend takes it.
    #[must_use]
    pub fn plan(&self, backend: BackendKind, own_tools: bool) -> PlanRecord {
        match self {
            Self::Agent(plan) => PlanRecord::Agent(Box::new(plan.plan())),
            Self::Child(plan) => PlanRecord::Child(ChildPlanRecord {
                model: plan.model.clone(),
                conversation_id: plan.conversation.clone(),
                images: plan.images,
                result_bytes: plan.result_bytes,
                kept: plan.kept.as_ref().map(KeptRecord::state),
                speaker: speaker(backend, own_tools),
            }),
        }
    }
}

fn speaker(backend: BackendKind, own_tools: bool) -> fn() -> Box<dyn Speaker> {
    match (backend, own_tools) {
        (BackendKind::Acp, true) => || Box::new(AcpSpeaker::new(ToolPolicy { own_tools: true })),
        (BackendKind::Acp, false) => || Box::<AcpSpeaker>::default(),
        (BackendKind::Agent | BackendKind::Cli, _) => || Box::<CliSpeaker>::default(),
    }
}

impl AgentPlanJson {
    fn of(plan: &AgentPlanRecord, mask: &mut Mask) -> Self {
        let AgentPlanRecord { model, environment, facts, limits, .. } = plan;
        let parameter = |(id, value): &(String, String)| (mask.model(id), mask.model(value));
        Self {
            model: mask.model(&model.id),
            parameters: model.parameters.iter().map(parameter).collect(),
            max_mode: model.max_mode,
            conversation: mask.id(&plan.conversation_id),
            os_version: mask.whole(&environment.os_version),
            shell: mask.whole(&environment.shell),
            time_zone: mask.whole(&environment.time_zone),
            workspaces: environment.workspace_paths.iter().map(|path| mask.whole(path)).collect(),
            web_search: plan.permissions.web_search,
            web_fetch: plan.permissions.web_fetch,
            native: plan.native,
            blob_count: limits.count,
            blob_bytes: limits.blob_bytes,
            blobs_bytes: limits.total_bytes,
            inline_context: plan.inline_context,
            history: match plan.history {
                HistorySetting::Auto => "auto".to_owned(),
                HistorySetting::Only(form) => form.name().to_owned(),
            },
            known_history: facts.history.map(|form| form.name().to_owned()),
            known_max_mode: facts.max_mode,
            known_tools: facts.allowed_tools.iter().map(|tool| mask.error(tool)).collect(),
            one_model_field: facts.one_model_field,
            refuses_reasoning: facts.refuses_reasoning,
            signed: plan.signed.iter().map(|item| SignedItemRecord::of(item, mask)).collect(),
            service: Box::new(ServiceFacts {
                history: BTreeMap::new(),
                ..ServiceFacts::clone(&plan.service)
            }),
            run_seed: mask.id(&plan.run_seed),
            host_changes: plan.host_changes,
            kept: plan.kept.as_ref().map(|kept| KeptRecord::of(kept, mask)),
        }
    }

    fn plan(&self) -> AgentPlanRecord {
        let form = |name: &String| HistoryForm::ALL.into_iter().find(|form| form.name() == name);
        AgentPlanRecord {
            model: ModelPick {
                id: self.model.clone(),
                parameters: self.parameters.clone(),
                max_mode: self.max_mode,
            },
            conversation_id: self.conversation.clone(),
            environment: Environment {
                os_version: self.os_version.clone(),
                shell: self.shell.clone(),
                time_zone: self.time_zone.clone(),
                workspace_paths: self.workspaces.clone(),
            },
            permissions: Permissions { web_search: self.web_search, web_fetch: self.web_fetch },
            native: self.native,
            limits: BlobLimits {
                count: self.blob_count,
                blob_bytes: self.blob_bytes,
                total_bytes: self.blobs_bytes,
            },
            inline_context: self.inline_context,
            kept: self.kept.as_ref().map(KeptRecord::state),
            history: HistorySetting::from_name(&self.history).unwrap_or_default(),
            facts: ModelFacts {
                history: self.known_history.as_ref().and_then(form),
                max_mode: self.known_max_mode,
                allowed_tools: self.known_tools.clone(),
                one_model_field: self.one_model_field,
                refuses_reasoning: self.refuses_reasoning,
            },
            signed: self.signed.iter().filter_map(SignedItemRecord::item).collect(),
            service: Arc::new(ServiceFacts::clone(&self.service)),
            run_seed: self.run_seed.clone(),
            host_changes: self.host_changes,
        }
    }
}

impl SignedItemRecord {
    fn of(item: &SignedItem, mask: &mut Mask) -> Self {
        Self {
            item: item.at,
            signature: mask.whole(&item.signed.signature),
            options: mask.json_text(item.signed.options.get(), super::json::JsonKind::Entry),
        }
    }

    fn item(&self) -> Option<SignedItem> {
        let options = RawValue::from_string(self.options.clone()).ok()?;
        let signed = SignedReasoning { signature: self.signature.clone(), options };
        Some(SignedItem { at: self.item, signed })
    }
}

impl KeptRecord {
    fn of(kept: &StoredState, mask: &mut Mask) -> Self {
        // What a child's name is kept in is JSON.
        let state = match serde_json::from_slice::<serde_json::Value>(&kept.checkpoint) {
            Ok(json) if json.is_object() => mask.json(json, super::json::JsonKind::Line),
            Ok(_) | Err(_) => WireTree::read_named(STATE, &kept.checkpoint, mask).to_json(),
        };
        let blobs = kept.blobs.iter().map(|(id, data)| {
            let id = crate::model::ids::hex(&mask.bytes(id));
            let (number, name) = (1, Cow::Borrowed("blob"));
            let value = super::tree_read::blob(data, mask);
            (id, WireTree(vec![WireField { number, name, value }]).to_json())
        });
        Self {
            state,
            blobs: blobs.collect(),
            covers: kept.covers,
            calls: kept
                .calls
                .iter()
                .map(|call| ItemRecord::of(&Item::ToolCall(call.clone()), mask))
                .collect(),
            new_setup: kept.new_setup,
        }
    }

    fn state(&self) -> StoredState {
        let checkpoint = match WireTree::from_json(&self.state) {
            Some(tree) => tree.encode(),
            None => self.state.to_string().into(),
        };
        let blobs = self.blobs.iter().filter_map(|(id, data)| {
            let tree = WireTree::from_json(data)?;
            let data = match &tree.0.first()?.value {
                WireValue::Text(text) => Bytes::from(text.clone()),
                WireValue::Bytes(bytes) => bytes.clone(),
                WireValue::Message(tree) => tree.encode(),
                _ => Bytes::new(),
            };
            Some((unhex(id)?, data))
        });
        let calls = self.calls.iter().filter_map(|call| match call.item() {
            Item::ToolCall(call) => Some(call),
            _ => None,
        });
        StoredState {
            checkpoint,
            blobs: blobs.collect(),
            covers: self.covers,
            calls: calls.collect(),
            new_setup: self.new_setup,
        }
    }
}

fn unhex(digits: &str) -> Option<Bytes> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect::<Option<Vec<u8>>>().map(Bytes::from)
}
