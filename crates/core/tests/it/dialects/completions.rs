//! The old Completions: text and nothing else.

use ibeam_core::wire::completions::{CompletionCollector, CompletionEncoder};
use serde_json::{Value, json};

use super::{CREATED, Dialect, Ending, chat, has_only, json, rule, text};
use crate::{events::Gist, sse::Frame};

const ID: &str = "cmpl-xxx";

pub(super) const COMPLETIONS: Dialect = Dialect {
    name: "completions",
    encoder: || Box::new(CompletionEncoder::new(ID, CREATED, "auto", true)),
    collector: || Box::new(CompletionCollector::new(ID.to_owned(), CREATED, "auto".to_owned())),
    reader: read,
    gist: |reply| Gist {
        text: reply["choices"][0]["text"].as_str().unwrap_or_default().to_owned(),
        ..Gist::default()
    },
    can_tell: |gist| Gist { text: gist.text, ..Gist::default() },
    tells: chat::is_error,
};

fn read(frames: &[Frame]) -> Result<Ending, String> {
    let mut said = String::new();
    let mut finish = Value::Null;
    let mut usage = None;
    let mut frames = frames.iter();
    while let Some(frame) = frames.next() {
        rule!(frame.event.is_none(), "chunks have no names");
        if frame.data == "[DONE]" {
            rule!(frames.next().is_none(), "something follows [DONE]");
            rule!(!finish.is_null(), "[DONE] without `finish_reason`");
            let mut reply = json!({
                "id": ID,
                "object": "text_completion",
                "created": CREATED,
                "model": "auto",
                "choices": [{"text": said, "index": 0, "logprobs": null, "finish_reason": finish}],
            });
            if let Some(usage) = usage {
                reply["usage"] = usage;
            }
            return Ok(Ending::Whole(reply));
        }
        let chunk = json(frame)?;
        if let Some(error) = chunk.get("error") {
            rule!(finish.is_null(), "an error after `finish_reason`");
            rule!(frames.next().is_none(), "something follows the error");
            return Ok(Ending::Failed(error.clone()));
        }
        rule!(chunk["object"] == "text_completion" && chunk["id"] == ID, "not a chunk: {chunk}");
        rule!(usage.is_none(), "a chunk after the usage");
        if let Some(given) = chunk.get("usage") {
            rule!(chunk["choices"] == json!([]), "usage beside a choice");
            rule!(!finish.is_null(), "usage before `finish_reason`");
            usage = Some(given.clone());
            continue;
        }
        let choice = &chunk["choices"][0];
        let fields = ["text", "index", "logprobs", "finish_reason"];
        rule!(has_only(choice, &fields), "odd choice: {choice}");
        rule!(finish.is_null(), "text after `finish_reason`");
        said.push_str(text(choice, "text")?);
        finish = choice["finish_reason"].clone();
    }
    Err("no ending".to_owned())
}
