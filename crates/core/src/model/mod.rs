//! The neutral vocabulary: what every API decodes into, what every backend
//! answers with. Nothing in here belongs to one vendor's wire.

mod event;
pub mod ids;
mod mode;
mod request;
mod texts;
mod time;
mod tool;
mod usage;

pub use event::{FinishReason, TerminalGuard, TurnEvent};
pub use mode::{AgentMode, MODE_WORDS, RunModes};
pub use request::{
    AnswerFormat, Dialect, Effort, Hints, Image, ImageSource, Item, Message, ParamHandling, Part,
    Reasoning, Role, Sampling, Schema, TurnRequest,
};
pub use time::Millis;
pub use tool::{Tool, ToolCall, ToolChoice, ToolResult};
pub use usage::{Usage, UsageSource};
