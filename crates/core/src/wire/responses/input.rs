//! The items of a request's input, in order, to system texts and items of the
//! conversation.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    parts,
    token::TokenKind,
    tools::{Catalogue, ToolOffer},
};
use crate::{
    error::TurnError,
    model::{Item, Message, Part, Reasoning, Role, ToolCall, ToolResult},
    wire::{
        freeform,
        json::{brief, invalid, parse_at},
        lenient::{MaybeText, Object},
        scan::DeferredJson,
        surrogates::replace_lone_in,
    },
};

/// An item as it is written. What its fields hold is only looked at once its type is
/// known: nothing that an unknown item brings can fail a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireItem<'a> {
    r#type: Option<MaybeText>,
    id: Option<MaybeText>,
    role: Option<MaybeText>,
    call_id: Option<MaybeText>,
    name: Option<MaybeText>,
    namespace: Option<MaybeText>,
    encrypted_content: Option<MaybeText>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    action: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// What the items come to.
#[derive(Debug, Default)]
pub(super) struct ResponsesConversation {
    pub(super) system: Vec<String>,
    pub(super) items: Vec<Item>,
    /// Items that the input only names.
    pub(super) references: Vec<Reference>,
    /// Kinds of items that were skipped.
    pub(super) ignored: Vec<&'static str>,
    /// The arguments of the calls that are strings.
    arguments: DeferredJson,
}

/// A name in the place of an item.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) id: String,
    /// Its place in the input.
    pub(super) index: usize,
    /// How many items of the conversation come before it.
    pub(super) before: usize,
}

// === impl WireItem ===

impl<'a> WireItem<'a> {
    pub(super) fn read(raw: &'a RawValue, path: &str) -> Result<Self, TurnError> {
        parse_at::<Object<Self>>(raw, path).map(|Object(item)| item)
    }

    /// The type of the item. Messages and references may come without one.
    pub(super) fn kind(&self) -> Option<&str> {
        self.written_kind().or_else(|| match (self.role(), self.id()) {
            (Some(_), _) => Some("message"),
            (None, Some(_)) => Some("item_reference"),
            (None, None) => None,
        })
    }

    pub(super) fn written_kind(&self) -> Option<&str> {
        text(self.r#type.as_ref())
    }

    /// The tools that the item adds to those of its request.
    pub(super) fn tools(&self, path: &str) -> Result<Vec<&'a RawValue>, TurnError> {
        match (self.kind(), self.tools) {
            (Some("additional_tools" | "tool_search_output"), Some(tools)) => {
                parse_at(tools, &format!("{path}.tools"))
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(super) fn id(&self) -> Option<&str> {
        text(self.id.as_ref())
    }

    pub(super) fn role(&self) -> Option<&str> {
        text(self.role.as_ref())
    }

    /// The id of a call. Some clients only keep the item's.
    fn call_id(&self, path: &str) -> Result<String, TurnError> {
        text(self.call_id.as_ref()).or_else(|| self.id()).map(str::to_owned).ok_or_else(|| {
            invalid(format!("{path}.call_id"), "a call and its output need the `call_id`")
        })
    }

    fn tool(&self, catalogue: &Catalogue, path: &str) -> Result<String, TurnError> {
        let Some(name) = text(self.name.as_ref()) else {
            return Err(invalid(format!("{path}.name"), "a call needs the `name` of its tool"));
        };
        Ok(catalogue.backend_name(text(self.namespace.as_ref()), name))
    }
}

fn text(field: Option<&MaybeText>) -> Option<&str> {
    field.and_then(|MaybeText(text)| text.as_deref()).filter(|text| !text.is_empty())
}

// === impl Conversation ===

impl ResponsesConversation {
    /// Whether there are no messages.
    pub(super) fn is_empty(&self) -> bool {
        self.system.is_empty() && self.items.is_empty() && self.references.is_empty()
    }

    pub(super) fn say(&mut self, text: String) {
        self.message(Role::User, vec![Part::Text(text)]);
    }

    /// Adds the item at `path`, which is the one at `index` of its list.
    pub(super) fn push(
        &mut self,
        item: &WireItem<'_>,
        index: usize,
        path: &str,
        catalogue: &Catalogue,
    ) -> Result<(), TurnError> {
        match item.kind() {
            Some("message") => self.push_message(item, path)?,
            Some("function_call") => {
                let id = item.call_id(path)?;
                let name = item.tool(catalogue, path)?;
                let arguments = self.arguments(item.arguments, path)?;
                self.items.push(Item::ToolCall(ToolCall { id, name, arguments }));
            }
            Some("custom_tool_call") => {
                let id = item.call_id(path)?;
                let name = item.tool(catalogue, path)?;
                let input = json_text(item.input).unwrap_or_default();
                let arguments = freeform::arguments(&input);
                self.items.push(Item::ToolCall(ToolCall { id, name, arguments }));
            }
            Some("tool_search_call") => {
                let id = item.call_id(path)?;
                let name = catalogue.backend_name(None, "tool_search");
                let arguments = self.arguments(item.arguments, path)?;
                self.items.push(Item::ToolCall(ToolCall { id, name, arguments }));
            }
            Some("tool_search_output") => {
                let call_id = item.call_id(path)?;
                let found = found_tools(&item.tools(path)?, path, catalogue)?;
                let content = vec![Part::Text(found)];
                self.items.push(Item::ToolResult(ToolResult { call_id, content, is_error: false }));
            }
            Some("local_shell_call") => {
                let id = item.call_id(path)?;
                let arguments = item.action.map_or("{}", RawValue::get).to_owned();
                let name = "local_shell".to_owned();
                self.items.push(Item::ToolCall(ToolCall { id, name, arguments }));
            }
            Some(
                "function_call_output" | "custom_tool_call_output" | "local_shell_call_output",
            ) => {
                let call_id = item.call_id(path)?;
                let content = output(item.output, path)?;
                self.items.push(Item::ToolResult(ToolResult { call_id, content, is_error: false }));
            }
            Some("reasoning") => self.push_reasoning(item, path)?,
            Some("compaction" | "compaction_summary" | "context_compaction") => {
                match text(item.encrypted_content.as_ref()).and_then(|t| TokenKind::Summary.open(t))
                {
                    Some(summary) => self.say(format!("{SUMMARY}{summary}")),
                    None => self.skip("input.compaction"),
                }
            }
            // Its tools are taken in before the conversation, which may name them.
            Some("additional_tools") => {}
            Some("item_reference") => self.refer(item, index, path)?,
            Some("web_search_call") => self.skip("input.web_search_call"),
            Some(_) | None => self.skip("input.type"),
        }
        Ok(())
    }

    fn push_message(&mut self, item: &WireItem<'_>, path: &str) -> Result<(), TurnError> {
        let path_of_content = format!("{path}.content");
        let mut pieces = match item.content {
            Some(content) => parts::read(content, &path_of_content)?,
            None => Vec::new(),
        };
        match item.role() {
            Some("system" | "developer") => {
                let mut texts = Vec::with_capacity(pieces.len());
                for piece in pieces {
                    match piece {
                        Part::Text(text) => texts.push(text),
                        Part::Image(_) => return Err(misplaced_image(path_of_content)),
                    }
                }
                let text = texts.join("\n");
                if !text.is_empty() {
                    self.system.push(text);
                }
            }
            Some("user") => {
                if item.content.is_none() {
                    let text = "a user message needs `content`";
                    return Err(invalid(path_of_content, text));
                }
                self.message(Role::User, pieces);
            }
            Some("assistant") => {
                if pieces.iter().any(|piece| matches!(piece, Part::Image(_))) {
                    return Err(misplaced_image(path_of_content));
                }
                pieces.retain(|piece| !matches!(piece, Part::Text(text) if text.is_empty()));
                if !pieces.is_empty() {
                    self.message(Role::Assistant, pieces);
                }
            }
            Some(other) => {
                return Err(invalid(
                    format!("{path}.role"),
                    format!(
                        "unknown role `{}`; use system, developer, user or assistant",
                        brief(other)
                    ),
                ));
            }
            None => {
                let text = "every message needs a `role`";
                return Err(invalid(format!("{path}.role"), text));
            }
        }
        Ok(())
    }

    /// The text of our own token is complete; the summary and the content are what clients
    /// keep of it in clear. A token of another server is ignored.
    fn push_reasoning(&mut self, item: &WireItem<'_>, path: &str) -> Result<(), TurnError> {
        let kept = text(item.encrypted_content.as_ref());
        let thought = match kept.and_then(|token| TokenKind::Reasoning.open(token)) {
            Some(thought) => thought,
            None => {
                let summary = thoughts(item.summary, &format!("{path}.summary"))?;
                if summary.is_empty() {
                    thoughts(item.content, &format!("{path}.content"))?
                } else {
                    summary
                }
            }
        };
        if !thought.is_empty() {
            self.items.push(Item::Reasoning(Reasoning { text: thought }));
        }
        Ok(())
    }

    fn refer(&mut self, item: &WireItem<'_>, index: usize, path: &str) -> Result<(), TurnError> {
        let Some(id) = item.id() else {
            let text = "a reference needs the `id` of an item";
            return Err(invalid(format!("{path}.id"), text));
        };
        let before = self.items.len();
        self.references.push(Reference { id: id.to_owned(), index, before });
        Ok(())
    }

    /// The arguments of a call: JSON, or a string of it.
    fn arguments(&mut self, raw: Option<&RawValue>, path: &str) -> Result<String, TurnError> {
        let text = json_text(raw).map_or_else(|| "{}".to_owned(), replace_lone_in);
        if raw.is_some_and(|raw| raw.get().starts_with('"')) {
            self.arguments.add(&text, &format!("{path}.arguments"))?;
        }
        Ok(text)
    }

    fn message(&mut self, role: Role, parts: Vec<Part>) {
        self.items.push(Item::Message(Message { role, parts }));
    }

    fn skip(&mut self, kind: &'static str) {
        if !self.ignored.contains(&kind) {
            self.ignored.push(kind);
        }
    }
}

/// What stands before a summary that takes the place of the conversation.
const SUMMARY: &str = "Summary of the conversation so far:\n\n";

/// A string's value; the JSON itself of anything else.
fn json_text(raw: Option<&RawValue>) -> Option<String> {
    let raw = raw?.get();
    Some(serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned()))
}

/// What a tool gave back: a string, a list of parts, or any other JSON as it is.
fn output(raw: Option<&RawValue>, path: &str) -> Result<Vec<Part>, TurnError> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    if !raw.get().starts_with(['"', '[']) {
        return Ok(vec![Part::Text(raw.get().to_owned())]);
    }
    parts::read(raw, &format!("{path}.output"))
}

/// What a search for tools gave, under the names that the backend knows them by: they are
/// on offer by now.
fn found_tools(
    given: &[&RawValue],
    path: &str,
    catalogue: &Catalogue,
) -> Result<String, TurnError> {
    let mut found = ToolOffer::default();
    found.extend(given, &format!("{path}.tools"))?;
    let mut text = "No tools were found.".to_owned();
    if !found.tools.is_empty() {
        "These tools can be called now:".clone_into(&mut text);
    }
    for (entry, tool) in found.catalogue.entries().iter().zip(&found.tools) {
        let name = catalogue.backend_name(entry.namespace.as_deref(), &entry.name);
        text.push_str("\n- ");
        text.push_str(&name);
        if let Some(line) = tool.description.lines().next() {
            text.push_str(": ");
            text.push_str(line);
        }
    }
    Ok(text)
}

fn thoughts(raw: Option<&RawValue>, path: &str) -> Result<String, TurnError> {
    let Some(raw) = raw else { return Ok(String::new()) };
    let parts = parts::read(raw, path)?;
    Ok(parts.iter().filter_map(Part::text).collect::<Vec<_>>().join("\n\n"))
}

fn misplaced_image(param: String) -> TurnError {
    invalid(param, "images belong in user messages and tool outputs only")
}
