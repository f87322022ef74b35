//! Guards over what a model says and does.

mod loops;
mod think;

pub(crate) use loops::{LoopGuard, LoopVerdict};
pub(crate) use think::{ThinkPiece, ThinkTags};
