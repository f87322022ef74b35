//! What controls need of a request: its parameters are checked, and the model is instructed.

use std::{borrow::Cow, collections::VecDeque};

use super::{Controls, json::Json, meter::Meter, stop::Stops};
use crate::{
    error::{ErrorCode, TurnError},
    model::{AnswerFormat, Dialect, TurnRequest},
    models::Family,
};

/// OpenAI allows 4; clients of other vendors send more.
const STOPS: usize = 16;
const STOP_BYTES: usize = 1 << 10;

/// The format of an answer, ready to hold answers against it. To read a schema takes a moment.
#[derive(Debug)]
pub struct ReadFormat(Result<Option<Json>, String>);

impl ReadFormat {
    #[must_use]
    pub fn of(format: &AnswerFormat) -> Self {
        Self(Json::new(format))
    }

    /// For a schema that takes too long to read.
    #[must_use]
    pub fn too_slow() -> Self {
        Self(Err("it takes too long to compile".to_owned()))
    }
}

/// Gets a request ready: checks what it asks for, instructs the model, and
/// gives the controls for its answer, if it has any.
///
/// # Errors
/// `InvalidValue` with the parameter: too many stop sequences, or an invalid schema.
pub fn prepare(
    request: &mut TurnRequest,
    family: Family,
) -> Result<Option<Box<Controls>>, TurnError> {
    let read = ReadFormat::of(&request.sampling.format);
    prepare_with(request, family, read)
}

/// The same, with a format that was read before.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_with(
    request: &mut TurnRequest,
    family: Family,
    read: ReadFormat,
) -> Result<Option<Box<Controls>>, TurnError> {
    check_stops(request)?;
    let sampling = &request.sampling;
    let json = read.0.map_err(|why| {
        let param = schema_param(request);
        let text = format!("`{param}` is not a usable JSON Schema: {why}");
        TurnError::new(ErrorCode::InvalidValue, text).param(param)
    })?;
    if !sampling.is_controlled() {
        return Ok(None);
    }
    let controls = Controls {
        json,
        stops: Stops::new(&sampling.stop),
        meter: sampling.max_tokens.map(|limit| Meter::new(limit, family)),
        limit: sampling.max_tokens,
        hides_reasoning: request.hints.hides_reasoning,
        whole: !request.hints.stream,
        tools: !request.tools.is_empty(),
        out: VecDeque::new(),
        unchecked: String::new(),
        broken: false,
        words: String::new(),
        started: false,
        speaks: None,
        called: false,
        muted: None,
        usage: None,
        before: None,
        asked_again: false,
    };
    instruct(request);
    Ok(Some(Box::new(controls)))
}

/// # Errors
/// `InvalidValue`, with the parameter.
fn check_stops(request: &TurnRequest) -> Result<(), TurnError> {
    let name = match request.dialect {
        Dialect::Chat | Dialect::Completions | Dialect::Responses => "stop",
        Dialect::Messages => "stop_sequences",
    };
    let refuse = |param: Cow<'static, str>, text: String| {
        Err(TurnError::new(ErrorCode::InvalidValue, text).param(param))
    };
    let stop = &request.sampling.stop;
    if stop.len() > STOPS {
        let text = format!("`{name}` has {} sequences; at most {STOPS} are supported", stop.len());
        return refuse(name.into(), text);
    }
    for (at, sequence) in stop.iter().enumerate() {
        if sequence.is_empty() || sequence.len() > STOP_BYTES {
            let text = format!("a sequence in `{name}` must have between 1 and {STOP_BYTES} bytes");
            return refuse(format!("{name}[{at}]").into(), text);
        }
    }
    Ok(())
}

/// The parameter that holds the schema.
fn schema_param(request: &TurnRequest) -> &'static str {
    match request.dialect {
        Dialect::Chat | Dialect::Completions => "response_format.json_schema.schema",
        Dialect::Responses => "text.format.schema",
        // Its name of before.
        Dialect::Messages if request.sampling.params.emulated.contains(&"output_format") => {
            "output_format.schema"
        }
        Dialect::Messages => "output_config.format.schema",
    }
}

/// Instructs the model about the format of its answer.
fn instruct(request: &mut TurnRequest) {
    let mut text = match &request.sampling.format {
        AnswerFormat::Text => return,
        AnswerFormat::Json => {
            "Answer with one JSON object and with nothing else: no words before or \
                         after it, and no code fence."
                .to_owned()
        }
        AnswerFormat::Schema(schema) => format!(
            "Answer with JSON that is valid against the JSON Schema below, and with nothing else: \
             no words before or after it, and no code fence. Use exactly the property names of the \
             schema.\n\n{}\n{}",
            schema.name, schema.text
        ),
    };
    if !request.tools.is_empty() {
        text.push_str("\n\nThis holds for the answer itself. Tools are called as usual.");
    }
    // A request of nothing but instructions has its last one as the question.
    let question = usize::from(request.items.is_empty());
    let at = request.system.len().saturating_sub(question);
    request.system.insert(at, text);
}
