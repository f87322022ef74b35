//! What each backend can do of what clients ask for, in one table. The code that refuses
//! and the documentation read the same one.

use std::fmt::Write as _;

/// Who sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The backend knows it.
    Native,
    /// The gateway does it in the backend's place.
    Emulated,
    /// Nobody can.
    Impossible,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    pub client_tools: Support,
    pub images: Support,
    pub system_prompt: Support,
    pub stop: Support,
    pub max_tokens: Support,
    pub effort: Support,
    pub usage: Support,
    pub resume: Support,
}

impl Support {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Impossible => "impossible",
        }
    }
}

impl Capabilities {
    /// The Agent API.
    pub const AGENT: Self = Self {
        client_tools: Support::Native,
        images: Support::Native,
        system_prompt: Support::Native,
        stop: Support::Emulated,
        max_tokens: Support::Emulated,
        effort: Support::Native,
        usage: Support::Native,
        resume: Support::Native,
    };

    /// `cursor-agent --print`. Its prompt is a text.
    pub const CLI: Self = Self {
        images: Support::Impossible,
        system_prompt: Support::Emulated,
        effort: Support::Emulated,
        ..Self::AGENT
    };

    /// `cursor-agent acp`. Not every build tells tokens; they are counted here then.
    pub const ACP: Self = Self {
        system_prompt: Support::Emulated,
        effort: Support::Emulated,
        usage: Support::Emulated,
        ..Self::AGENT
    };

    /// Each row of the table: its name, and what this backend has there.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, Support); 8] {
        [
            ("client tools", self.client_tools),
            ("images", self.images),
            ("system prompt", self.system_prompt),
            ("stop sequences", self.stop),
            ("`max_tokens`", self.max_tokens),
            ("reasoning effort", self.effort),
            ("token usage", self.usage),
            ("resuming a conversation", self.resume),
        ]
    }
}

/// The table as Markdown.
#[must_use]
pub fn table() -> String {
    let mut text = String::from("| | `agent` | `cli` | `acp` |\n|---|---|---|---|\n");
    let columns = [Capabilities::AGENT, Capabilities::CLI, Capabilities::ACP].map(|one| one.rows());
    let [agent, cli, acp] = &columns;
    for (((name, agent), (_, cli)), (_, acp)) in agent.iter().zip(cli).zip(acp) {
        let (agent, cli, acp) = (agent.as_str(), cli.as_str(), acp.as_str());
        // A `String` grows: no error is possible.
        let _ = writeln!(text, "| {name} | {agent} | {cli} | {acp} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_capability() {
        let table = table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2 + Capabilities::AGENT.rows().len());
        assert!(lines.contains(&"| images | native | impossible | native |"), "{table}");
        assert!(lines.contains(&"| stop sequences | emulated | emulated | emulated |"), "{table}");
    }
}
