//! The words that may stand in a redacted recording: those of the protocols, of well-known tools,
//! and of error messages. They are all in here or in the tables that the machine itself uses, so a
//! recording has none that a client made up.

use std::{collections::HashSet, ops::Range, sync::LazyLock};

use crate::{guard, peer::agent::vocabulary as agent, peer::cli::failure};

/// Keys and words of the protocols of Cursor's CLI, of stored prompt entries, and of JSON Schema.
const WORDS: &str = "\
type subtype text role content message result error details code name is_error isError session_id \
sessionId tool_call toolCall call_id toolCallId tool_call_id toolName tool_name args arguments \
rawInput rawOutput input output usage timestamp_ms model_call_id model duration_ms duration_api_ms \
request_id apiKeySource permissionMode cwd thinking delta completed started init system user \
assistant tool reasoning tool-call tool-result image mimeType mime_type __type Uint8Array hex data \
success failure rejected function description providerIdentifier namespace server pattern query \
annotations readOnlyHint title kind status locations plan entries priority state update updates \
sessionUpdate agent_message_chunk agent_thought_chunk user_message_chunk tool_call_update \
available_commands_update current_mode_update config_option_update session_info_update usage_update \
pending in_progress failed cancelled skipped outcome selected optionId options option_id \
allow_once allow_always reject_once reject_always allow-once allow-always reject-once jsonrpc 2.0 \
id method params initialize authenticate protocolVersion clientCapabilities agentCapabilities \
clientInfo agentInfo authMethods methodId loadSession promptCapabilities mcpCapabilities http sse \
audio embeddedContext fs readTextFile writeTextFile terminal version session/new session/load \
session/prompt session/update session/cancel session/request_permission session/set_model \
session/set_mode session/set_config_option mcpServers headers value url prompt stopReason end_turn \
max_tokens max_turn_requests refusal modes models availableModels currentModelId modelId \
currentModeId availableModes configOptions configId currentValue category _meta execute read edit \
delete move search fetch think other switch_mode inputTokens outputTokens cacheReadTokens \
cacheWriteTokens cachedReadTokens cachedWriteTokens thoughtTokens totalTokens input_tokens \
output_tokens cache_read_input_tokens cache_creation_input_tokens resource resource_link uri \
reason approved answers providerOptions cursor modelName signature \
properties required items enum const anyOf oneOf allOf not additionalProperties $ref $defs \
definitions $schema default format minimum maximum exclusiveMinimum exclusiveMaximum minLength \
maxLength minItems maxItems uniqueItems minProperties maxProperties propertyNames \
patternProperties examples nullable string number integer boolean object array null strict \
Authorization inputSchema tools \
shellToolCall readToolCall writeToolCall editToolCall deleteToolCall lsToolCall globToolCall \
grepToolCall mcpToolCall semSearchToolCall webFetchToolCall webSearchToolCall readLintsToolCall \
updateTodosToolCall taskToolCall bashToolCall \
ibeam image/png image/jpeg image/gif image/webp text/plain application/json utf-8 utf8 agent ask \
debug http/1.1 login v session cursor_login";

/// Words of error messages that mean nothing by themselves. Those by which errors are classified
/// are added from the tables.
const ERROR_WORDS: &str = "\
a an and or the this that these those there here it its is are was were be been being has have had \
do does did done will would can could may might must should shall not no none nor never only also \
too very more most less least much many few some any all each every other another same such than \
then so as if in into on onto of off for from to with without within by at about after before \
again against between during while until when where which who what why how your you yours our we \
us they their them he she his her my me one two three first second last next new old out over \
under up down because but yet however please try later now soon once always \
error errors failed failure fail fails failing invalid unknown unexpected missing found exists \
exist required requires require needs need needed unsupported supported support supports allowed \
allow denied deny forbidden refused rejected reject expired expires expire unauthorized \
authentication authenticated authenticate authorized authorization unauthenticated signed sign in \
login logged log logout account accounts user users team teams plan plans free pro paid trial \
billing invoice payment usage limit limits limited rate quota exceeded exceeds exceed exhausted \
reached reach resource resources request requests response responses server servers service \
services client clients version versions update updated upgrade outdated deprecated model models \
provider providers tool tools name names named conversation conversations session sessions context \
message messages prompt prompts token tokens input inputs output outputs image images blob blobs \
data content body header headers field fields value values argument arguments parameter parameters \
type types format schema json string number object array list stream streams streaming connection \
connections connect connected connecting connector network host hosts proxy timeout timed time \
out deadline cancelled canceled cancel aborted abort closed close closing open opened reset broken \
pipe eof end ended internal external temporary temporarily permanent unavailable available busy \
overloaded high load capacity too long short large small big size length window maximum minimum \
max min bytes retry retrying retries wait waiting minutes seconds hours days region country \
policy content_policy review action safety blocked block permission permissions access key keys \
api url path file files directory folder not_found bad gateway status http https tls ssl \
certificate dns lookup reason cause details code codes exit exited signal killed process agent \
cursor command restart resume resumed load loaded start started stop stopped mode setting settings \
enable enabled disable disabled set get read write call called calls calling answer empty null \
undefined of_range out_of_range invalid_argument deadline_exceeded already feature features \
something went wrong sorry contact administrator admin help dashboard com ensure check valid \
correct incorrect current currently spend spending changed change missing_required alltools \
allTools not_in bridge shell grep glob edit web search fetch mcp http2 protocol stream_closed \
refused_stream internal_error enhance_your_calm goaway rst frame frames compressed envelope \
workspace trust trusted default auto named users serve served serving generic unable able due \
suspicious activity parse binary premature ls delete mcp_tool_call get_mcp_tools_tool_call";

/// Tags of thinking that leaks into an answer.
fn tags() -> impl Iterator<Item = (&'static str, &'static str)> {
    guard::THINK_TAGS.iter().flat_map(|tag| [("<", *tag), ("</", *tag)])
}

/// Whether this is a tag, or may become one.
pub(super) fn may_be_tag(text: &str) -> bool {
    tags().any(|(open, tag)| [open, tag, ">"].concat().starts_with(text))
}

pub(super) fn is_word(word: &str) -> bool {
    static KNOWN: LazyLock<HashSet<&str>> =
        LazyLock::new(|| WORDS.split_ascii_whitespace().collect());
    KNOWN.contains(word)
}

/// Whether a key of an object, or the name of a parameter, stays.
pub(super) fn is_key(key: &str) -> bool {
    is_word(key) || agent::is_parameter(key)
}

/// Whether a tool is one of the well-known ones.
pub(super) fn is_tool(name: &str) -> bool {
    agent::is_tool(name)
}

/// What models and servers put before a tool's name.
pub(super) fn tool_prefix(name: &str) -> &str {
    let len = agent::tool_prefix(name);
    name.get(..len).unwrap_or_default()
}

pub(super) fn is_error_word(word: &str) -> bool {
    static KNOWN: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let words = ERROR_WORDS.split(|c: char| !c.is_ascii_alphanumeric());
        words.chain(failure::words_of_table()).map(str::to_ascii_lowercase).collect()
    });
    KNOWN.contains(&word.to_ascii_lowercase())
}

/// What a status or an exit code stands behind.
const STATUS_WORDS: [&str; 7] =
    ["status", "code", "http", "exit", "exited", "statuscode", "exitcode"];

/// Whether this number is a lone status or exit code, by the word before it, what is between the
/// two, and what comes after it. Numbers that are joined to each other may be an address.
pub(super) fn is_status(word: &str, joint: &str, number: &str, after: &str) -> bool {
    let is_joint =
        (1..=4).contains(&joint.len()) && joint.bytes().all(|b| b" :=\"'(-_".contains(&b));
    let next = after.find(|c: char| c.is_ascii_alphanumeric() || c == '\n');
    let next = next.and_then(|at| after.as_bytes().get(at));
    number.len() <= 3
        && is_joint
        && STATUS_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
        && !next.is_some_and(u8::is_ascii_digit)
}

/// Where the words stand by which a result shows that it is a failure.
pub(super) fn failure(text: &str) -> Option<Range<usize>> {
    let start = text.len() - text.trim_start().len();
    let head = text.get(start..)?;
    let head = head.get(..head.floor_char_boundary(80))?.to_ascii_lowercase();
    let known = guard::failure_beginnings().chain(agent::failure_beginnings());
    let longest = known.filter(|known| head.starts_with(known)).map(str::len).max()?;
    Some(start..start + longest)
}
