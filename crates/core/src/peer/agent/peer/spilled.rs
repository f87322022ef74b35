//! A catalogue of tools that is too large for a message: the backend writes it into a file of the
//! client and reads it from there. Such files are kept in memory, for the run, and never on a disk.

use std::collections::VecDeque;

use ibeam_proto::agent::{
    ExecServerMessage, ReadArgs, ReadResult, ReadSuccess, WriteArgs, WriteNoSpace, WriteResult,
    WriteSuccess, exec_client_message::Message as Reply, exec_server_message::Message as Ask,
    read_result, read_success, write_result,
};

use super::kept_id::{ids_memory, kept_id};

/// How many lookups are remembered; the oldest goes first. A write follows its lookup at once.
const LOOKUPS: usize = 64;
/// How much all files of a run may have together, with their paths.
const BYTES: usize = 16 << 20;
/// How many files a run may have, and how long a path may be.
const FILES: usize = 64;
const PATH: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct SpilledFiles {
    /// The ids of lookups.
    lookups: VecDeque<String>,
    /// Paths and contents.
    files: Vec<(String, String)>,
}

impl SpilledFiles {
    /// The model looks tools up. A lookup without an id could be taken for any write of the model.
    pub(super) fn look_up(&mut self, id: &str) {
        let id = kept_id(id);
        if id.is_empty() || self.lookups.iter().any(|known| *known == id) {
            return;
        }
        if self.lookups.len() >= LOOKUPS {
            self.lookups.pop_front();
        }
        self.lookups.push_back(id.into_owned());
    }

    /// The answer to a request about such a file; `None` if it is about another one.
    pub(super) fn answer(&mut self, exec: &ExecServerMessage) -> Option<Reply> {
        match &exec.message {
            Some(Ask::WriteArgs(args)) => {
                let id = kept_id(&args.tool_call_id);
                self.lookups.iter().any(|known| *known == id).then(|| self.write(args))
            }
            Some(Ask::ReadArgs(args)) => self.read(args),
            _ => None,
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.files_memory() + ids_memory(&self.lookups)
    }

    fn files_memory(&self) -> usize {
        self.files.iter().map(|(path, text)| path.len() + text.len()).sum()
    }

    fn write(&mut self, args: &WriteArgs) -> Reply {
        let text = match args.file_bytes.is_empty() {
            true => args.file_text.clone(),
            false => String::from_utf8_lossy(&args.file_bytes).into_owned(),
        };
        let path = args.path.clone();
        self.files.retain(|(known, _)| *known != path);
        let bytes = self.files_memory() + path.len() + text.len();
        if bytes > BYTES || self.files.len() >= FILES || path.len() > PATH {
            let full = write_result::Result::NoSpace(WriteNoSpace { path });
            return Reply::WriteResult(WriteResult { result: Some(full) });
        }
        let written = write_result::Result::Success(WriteSuccess {
            path: path.clone(),
            lines_created: i32::try_from(text.lines().count()).unwrap_or(i32::MAX),
            file_size: i32::try_from(text.len()).unwrap_or(i32::MAX),
            file_content_after_write: args.return_file_content_after_write.then(|| text.clone()),
        });
        self.files.push((path, text));
        Reply::WriteResult(WriteResult { result: Some(written) })
    }

    fn read(&self, args: &ReadArgs) -> Option<Reply> {
        let (path, text) = self.files.iter().find(|(path, _)| *path == args.path)?;
        let skipped = args.offset.and_then(|first| usize::try_from(first.checked_sub(1)?).ok());
        let limit = args.limit.and_then(|limit| usize::try_from(limit).ok());
        let range_applied = skipped.is_some_and(|lines| lines > 0) || limit.is_some();
        let content = match range_applied {
            true => {
                let lines = text.split_inclusive('\n').skip(skipped.unwrap_or(0));
                lines.take(limit.unwrap_or(usize::MAX)).collect()
            }
            false => text.clone(),
        };
        let read = read_result::Result::Success(ReadSuccess {
            path: path.clone(),
            total_lines: i32::try_from(text.lines().count()).unwrap_or(i32::MAX),
            file_size: i64::try_from(text.len()).unwrap_or(i64::MAX),
            range_applied,
            output: Some(read_success::Output::Content(content)),
            ..ReadSuccess::default()
        });
        Some(Reply::ReadResult(ReadResult { result: Some(read) }))
    }
}

#[cfg(test)]
#[path = "spilled_tests.rs"]
mod tests;
