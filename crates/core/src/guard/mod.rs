//! Guards over what a model says.

mod think;

pub use think::{Piece, ThinkTags};
