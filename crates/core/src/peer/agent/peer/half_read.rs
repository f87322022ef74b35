//! Files that the model has seen only in part. Cursor edits a file by reading it and
//! writing it back under the same call, and what was only read in part must not be
//! written back as if it were the whole.

use std::collections::VecDeque;

use ibeam_proto::agent::{
    ExecServerMessage, WriteRejected, WriteResult, exec_client_message::Message as Reply,
    exec_server_message::Message as Ask, read_result, write_result,
};

use super::kept_id::{ids_memory, kept_id};

/// How many calls are remembered; the oldest goes first. A write follows its read at once.
const MOST: usize = 256;

/// The calls that read a file in part.
#[derive(Debug, Default)]
pub(super) struct HalfRead(VecDeque<String>);

impl HalfRead {
    /// Takes note of what a call is answered with.
    pub(super) fn note(&mut self, wire_id: &str, replies: &[Reply]) {
        let id = kept_id(wire_id);
        if !replies.iter().any(is_half_a_file) || self.0.iter().any(|known| *known == id) {
            return;
        }
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(id.into_owned());
    }

    pub(super) fn memory(&self) -> usize {
        ids_memory(&self.0)
    }

    /// The answer to a write that would lose the rest of its file.
    pub(super) fn refusal(&self, exec: &ExecServerMessage) -> Option<Reply> {
        let Some(Ask::WriteArgs(args)) = &exec.message else { return None };
        let id = kept_id(&args.tool_call_id);
        self.0.iter().any(|known| *known == id).then(|| {
            let reason = "The file was read only in part, so writing it back would lose the rest. \
                          Change it with one of the user's own tools instead.";
            Reply::WriteResult(WriteResult {
                result: Some(write_result::Result::Rejected(WriteRejected {
                    path: args.path.clone(),
                    reason: reason.to_owned(),
                })),
            })
        })
    }
}

fn is_half_a_file(reply: &Reply) -> bool {
    let (Reply::ReadResult(read) | Reply::RedactedReadResult(read)) = reply else { return false };
    let Some(read_result::Result::Success(success)) = &read.result else { return false };
    success.truncated || success.range_applied
}
