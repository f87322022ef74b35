//! The machine of a new turn. It is made from the whole request, which takes time in proportion
//! to its size: see [`LargeWork`](crate::large::LargeWork).

use std::{collections::HashSet, sync::Arc};

use ibeam_core::{
    leg::{BridgedTools, Leg},
    model::{Millis, TurnRequest, ids::SessionId},
    peer::StoredState,
    peer::acp,
    peer::agent::{self, AgentPeer, BlobLimits, ModelPick},
    peer::child::{self, ChildPeer, Speaker},
    peer::cli,
    turn::{Settings, Turn},
};

use super::surroundings::SurroundingsCache;
use crate::{
    config::Config,
    driver::Dial,
    session::{AnyMachine, Machine},
};

/// All that a machine needs beside the request.
pub(super) struct Blueprint {
    pub(super) config: Arc<Config>,
    pub(super) backend: Backend,
    pub(super) settings: Settings,
    pub(super) conversation_id: String,
    pub(super) session: SessionId,
    pub(super) kept: Option<StoredState>,
    pub(super) seed: [u8; 16],
}

/// What the driver speaks, and what only that needs.
pub(super) enum Backend {
    Agent {
        driver: Arc<dyn Dial<AgentPeer>>,
        model: ModelPick,
        surroundings: Arc<SurroundingsCache>,
        /// The hash of the request's prompt and tools.
        setup: [u8; 32],
    },
    Child {
        driver: Arc<dyn Dial<ChildPeer>>,
        protocol: ChildProtocol,
        /// As Cursor's CLI spells it.
        model: String,
        images: bool,
    },
}

#[derive(Clone, Copy)]
pub(super) enum ChildProtocol {
    Cli,
    Acp,
}

impl Blueprint {
    /// `bridged`: names of tools that are executed here.
    pub(super) fn build(
        self,
        request: TurnRequest,
        bridged: Option<HashSet<String>>,
    ) -> AnyMachine {
        let bridged = bridged.map(|names| BridgedTools::new(names, &request));
        let Self { config, backend, settings, conversation_id, session, kept, seed } = self;
        match backend {
            Backend::Agent { driver, model, surroundings, setup } => {
                let plan = agent::Plan {
                    model,
                    conversation_id,
                    surroundings: surroundings.of(&request, &setup),
                    limits: BlobLimits {
                        count: config.limits.blobs,
                        blob_bytes: config.limits.blob_size,
                        total_bytes: config.limits.blob_bytes,
                    },
                    inline_context: config.inline_context,
                    kept,
                    history: config.history,
                    memory: surroundings.models(),
                };
                let turn = Turn::new(request, plan, session, settings, seed, Millis(0));
                AnyMachine::Agent(Machine { leg: Box::new(Leg::new(turn, bridged)), driver })
            }
            Backend::Child { driver, protocol, model, images } => {
                let speaker: fn() -> Box<dyn Speaker> = match protocol {
                    ChildProtocol::Cli => || Box::<cli::CliSpeaker>::default(),
                    ChildProtocol::Acp if config.cursor_agent.own_tools => {
                        || Box::new(acp::AcpSpeaker::new(acp::ToolPolicy { own_tools: true }))
                    }
                    ChildProtocol::Acp => || Box::<acp::AcpSpeaker>::default(),
                };
                let plan = child::ChildPlan {
                    speaker,
                    model,
                    conversation_id,
                    images,
                    result_bytes: config.tools.result_bytes,
                    kept,
                };
                let turn = Turn::new(request, plan, session, settings, seed, Millis(0));
                AnyMachine::Child(Machine { leg: Box::new(Leg::new(turn, bridged)), driver })
            }
        }
    }
}
