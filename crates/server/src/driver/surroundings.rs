//! What the model gets besides the conversation, made once for all turns of a client.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use ibeam_core::{
    model::{AgentMode, ToolChoice, TurnRequest},
    peer::agent::{Environment, ModelMemory, Permissions, Surroundings},
};
use parking_lot::Mutex;

/// From this many entries on, those that are no longer in use are removed.
const TIDY_AT: usize = 64;

/// Shares surroundings among turns, for as long as a turn has them.
#[derive(Debug)]
pub(super) struct SurroundingsCache {
    environment: Environment,
    permissions: Permissions,
    native: bool,
    /// What was learned about models.
    models: Arc<ModelMemory>,
    made: Mutex<HashMap<SurroundingsKey, Weak<Surroundings>>>,
}

/// What they depend on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SurroundingsKey {
    setup: [u8; 32],
    choice: ToolChoice,
    /// Then the last instruction is the question.
    only_instructions: bool,
    mode: Option<AgentMode>,
}

impl SurroundingsCache {
    pub(super) fn new(environment: Environment, permissions: Permissions, native: bool) -> Self {
        let models = Arc::default();
        Self { environment, permissions, native, models, made: Mutex::default() }
    }

    pub(super) fn models(&self) -> Arc<ModelMemory> {
        Arc::clone(&self.models)
    }

    /// `setup`: the hash of the request's prompt and tools.
    pub(super) fn of(&self, request: &TurnRequest, setup: &[u8; 32]) -> Arc<Surroundings> {
        let kind = SurroundingsKey {
            setup: *setup,
            choice: request.tool_choice.clone(),
            only_instructions: request.items.is_empty(),
            mode: request.hints.modes.mode,
        };
        if let Some(made) = self.made.lock().get(&kind).and_then(Weak::upgrade) {
            return made;
        }
        let new = Surroundings::new(request, &self.environment, self.permissions, self.native);
        let new = Arc::new(new);
        let mut made = self.made.lock();
        if made.len() >= TIDY_AT {
            made.retain(|_, made| made.strong_count() > 0);
        }
        made.insert(kind, Arc::downgrade(&new));
        new
    }
}
