//! What a response repeats of its request.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Number, value::RawValue};

use super::{
    decode::ResponsesRequestBody,
    sampling::{ENCRYPTED_REASONING, text_field},
    tools::Catalogue,
};
use crate::wire::lenient::TextOr;

/// The fields of a request that its response repeats, and what its tools are called.
#[derive(Clone, Debug)]
pub struct Echo {
    /// Members of the response's object, ready to be written: `"model":"…","tools":[…]`.
    /// One line, because the data of an event is one.
    pub(super) members: Arc<str>,
    pub(super) tools: Arc<Catalogue>,
    /// Whether reasoning goes out with its `encrypted_content`.
    pub(super) encrypted: bool,
}

/// Every field is there, set or not: strict clients want them all. The exception is `user`,
/// which the specification does not let be null.
#[derive(Serialize)]
struct EchoMembers<'a> {
    background: bool,
    frequency_penalty: GivenNumber<'a>,
    instructions: Option<Instructions<'a>>,
    max_output_tokens: Option<&'a Number>,
    max_tool_calls: Option<&'a Number>,
    metadata: &'a RawValue,
    model: &'a str,
    parallel_tool_calls: bool,
    presence_penalty: GivenNumber<'a>,
    previous_response_id: Option<&'a str>,
    prompt_cache_key: Option<&'a str>,
    reasoning: &'a RawValue,
    safety_identifier: Option<&'a str>,
    service_tier: &'static str,
    store: bool,
    temperature: GivenNumber<'a>,
    text: EchoText<'a>,
    tool_choice: &'a RawValue,
    tools: Vec<&'a RawValue>,
    top_logprobs: u8,
    top_p: GivenNumber<'a>,
    truncation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
}

/// A number as it was given, or its default.
#[derive(Serialize)]
#[serde(untagged)]
enum GivenNumber<'a> {
    Number(&'a Number),
    Default(f64),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Instructions<'a> {
    Text(&'a str),
    Items(&'a [&'a RawValue]),
}

#[derive(Serialize)]
struct EchoText<'a> {
    format: &'a RawValue,
    verbosity: &'a RawValue,
}

impl Echo {
    /// About how many bytes it has in memory. The names of the tools are short beside the tools.
    pub(super) fn bytes(&self) -> usize {
        self.members.len()
    }

    pub(super) fn new(
        model: &str,
        body: &ResponsesRequestBody<'_>,
        previous: Option<&str>,
        tools: Catalogue,
        tools_json: &[Box<RawValue>],
    ) -> Self {
        let [empty, unset, plain, medium, auto] = [
            "{}",
            r#"{"effort":null,"summary":null}"#,
            r#"{"type":"text"}"#,
            r#""medium""#,
            r#""auto""#,
        ]
        .map(raw);
        let text = text_field(body.text).unwrap_or_default();
        let members = EchoMembers {
            background: body.background.unwrap_or(false),
            frequency_penalty: GivenNumber::or(body.frequency_penalty.as_ref(), 0.0),
            instructions: body.instructions.as_ref().map(|given| match given {
                TextOr::Text(text) => Instructions::Text(text),
                TextOr::List(items) => Instructions::Items(items),
            }),
            max_output_tokens: body.max_output_tokens.as_ref(),
            max_tool_calls: body.max_tool_calls.as_ref(),
            metadata: body.metadata.unwrap_or(&empty),
            model,
            parallel_tool_calls: body.parallel_tool_calls.unwrap_or(true),
            presence_penalty: GivenNumber::or(body.presence_penalty.as_ref(), 0.0),
            previous_response_id: previous,
            prompt_cache_key: body.prompt_cache_key.as_deref(),
            reasoning: body.reasoning.unwrap_or(&unset),
            safety_identifier: body.safety_identifier.as_deref(),
            service_tier: "default",
            store: body.store.unwrap_or(true),
            temperature: GivenNumber::or(body.temperature.as_ref(), 1.0),
            text: EchoText {
                format: text.format.unwrap_or(&plain),
                verbosity: text.verbosity.unwrap_or(&medium),
            },
            tool_choice: body.tool_choice.unwrap_or(&auto),
            tools: tools_json.iter().map(|tool| &**tool).collect(),
            top_logprobs: 0,
            top_p: GivenNumber::or(body.top_p.as_ref(), 1.0),
            truncation: body.truncation.as_deref().unwrap_or("disabled"),
            user: body.user.as_deref(),
        };
        let json = serde_json::to_string(&members).unwrap_or_default();
        // The braces go: the members stand in the object of the response.
        let members = json.strip_prefix('{').and_then(|json| json.strip_suffix('}'));
        Self {
            members: on_one_line(members.unwrap_or_default()).into(),
            tools: Arc::new(tools),
            encrypted: body.include.iter().flatten().any(|name| name == ENCRYPTED_REASONING),
        }
    }
}

impl<'a> GivenNumber<'a> {
    fn or(given: Option<&'a Number>, default: f64) -> Self {
        given.map_or(Self::Default(default), Self::Number)
    }
}

/// A constant as raw JSON.
fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The same JSON without line ends. They stand between tokens only: inside strings they are
/// escaped.
pub(super) fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}
