//! The mode of a session.

use serde_json::value::RawValue;

use crate::{codec::jsonrpc::Members, model::AgentMode};

/// The mode of a session, from the answer that opened it. What it does not say, or what ibeam does
/// not know, counts as the usual one.
pub(super) fn current(opened: Option<&RawValue>) -> AgentMode {
    let opened = Members::of(opened).unwrap_or_default();
    let is_mode = |option: &Members<'_>| option.text("id").is_some_and(|id| id == "mode");
    let option = || opened.objects("configOptions").find(is_mode)?.text("currentValue");
    let named = opened.object("modes").text("currentModeId").or_else(option);
    named.and_then(|name| AgentMode::from_name(&name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_9_the_mode_of_a_session_is_read_from_either_list() {
        for (answer, want) in [
            (r#"{"modes":{"currentModeId":"plan"}}"#, AgentMode::Plan),
            (
                r#"{"configOptions":[{"id":"model"},{"id":"mode","currentValue":"ask"}]}"#,
                AgentMode::Ask,
            ),
            (r#"{"modes":{"currentModeId":"debug"}}"#, AgentMode::Agent),
            ("{}", AgentMode::Agent),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(answer).unwrap();
            assert_eq!(current(Some(&raw)), want, "{answer}");
        }
        assert_eq!(current(None), AgentMode::Agent);
    }
}
