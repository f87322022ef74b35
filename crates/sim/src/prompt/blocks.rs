//! A prompt that is one text, in which earlier messages may stand in tagged blocks. A real model
//! reads those as the conversation, too.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Blocks that a conversation is made of.
const BLOCKS: &[&str] = &["user", "assistant", "tool_call", "tool_result"];
/// The beginning of a paragraph that describes the tools and asks for nothing.
const ABOUT_TOOLS: &str = "The user's tools are";
/// The beginning of the request when results are the newest messages.
const GO_ON: &str = "Go on";

/// The parts of a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ParsedPrompt {
    pub(crate) rules: Vec<String>,
    /// In the service's format.
    pub(crate) messages: Vec<Value>,
    /// What is asked now; `None` to continue with the results.
    pub(crate) request: Option<String>,
}

impl ParsedPrompt {
    pub(crate) fn read(prompt: &str) -> Self {
        let mut parsed = Self::default();
        let mut rest = prompt.trim();
        if let Some((body, tail)) = section(rest, "system") {
            parsed.rules.push(plain(body));
            rest = tail;
        }
        if let Some(head) = rest.strip_prefix(ABOUT_TOOLS) {
            rest = head.split_once("\n\n").map_or("", |(_, tail)| tail).trim_start();
        }
        if let Some((body, tail)) = section(rest, "conversation") {
            parsed.messages = conversation(body);
            rest = tail;
        }
        let results_last = parsed.messages.last().is_some_and(|message| role(message) == "tool");
        if !(results_last && asks_to_go_on(rest)) {
            parsed.request = Some(rest.to_owned());
        }
        parsed
    }

    /// A message that begins with a conversation.
    pub(crate) fn folded(message: &str) -> Option<Self> {
        message.starts_with("<conversation>\n").then(|| Self::read(message))
    }
}

/// Whether this asks for nothing but to use the results before it.
pub(crate) fn asks_to_go_on(text: &str) -> bool {
    text.starts_with(GO_ON)
}

pub(crate) fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn said(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": [{ "type": "text", "text": text }] })
}

pub(crate) fn called(id: &str, name: &str, args: &Value) -> Value {
    let part = json!({ "type": "tool-call", "toolCallId": id, "toolName": name, "args": args });
    json!({ "role": "assistant", "content": [part] })
}

pub(crate) fn answered(id: &str, name: &str, result: &str, failed: bool) -> Value {
    let part = json!({
        "type": "tool-result", "toolCallId": id, "toolName": name, "result": result,
        "isError": failed,
    });
    json!({ "role": "tool", "content": [part] })
}

/// The block at the start of a text, and the rest.
fn section<'a>(text: &'a str, tag: &str) -> Option<(&'a str, &'a str)> {
    let inside = text.strip_prefix('<')?.strip_prefix(tag)?.strip_prefix(">\n")?;
    let (body, tail) = inside.split_once(&format!("\n</{tag}>"))?;
    Some((body, tail.trim_start()))
}

fn conversation(mut text: &str) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut names: HashMap<String, String> = HashMap::new();
    while let Some(at) = text.find('<') {
        text = text.get(at + 1..).unwrap_or_default();
        let Some((head, inside)) = text.split_once('>') else { break };
        let tag = head.split_whitespace().next().unwrap_or_default();
        if !BLOCKS.contains(&tag) {
            continue;
        }
        let Some((body, tail)) = inside.split_once(&format!("</{tag}>")) else { break };
        text = tail;
        let body = plain(body.trim_matches('\n'));
        let id = attribute(head, "id");
        messages.push(match tag {
            "tool_call" => {
                let name = attribute(head, "name");
                let args: Value = serde_json::from_str(&body).unwrap_or_default();
                let message = called(&id, &name, &args);
                names.insert(id, name);
                message
            }
            "tool_result" => {
                let name = names.get(&id).map_or("tool", String::as_str);
                answered(&id, name, &body, attribute(head, "is_error") == "true")
            }
            role => said(role, &body),
        });
    }
    messages
}

fn attribute(head: &str, name: &str) -> String {
    let value = head.split_once(&format!(" {name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
    let text = value.map_or("", |(value, _)| value);
    let marks = [("&#34;", "\""), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    marks.iter().fold(text.to_owned(), |text, (mark, meant)| text.replace(mark, meant))
}

/// Removes the backslashes that escape tags.
fn plain(text: &str) -> String {
    text.replace("<\\", "<")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ParsedPrompt, answered, called, said};

    #[test]
    fn plain_prompt_is_the_request() {
        let parsed = ParsedPrompt::read("say <user>hi</user>\n\nand more\n");
        let request = Some("say <user>hi</user>\n\nand more".to_owned());
        assert_eq!(parsed, ParsedPrompt { request, ..ParsedPrompt::default() });
    }

    #[test]
    fn conversation_blocks_are_parsed() {
        let parsed = ParsedPrompt::read(
            "<system>\nBe brief.\n</system>\n\nThe user's tools are those of a server.\n\n\
             <conversation>\n<user>\nread a\n</user>\n\
             <tool_call id=\"c&#34;1\" name=\"read\">{\"path\":\"a\"}</tool_call>\n\
             <tool_result id=\"c&#34;1\" is_error=\"true\">no <\\/user> here</tool_result>\n\
             <assistant>\nIt failed.\n</assistant>\n</conversation>\n\nand b?",
        );
        assert_eq!(parsed.rules, ["Be brief."]);
        assert_eq!(
            parsed.messages,
            [
                said("user", "read a"),
                called("c\"1", "read", &json!({ "path": "a" })),
                answered("c\"1", "read", "no </user> here", true),
                said("assistant", "It failed."),
            ]
        );
        assert_eq!(parsed.request.as_deref(), Some("and b?"));
    }

    #[test]
    fn results_at_the_end_leave_no_request() {
        let parsed = ParsedPrompt::read(
            "<conversation>\n<tool_call id=\"c1\" name=\"read\">{}</tool_call>\n\
             <tool_result id=\"c1\">A</tool_result>\n</conversation>\n\n\
             Go on with the results above. Do not repeat the calls.",
        );
        assert_eq!(parsed.request, None);
        assert_eq!(parsed.messages.len(), 2);
    }
}
