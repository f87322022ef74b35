//! What controls ask of a request: limits they have, and words that the model must hear.

use std::borrow::Cow;

use crate::{
    error::{ErrorCode, TurnError},
    model::{Dialect, Format, TurnRequest},
};

/// OpenAI allows 4; clients of other vendors send more.
const STOPS: usize = 16;
const STOP_BYTES: usize = 1 << 10;

/// # Errors
/// `InvalidValue`, with the parameter.
pub(super) fn check_stops(request: &TurnRequest) -> Result<(), TurnError> {
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
pub(super) fn schema_param(request: &TurnRequest) -> &'static str {
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

/// Tells the model about the format of its answer.
pub(super) fn instruct(request: &mut TurnRequest) {
    let mut text = match &request.sampling.format {
        Format::Text => return,
        Format::Json => "Answer with one JSON object and with nothing else: no words before or \
                         after it, and no code fence."
            .to_owned(),
        Format::Schema(schema) => format!(
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
