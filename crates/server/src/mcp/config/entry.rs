//! One server in another program's file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    ServerProgram, ServerTransport,
    expand::{Expander, VariableSyntax},
};
use crate::{config::servers::HiddenText, mcp::http::RemoteServer};

/// The program that the file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigStyle {
    OpenCode,
    Cursor,
    Claude,
}

impl ConfigStyle {
    pub(super) fn dialect(self) -> VariableSyntax {
        match self {
            Self::OpenCode => VariableSyntax::OpenCode,
            Self::Cursor => VariableSyntax::Cursor,
            Self::Claude => VariableSyntax::Shell,
        }
    }

    /// Where the servers are in the file.
    pub(super) fn sections(self) -> &'static [&'static str] {
        match self {
            Self::OpenCode => &["mcp", "mcpServers"],
            Self::Cursor | Self::Claude => &["mcpServers"],
        }
    }
}

/// Reads one server. None: it is switched off.
///
/// # Errors
/// Says what is wrong with it, and where.
pub(super) fn read(
    style: ConfigStyle,
    value: &Value,
    expander: &Expander<'_>,
) -> Result<Option<ServerTransport>, String> {
    let table = value.as_object().ok_or("is not an object")?;
    let is = |key: &str, wanted: bool| table.get(key).and_then(Value::as_bool) == Some(wanted);
    if is("enabled", false) || is("disabled", true) {
        return Ok(None);
    }
    let kind = table.get("type").and_then(Value::as_str).unwrap_or_default();
    if let Some(url) = table.get("url").or_else(|| table.get("serverUrl")) {
        let url = expander.text(url.as_str().ok_or("url: is not a string")?)?;
        let headers = texts(table.get("headers"), "headers", expander)?;
        return RemoteServer::new(&url, headers.into_iter().collect(), kind == "sse")
            .map(|remote| Some(ServerTransport::Http(remote)));
    }
    let mut line = match table.get("command") {
        Some(Value::String(command)) => vec![expander.text(command)?],
        // OpenCode's has its arguments in it.
        Some(Value::Array(line)) => list(line, "command", expander)?,
        Some(_) => return Err("command: is neither text nor a list".to_owned()),
        None => return Err("has neither `command` nor `url`".to_owned()),
    };
    match table.get("args") {
        Some(Value::Array(args)) => line.extend(list(args, "args", expander)?),
        Some(_) => return Err("args: is not a list".to_owned()),
        None => {}
    }
    let key = if style == ConfigStyle::OpenCode && table.contains_key("environment") {
        "environment"
    } else {
        "env"
    };
    let env = texts(table.get(key), key, expander)?;
    let cwd = table.get("cwd").and_then(Value::as_str).map(|cwd| expander.text(cwd)).transpose()?;
    if line.first().is_none_or(String::is_empty) {
        return Err("command: is empty".to_owned());
    }
    let command = line.remove(0);
    Ok(Some(ServerTransport::Stdio(ServerProgram {
        command,
        args: line,
        env,
        cwd: cwd.map(Into::into),
    })))
}

fn list(items: &[Value], key: &str, expander: &Expander<'_>) -> Result<Vec<String>, String> {
    let item = |(at, item): (usize, &Value)| match item.as_str() {
        Some(text) => expander.text(text).map_err(|why| format!("{key}[{at}]: {why}")),
        None => Err(format!("{key}[{at}]: is not a string")),
    };
    items.iter().enumerate().map(item).collect()
}

fn texts(
    value: Option<&Value>,
    key: &str,
    expander: &Expander<'_>,
) -> Result<BTreeMap<String, HiddenText>, String> {
    let Some(value) = value else { return Ok(BTreeMap::new()) };
    let table = value.as_object().ok_or_else(|| format!("{key}: is not an object"))?;
    let item = |(name, value): (&String, &Value)| {
        // Numbers and switches are what people mean by their text.
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(on) => on.to_string(),
            _ => return Err(format!("{key}.{name}: is not a string")),
        };
        let text = expander.text(&text).map_err(|why| format!("{key}.{name}: {why}"))?;
        Ok((name.clone(), HiddenText::from(text)))
    };
    table.iter().map(item).collect()
}
