//! Answers that take long, on streams that must not look dead.
//!
//! The newest protocol has no sessions, and the library does not even send the head of an
//! answer before it knows what to say. Clients give up on a head after some minutes. So when
//! the answer does not come soon, its stream begins without it.

use std::{future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::time::{sleep, timeout};

use super::{
    door::Body,
    served::{EVENT_STREAM, JSON, KEEP_ALIVE},
};

/// How long a head may take: long enough for every answer that does not wait for a tool.
pub(super) const SOON: Duration = Duration::from_secs(2);

type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// The answer, or when it takes long, a stream that will hold it.
pub(super) async fn soon(mut answer: Answer) -> Response<Body> {
    if let Ok(response) = timeout(SOON, answer.as_mut()).await {
        return response;
    }
    let frames = stream::unfold(Phase::Awaited(answer), |phase| async {
        phase.next().await.map(|(bytes, phase)| (Ok(Frame::data(bytes)), phase))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

enum Phase {
    Awaited(Answer),
    Flows(Body),
    Over,
}

impl Phase {
    async fn next(self) -> Option<(Bytes, Self)> {
        let response = match self {
            Self::Awaited(mut answer) => tokio::select! {
                response = answer.as_mut() => response,
                () = sleep(KEEP_ALIVE) => {
                    return Some((Bytes::from_static(b":\n\n"), Self::Awaited(answer)));
                }
            },
            Self::Flows(body) => return flow(body).await,
            Self::Over => return None,
        };
        if has_type(&response, EVENT_STREAM) {
            return flow(response.into_body()).await;
        }
        // An error has a status of its own, too late. Its words are the same.
        let is_json = has_type(&response, JSON);
        let Ok(body) = response.into_body().collect().await;
        let event = [b"data: ", body.to_bytes().as_ref(), b"\n\n"].concat();
        is_json.then(|| (event.into(), Self::Over))
    }
}

async fn flow(mut body: Body) -> Option<(Bytes, Phase)> {
    loop {
        let Ok(frame) = body.frame().await?;
        if let Ok(bytes) = frame.into_data() {
            return Some((bytes, Phase::Flows(body)));
        }
    }
}

fn has_type(response: &Response<Body>, wanted: &str) -> bool {
    let given = response.headers().get(header::CONTENT_TYPE);
    given.is_some_and(|given| given.as_bytes().starts_with(wanted.as_bytes()))
}
