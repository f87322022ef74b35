//! Every switch: its name, its value in both presets, and what it does.

use std::time::Duration;

use super::{
    BehaviourError, Preset,
    values::{
        AllowHeader, BlobKeyHeader, ErrorWhen, HostConfig, ListedAt, MaxRequired, McpStateAsk,
        NewlineIds, PartialCalls, RefusedCalls, RegionError, ResumeNeeds, ResumeUnknown,
        RootChecks, RootImages, RulesShown, SignedReasoning, SwitchValue, SystemField, ToolsMode,
        UsableStatus,
    },
};

/// One switch, as `ibeam sim --list-switches` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchRow {
    pub name: &'static str,
    /// The possible values.
    pub values: String,
    /// The value in the preset `autumn`.
    pub autumn: String,
    /// The value in the preset `summer`.
    pub summer: String,
    pub meaning: &'static str,
}

macro_rules! switches {
    ($($field:ident: $type:ty = $name:literal, $autumn:expr, $summer:expr, $meaning:literal;)*) => {
        /// How the simulated service behaves, switch by switch.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Behaviour {
            $(#[doc = $meaning] pub(crate) $field: $type,)*
        }

        impl Behaviour {
            /// All values of a preset.
            #[must_use]
            pub fn preset(preset: Preset) -> Self {
                match preset {
                    Preset::Autumn => Self { $($field: $autumn,)* },
                    Preset::Summer => Self { $($field: $summer,)* },
                }
            }

            /// Sets one switch.
            ///
            /// # Errors
            /// The switch is unknown, or the value is not one of its values.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), BehaviourError> {
                match name {
                    $($name => self.$field = read($name, value)?,)*
                    _ => return Err(BehaviourError::Unknown(name.to_owned())),
                }
                Ok(())
            }

            /// Every switch, in the order of the documentation.
            #[must_use]
            pub fn table() -> Vec<SwitchRow> {
                let (autumn, summer) =
                    (Self::preset(Preset::Autumn), Self::preset(Preset::Summer));
                vec![$(SwitchRow {
                    name: $name,
                    values: <$type as SwitchValue>::values(),
                    autumn: autumn.$field.text(),
                    summer: summer.$field.text(),
                    meaning: $meaning,
                },)*]
            }
        }
    };
}

const fn seconds(count: u64) -> Option<Duration> {
    Some(Duration::from_secs(count))
}

switches! {
    roots_resume_verbatim: bool = "roots.resume_verbatim", true, false,
        "with `resume_action`, the prompt is exactly the client's root entries";
    roots_uma_slot0: bool = "roots.uma_slot0", true, false,
        "with a user message, Cursor's own system entry replaces the client's";
    roots_uma_context: RulesShown = "roots.uma_context", RulesShown::NoHistory, RulesShown::Always,
        "when the rules of the request context are part of the prompt of a user message";
    roots_resume_needs_turn: bool = "roots.resume_needs_turn", true, false,
        "`resume_action` without a turn is an empty turn";
    roots_resume_needs: ResumeNeeds = "roots.resume_needs", ResumeNeeds::Nothing, ResumeNeeds::Nothing,
        "which fields of the state `resume_action` needs for more than an empty turn";
    roots_empty_slots_57: bool = "roots.empty_slots_57", true, false,
        "`resume_action` with an empty system or user entry is refused by the provider";
    roots_fetch: bool = "roots.fetch", true, false,
        "root entries and turns are fetched in one batch, the blobs inside a turn never";
    roots_validate: RootChecks = "roots.validate", RootChecks::Strict, RootChecks::Off,
        "malformed root entries fail the run after they were fetched";
    roots_max: Option<usize> = "roots.max", Some(208), None,
        "so many root entries fail the run after they were fetched";
    roots_images: RootImages = "roots.images", RootImages::Both, RootImages::Both,
        "in which shapes the model sees images of the history";
    reasoning_signed: SignedReasoning = "reasoning.signed", SignedReasoning::Accepted, SignedReasoning::Off,
        "whether stored reasoning has a signature, and what a replay of it comes to; with `accepted`, \
         only what the model of the run has signed may be replayed";
    state_required: bool = "state.required", true, true,
        "a run without `conversation_state` is refused";
    state_tz_pair: bool = "state.tz_pair", true, false,
        "a start time of the conversation without its time zone is refused";
    system_custom8: SystemField = "system.custom8", SystemField::Refuse, SystemField::Refuse,
        "what happens to `custom_system_prompt`";
    system_spec29: SystemField = "system.spec29", SystemField::Ignore, SystemField::Ignore,
        "what happens to `system_prompt_spec`";
    history_inline7: Option<Duration> = "history.inline7", seconds(90), None,
        "how long a run with `conversation_history` stalls; the history is ignored";
    result_is_error_visible: bool = "result.is_error_visible", false, true,
        "the model sees `isError` of a result in the history, not only its text";
    tools_mode: ToolsMode = "tools.mode", ToolsMode::Meta, ToolsMode::Direct,
        "the model sees the client's tools as functions, or through two meta tools";
    tools_literal_meta: bool = "tools.literal_meta", false, false,
        "the execs name the meta tools instead of the client's tool";
    tools_allow_header: AllowHeader = "tools.allow_header", AllowHeader::Strict, AllowHeader::Lenient,
        "how `x-cursor-agent-allowed-tools` is read";
    tools_mcp_state: McpStateAsk = "tools.mcp_state", McpStateAsk::Blocking, McpStateAsk::Off,
        "the state of the MCP servers is asked for before the first output";
    tools_mcp_status: UsableStatus = "tools.mcp_status", UsableStatus::Any, UsableStatus::Any,
        "which status of an MCP server makes its tools usable";
    tools_need34: bool = "tools.need34", false, false,
        "without `mcp_meta_tool_options`, the client's namespace is empty";
    tools_spoil34: bool = "tools.spoil34", false, false,
        "with `mcp_meta_tool_options`, the client's namespace is empty";
    tools_double_declare_stall: bool = "tools.double_declare_stall", false, false,
        "tools that are declared in the request and in its context stall the run";
    tools_refuse_server_side: RefusedCalls = "tools.refuse_server_side", RefusedCalls::PerCall, RefusedCalls::Off,
        "which calls are refused without an exec";
    tools_listed27: ListedAt = "tools.listed27", ListedAt::Between, ListedAt::Off,
        "where `tool_requests_listed` announces the number of calls";
    tools_listed_counts_refused: bool = "tools.listed_counts_refused", true, true,
        "`tool_requests_listed` counts the calls that the service refuses by itself";
    tools_partial: PartialCalls = "tools.partial", PartialCalls::One, PartialCalls::Cumulative,
        "what `partial_tool_call` has: one empty message, or the arguments (of the tool, or of the meta tool) as they grow";
    tools_serial_second_call: bool = "tools.serial_second_call", false, false,
        "the exec of a further call comes after the answer to the one before";
    tools_exec_without_partial: bool = "tools.exec_without_partial", false, false,
        "calls come as execs only, without updates and without `exec_id`";
    tools_map_drops_large: bool = "tools.map_drops_large", false, false,
        "`tool_call_completed` leaves out large arguments";
    tools_approval_only: bool = "tools.approval_only", false, false,
        "each call is preceded by an exec that only asks for permission";
    tools_spill_catalogue: bool = "tools.spill_catalogue", false, false,
        "the tool catalogue is written and read through execs";
    tools_collide_builtin_error: bool = "tools.collide_builtin_error", false, false,
        "a client's tool with the name of a built-in one is refused by the provider";
    ids_newline: NewlineIds = "ids.newline", NewlineIds::GptAuto, NewlineIds::Off,
        "which models have a newline in their tool-call ids";
    fields_extra: bool = "fields.extra", true, false,
        "new fields and updates are sent, also after `turn_ended`";
    shell_close_required: bool = "shell.close_required", true, false,
        "a shell stream is answered only with its result and `stream_close`";
    host_config: HostConfig = "host.config", HostConfig::Both, HostConfig::Absent,
        "which addresses `GetServerConfig` has";
    host_region_error: RegionError = "host.region_error", RegionError::Off, RegionError::Off,
        "the host that answers runs with the error about the region";
    host_agentn_464: bool = "host.agentn_464", true, false,
        "the agentn host refuses HTTP/1.1 with status 464";
    host_h2_delay: Option<Duration> = "host.h2_delay", None, None,
        "how long an HTTP/2 connection takes to open";
    model_max_required: MaxRequired = "model.max_required", MaxRequired::Off, MaxRequired::Off,
        "which models are refused without max mode";
    model_details_missing_empty: bool = "model.details_missing_empty", false, false,
        "a model with parameters and without `model_details` gives an empty turn";
    model_not_found: ErrorWhen = "model.not_found", ErrorWhen::Off, ErrorWhen::Off,
        "runs are refused because their model is unknown";
    model_both_conflict: bool = "model.both_conflict", false, false,
        "an external model with parameters in both model fields is refused";
    error_plan_limit: ErrorWhen = "error.plan_limit", ErrorWhen::Off, ErrorWhen::Off,
        "the plan is used up: a bare `resource_exhausted`";
    error_provider_refused: ErrorWhen = "error.provider_refused", ErrorWhen::Off, ErrorWhen::Off,
        "the provider refuses the prompt with status 400";
    error_provider_busy: ErrorWhen = "error.provider_busy", ErrorWhen::Off, ErrorWhen::Off,
        "the provider is busy, status 529";
    error_too_many_computers: bool = "error.too_many_computers", true, false,
        "headers of the IDE are refused: too many computers";
    error_free_plan: ErrorWhen = "error.free_plan", ErrorWhen::Off, ErrorWhen::Off,
        "the plan has only the model Auto";
    error_trial_limit: ErrorWhen = "error.trial_limit", ErrorWhen::Off, ErrorWhen::Off,
        "the limit of a trial is reached; not to be retried";
    error_instant_close: ErrorWhen = "error.instant_close", ErrorWhen::Off, ErrorWhen::Off,
        "status 200, and the stream closes without a frame";
    error_region_model: ErrorWhen = "error.region_model", ErrorWhen::Off, ErrorWhen::Off,
        "the model is not served in this region";
    error_model_blocked: ErrorWhen = "error.model_blocked", ErrorWhen::Off, ErrorWhen::Off,
        "the account has to agree to the model's data retention first";
    error_policy_review: ErrorWhen = "error.policy_review", ErrorWhen::Off, ErrorWhen::Off,
        "the content needs a policy review";
    error_late_invalid: ErrorWhen = "error.late_invalid", ErrorWhen::Off, ErrorWhen::Off,
        "`invalid_argument` after everything was fetched, with no tokens used";
    error_data_missing: ErrorWhen = "error.data_missing", ErrorWhen::Off, ErrorWhen::Off,
        "the service has lost the conversation";
    error_schema_bytes: ErrorWhen = "error.schema_bytes", ErrorWhen::Off, ErrorWhen::Off,
        "the schema of a tool cannot be parsed";
    error_not_logged_in: ErrorWhen = "error.not_logged_in", ErrorWhen::Off, ErrorWhen::Off,
        "the token is not valid for this service";
    usage_rpc: bool = "usage.rpc", true, false,
        "the calls for the usage of the plan are answered";
    usage_events_delay: Option<Duration> = "usage.events_delay", Some(Duration::from_millis(2500)), None,
        "how long after its end a run is in the list of usage events";
    usage_abandoned_billed: bool = "usage.abandoned_billed", true, false,
        "runs that the client has left are billed";
    usage_summed: bool = "usage.summed", true, false,
        "`turn_ended` reports the input of all steps of the run together";
    latency_first_output: Option<Duration> = "latency.first_output", None, None,
        "how long only heartbeats come before the first output";
    hold_max: Option<Duration> = "hold.max", None, None,
        "how long a call may stay unanswered before the stream is lost";
    headers_blob_key: BlobKeyHeader = "headers.blob_key", BlobKeyHeader::Ignored, BlobKeyHeader::Ignored,
        "what happens to `x-blob-encryption-key`";
    version_floor: Option<String> = "version.floor", None, Some("2025.06.01".to_owned()),
        "client versions before this date are refused";
    cli_resume_unknown: ResumeUnknown = "cli.resume_unknown", ResumeUnknown::EmptyChat, ResumeUnknown::Error,
        "what Cursor's CLI does when `--resume` names no chat of its folder";
    cli_mcp_approval: bool = "cli.mcp_approval", true, true,
        "MCP servers that are not approved are absent in Cursor's CLI, without an error";
    cli_worker_stdout: bool = "cli.worker_stdout", true, false,
        "Cursor's CLI leaves a process behind that keeps its output open";
    acp_initialize: bool = "acp.initialize", true, false,
        "the answer to `initialize` is that of the CLI 2026.10.01";
}

/// Reads the value of a switch.
fn read<T: SwitchValue>(name: &'static str, value: &str) -> Result<T, BehaviourError> {
    T::parse(value).ok_or_else(|| BehaviourError::Value {
        name,
        value: value.to_owned(),
        values: T::values(),
    })
}
