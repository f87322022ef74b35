//! The built-in model's judgement: what the user asks for, which of the offered tools does it,
//! and with which arguments. Pure functions of the prompt.

mod edit_format;
pub(crate) mod intent;
pub(crate) mod obedience;
mod patch_tool;
mod script_tool;
mod title;
pub(crate) mod tool_choice;
mod tool_fit;

pub(crate) use self::{edit_format::EditFormat, title::title_of, tool_fit::ToolPurpose};
