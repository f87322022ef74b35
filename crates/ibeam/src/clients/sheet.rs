//! What the plans of several clients have in common: a file of settings that is read,
//! edited and becomes a change, and the models in the order in which a list should have them.

use std::{fmt::Display, path::PathBuf};

use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::{
    Change, Machine, Offered, Unfit, Wiring,
    edit::{Refused, json, yaml},
};

/// A text that can be edited.
pub(super) trait Format: Display + Sized {
    fn parse(text: &str) -> Result<Self, Refused>;
    fn get(&self, path: &[&str]) -> Option<Value>;
    fn set(&mut self, path: &[&str], value: &Value) -> Result<(), Refused>;
    fn push(&mut self, path: &[&str], value: &Value) -> Result<(), Refused>;
}

impl Format for json::Document {
    fn parse(text: &str) -> Result<Self, Refused> {
        Self::parse(text)
    }

    fn get(&self, path: &[&str]) -> Option<Value> {
        self.get(path)
    }

    fn set(&mut self, path: &[&str], value: &Value) -> Result<(), Refused> {
        self.set(path, value)
    }

    fn push(&mut self, path: &[&str], value: &Value) -> Result<(), Refused> {
        self.push_unique(path, value)
    }
}

impl Format for yaml::Document {
    fn parse(text: &str) -> Result<Self, Refused> {
        Self::parse(text)
    }

    fn get(&self, path: &[&str]) -> Option<Value> {
        self.get(path)
    }

    fn set(&mut self, path: &[&str], value: &Value) -> Result<(), Refused> {
        self.set(path, value)
    }

    fn push(&mut self, path: &[&str], value: &Value) -> Result<(), Refused> {
        self.push_unique(path, value)
    }
}

pub(super) type Json = Sheet<json::Document>;
pub(super) type Yaml = Sheet<yaml::Document>;

/// A file of settings, while a plan edits it.
#[derive(Debug)]
pub(super) struct Sheet<D> {
    path: PathBuf,
    /// Nothing was in it, or it was not there.
    blank: bool,
    document: D,
}

impl<D: Format> Sheet<D> {
    pub(super) fn open(machine: &Machine, path: PathBuf) -> Result<Self, Unfit> {
        let text = machine.read(&path)?.unwrap_or_default();
        let document = D::parse(&text).map_err(Unfit::in_file(&path))?;
        Ok(Self { path, blank: text.trim().is_empty(), document })
    }

    /// One that is no file yet.
    pub(super) fn blank(name: &str) -> Result<Self, Unfit> {
        let path = PathBuf::from(name);
        let document = D::parse("").map_err(Unfit::in_file(&path))?;
        Ok(Self { path, blank: true, document })
    }

    pub(super) fn is_blank(&self) -> bool {
        self.blank
    }

    pub(super) fn get(&self, path: &[&str]) -> Option<Value> {
        self.document.get(path)
    }

    pub(super) fn has(&self, path: &[&str]) -> bool {
        self.document.get(path).is_some()
    }

    pub(super) fn set(&mut self, path: &[&str], value: impl Into<Value>) -> Result<(), Unfit> {
        self.document.set(path, &value.into()).map_err(Unfit::in_file(&self.path))
    }

    /// Another item of the list at a path.
    pub(super) fn push(&mut self, path: &[&str], value: impl Into<Value>) -> Result<(), Unfit> {
        self.document.push(path, &value.into()).map_err(Unfit::in_file(&self.path))
    }

    /// A setting of the user's stands where ours would.
    pub(super) fn conflict(&self, what: impl Into<String>) -> Unfit {
        Unfit::Conflict { path: self.path.clone(), what: what.into() }
    }

    /// A new file ends in a line end, as others do.
    pub(super) fn text(&self) -> String {
        let mut text = self.document.to_string();
        if self.blank && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    pub(super) fn change(self, private: bool) -> Change {
        let after = self.text();
        Change { path: self.path, after, private }
    }
}

/// Where clients of the OpenAI API call.
pub(super) fn v1(wiring: &Wiring) -> String {
    format!("{}/v1", wiring.url)
}

pub(super) fn key(wiring: &Wiring) -> &str {
    wiring.key.expose_secret()
}

/// The model that was asked for, then the others: the first of a list is often the one
/// that a client takes.
pub(super) fn models(wiring: &Wiring) -> impl Iterator<Item = &Offered> {
    let (first, rest): (Vec<_>, Vec<_>) =
        wiring.models.iter().partition(|model| model.id == wiring.model);
    first.into_iter().chain(rest)
}
