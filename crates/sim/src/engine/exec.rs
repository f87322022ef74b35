//! Exec requests and their results: the bytes of a request, the result arms that answer it, and
//! a result as plain text.

use bytes::{Bytes, BytesMut};
use ibeam_proto::agent::{
    GrepResult, GrepUnionResult, LsDirectoryTreeNode, LsResult, McpResult, ReadResult, ShellResult,
    WriteResult, exec_client_message::Message as Reply, fetch_result, grep_result,
    grep_union_result, ls_result, mcp_result, mcp_tool_result_content_item, read_result,
    read_success, shell_result, shell_stream, write_result,
};

use crate::{
    protobuf::{put_bytes_field, put_varint_field},
    scenario::EncodedArm,
};

/// The longest result text that is kept and quoted.
const TEXT_CAP: usize = 256 * 1024;
/// How deep a directory tree is listed.
const DEPTH_CAP: usize = 64;

/// The answer to one exec, as far as it has arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExecAnswer {
    pub(crate) text: String,
    pub(crate) outcome: ExecOutcome,
    pub(crate) reply: Option<Reply>,
}

/// The outcome of an exec as the model sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExecOutcome {
    #[default]
    Open,
    Success,
    Error,
    /// A typed refusal.
    Rejected,
    /// The client does not know the arm.
    Thrown,
}

/// `AgentServerMessage { exec_server_message { id, arm, exec_id } }`.
/// `extra`: with the newest fields.
pub(crate) fn request(id: u32, exec_id: &str, arm: &EncodedArm, extra: bool) -> Bytes {
    let mut exec = BytesMut::with_capacity(arm.payload.len() + exec_id.len() + 16);
    if id != 0 {
        put_varint_field(&mut exec, 1, u64::from(id));
    }
    put_bytes_field(&mut exec, arm.field, &arm.payload);
    if !exec_id.is_empty() {
        put_bytes_field(&mut exec, 15, exec_id.as_bytes());
    }
    if extra {
        // accept_hook_additional_contexts and machine_id
        put_varint_field(&mut exec, 55, 1);
        put_bytes_field(&mut exec, 57, b"simulated-machine");
    }
    wrap(2, &exec)
}

/// `AgentServerMessage { interaction_query { id, arm } }`.
pub(crate) fn query(id: u32, arm: &EncodedArm) -> Bytes {
    let mut query = BytesMut::with_capacity(arm.payload.len() + 16);
    if id != 0 {
        put_varint_field(&mut query, 1, u64::from(id));
    }
    put_bytes_field(&mut query, arm.field, &arm.payload);
    wrap(7, &query)
}

/// `AgentServerMessage { interaction_update { arm } }`.
pub(crate) fn update(arm: &EncodedArm) -> Bytes {
    let mut update = BytesMut::with_capacity(arm.payload.len() + 8);
    put_bytes_field(&mut update, arm.field, &arm.payload);
    wrap(1, &update)
}

fn wrap(field: u32, inner: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(inner.len() + 8);
    put_bytes_field(&mut out, field, inner);
    out.freeze()
}

/// The result arms that answer a request arm. The Pi family is shifted by one, the
/// mini agent answers on 55, and a plain shell result answers a streamed shell too.
pub(crate) fn result_fields(request: u32) -> &'static [u32] {
    const TABLE: &[(u32, &[u32])] = &[
        (14, &[14, 2]),
        (45, &[46]),
        (46, &[47]),
        (47, &[48]),
        (48, &[49]),
        (49, &[50]),
        (50, &[51]),
        (51, &[52]),
        (52, &[55]),
    ];
    TABLE.iter().find(|(field, _)| *field == request).map_or(&[], |(_, results)| results)
}

/// The field number of a result arm.
pub(crate) fn field_of(reply: &Reply) -> u32 {
    let mut bytes = Vec::with_capacity(reply.encoded_len());
    reply.encode(&mut bytes);
    let mut tag = 0_u32;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        tag |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    tag >> 3
}

pub(crate) fn answers(request: u32, reply: &Reply) -> bool {
    let field = field_of(reply);
    match result_fields(request) {
        [] => field == request,
        fields => fields.contains(&field),
    }
}

impl ExecAnswer {
    /// Takes a result of the right arm. True when it completes the exec.
    pub(crate) fn take(&mut self, reply: &Reply) -> bool {
        if let Reply::ShellStream(stream) = reply {
            return self.take_stream(stream.event.as_ref());
        }
        let (outcome, text) = describe(reply);
        self.outcome = outcome;
        self.add(&text);
        self.reply = Some(reply.clone());
        true
    }

    fn take_stream(&mut self, event: Option<&shell_stream::Event>) -> bool {
        use shell_stream::Event;
        match event {
            Some(Event::Stdout(out)) => self.add(&out.data),
            Some(Event::Stderr(out)) => self.add(&out.data),
            Some(Event::Start(_) | Event::HookContext(_)) => {}
            Some(Event::Exit(exit)) => {
                self.outcome =
                    if exit.code == 0 { ExecOutcome::Success } else { ExecOutcome::Error };
                return true;
            }
            Some(Event::Rejected(refused)) => {
                self.outcome = ExecOutcome::Rejected;
                self.add(&refused.reason);
                return true;
            }
            Some(Event::PermissionDenied(_)) => {
                self.outcome = ExecOutcome::Rejected;
                return true;
            }
            Some(Event::Backgrounded(_)) => {
                self.outcome = ExecOutcome::Success;
                return true;
            }
            None => return false,
        }
        false
    }

    fn add(&mut self, text: &str) {
        let room = TEXT_CAP.saturating_sub(self.text.len());
        let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        self.text.push_str(text.get(..end.unwrap_or_default()).unwrap_or_default());
    }
}

/// A result as the model would read it.
fn describe(reply: &Reply) -> (ExecOutcome, String) {
    match reply {
        Reply::McpResult(result) => describe_mcp(result),
        Reply::ReadResult(result) | Reply::RedactedReadResult(result) => describe_read(result),
        Reply::ShellResult(result) | Reply::MiniSweAgentBashResult(result) => {
            describe_shell(result)
        }
        Reply::WriteResult(result) => describe_write(result),
        Reply::LsResult(result) => describe_ls(result),
        Reply::GrepResult(result) => describe_grep(result),
        Reply::FetchResult(result) => match &result.result {
            Some(fetch_result::Result::Success(page)) => {
                (ExecOutcome::Success, page.content.clone())
            }
            Some(fetch_result::Result::Error(error)) => (ExecOutcome::Error, error.error.clone()),
            None => (ExecOutcome::Error, String::new()),
        },
        other => {
            // For the rest the outcome is enough, and their debug form shows it.
            let text = format!("{other:?}");
            let outcome = if text.contains("Rejected") || text.contains("rejected") {
                ExecOutcome::Rejected
            } else if text.contains("Error") {
                ExecOutcome::Error
            } else {
                ExecOutcome::Success
            };
            (outcome, text)
        }
    }
}

fn describe_mcp(result: &McpResult) -> (ExecOutcome, String) {
    use mcp_result::Result as Arm;
    match &result.result {
        Some(Arm::Success(success)) => {
            let parts: Vec<_> = success
                .content
                .iter()
                .map(|item| match &item.content {
                    Some(mcp_tool_result_content_item::Content::Text(text)) => text.text.clone(),
                    Some(mcp_tool_result_content_item::Content::Image(image)) => {
                        format!("[image {}, {} bytes]", image.mime_type, image.data.len())
                    }
                    None => String::new(),
                })
                .collect();
            let outcome = if success.is_error { ExecOutcome::Error } else { ExecOutcome::Success };
            (outcome, parts.join("\n"))
        }
        Some(Arm::Error(error)) => (ExecOutcome::Error, error.error.clone()),
        Some(Arm::Rejected(refused)) => (ExecOutcome::Rejected, refused.reason.clone()),
        Some(Arm::PermissionDenied(denied)) => (ExecOutcome::Rejected, denied.error.clone()),
        Some(Arm::ToolNotFound(missing)) => {
            (ExecOutcome::Error, format!("no tool {}", missing.name))
        }
        Some(Arm::ServerNotFound(missing)) => {
            (ExecOutcome::Error, format!("no server {}", missing.name))
        }
        Some(Arm::Approved(_)) => (ExecOutcome::Success, String::new()),
        None => (ExecOutcome::Error, String::new()),
    }
}

fn describe_read(result: &ReadResult) -> (ExecOutcome, String) {
    use read_result::Result as Arm;
    match &result.result {
        Some(Arm::Success(success)) => {
            let text = match &success.output {
                Some(read_success::Output::Content(text)) => text.clone(),
                Some(read_success::Output::Data(data)) => String::from_utf8_lossy(data).into(),
                None => String::new(),
            };
            (ExecOutcome::Success, text)
        }
        Some(Arm::Rejected(refused)) => (ExecOutcome::Rejected, refused.reason.clone()),
        Some(Arm::Error(error)) => (ExecOutcome::Error, error.error.clone()),
        Some(Arm::FileNotFound(_)) => (ExecOutcome::Error, "File not found".to_owned()),
        other => (ExecOutcome::Error, format!("{other:?}")),
    }
}

fn describe_shell(result: &ShellResult) -> (ExecOutcome, String) {
    use shell_result::Result as Arm;
    match &result.result {
        Some(Arm::Success(success)) => {
            (ExecOutcome::Success, format!("{}{}", success.stdout, success.stderr))
        }
        Some(Arm::Failure(failure)) => {
            (ExecOutcome::Error, format!("{}{}", failure.stdout, failure.stderr))
        }
        Some(Arm::Rejected(refused)) => (ExecOutcome::Rejected, refused.reason.clone()),
        Some(Arm::PermissionDenied(denied)) => (ExecOutcome::Rejected, format!("{denied:?}")),
        other => (ExecOutcome::Error, format!("{other:?}")),
    }
}

fn describe_write(result: &WriteResult) -> (ExecOutcome, String) {
    use write_result::Result as Arm;
    match &result.result {
        Some(Arm::Success(success)) => (
            ExecOutcome::Success,
            format!("{} is written, {} bytes", success.path, success.file_size),
        ),
        Some(Arm::Rejected(refused)) => (ExecOutcome::Rejected, refused.reason.clone()),
        Some(Arm::Error(error)) => (ExecOutcome::Error, error.error.clone()),
        other => (ExecOutcome::Error, format!("{other:?}")),
    }
}

fn describe_ls(result: &LsResult) -> (ExecOutcome, String) {
    use ls_result::Result as Arm;
    match &result.result {
        Some(Arm::Success(success)) => {
            let mut lines = Vec::new();
            if let Some(root) = &success.directory_tree_root {
                list(root, 0, &mut lines);
            }
            (ExecOutcome::Success, lines.join("\n"))
        }
        Some(Arm::Rejected(refused)) => (ExecOutcome::Rejected, refused.reason.clone()),
        Some(Arm::Error(error)) => (ExecOutcome::Error, error.error.clone()),
        other => (ExecOutcome::Error, format!("{other:?}")),
    }
}

/// A directory, its files and those below it.
fn list(node: &LsDirectoryTreeNode, depth: usize, lines: &mut Vec<String>) {
    if depth > DEPTH_CAP {
        return;
    }
    let indent = "  ".repeat(depth);
    lines.push(format!("{indent}{}/", node.abs_path.trim_end_matches('/')));
    lines.extend(node.children_files.iter().map(|file| format!("{indent}  {}", file.name)));
    for child in &node.children_dirs {
        list(child, depth + 1, lines);
    }
}

fn describe_grep(result: &GrepResult) -> (ExecOutcome, String) {
    use grep_result::Result as Arm;
    match &result.result {
        Some(Arm::Success(success)) => {
            let found = success.workspace_results.values().chain(&success.active_editor_result);
            (ExecOutcome::Success, found.flat_map(matches).collect::<Vec<_>>().join("\n"))
        }
        Some(Arm::Error(error)) => (ExecOutcome::Error, error.error.clone()),
        None => (ExecOutcome::Error, String::new()),
    }
}

fn matches(found: &GrepUnionResult) -> Vec<String> {
    use grep_union_result::Result as Arm;
    match &found.result {
        Some(Arm::Files(files)) => files.files.clone(),
        Some(Arm::Content(content)) => content
            .matches
            .iter()
            .flat_map(|file| {
                let line = |m: &ibeam_proto::agent::GrepContentMatch| {
                    format!("{}:{}:{}", file.file, m.line_number, m.content)
                };
                file.matches.iter().map(line).collect::<Vec<_>>()
            })
            .collect(),
        Some(Arm::Count(count)) => {
            count.counts.iter().map(|file| format!("{}:{}", file.file, file.count)).collect()
        }
        None => Vec::new(),
    }
}
