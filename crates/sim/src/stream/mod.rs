//! The two directions of one run and the connection under them, above HTTP and below the engine.

mod control;
mod format;
mod inbound;
mod outbound;

pub(crate) use self::{
    control::ConnectionControl,
    format::{BodyFormat, trailer_frame},
    inbound::{InboundEvent, RunInbound},
    outbound::{CHUNKS_CAP, Chunk, FrameStyle, RunOutbound},
};
