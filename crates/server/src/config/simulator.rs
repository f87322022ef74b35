//! How the simulator behaves, besides its scenario.

use std::{path::Path, time::Duration};

use ibeam_sim::{Quirk, Scenario, ScenarioError, SimConfig};

/// Given by flags only: these are for trying things out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Simulator {
    /// How long a run takes before the model speaks.
    pub bootstrap: Duration,
    /// The model tries its own tools before the client's.
    pub native_tools: bool,
    /// Blobs are remembered from one stream to the next.
    pub keep_blobs: bool,
}

impl Simulator {
    /// The simulator's own settings, for this scenario or the built-in assistant.
    ///
    /// # Errors
    /// The scenario cannot be used.
    pub fn config(&self, scenario: Option<&Path>) -> Result<SimConfig, ScenarioError> {
        let scenario = scenario.map_or_else(|| Ok(Scenario::builtin()), Scenario::from_path)?;
        Ok(SimConfig {
            bootstrap: self.bootstrap,
            keep_blobs: self.keep_blobs,
            quirks: self.native_tools.then_some(Quirk::NativeToolsFirst).into_iter().collect(),
            ..SimConfig::scenario(scenario)
        })
    }
}
