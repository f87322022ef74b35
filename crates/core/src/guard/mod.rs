//! Guards over what a model says and does.

mod loops;
mod think;

pub(crate) use loops::{LoopGuard, LoopVerdict, exit_code, failure_beginnings, is_tool_word};
pub(crate) use think::{TAGS as THINK_TAGS, ThinkPiece, ThinkTags};
