//! stub
use crate::model::{Item, ToolResult};
#[derive(Clone, Debug, Default)]
pub struct LoopGuard;
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopVerdict {
    Allow,
    Stop(String),
}
impl LoopGuard {
    pub fn from_history(_max: u32, _items: &[Item]) -> Self {
        Self
    }
    pub fn on_call(&mut self, _id: &str, _name: &str, _arguments: &str) -> LoopVerdict {
        LoopVerdict::Allow
    }
    pub fn on_result(&mut self, _id: &str, _result: &ToolResult) -> Option<String> {
        None
    }
    pub fn on_user_message(&mut self) {}
}
