//! A simulator of Cursor's backend: the real wire, scripted turns, faults on demand.
//!
//! It answers over HTTP/2 and HTTP/1.1, on a socket or in memory, validates what clients send as
//! the real service does, and waits for every answer it asked for. Its answers come from a
//! [`Scenario`]; without one, a small deterministic assistant answers and uses the offered tools.
//!
//! `wire` is the service: connections, sign-in, routes. Each run is in `engine`, over the `stream`
//! that carries it, with its input in `prompt` and the model's decisions in `assistant`. Scenario
//! files, with faults and quirks, are in `scenario`, and `record` has what tests read afterwards.
//! Where generations of the service differ, [`Behaviour`] has a switch for each fact.
//! [`cursor_agent`] is a stand-in for Cursor's CLI on the same engine, without the wire.
//!
//! *Invariant:* nothing here reads the wall clock or draws random numbers; time is tokio's, so that
//! tests can pause it, and ids are derived from what the client sent.

mod assistant;
mod behaviour;
mod blobs;
mod config;
pub mod cursor_agent;
mod engine;
mod models;
mod prompt;
mod protobuf;
mod record;
mod scenario;
mod stream;
mod wire;

pub use crate::{
    behaviour::{Behaviour, BehaviourChanges, BehaviourError, Preset, SwitchRow},
    config::{SimConfig, SimHttp2, SimSignIn},
    protobuf::SchemaError,
    record::{
        Direction, FrameRecord, FrameRecorder, PromptEntry, PromptReport, RequestReport, RunReport,
        Stats,
    },
    scenario::{
        AbortStep, Blob, BlobRef, Chaos, ChaosEffect, ErrorSpec, ExecStep, MessageArm, Quirk,
        Quirks, RawFrame, Refuse, ResetCode, Say, Scenario, ScenarioError, ScenarioRule,
        ScenarioStep, StepError, StreamCut, StreamFault, UnknownArm, UsageStep, When,
    },
    wire::Sim,
};
