//! The one log line of a request, written when its last byte is out.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU16, Ordering},
};

use http::Method;
use ibeam_core::{
    error::{LogLevel, TurnError},
    visible::visible,
};
use tokio::time::Instant;

use super::error::ResponseFailure;

/// The status in the log when the client disconnected before one was sent.
const CLIENT_LEFT: u16 = 499;

/// Shared by the guard and the body of the response; dropping the last handle
/// writes the line. Holds no header and no query, so no secret.
#[derive(Debug)]
pub(super) struct RequestLog {
    pub(super) id: String,
    method: Method,
    path: String,
    started: Instant,
    status: AtomicU16,
    /// The name of the key that came with it.
    key: OnceLock<Arc<str>>,
    model: OnceLock<String>,
    failure: OnceLock<ResponseFailure>,
    /// Set for streams: whether the ending went out.
    streamed: OnceLock<&'static str>,
}

impl RequestLog {
    pub(super) fn new(id: String, method: Method, path: &str) -> Self {
        Self {
            id,
            method,
            path: visible(super::short(path)).into_owned(),
            started: Instant::now(),
            status: AtomicU16::new(CLIENT_LEFT),
            key: OnceLock::new(),
            model: OnceLock::new(),
            failure: OnceLock::new(),
            streamed: OnceLock::new(),
        }
    }

    pub(super) fn status(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub(super) fn key(&self, name: &Arc<str>) {
        let _ = self.key.set(Arc::clone(name));
    }

    pub(super) fn model(&self, model: &str) {
        let model: String = model.chars().take(128).collect();
        let _ = self.model.set(visible(&model).into_owned());
    }

    pub(super) fn failed(&self, failure: ResponseFailure) {
        let _ = self.failure.set(failure);
    }

    pub(super) fn failed_in_stream(&self, error: &TurnError) {
        self.failed(ResponseFailure::from(error));
        self.streamed("failed");
    }

    pub(super) fn streamed(&self, ending: &'static str) {
        let _ = self.streamed.set(ending);
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let status = self.status.load(Ordering::Relaxed);
        let failure = self.failure.get();
        let level = match failure {
            Some(failure) => failure.error.code.row().level,
            None if self.path == "/healthz"
                || self.path == "/health"
                || self.path.starts_with("/health/") =>
            {
                LogLevel::Debug
            }
            None => LogLevel::Info,
        };
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    request_id = %self.id,
                    method = %self.method,
                    path = %self.path,
                    status,
                    ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
                    key = self.key.get().map(|name| &**name),
                    model = self.model.get().map(String::as_str),
                    stream = self.streamed.get().copied(),
                    code = failure.map(|failure| failure.error.code.row().code),
                    cause = failure.and_then(|failure| failure.error.cause.as_deref()),
                    "request"
                )
            };
        }
        match level {
            LogLevel::Debug => line!(debug),
            LogLevel::Info => line!(info),
            LogLevel::Warn => line!(warn),
            LogLevel::Error => line!(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In every log line, also where ibeam is a library.
    #[test]
    fn hidden_characters_of_a_path_are_shown() {
        let log = RequestLog::new(String::new(), Method::GET, "/v1/\u{202e}\u{85}x");
        log.model("a\u{2028}b");
        assert_eq!(log.path, "/v1/\\u202e\\u0085x");
        assert_eq!(log.model.get().map(String::as_str), Some("a\\u2028b"));
    }
}
