//! The machine of a new turn. It is made from the whole request, which takes time in proportion
//! to its size: see [`LargeWork`](crate::large::LargeWork).

use std::sync::Arc;

use ibeam_core::{
    acp,
    agent::{self, BlobLimits, Kept, ModelPick, Settings},
    child::{self, Speaker},
    cli,
    model::{Millis, TurnRequest, ids::SessionId},
    turn::Turn,
};

use super::surroundings::SurroundingsCache;
use crate::config::Config;

/// All that a machine needs beside the request.
pub(super) struct Blueprint {
    pub(super) config: Arc<Config>,
    pub(super) backend: Backend,
    pub(super) settings: Settings,
    pub(super) conversation_id: String,
    pub(super) session: SessionId,
    pub(super) kept: Option<Kept>,
    pub(super) seed: [u8; 16],
}

/// What the driver speaks, and what only that needs.
pub(super) enum Backend {
    Agent {
        model: ModelPick,
        surroundings: Arc<SurroundingsCache>,
        /// The hash of the request's prompt and tools.
        setup: [u8; 32],
    },
    Child {
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
    pub(super) fn turn(self, request: TurnRequest) -> Turn {
        let Self { config, backend, settings, conversation_id, session, kept, seed } = self;
        match backend {
            Backend::Agent { model, surroundings, setup } => {
                let plan = agent::Plan {
                    model,
                    conversation_id,
                    session,
                    surroundings: surroundings.of(&request, &setup),
                    limits: BlobLimits {
                        count: config.limits.blobs,
                        blob_bytes: config.limits.blob_size,
                        total_bytes: config.limits.blob_bytes,
                    },
                    kept,
                };
                agent::Turn::new(request, plan, settings, seed, Millis(0)).into()
            }
            Backend::Child { protocol, model, images } => {
                let speaker: fn() -> Box<dyn Speaker> = match protocol {
                    ChildProtocol::Cli => || Box::<cli::Speaker>::default(),
                    ChildProtocol::Acp if config.cursor_agent.own_tools => {
                        || Box::new(acp::Speaker::new(acp::Policy { own_tools: true }))
                    }
                    ChildProtocol::Acp => || Box::<acp::Speaker>::default(),
                };
                let plan = child::Plan {
                    speaker,
                    model,
                    conversation_id,
                    session,
                    images,
                    result_bytes: config.tools.result_bytes,
                    kept,
                };
                child::Turn::new(request, plan, settings, seed, Millis(0)).into()
            }
        }
    }
}
