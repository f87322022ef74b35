//! How the simulated service behaves where generations of the real one differ: one typed switch
//! for each fact, and presets of all switches.

mod table;
mod values;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

pub use self::table::{Behaviour, SwitchRow};
pub(crate) use self::values::{
    AllowHeader, BlobKeyHeader, ErrorWhen, HostConfig, ListedAt, MaxRequired, McpStateAsk,
    NewlineIds, PartialCalls, RefusedCalls, RegionError, ResumeNeeds, ResumeUnknown, RootChecks,
    RootImages, RulesShown, SignedReasoning, SystemField, ToolsMode, UsableStatus,
};

/// The key of a table of changes that names the preset.
const PRESET: &str = "preset";

/// A generation of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// As observed until August 2026.
    Summer,
    /// As observed since September 2026, and strict where observations differ.
    #[default]
    Autumn,
}

/// A preset, and switches that differ from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BehaviourChanges {
    preset: Option<Preset>,
    settings: Vec<(String, String)>,
}

/// A switch that does not exist, or does not have this value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BehaviourError {
    #[error("unknown switch `{0}`; `ibeam sim --list-switches` prints all of them")]
    Unknown(String),
    #[error("`{name}` cannot be `{value}`; its values: {values}")]
    Value { name: &'static str, value: String, values: String },
    #[error("`{0}` is not of the form NAME=VALUE")]
    Form(String),
    #[error("unknown preset `{0}`; the presets are autumn and summer")]
    Preset(String),
}

impl Default for Behaviour {
    fn default() -> Self {
        Self::preset(Preset::default())
    }
}

impl Behaviour {
    /// The default with these changes; later ones win.
    #[must_use]
    pub fn with<'a>(changes: impl IntoIterator<Item = &'a BehaviourChanges> + Clone) -> Self {
        let preset = changes.clone().into_iter().filter_map(|changes| changes.preset).last();
        let mut behaviour = Self::preset(preset.unwrap_or_default());
        for (name, value) in changes.into_iter().flat_map(|changes| &changes.settings) {
            // Checked when the change was made.
            let _ = behaviour.set(name, value);
        }
        behaviour
    }

    /// Applies changes on top of these values; a preset among them is ignored.
    pub(crate) fn apply(&mut self, changes: &BehaviourChanges) {
        for (name, value) in &changes.settings {
            let _ = self.set(name, value);
        }
    }
}

impl From<Preset> for BehaviourChanges {
    fn from(preset: Preset) -> Self {
        Self { preset: Some(preset), settings: Vec::new() }
    }
}

impl BehaviourChanges {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.preset.is_none() && self.settings.is_empty()
    }

    /// These changes and one more.
    ///
    /// # Errors
    /// The switch is unknown, or the value is not one of its values.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, BehaviourError> {
        self.add(name, value)?;
        Ok(self)
    }

    /// Adds the changes of another set; they win over those of this one.
    pub fn extend(&mut self, other: Self) {
        self.preset = other.preset.or(self.preset);
        self.settings.extend(other.settings);
    }

    /// Every change as `NAME=VALUE`, which can be read again.
    pub fn words(&self) -> impl Iterator<Item = String> + '_ {
        let preset = self.preset.iter().map(|preset| format!("{PRESET}={preset}"));
        preset.chain(self.settings.iter().map(|(name, value)| format!("{name}={value}")))
    }

    pub(crate) fn names_preset(&self) -> bool {
        self.preset.is_some()
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), BehaviourError> {
        if name == PRESET {
            self.preset = Some(value.parse()?);
            return Ok(());
        }
        Behaviour::default().set(name, value)?;
        self.settings.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Reads a table; tables in it are parts of dotted names.
    fn add_table(
        &mut self,
        prefix: &str,
        table: &serde_json::Map<String, Value>,
    ) -> Result<(), BehaviourError> {
        for (key, value) in table {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                Value::Object(inner) => self.add_table(&name, inner)?,
                Value::String(text) => self.add(&name, text)?,
                Value::Bool(on) => self.add(&name, if *on { "on" } else { "off" })?,
                other => self.add(&name, &other.to_string())?,
            }
        }
        Ok(())
    }
}

/// `NAME=VALUE`.
impl FromStr for BehaviourChanges {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| BehaviourError::Form(text.to_owned()))?;
        Self::default().with(name.trim(), value.trim())
    }
}

impl<'de> Deserialize<'de> for BehaviourChanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = serde_json::Map::deserialize(deserializer)?;
        let mut changes = Self::default();
        changes.add_table("", &table).map_err(de::Error::custom)?;
        Ok(changes)
    }
}

impl FromStr for Preset {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "autumn" => Ok(Self::Autumn),
            "summer" => Ok(Self::Summer),
            _ => Err(BehaviourError::Preset(text.to_owned())),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Summer => "summer",
            Self::Autumn => "autumn",
        })
    }
}

#[cfg(test)]
#[path = "behaviour_tests.rs"]
mod tests;
