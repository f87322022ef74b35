//! What the plans of several clients have in common: a file of settings that is read,
//! edited and becomes a change, and the models in the order in which a list should have them.

use std::path::PathBuf;

use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::{
    Change, Offered, UnfitSettings, UserMachine, Wiring,
    edit::{EditRefused, ListDocument, SettingsDocument, json, toml, yaml},
};

pub(super) type JsonSheet = SettingsSheet<json::JsonDocument>;
pub(super) type TomlSheet = SettingsSheet<toml::TomlDocument>;
pub(super) type YamlSheet = SettingsSheet<yaml::YamlDocument>;

/// A file of settings, while a plan edits it.
#[derive(Debug)]
pub(super) struct SettingsSheet<D> {
    path: PathBuf,
    /// Nothing was in it, or it was not there.
    blank: bool,
    document: D,
}

impl<D: SettingsDocument> SettingsSheet<D> {
    pub(super) fn open(machine: &UserMachine, path: PathBuf) -> Result<Self, UnfitSettings> {
        Self::parsed(machine, path, D::parse)
    }

    fn parsed(
        machine: &UserMachine,
        path: PathBuf,
        parse: fn(&str) -> Result<D, EditRefused>,
    ) -> Result<Self, UnfitSettings> {
        let text = machine.read(&path)?.unwrap_or_default();
        let document = parse(&text).map_err(UnfitSettings::in_file(&path))?;
        Ok(Self { path, blank: text.trim().is_empty(), document })
    }

    /// One without a file yet.
    pub(super) fn blank(name: &str) -> Result<Self, UnfitSettings> {
        let path = PathBuf::from(name);
        let document = D::parse("").map_err(UnfitSettings::in_file(&path))?;
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

    pub(super) fn set(
        &mut self,
        path: &[&str],
        value: impl Into<Value>,
    ) -> Result<(), UnfitSettings> {
        self.document.set(path, &value.into()).map_err(UnfitSettings::in_file(&self.path))
    }

    /// Another item of the list at a path.
    pub(super) fn push(
        &mut self,
        path: &[&str],
        value: impl Into<Value>,
    ) -> Result<(), UnfitSettings>
    where
        D: ListDocument,
    {
        self.document.push_unique(path, &value.into()).map_err(UnfitSettings::in_file(&self.path))
    }

    /// A setting of the user's stands where ours would.
    pub(super) fn conflict(&self, what: impl Into<String>) -> UnfitSettings {
        UnfitSettings::Conflict { path: self.path.clone(), what: what.into() }
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

impl JsonSheet {
    /// As [`json::JsonDocument::parse_strict`].
    pub(super) fn open_strict(machine: &UserMachine, path: PathBuf) -> Result<Self, UnfitSettings> {
        Self::parsed(machine, path, json::JsonDocument::parse_strict)
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
