//! What the streams of Chat Completions and of Completions have in common.

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;

use super::{
    SseFrame,
    chat::{ChatUsage, OpenAiErrorBody},
    json::put_json,
};
use crate::{error::TurnError, model::Usage};

/// Everything of a chunk up to its `choices`, which is the same in all chunks of a stream.
#[derive(Debug)]
pub(in crate::wire) struct ChunkHead(Box<[u8]>);

impl ChunkHead {
    pub(in crate::wire) fn new(id: &str, object: &'static str, created: u64, model: &str) -> Self {
        #[derive(Serialize)]
        struct ChunkMembers<'a> {
            id: &'a str,
            object: &'static str,
            created: u64,
            model: &'a str,
        }
        let mut head = BytesMut::with_capacity(128);
        head.put_slice(b"data: ");
        put_json(&mut head, &ChunkMembers { id, object, created, model });
        // The closing brace: `choices` and what follows go in front of it.
        head.truncate(head.len().saturating_sub(1));
        Self(head.to_vec().into_boxed_slice())
    }

    pub(in crate::wire) fn put(&self, out: &mut BytesMut) {
        out.put_slice(&self.0);
    }

    /// Ends a stream: the chunk with the usage, if there is to be one, and `[DONE]`.
    pub(in crate::wire) fn put_end(&self, usage: Option<Usage>, out: &mut BytesMut) {
        if let Some(usage) = usage {
            self.put(out);
            out.put_slice(br#","choices":[],"usage":"#);
            put_json(out, &ChatUsage::from(usage));
            out.put_slice(b"}\n\n");
        }
        SseFrame { event: None, data: "[DONE]" }.write(out);
    }
}

/// Ends a stream with the error of a failed turn.
pub(in crate::wire) fn put_error(error: &TurnError, out: &mut BytesMut) {
    out.put_slice(b"data: ");
    put_json(out, &OpenAiErrorBody::from(error));
    out.put_slice(b"\n\n");
}
