//! How the simulator behaves, besides its scenario, and how it is started. It is part of the
//! build with the feature `sim`; without it, starting one is an error.

use std::{path::Path, time::Duration};

#[cfg(feature = "sim")]
pub use ibeam_sim::Sim;
#[cfg(feature = "sim")]
use ibeam_sim::{BehaviourChanges, BehaviourError, Quirk, Scenario, ScenarioError, SimConfig};

#[cfg(not(feature = "sim"))]
pub use self::absent::NoSim as Sim;

/// Given by flags only: these are for trying things out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulator {
    /// How long a run takes before the model speaks.
    pub bootstrap: Duration,
    /// The model tries its own tools before the client's.
    pub native_tools: bool,
    /// Blobs are remembered from one stream to the next.
    pub keep_blobs: bool,
    /// Switches of its behaviour, as `NAME=VALUE`.
    pub switches: Vec<String>,
}

/// Why the simulator does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatorError {
    #[cfg(feature = "sim")]
    #[error("cannot use the scenario")]
    Scenario(#[from] ScenarioError),
    #[cfg(feature = "sim")]
    #[error("cannot use the simulator's switches")]
    Switch(#[from] BehaviourError),
    #[error("this build has no simulator: `ibeam-server` needs its feature `sim`")]
    NotBuilt,
}

impl Simulator {
    /// Starts a simulator in this process, with this scenario or the built-in assistant.
    ///
    /// # Errors
    /// The scenario cannot be used, or this build has no simulator.
    #[cfg(feature = "sim")]
    pub fn start(&self, scenario: Option<&Path>) -> Result<Sim, SimulatorError> {
        Ok(Sim::new(self.config(scenario)?))
    }

    /// Fails: this build has no simulator.
    ///
    /// # Errors
    /// Always [`SimulatorError::NotBuilt`].
    #[cfg(not(feature = "sim"))]
    pub fn start(&self, _: Option<&Path>) -> Result<Sim, SimulatorError> {
        Err(SimulatorError::NotBuilt)
    }

    /// The simulator's own settings, for this scenario or the built-in assistant.
    ///
    /// # Errors
    /// The scenario or a switch cannot be used.
    #[cfg(feature = "sim")]
    pub fn config(&self, scenario: Option<&Path>) -> Result<SimConfig, SimulatorError> {
        let scenario = scenario.map_or_else(|| Ok(Scenario::builtin()), Scenario::from_path)?;
        let mut behaviour = BehaviourChanges::default();
        for switch in &self.switches {
            behaviour.extend(switch.parse()?);
        }
        Ok(SimConfig {
            behaviour,
            bootstrap: self.bootstrap,
            keep_blobs: self.keep_blobs,
            quirks: self.native_tools.then_some(Quirk::NativeToolsFirst).into_iter().collect(),
            ..SimConfig::scenario(scenario)
        })
    }
}

#[cfg(not(feature = "sim"))]
mod absent {
    use tokio::io::DuplexStream;

    /// Stands for the simulator so that code for one compiles. It has no constructor.
    #[derive(Clone, Debug)]
    pub struct NoSim(());

    impl NoSim {
        pub const TOKEN: &str = "";

        /// A connection that is closed already.
        #[must_use]
        pub fn connect(&self) -> DuplexStream {
            tokio::io::duplex(1).0
        }
    }
}
