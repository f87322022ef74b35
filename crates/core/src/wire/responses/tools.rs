//! The tools of a request. The backend knows functions only, under one flat set of names:
//! a freeform tool becomes a function of one string, the tools of a namespace get names of
//! their own, and tools that OpenAI's servers would run are left out. Codex sends its tools
//! in `tools` or, for newer models, in an item of the input.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::types::to_raw;
use crate::{
    error::TurnError,
    model,
    wire::{
        freeform,
        json::{check_tools, invalid, parse_at, required},
        lenient::{MaybeText, Object},
    },
};

/// How many levels of namespaces there may be; clients have one.
const DEPTH: usize = 4;

/// The error of a tool without a name.
const NAMELESS: &str = "a tool needs a `name`";

/// The namespace that tools outside of all others are in. It is never written.
const DEFAULT_NAMESPACE: &str = "functions";

/// Which tools were offered, and what they are called on either side.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue {
    entries: Vec<CatalogueEntry>,
    /// The places of the entries, by the backend's names.
    places: HashMap<String, usize>,
    /// And by the client's. Looked up for each tool of a request, each name in its choice and each
    /// call in its history.
    by_name: HashMap<String, Namesakes>,
}

/// The places of the entries that have one name for the client, each in another namespace.
#[derive(Clone, Debug, Default)]
struct Namesakes {
    /// Outside of all namespaces.
    outside: Option<usize>,
    in_namespace: HashMap<String, usize>,
    /// The one that was offered first.
    first: usize,
}

#[derive(Clone, Debug)]
pub(super) struct CatalogueEntry {
    /// The backend's name for it.
    pub(super) offered: String,
    /// The client's.
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) form: CallForm,
}

/// How the client wants a tool to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallForm {
    Function,
    /// With raw text, not JSON.
    Freeform,
    /// Codex's search for tools that it has not offered yet.
    Search,
}

/// What the `tools` of a request come to.
#[derive(Debug, Default)]
pub(super) struct ToolOffer {
    pub(super) catalogue: Catalogue,
    pub(super) tools: Vec<model::Tool>,
    /// Kinds of tools that were left out.
    pub(super) ignored: Vec<&'static str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponsesTool<'a> {
    r#type: Option<MaybeText>,
    name: Option<String>,
    description: Option<String>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    strict: Option<bool>,
    execution: Option<MaybeText>,
    #[serde(borrow)]
    format: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GrammarField {
    r#type: Option<String>,
    syntax: Option<String>,
    definition: Option<String>,
}

/// A function as the response repeats it: every field is there.
#[derive(Serialize)]
struct FunctionEcho<'a> {
    r#type: &'static str,
    name: &'a str,
    description: Option<&'a str>,
    parameters: Option<&'a RawValue>,
    strict: bool,
}

/// A freeform tool as the response repeats it.
#[derive(Serialize)]
struct FreeformEcho<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    format: FormatEcho<'a>,
}

/// What was given, or the default.
#[derive(Serialize)]
#[serde(untagged)]
enum FormatEcho<'a> {
    Given(&'a RawValue),
    Plain { r#type: &'static str },
}

impl ResponsesTool<'_> {
    /// Whether the client runs it, and no server of OpenAI's.
    fn is_clients(&self) -> bool {
        let place = self.execution.as_ref().and_then(|MaybeText(place)| place.as_deref());
        place == Some("client")
    }
}

// === impl Catalogue ===

impl Catalogue {
    /// The tool that the backend calls by this name.
    pub(super) fn offered(&self, name: &str) -> Option<&CatalogueEntry> {
        self.places.get(name).and_then(|place| self.entries.get(*place))
    }

    /// The tool that the client calls so. Without a namespace it may be in any, unless one
    /// outside of all has that name.
    pub(super) fn named(&self, namespace: Option<&str>, name: &str) -> Option<&CatalogueEntry> {
        let namesakes = self.by_name.get(name)?;
        let place = match written(namespace) {
            Some(namespace) => namesakes.in_namespace.get(namespace).copied()?,
            None => namesakes.outside.unwrap_or(namesakes.first),
        };
        self.entries.get(place)
    }

    /// The backend's name for a tool in a history, which need not be on offer any more.
    pub(super) fn backend_name(&self, namespace: Option<&str>, name: &str) -> String {
        match self.named(namespace, name) {
            Some(entry) => entry.offered.clone(),
            None => flat(written(namespace), name),
        }
    }

    pub(super) fn entries(&self) -> &[CatalogueEntry] {
        &self.entries
    }

    pub(super) fn push(&mut self, entry: CatalogueEntry) {
        let place = self.entries.len();
        self.places.insert(entry.offered.clone(), place);
        let new = || Namesakes { first: place, ..Namesakes::default() };
        let namesakes = self.by_name.entry(entry.name.clone()).or_insert_with(new);
        match &entry.namespace {
            Some(namespace) => {
                namesakes.in_namespace.insert(namespace.clone(), place);
            }
            None => namesakes.outside = Some(place),
        }
        self.entries.push(entry);
    }

    fn has(&self, namespace: Option<&str>, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|namesakes| match namespace {
            Some(namespace) => namesakes.in_namespace.contains_key(namespace),
            None => namesakes.outside.is_some(),
        })
    }

    fn free_name(&self, namespace: Option<&str>, name: &str) -> String {
        let flat = flat(namespace, name);
        if self.offered(&flat).is_none() {
            return flat;
        }
        // One more number than there are names, so that one is free.
        (2..self.entries.len().saturating_add(3))
            .map(|n| format!("{flat}_{n}"))
            .find(|name| self.offered(name).is_none())
            .unwrap_or(flat)
    }
}

/// A namespace other than the default.
fn written(namespace: Option<&str>) -> Option<&str> {
    namespace.filter(|name| !name.is_empty() && *name != DEFAULT_NAMESPACE)
}

fn flat(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{}__{name}", namespace.trim_end_matches('_')),
        None => name.to_owned(),
    }
}

// === impl Offer ===

impl ToolOffer {
    /// Takes in a list of tools; gives what a response repeats of them. A tool that is known
    /// already stays as it is, so that the newest list must come first.
    pub(super) fn extend(
        &mut self,
        given: &[&RawValue],
        path: &str,
    ) -> Result<Vec<Box<RawValue>>, TurnError> {
        let each = |(index, raw): (usize, &&RawValue)| {
            self.push(raw, &format!("{path}[{index}]"), None, DEPTH)
        };
        given.iter().enumerate().map(each).collect()
    }

    /// Takes in one tool; gives what the response repeats of it.
    fn push(
        &mut self,
        raw: &RawValue,
        path: &str,
        namespace: Option<(&str, &str)>,
        depth: usize,
    ) -> Result<Box<RawValue>, TurnError> {
        let Object(tool) = parse_at::<Object<ResponsesTool<'_>>>(raw, path)?;
        let kind = tool.r#type.as_ref().and_then(|MaybeText(kind)| kind.as_deref());
        match kind {
            None | Some("function") => self.function(&tool, path, namespace),
            Some("custom") => self.freeform(&tool, path, namespace),
            Some("namespace") if depth > 0 => {
                let name = required(tool.name.as_deref(), path, "name", NAMELESS)?;
                let description = tool.description.as_deref().unwrap_or_default();
                let path = format!("{path}.tools");
                let tools = match tool.tools {
                    Some(tools) => parse_at::<Vec<&RawValue>>(tools, &path)?,
                    None => Vec::new(),
                };
                for (index, raw) in tools.into_iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.push(raw, &path, Some((name, description)), depth.saturating_sub(1))?;
                }
                Ok(raw.to_owned())
            }
            Some("tool_search") if tool.is_clients() => {
                let description = described(&tool, namespace);
                let schema = tool.parameters.map(ToOwned::to_owned);
                self.add("tool_search", None, description, schema, CallForm::Search)?;
                Ok(raw.to_owned())
            }
            // Clients offer what OpenAI's servers run by habit: leaving one out and saying
            // so is kinder than failing the whole request.
            Some(other) => {
                let name = ignored_name(other);
                if !self.ignored.contains(&name) {
                    self.ignored.push(name);
                }
                Ok(raw.to_owned())
            }
        }
    }

    fn function(
        &mut self,
        tool: &ResponsesTool<'_>,
        path: &str,
        namespace: Option<(&str, &str)>,
    ) -> Result<Box<RawValue>, TurnError> {
        let name = required(tool.name.as_deref(), path, "name", NAMELESS)?;
        if tool.parameters.is_some_and(|schema| !schema.get().starts_with('{')) {
            return Err(invalid(
                format!("{path}.parameters"),
                "the parameters of a function must be a JSON Schema object",
            ));
        }
        let description = described(tool, namespace);
        self.add(
            name,
            namespace,
            description,
            tool.parameters.map(ToOwned::to_owned),
            CallForm::Function,
        )?;
        Ok(to_raw(&FunctionEcho {
            r#type: "function",
            name,
            description: tool.description.as_deref(),
            parameters: tool.parameters,
            strict: tool.strict.unwrap_or(false),
        }))
    }

    fn freeform(
        &mut self,
        tool: &ResponsesTool<'_>,
        path: &str,
        namespace: Option<(&str, &str)>,
    ) -> Result<Box<RawValue>, TurnError> {
        let name = required(tool.name.as_deref(), path, "name", NAMELESS)?;
        let format = match tool.format {
            Some(raw) => parse_at::<Object<GrammarField>>(raw, &format!("{path}.format"))?.0,
            None => GrammarField::default(),
        };
        let form = freeform::FreeformFormat {
            kind: format.r#type.as_deref(),
            syntax: format.syntax.as_deref(),
            definition: format.definition.as_deref(),
        };
        let description = freeform::describe(described(tool, namespace), &form);
        let schema = RawValue::from_string(freeform::SCHEMA.to_owned()).ok();
        self.add(name, namespace, description, schema, CallForm::Freeform)?;
        Ok(to_raw(&FreeformEcho {
            r#type: "custom",
            name,
            description: tool.description.as_deref(),
            format: tool.format.map_or(FormatEcho::Plain { r#type: "text" }, FormatEcho::Given),
        }))
    }

    fn add(
        &mut self,
        name: &str,
        namespace: Option<(&str, &str)>,
        description: String,
        schema: Option<Box<RawValue>>,
        form: CallForm,
    ) -> Result<(), TurnError> {
        let namespace = written(namespace.map(|(name, _)| name));
        if self.catalogue.has(namespace, name) {
            return Ok(());
        }
        check_tools(self.tools.len() + 1)?;
        let offered = self.catalogue.free_name(namespace, name);
        self.tools.push(model::Tool { name: offered.clone(), description, schema });
        self.catalogue.push(CatalogueEntry {
            offered,
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            form,
        });
        Ok(())
    }
}

/// A tool that says nothing of itself is described by its namespace.
fn described(tool: &ResponsesTool<'_>, namespace: Option<(&str, &str)>) -> String {
    let own = tool.description.as_deref().filter(|text| !text.is_empty());
    own.or(namespace.map(|(_, text)| text)).unwrap_or_default().to_owned()
}

/// The name under which a kind of tool is listed as ignored.
fn ignored_name(kind: &str) -> &'static str {
    match kind {
        "web_search" | "web_search_preview" => "tools.web_search",
        "file_search" => "tools.file_search",
        "image_generation" => "tools.image_generation",
        "code_interpreter" => "tools.code_interpreter",
        "computer" | "computer_use_preview" => "tools.computer",
        "mcp" => "tools.mcp",
        "local_shell" | "shell" => "tools.shell",
        "apply_patch" => "tools.apply_patch",
        "tool_search" => "tools.tool_search",
        _ => "tools.type",
    }
}
