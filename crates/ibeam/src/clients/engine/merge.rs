//! Takes what a setup wrote out of a file that has changed since: by lines where they are
//! apart, else by what the text means.

use std::path::Path;

use serde_json::{Map, Value};

use super::record::SetupEntry;
use crate::clients::edit::{EditRefused, KeyRemoval, SettingsDocument as _, json, toml, yaml};

/// A file after an undo.
#[derive(Debug, PartialEq)]
pub(super) struct RestoredText {
    /// None: no file.
    pub(super) text: Option<String>,
    pub(super) fate: Fate,
}

/// What became of a file between a setup and its undo.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Fate {
    /// It gets every byte back.
    #[default]
    Same,
    /// It was there before the setup, and was deleted since.
    Deleted,
    /// It was changed since: only what the setup wrote goes.
    Changed(Vec<Later>),
}

/// A setting of a changed file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Later {
    /// It goes as the setup wrote it.
    TakenOut(String),
    /// It goes, with what was changed in it since.
    TakenOutChanged(String),
    /// It stays as it was changed. What it was before the setup.
    Stays(String, Option<Value>),
}

/// `None`: what was written and what came later overlap.
pub(super) fn undone(entry: &SetupEntry, now: Option<&str>) -> Option<RestoredText> {
    let SetupEntry { path, before, after, replaced, .. } = entry;
    let (before, after) = (before.as_deref(), after.as_deref());
    let same =
        |text: Option<&str>| RestoredText { text: text.map(str::to_owned), fate: Fate::Same };
    if now == before || now == after || (replaced.is_some() && now == replaced.as_deref()) {
        return Some(same(before));
    }
    // The user deleted it.
    let Some(now) = now else {
        let fate = if before.is_some() { Fate::Deleted } else { Fate::Same };
        return Some(RestoredText { text: None, fate });
    };
    let (was, wrote) = (before.unwrap_or_default(), after.unwrap_or_default());
    let merged = texts(path, was, wrote, now)?;
    if before == Some(&*merged) {
        return Some(same(before));
    }
    // A file that was not there stays only for what others put into it.
    if before.is_none() && is_empty(path, &merged) {
        return Some(same(None));
    }
    let later = match MergeFormat::of(path) {
        MergeFormat::Json => later::<json::JsonDocument>(was, wrote, now, &merged),
        MergeFormat::Toml => later::<toml::TomlDocument>(was, wrote, now, &merged),
        MergeFormat::Yaml | MergeFormat::Other => None,
    };
    Some(RestoredText { text: Some(merged), fate: Fate::Changed(later.unwrap_or_default()) })
}

/// What became of each setting that the setup wrote.
fn later<D: KeyRemoval>(before: &str, after: &str, now: &str, left: &str) -> Option<Vec<Later>> {
    let root = |text: &str| Some(D::parse(text).ok()?.get(&[]).unwrap_or(Value::Null));
    let mut found = Vec::new();
    let values = [root(before)?, root(now)?, root(left)?];
    let [before, now, left] = values.each_ref().map(Some);
    compare(&mut Vec::new(), &root(after)?, before, now, left, &mut found);
    Some(found)
}

fn compare(
    path: &mut Vec<String>,
    wrote: &Value,
    was: Option<&Value>,
    is: Option<&Value>,
    left: Option<&Value>,
    found: &mut Vec<Later>,
) {
    if was == Some(wrote) {
        return;
    }
    let name = || path.join(".");
    if let (Some(Value::Object(_)), Value::Object(wrote)) = (left, wrote)
        && is.is_some_and(Value::is_object)
    {
        for (key, wrote) in wrote {
            let [was, is, left] = [was, is, left].map(|value| value.and_then(|it| it.get(key)));
            path.push(key.clone());
            compare(path, wrote, was, is, left, found);
            path.pop();
        }
    } else if is == Some(wrote) || (is != left && left != was) {
        found.push(Later::TakenOut(name()));
    } else if is == left && is != was {
        found.push(Later::Stays(name(), was.cloned()));
    } else if is != left {
        found.push(Later::TakenOutChanged(name()));
    }
}

fn texts(path: &Path, before: &str, after: &str, now: &str) -> Option<String> {
    let meant = match MergeFormat::of(path) {
        MergeFormat::Json => by_meaning::<json::JsonDocument>(before, after, now),
        MergeFormat::Toml => by_meaning::<toml::TomlDocument>(before, after, now),
        MergeFormat::Yaml | MergeFormat::Other => None,
    };
    match diffy::merge(after, before, now) {
        // Lines may fit and yet be invalid together.
        Ok(text) if is_right(path, &text, meant.as_deref()) => Some(text),
        _ => meant,
    }
}

/// Whether a text is well-formed, and means what is meant.
fn is_right(path: &Path, text: &str, meant: Option<&str>) -> bool {
    match (MergeFormat::of(path), meant) {
        (MergeFormat::Json, Some(meant)) => same::<json::JsonDocument>(text, meant),
        (MergeFormat::Toml, Some(meant)) => same::<toml::TomlDocument>(text, meant),
        // It was malformed before the undo, too.
        (MergeFormat::Json | MergeFormat::Toml, None) => true,
        (MergeFormat::Yaml, _) => yaml::YamlDocument::parse(text).is_ok(),
        (MergeFormat::Other, _) => true,
    }
}

fn same<D: KeyRemoval>(a: &str, b: &str) -> bool {
    match (D::parse(a), D::parse(b)) {
        (Ok(a), Ok(b)) => a.get(&[]) == b.get(&[]),
        _ => false,
    }
}

fn is_empty(path: &Path, text: &str) -> bool {
    let empty =
        |value: Option<Value>| value.is_none_or(|v| v.as_object().is_some_and(Map::is_empty));
    text.trim().is_empty()
        || match MergeFormat::of(path) {
            MergeFormat::Json => json::JsonDocument::parse(text).is_ok_and(|d| empty(d.get(&[]))),
            MergeFormat::Toml => toml::TomlDocument::parse(text).is_ok_and(|d| empty(d.get(&[]))),
            MergeFormat::Yaml | MergeFormat::Other => false,
        }
}

#[derive(Clone, Copy)]
enum MergeFormat {
    Json,
    Toml,
    Yaml,
    Other,
}

impl MergeFormat {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json" | "jsonc") => Self::Json,
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Other,
        }
    }
}

/// Every key that the setup wrote and that still is as it wrote it goes back to what it
/// was. The others were changed since, and stay.
fn by_meaning<D: KeyRemoval>(before: &str, after: &str, now: &str) -> Option<String> {
    let root = |text: &str| Some(D::parse(text).ok()?.get(&[]).unwrap_or(Value::Null));
    let (before, after) = (root(before)?, root(after)?);
    let mut document = D::parse(now).ok()?;
    take_out(&mut document, &mut Vec::new(), &before, &after).ok()?;
    Some(document.to_string())
}

fn take_out<D: KeyRemoval>(
    document: &mut D,
    path: &mut Vec<String>,
    before: &Value,
    after: &Value,
) -> Result<(), EditRefused> {
    let none = Map::new();
    let (before, after) = (before.as_object().unwrap_or(&none), after.as_object().unwrap_or(&none));
    for (key, wrote) in after {
        let was = before.get(key);
        if was == Some(wrote) {
            continue;
        }
        path.push(key.clone());
        let at: Vec<&str> = path.iter().map(String::as_str).collect();
        let is = document.get(&at);
        match (was, &is) {
            (None, Some(is)) if is == wrote => document.remove(&at),
            (Some(was), Some(is)) if is == wrote => document.set(&at, was)?,
            (None, Some(Value::Object(is))) if path.len() > 1 && adds_nothing(is, wrote) => {
                document.remove(&at);
            }
            (_, Some(Value::Object(_))) if wrote.is_object() => {
                take_out(document, path, was.unwrap_or(&Value::Null), wrote)?;
                let at: Vec<&str> = path.iter().map(String::as_str).collect();
                let left = document.get(&at);
                if was.is_none() && left.is_some_and(|v| v.as_object().is_some_and(Map::is_empty)) {
                    document.remove(&at);
                }
            }
            (_, Some(Value::Array(items))) if wrote.is_array() => {
                let had = |list: Option<&Value>, item: &Value| {
                    list.and_then(Value::as_array).is_some_and(|list| list.contains(item))
                };
                let ours = |item: &&Value| had(Some(wrote), item) && !had(was, item);
                let left: Vec<Value> = items.iter().filter(|item| !ours(item)).cloned().collect();
                if left.is_empty() && was.is_none() {
                    document.remove(&at);
                } else {
                    document.set(&at, &Value::Array(left))?;
                }
            }
            (_, Some(_) | None) => {}
        }
        path.pop();
    }
    Ok(())
}

/// An entry that the setup made and that has no keys besides its own goes as a whole: a client could
/// not read a part of it. Some clients renew a date in each.
fn adds_nothing(is: &Map<String, Value>, wrote: &Value) -> bool {
    wrote.as_object().is_some_and(|wrote| is.keys().all(|key| wrote.contains_key(key)))
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
