//! Recordings of turns: what came over the link, what the machine did, and what the client got. A
//! recording is a text with one JSON object on each line. [`RecordingWriter`] makes one while a turn
//! runs, [`Recording`] reads it, and [`replay`] runs the turn machine on it again.
//!
//! *Invariant:* a recording without texts has only placeholders where the turn had texts, names,
//! ids or paths ([`Mask`]). Tokens and keys are on no link and in no recording.

mod event;
mod frame;
mod json;
mod line;
mod mask;
mod read;
pub mod replay;
mod request;
mod start;
#[cfg(test)]
pub(crate) mod testing;
mod tree;
mod tree_read;
mod vocabulary;
mod writer;

pub use event::EventRecord;
pub use frame::FrameRecord;
pub use line::{Header, HeaderRefused, LineBody, RecordingLine, VERSION};
pub use mask::Mask;
pub use read::{Recording, RecordingError};
pub use request::RequestRecord;
pub use start::{RequestOutlineRecord, StartRecord, TurnStart};
pub use tree::{WireField, WireTree, WireValue};
pub use writer::RecordingWriter;
