//! The machine of a turn: its leg, and the driver that opens its links. A driver makes machines
//! over its own peer; their runner takes any. Only the start is dynamic.

use std::{collections::HashSet, fmt, sync::Arc};

use ibeam_core::{
    leg::{BridgedTools, Leg},
    model::{Millis, TurnRequest, ids::SessionId},
    models::{ModelList, ModelPick},
    peer::{Peer as _, StoredState, child::ChildOwner},
    recording::TurnStart,
    turn::{Settings, Turn},
};

use super::{Dial, Driver, LinkPeer};
use crate::recorder::Recorder;

/// What a driver makes the plan of a turn from, besides the request.
#[derive(Debug)]
pub struct TurnSetup {
    pub model: ModelPick,
    /// The known models, for backends with model names of their own.
    pub models: Option<Arc<ModelList>>,
    pub conversation_id: String,
    pub kept: Option<StoredState>,
    /// The hash of the request's prompt and tools.
    pub setup: [u8; 32],
    pub owner: ChildOwner,
}

/// A turn that is about to start, without its request.
#[derive(Debug)]
pub struct NewTurn {
    pub setup: TurnSetup,
    pub session: SessionId,
    pub settings: Settings,
    pub seed: [u8; 16],
    /// The names of tools that are executed here.
    pub bridged: Option<HashSet<String>>,
    /// There when turns are recorded.
    pub recorder: Option<Recorder>,
}

/// A turn over one peer, and the driver that opens its links.
#[derive(Debug)]
pub struct Machine<W: LinkPeer> {
    pub leg: Box<Leg<W>>,
    pub driver: Arc<dyn Dial<Peer = W>>,
}

/// Runs a machine, whatever its peer is.
pub trait RunMachine: 'static {
    /// What the caller gets back.
    type Running;

    fn run<W: LinkPeer>(self, machine: Machine<W>) -> Self::Running;
}

/// A machine whose peer is not known.
pub trait TurnMachine<R: RunMachine>: fmt::Debug + Send {
    fn start(self: Box<Self>, runner: R) -> R::Running;
}

/// A driver whose peer is not known. Every [`Dial`] is one.
pub trait TurnDriver<R: RunMachine>: Driver {
    /// Makes the machine of a new turn. This takes time in proportion to the request.
    fn machine(self: Arc<Self>, turn: NewTurn, request: TurnRequest) -> Box<dyn TurnMachine<R>>;
}

impl<R: RunMachine, W: LinkPeer> TurnMachine<R> for Machine<W> {
    fn start(self: Box<Self>, runner: R) -> R::Running {
        runner.run(*self)
    }
}

impl<R: RunMachine, D: Dial> TurnDriver<R> for D {
    fn machine(self: Arc<Self>, turn: NewTurn, request: TurnRequest) -> Box<dyn TurnMachine<R>> {
        let NewTurn { setup, session, settings, seed, bridged, recorder } = turn;
        let bridged = bridged.map(|names| BridgedTools::new(names, &request));
        let plan = self.plan(&request, setup);
        let tape = recorder.and_then(|recorder| {
            let (plan, seed) = (D::Peer::record_plan(&plan), seed.into());
            let (request, settings) = (request.clone(), settings.clone());
            recorder.tape(TurnStart { request, plan, session, settings, seed })
        });
        let mut turn = Turn::new(request, plan, session, settings, seed, Millis(0));
        if let Some(tape) = tape {
            turn.record(tape);
        }
        let driver: Arc<dyn Dial<Peer = D::Peer>> = self;
        Box::new(Machine { leg: Box::new(Leg::new(turn, bridged)), driver })
    }
}
