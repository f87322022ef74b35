//! A tool that was called, and what its caller gets.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Serialize;

use super::InboundRequest;
use crate::{
    codec::jsonrpc::{self, INTERNAL_ERROR, RpcId},
    model::{Image, ImageSource, Part},
    peer::child::HostedResult,
};

#[derive(Clone, Debug)]
pub struct HostedToolCall {
    pub id: RpcId,
    pub name: String,
    /// JSON text.
    pub arguments: String,
    progress: Option<RpcId>,
    result_type: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResultBlock<'a> {
    Text {
        text: &'a str,
    },
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: &'a str,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    content: Vec<ResultBlock<'a>>,
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
}

impl HostedToolCall {
    pub(super) fn new(request: &InboundRequest<'_>, name: String, arguments: String) -> Self {
        Self {
            id: request.id.clone(),
            name,
            arguments,
            progress: request.meta.progress.clone(),
            result_type: request.meta.result_type(),
        }
    }

    /// Whether the caller wants to hear of progress.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Reports that the call still waits, after this number of seconds.
    #[must_use]
    pub fn progress(&self, seconds: f64) -> Option<Bytes> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ProgressParams<'a> {
            progress_token: &'a RpcId,
            progress: f64,
            message: &'static str,
        }
        let progress_token = self.progress.as_ref()?;
        let params =
            ProgressParams { progress_token, progress: seconds, message: "waiting for the result" };
        Some(jsonrpc::notification("notifications/progress", &params))
    }

    #[must_use]
    pub fn result(&self, result: &HostedResult) -> Bytes {
        let content = result.content.iter().map(|part| match part {
            Part::Text(text) => ResultBlock::Text { text },
            Part::Image(Image { source: ImageSource::Inline { mime, data } }) => {
                ResultBlock::Image { data: STANDARD.encode(data), mime_type: mime }
            }
        });
        self.write(content.collect(), result.is_error)
    }

    /// A result that the model can read, of a tool that was not run.
    #[must_use]
    pub fn failed(&self, text: &str) -> Bytes {
        self.write(vec![ResultBlock::Text { text }], true)
    }

    /// An error of the protocol: the conversation that offered the tool has ended.
    #[must_use]
    pub fn over(&self) -> Bytes {
        let text = "the conversation that offered this tool is over";
        jsonrpc::error(&self.id, INTERNAL_ERROR, text)
    }

    fn write(&self, content: Vec<ResultBlock<'_>>, is_error: bool) -> Bytes {
        jsonrpc::result(&self.id, &CallResult { content, is_error, result_type: self.result_type })
    }
}
