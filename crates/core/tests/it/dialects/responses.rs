//! OpenAI's Responses. Every event is numbered, every item opened before it grows and
//! closed before the response ends, and whatever is said in pieces is said again as a whole.

use ibeam_core::{
    error::{ErrorCode, TurnError},
    redact,
    wire::responses::{Echo, ResponsesCollector, ResponsesEncoder, decode, response_id},
};
use serde_json::{Value, json};

use super::{CREATED, Dialect, Ending, FREEFORM, has_only, named, number, rule, text};
use crate::{
    events::{Call, Gist},
    sse::Frame,
};

pub(super) const RESPONSES: Dialect = Dialect {
    name: "responses",
    encoder: || Box::new(ResponsesEncoder::new(response_id([0xab; 16]), CREATED, echo())),
    collector: || Box::new(ResponsesCollector::new(response_id([0xab; 16]), CREATED, echo())),
    reader: read,
    gist,
    can_tell: plain_calls,
    tells: is_error,
};

fn echo() -> Echo {
    let body = json!({"model": "auto", "input": "hi", "instructions": "Be\nbrief.",
        "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "custom", "name": FREEFORM},
            {"type": "function", "name": "bash", "parameters": {"type": "object"}}]});
    decode(body.to_string().as_bytes()).expect("a request").echo
}

/// How a rate limit is worded is this dialect's business: it adds the time to wait.
fn is_error(told: &Value, error: &TurnError) -> bool {
    if error.code == ErrorCode::Cancelled {
        return told.is_null();
    }
    let message = told["message"].as_str().unwrap_or_default();
    message.starts_with(&*redact::text(&error.message)) && told["code"].is_string()
}

/// Freeform input is taken out of the arguments, and has proofs of its own.
fn plain_calls(mut gist: Gist) -> Gist {
    gist.calls.retain(|call| call.name != FREEFORM);
    gist
}

fn gist(reply: &Value) -> Gist {
    let mut gist = Gist::default();
    for item in reply["output"].as_array().into_iter().flatten() {
        match item["type"].as_str().unwrap_or_default() {
            "message" => gist.text.push_str(item["content"][0]["text"].as_str().unwrap_or("?")),
            "reasoning" => {
                gist.reasoning.push_str(item["summary"][0]["text"].as_str().unwrap_or("?"));
            }
            "function_call" => {
                gist.calls.push(Call::new(&item["call_id"], &item["name"], &item["arguments"]));
            }
            _ => {}
        }
    }
    gist
}

/// One item of the output.
struct Item {
    id: String,
    kind: Kind,
    said: String,
    stage: Stage,
    done: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    Function,
    Custom,
}

/// Only messages and reasoning have parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Added,
    Growing,
    Said,
    PartDone,
    Done,
}

fn read(frames: &[Frame]) -> Result<Ending, String> {
    let mut items: Vec<Item> = Vec::new();
    for (place, frame) in frames.iter().enumerate() {
        let (name, data) = named(frame)?;
        rule!(number(&data, "sequence_number")? == place, "{name} has a wrong number");
        let last = place + 1 == frames.len();
        match (place, name) {
            (0, "response.created") | (1, "response.in_progress") => {
                let response = &data["response"];
                rule!(response["status"] == "in_progress", "begun and not in progress");
                rule!(response["output"] == json!([]), "output before its events");
            }
            (0 | 1, _) => return Err(format!("{name} comes too early")),
            (_, "response.completed" | "response.incomplete" | "response.failed") => {
                rule!(last, "something follows {name}");
                return ending(name, &data["response"], &items);
            }
            (_, "response.output_item.added") => {
                rule!(number(&data, "output_index")? == items.len(), "items are not counted");
                let item = Item::new(&data["item"])?;
                rule!(items.iter().all(|other| other.id != item.id), "an id is there twice");
                items.push(item);
            }
            (_, name) => {
                let index = number(&data, "output_index")?;
                let item = items.get_mut(index).ok_or_else(|| format!("{name} of no item"))?;
                item.take(name, &data)?;
            }
        }
        let speaking = items.iter().filter(|item| item.is_speaking()).count();
        rule!(speaking <= 1, "two items speak at once");
    }
    Err("no ending".to_owned())
}

fn ending(name: &str, response: &Value, items: &[Item]) -> Result<Ending, String> {
    let output = response["output"].as_array().ok_or("no output")?;
    rule!(output.len() == items.len(), "items are missing: {response}");
    for (told, item) in output.iter().zip(items) {
        match item.stage {
            Stage::Done => rule!(*told == item.done, "another item than was done: {told}"),
            _ if name == "response.failed" => rule!(told["id"] == item.id, "another: {told}"),
            stage => return Err(format!("an item is left {stage:?}: {told}")),
        }
    }
    let (status, error) = (&response["status"], &response["error"]);
    let details = &response["incomplete_details"];
    match name {
        "response.failed" => {
            let cancelled = *status == "cancelled";
            rule!(cancelled || *status == "failed", "failed and not so: {status}");
            rule!(cancelled == error.is_null(), "failed for no reason");
            return Ok(Ending::Failed(error.clone()));
        }
        "response.incomplete" => {
            rule!(*status == "incomplete", "incomplete and not so: {status}");
            rule!(*details == json!({"reason": "max_output_tokens"}), "incomplete for nothing");
        }
        _ => rule!(*status == "completed" && details.is_null(), "completed and not so: {status}"),
    }
    rule!(error.is_null(), "an error, and not failed");
    Ok(Ending::Whole(response.clone()))
}

impl Item {
    fn new(item: &Value) -> Result<Self, String> {
        let (kind, prefix) = match text(item, "type")? {
            "message" => {
                rule!(item["content"] == json!([]), "content before its part: {item}");
                (Kind::Message, "msg_")
            }
            "reasoning" => {
                rule!(item["summary"] == json!([]), "a summary before its part: {item}");
                (Kind::Reasoning, "rs_")
            }
            "function_call" => {
                rule!(item["arguments"] == "", "arguments before their deltas: {item}");
                (Kind::Function, "fc_")
            }
            "custom_tool_call" => {
                rule!(item["input"] == "", "input before its deltas: {item}");
                (Kind::Custom, "ctc_")
            }
            other => return Err(format!("an unknown item: {other}")),
        };
        rule!(kind == Kind::Reasoning || item["status"] == "in_progress", "odd status: {item}");
        let id = text(item, "id")?.to_owned();
        rule!(id.starts_with(prefix), "an odd id: {id}");
        let stage = match kind {
            Kind::Message | Kind::Reasoning => Stage::Added,
            Kind::Function | Kind::Custom => Stage::Growing,
        };
        Ok(Self { id, kind, said: String::new(), stage, done: Value::Null })
    }

    fn take(&mut self, name: &str, data: &Value) -> Result<(), String> {
        use Stage::{Added, Done, Growing, PartDone, Said};
        if name == "response.output_item.done" {
            let ready = match self.kind {
                Kind::Message | Kind::Reasoning => PartDone,
                Kind::Function | Kind::Custom => Said,
            };
            rule!(self.stage == ready, "an item is done too early: {:?}", self.stage);
            self.check(&data["item"])?;
            self.done = data["item"].clone();
            self.stage = Done;
            return Ok(());
        }
        rule!(data["item_id"] == self.id, "{name} of another item");
        let step = self.kind.prefixes().iter().find_map(|prefix| name.strip_prefix(prefix));
        let step = step.ok_or_else(|| format!("{name} of an item of another kind"))?;
        let field = self.kind.field();
        self.stage = match (self.stage, step) {
            (Added, "_part.added") => {
                rule!(data["part"]["text"] == "", "a part that is not empty");
                Growing
            }
            (Growing, "_text.delta" | ".delta") => {
                let delta = text(data, "delta")?;
                rule!(!delta.is_empty(), "a delta of nothing");
                self.said.push_str(delta);
                Growing
            }
            (Growing, "_text.done" | ".done") => {
                rule!(text(data, field)? == self.said, "{name} says something else");
                Said
            }
            (Said, "_part.done") => {
                rule!(text(&data["part"], "text")? == self.said, "{name} says something else");
                PartDone
            }
            (stage, _) => return Err(format!("{name} when it is {stage:?}")),
        };
        Ok(())
    }

    fn is_speaking(&self) -> bool {
        matches!(self.kind, Kind::Message | Kind::Reasoning) && self.stage != Stage::Done
    }

    /// The finished item says what its deltas said.
    fn check(&self, item: &Value) -> Result<(), String> {
        rule!(item["id"] == self.id, "another item is done");
        let said = match self.kind {
            Kind::Message => &item["content"][0]["text"],
            Kind::Reasoning => &item["summary"][0]["text"],
            Kind::Function => &item["arguments"],
            Kind::Custom => &item["input"],
        };
        rule!(*said == self.said, "the item says something else: {item}");
        if self.kind == Kind::Reasoning {
            let fields = ["type", "id", "summary", "encrypted_content"];
            rule!(has_only(item, &fields), "odd reasoning: {item}");
        } else {
            let status = item["status"].as_str().unwrap_or_default();
            rule!(matches!(status, "completed" | "incomplete"), "odd status: {item}");
        }
        Ok(())
    }
}

impl Kind {
    /// What the names of its events begin with.
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Message => &["response.content", "response.output"],
            Self::Reasoning => &["response.reasoning_summary"],
            Self::Function => &["response.function_call_arguments"],
            Self::Custom => &["response.custom_tool_call_input"],
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Message | Self::Reasoning => "text",
            Self::Function => "arguments",
            Self::Custom => "input",
        }
    }
}
