//! Built-in tools of the backend, handed to the client's own: which tool takes a
//! request, what its arguments are, and how its textual result becomes the typed
//! one. The gateway itself runs nothing; what has no equivalent is refused.

mod fetch;
mod grep;
mod grep_command;
mod list;
mod matches;
mod outcome;
mod pi;
mod quote;
mod read;
mod read_text;
mod schema;
mod shell;
mod shell_text;
mod table;
mod write;

use ibeam_proto::agent::{
    McpError, McpImageContent, McpResult, McpSuccess, McpTextContent, McpToolResultContentItem,
    exec_client_message::Message as Reply, exec_server_message::Message as Ask, mcp_result,
    mcp_tool_result_content_item::Content,
};
use serde_json::Value;

use self::{
    outcome::Outcome,
    schema::Fitted,
    table::{Capability, TABLE},
};
use crate::model::{ImageSource, Part, Tool, ToolResult};

/// A call for the client, and how its result goes back.
#[derive(Clone, Debug)]
pub(super) struct ClientCall {
    /// The client's own name for its tool.
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: String,
    pub(super) back: Back,
}

/// The client's tools that can stand in for built-in ones. Without any, every
/// built-in tool is refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Equipment {
    tools: Vec<Fitted>,
}

impl Equipment {
    /// Looks the tools of a request up in the table.
    #[must_use]
    pub(super) fn of(tools: &[Tool]) -> Self {
        let mut fitted: Vec<Fitted> = tools
            .iter()
            .flat_map(|tool| TABLE.iter().filter_map(|entry| Fitted::of(tool, entry)))
            .collect();
        fitted.sort_by_key(Fitted::rank);
        Self { tools: fitted }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The first tool of a kind that a call can be made for.
    fn call(
        &self,
        capability: Capability,
        arguments: impl Fn(&Fitted) -> Option<Value>,
    ) -> Option<Order> {
        self.pick(capability, |tool| Some((arguments(tool)?, ()))).map(|(order, ())| order)
    }

    /// The same, where the way of asking decides how the answer is read.
    fn pick<T>(
        &self,
        capability: Capability,
        arguments: impl Fn(&Fitted) -> Option<(Value, T)>,
    ) -> Option<(Order, T)> {
        self.tools.iter().filter(|tool| tool.capability == capability).find_map(|tool| {
            let (arguments, note) = arguments(tool)?;
            Some((Order { name: tool.name.clone(), arguments: arguments.to_string() }, note))
        })
    }
}

/// Whether clients call a tool so.
pub(super) fn is_known_tool(name: &str) -> bool {
    TABLE.iter().flat_map(|entry| entry.names).any(|known| schema::same(known, name))
}

/// Whether clients call a parameter so.
pub(super) fn is_known_parameter(name: &str) -> bool {
    let mut names = TABLE.iter().flat_map(|entry| entry.slots).flat_map(|(_, names)| *names);
    names.any(|known| schema::same(known, name))
}

/// How the text of a result begins that is a refusal or an error. Lower case.
pub(super) fn failure_beginnings() -> impl Iterator<Item = &'static str> {
    table::REFUSALS.iter().chain(table::ERRORS).copied()
}

/// What the client is asked to call.
#[derive(Clone, Debug)]
struct Order {
    name: String,
    arguments: String,
}

impl Order {
    fn with(self, form: Form, through: Through) -> ClientCall {
        ClientCall { name: self.name, arguments: self.arguments, back: Back { form, through } }
    }
}

/// Whether a tool of that very kind answers, or a command line does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    Tool,
    Shell,
}

/// How the result of a call goes back.
#[derive(Clone, Debug)]
pub(super) struct Back {
    form: Form,
    through: Through,
}

/// The typed result for a request, with the fields that it must repeat.
#[derive(Clone, Debug)]
enum Form {
    Mcp,
    Shell(shell::Form),
    Read(read::Form),
    Write(write::Form),
    Delete { path: String },
    List { path: String },
    Grep(grep::Form),
    Fetch { url: String },
    Pi(pi::Form),
}

impl Back {
    /// The way back of a client tool that was called by its own name.
    pub(super) fn mcp() -> Self {
        Self { form: Form::Mcp, through: Through::Tool }
    }

    /// What is due as soon as the call is handed out: only a streamed shell reports that it has
    /// begun.
    #[must_use]
    pub(super) fn opening(&self) -> Vec<Reply> {
        match &self.form {
            Form::Shell(form) => form.opening(),
            Form::Mcp
            | Form::Read(_)
            | Form::Write(_)
            | Form::Delete { .. }
            | Form::List { .. }
            | Form::Grep(_)
            | Form::Fetch { .. }
            | Form::Pi(_) => Vec::new(),
        }
    }

    /// The typed result, in sending order, after what `opening` gave. Only a streamed
    /// shell has several.
    #[must_use]
    pub(super) fn replies(&self, result: &ToolResult) -> Vec<Reply> {
        let shell = self.through == Through::Shell;
        let outcome = || Outcome::of(result, shell);
        let reply = match &self.form {
            Form::Mcp => mcp_reply(result),
            Form::Shell(form) => return form.replies(result),
            Form::Read(form) => {
                let outcome = Outcome::of_read(result, shell, &form.path);
                form.reply(&outcome, outcome::image(result), shell)
            }
            Form::Write(form) => form.reply(&outcome()),
            Form::Delete { path } => write::deleted(path, &outcome()),
            Form::List { path } => list::reply(path, &outcome()),
            Form::Grep(form) => form.reply(&grep::outcome(result, shell)),
            Form::Fetch { url } => fetch::reply(url, &outcome()),
            Form::Pi(form) => form.reply(result, shell),
        };
        vec![reply]
    }

    /// The client gave no result: that tool's error.
    #[must_use]
    pub(super) fn unanswered(&self, why: &str) -> Vec<Reply> {
        let failed = Outcome::Failed(why.to_owned());
        let reply = match &self.form {
            Form::Mcp => Reply::McpResult(McpResult {
                result: Some(mcp_result::Result::Error(McpError {
                    error: why.to_owned(),
                    ..McpError::default()
                })),
            }),
            Form::Shell(form) => return form.unanswered(why),
            Form::Read(form) => form.reply(&failed, None, false),
            Form::Write(form) => form.reply(&failed),
            Form::Delete { path } => write::deleted(path, &failed),
            Form::List { path } => list::reply(path, &failed),
            Form::Grep(form) => form.reply(&failed),
            Form::Fetch { url } => fetch::reply(url, &failed),
            Form::Pi(form) => form.unanswered(why),
        };
        vec![reply]
    }

    /// A client tool by its own name: its arguments may have been streamed.
    #[must_use]
    pub(super) fn is_mcp(&self) -> bool {
        matches!(self.form, Form::Mcp)
    }
}

/// The client's call for a built-in tool; `None` when it has no equivalent. Every
/// arm of the schema is named, so that a new one does not pass unseen.
pub(super) fn translate(ask: &Ask, kit: &Equipment) -> Option<ClientCall> {
    match ask {
        Ask::ShellArgs(args) => shell::call(args, shell::Arm::Plain, kit),
        Ask::ShellStreamArgs(args) => shell::call(args, shell::Arm::Stream, kit),
        Ask::MiniSweAgentBashArgs(args) => shell::call(args, shell::Arm::MiniSwe, kit),
        Ask::ReadArgs(args) => read::call(args, read::Arm::Plain, kit),
        Ask::RedactedReadArgs(args) => read::call(args, read::Arm::Redacted, kit),
        Ask::WriteArgs(args) => write::call(args, kit),
        Ask::DeleteArgs(args) => write::delete(&args.path, kit),
        Ask::LsArgs(args) => list::call(&args.path, &args.ignore, kit),
        Ask::GrepArgs(args) => grep::call(args, kit),
        Ask::FetchArgs(args) => fetch::call(&args.url, kit),
        Ask::PiReadArgs(args) => pi::read(args, kit),
        Ask::PiBashArgs(args) => pi::bash(args, kit),
        Ask::PiEditArgs(args) => pi::edit(args, kit),
        Ask::PiWriteArgs(args) => pi::write(args, kit),
        Ask::PiGrepArgs(args) => pi::grep(args, kit),
        Ask::PiFindArgs(args) => pi::find(args, kit),
        Ask::PiLsArgs(args) => pi::list(args, kit),
        // Answered by the gateway itself, or nothing that a client's tool does.
        Ask::RequestContextArgs(_)
        | Ask::McpArgs(_)
        | Ask::DiagnosticsArgs(_)
        | Ask::BackgroundShellSpawnArgs(_)
        | Ask::WriteShellStdinArgs(_)
        | Ask::ForceBackgroundShellArgs(_)
        | Ask::ListMcpResourcesExecArgs(_)
        | Ask::ReadMcpResourceExecArgs(_)
        | Ask::RecordScreenArgs(_)
        | Ask::ComputerUseArgs(_)
        | Ask::ExecuteHookArgs(_)
        | Ask::SubagentArgs(_)
        | Ask::SubagentAwaitArgs(_)
        | Ask::ForceBackgroundSubagentArgs(_)
        | Ask::McpStateExecArgs(_)
        | Ask::SmartModeClassifierArgs(_)
        | Ask::CanvasDiagnosticsArgs(_)
        | Ask::ShellAllowlistPrecheckArgs(_)
        | Ask::McpAllowlistPrecheckArgs(_)
        | Ask::WebFetchAllowlistPrecheckArgs(_)
        | Ask::GitDiffRequest(_)
        | Ask::ConversationSearchArgs(_)
        | Ask::AgentStoreConflictArgs(_) => None,
    }
}

/// Texts and images as they are; the model reads an error's text, too.
fn mcp_reply(result: &ToolResult) -> Reply {
    let content = result
        .content
        .iter()
        .map(|part| match part {
            Part::Text(text) => {
                Content::Text(McpTextContent { text: text.clone(), output_location: None })
            }
            Part::Image(image) => {
                let ImageSource::Inline { mime, data } = &image.source;
                Content::Image(McpImageContent { data: data.clone(), mime_type: mime.clone() })
            }
        })
        .map(|content| McpToolResultContentItem { content: Some(content) })
        .collect();
    let success = McpSuccess { content, is_error: result.is_error };
    Reply::McpResult(McpResult { result: Some(mcp_result::Result::Success(success)) })
}

#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
