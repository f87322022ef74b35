//! Guards over what a model says and does.

mod loops;
mod think;

pub use loops::{LoopGuard, LoopVerdict};
pub use think::{Piece, ThinkTags};
