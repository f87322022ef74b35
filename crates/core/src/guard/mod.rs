//! Guards over what a model says.

mod loops;
mod think;

pub use loops::{LoopGuard, LoopVerdict};
pub use think::{Piece, ThinkTags};
