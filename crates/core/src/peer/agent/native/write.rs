//! Whole files: written and deleted by the client's tools.

use ibeam_proto::agent::{
    DeleteError, DeleteFileBusy, DeleteFileNotFound, DeleteNotFile, DeletePermissionDenied,
    DeleteRejected, DeleteResult, DeleteSuccess, WriteArgs, WriteError, WriteNoSpace,
    WritePermissionDenied, WriteRejected, WriteResult, WriteSuccess,
    delete_result::Result as DeleteOutcome, exec_client_message::Message as Reply,
    write_result::Result as WriteOutcome,
};

use super::{
    ClientCall, Equipment, Order, Outcome, Through,
    outcome::{FORBIDDEN, MISSING, bare, mentions},
    quote,
    schema::{may, must},
    shell,
    table::{Capability, Slot},
};

/// What the result repeats.
#[derive(Clone, Debug)]
pub(super) struct Form {
    path: String,
    content: String,
    /// The content is wanted back.
    echo: bool,
}

/// A whole command line is one argument of the shell, which the kernel limits to
/// 128 KiB.
const LONGEST_COMMAND: usize = 100_000;

pub(super) fn call(args: &WriteArgs, kit: &Equipment) -> Option<ClientCall> {
    let content = if args.file_bytes.is_empty() {
        args.file_text.clone()
    } else {
        // No client takes bytes that are not text.
        String::from_utf8(args.file_bytes.to_vec()).ok()?
    };
    let (order, through) = order(&args.path, &content, kit)?;
    let form =
        Form { path: args.path.clone(), content, echo: args.return_file_content_after_write };
    Some(order.with(super::Form::Write(form), through))
}

/// A writing tool, else a patch that can say exactly this, else the shell.
pub(super) fn order(path: &str, content: &str, kit: &Equipment) -> Option<(Order, Through)> {
    if path.is_empty() {
        return None;
    }
    let about = "Writes a file";
    let by_tool = kit.call(Capability::Write, |tool| {
        tool.fill(&[must(Slot::Path, path), must(Slot::Content, content), may(Slot::About, about)])
    });
    let by_patch = || {
        let patch = add_file(path, content)?;
        kit.call(Capability::Patch, |tool| {
            tool.fill(&[must(Slot::Patch, patch.as_str()), may(Slot::About, about)])
        })
    };
    if let Some(order) = by_tool.or_else(by_patch) {
        return Some((order, Through::Tool));
    }
    if content.contains('\0') {
        return None;
    }
    let file = quote::path(path);
    let folder = match path.rsplit_once('/') {
        Some((folder, _)) if !folder.is_empty() => {
            format!("mkdir -p {} && ", quote::path(folder))
        }
        _ => String::new(),
    };
    let command = format!("{folder}printf '%s' {} > {file}", quote::word(content));
    if command.len() > LONGEST_COMMAND {
        return None;
    }
    Some((shell::run(kit, &command, "", None, about)?, Through::Shell))
}

/// A patch that makes the file whatever was there before: adding replaces, in the
/// tools that we know. It cannot say that the last line has no newline, nor carry
/// carriage returns.
fn add_file(path: &str, content: &str) -> Option<String> {
    let faithful = content.is_empty() || content.ends_with('\n');
    if !faithful || content.contains('\r') || path.contains('\n') {
        return None;
    }
    let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
    Some(format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"))
}

impl Form {
    pub(super) fn reply(&self, outcome: &Outcome) -> Reply {
        let path = self.path.clone();
        let result = match outcome {
            Outcome::Done(_) => WriteOutcome::Success(WriteSuccess {
                path,
                lines_created: i32::try_from(self.content.lines().count()).unwrap_or(i32::MAX),
                file_size: i32::try_from(self.content.len()).unwrap_or(i32::MAX),
                file_content_after_write: self.echo.then(|| self.content.clone()),
            }),
            Outcome::Refused(text) => {
                WriteOutcome::Rejected(WriteRejected { path, reason: text.clone() })
            }
            Outcome::Failed(text) => {
                let error = bare(text).to_owned();
                if mentions(&error, &["no space left", "enospc", "disk full"]) {
                    WriteOutcome::NoSpace(WriteNoSpace { path })
                } else if mentions(&error, FORBIDDEN) {
                    let directory = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                    WriteOutcome::PermissionDenied(WritePermissionDenied {
                        directory: directory.to_owned(),
                        path,
                        operation: "create_file".to_owned(),
                        error,
                        is_readonly: false,
                    })
                } else {
                    WriteOutcome::Error(WriteError { path, error })
                }
            }
        };
        Reply::WriteResult(WriteResult { result: Some(result) })
    }
}

/// A deleting tool, else the shell, else a patch.
pub(super) fn delete(path: &str, kit: &Equipment) -> Option<ClientCall> {
    if path.is_empty() {
        return None;
    }
    let about = "Deletes a file";
    let form = super::Form::Delete { path: path.to_owned() };
    let by_tool = kit.call(Capability::Delete, |tool| {
        tool.fill(&[must(Slot::Path, path), may(Slot::About, about)])
    });
    if let Some(order) = by_tool {
        return Some(order.with(form, Through::Tool));
    }
    let command = format!("rm {}", quote::path(path));
    if let Some(order) = shell::run(kit, &command, "", None, about) {
        return Some(order.with(form, Through::Shell));
    }
    if path.contains('\n') {
        return None;
    }
    let patch = format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n");
    let order = kit.call(Capability::Patch, |tool| {
        tool.fill(&[must(Slot::Patch, patch.as_str()), may(Slot::About, about)])
    })?;
    Some(order.with(form, Through::Tool))
}

pub(super) fn deleted(path: &str, outcome: &Outcome) -> Reply {
    let path = path.to_owned();
    let result = match outcome {
        // How big it was and what it held is not known here.
        Outcome::Done(_) => DeleteOutcome::Success(DeleteSuccess {
            deleted_file: path.clone(),
            path,
            file_size: 0,
            prev_content: String::new(),
        }),
        Outcome::Refused(text) => {
            DeleteOutcome::Rejected(DeleteRejected { path, reason: text.clone() })
        }
        Outcome::Failed(text) => {
            let error = bare(text).to_owned();
            if mentions(&error, &["is a directory", "eisdir", "not a file"]) {
                DeleteOutcome::NotFile(DeleteNotFile { path, actual_type: "directory".to_owned() })
            } else if mentions(&error, MISSING) {
                DeleteOutcome::FileNotFound(DeleteFileNotFound { path })
            } else if mentions(&error, FORBIDDEN) {
                DeleteOutcome::PermissionDenied(DeletePermissionDenied {
                    path,
                    client_visible_error: error,
                    is_readonly: false,
                })
            } else if mentions(&error, &["file busy", "ebusy", "resource busy"]) {
                DeleteOutcome::FileBusy(DeleteFileBusy { path })
            } else {
                DeleteOutcome::Error(DeleteError { path, error })
            }
        }
    };
    Reply::DeleteResult(DeleteResult { result: Some(result) })
}
