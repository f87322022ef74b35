use std::convert::Infallible;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::{
    keys::Caller,
    session::{NameSource, SessionName},
};

#[tokio::test]
async fn unstreamed_answer_is_one_object() {
    let fake = Fake { steps: hello(), ..Fake::default() };
    insta::assert_snapshot!(shown(call(fake, post(chat_body(false))).await).await);
}

#[tokio::test]
async fn unstreamed_tool_calls_are_one_object() {
    let fake = Fake { steps: one_call(), ..Fake::default() };
    insta::assert_snapshot!(shown(call(fake, post(chat_body(false))).await).await);
}

#[tokio::test]
async fn paths_work_without_v1() {
    for path in ["/chat/completions", "/v1/chat/completions"] {
        let mut request = post(chat_body(false));
        *request.uri_mut() = path.parse().unwrap();
        is(&call(Fake { steps: hello(), ..Fake::default() }, request).await, 200);
    }
}

/// Seed 002's error table: every row, through the whole path.
#[tokio::test]
async fn errors_have_the_documented_bodies() {
    let refuse =
        |code, message| Fake { refuse: Some(TurnError::new(code, message)), ..Fake::default() };
    let rows = [
        (refuse(ErrorCode::ModelNotFound, "there is no model `auto`"), chat_body(false)),
        (Fake::default(), "{\"model\": \"auto\",".to_owned()),
        (Fake::default(), r#"{"model":"auto","messages":[]}"#.to_owned()),
        (refuse(ErrorCode::NotAuthenticated, "not signed in; run `ibeam login`"), chat_body(false)),
        (refuse(ErrorCode::RateLimited, "the rate limit was hit"), chat_body(false)),
        (
            refuse(
                ErrorCode::Internal,
                "internal error; the gateway's log has the \
                                      details",
            ),
            chat_body(false),
        ),
    ];
    let mut table = String::new();
    for (fake, body) in rows {
        table.push_str(&shown(call(fake, post(body)).await).await);
        table.push_str("\n\n");
    }
    insta::assert_snapshot!(table);
}

/// The same failure has the same status whether a stream was asked for or not, and
/// whether it comes at the start or as the first event.
#[tokio::test]
async fn early_failure_is_an_http_status() {
    for stream in [false, true] {
        for code in ErrorCode::ALL {
            let status = code.row().status;
            let refuse = Some(TurnError::new(code, "no"));
            let at_start = Fake { refuse, ..Fake::default() };
            let steps = vec![Step::Event(TurnEvent::Started), failed(code, "no")];
            let at_first = Fake { steps, ..Fake::default() };
            for fake in [at_start, at_first] {
                let response = call(fake, post(chat_body(stream))).await;
                is(&response, status);
                assert_eq!(code_of(&whole(response).await), code.row().code);
            }
        }
    }
}

#[tokio::test]
async fn turn_without_an_ending_is_an_error() {
    for stream in [false, true] {
        let fake = Fake { steps: vec![Step::Event(TurnEvent::Started)], ..Fake::default() };
        let response = call(fake, post(chat_body(stream))).await;
        is(&response, 502);
        assert_eq!(code_of(&whole(response).await), "upstream_closed");
    }
}

#[tokio::test]
async fn ignored_parameters_are_in_a_header() {
    for stream in [false, true] {
        let body = format!(
            r#"{{"model":"auto","stream":{stream},"temperature":0,"seed":1,"messages":[{{"role":"user","content":"Hi"}}]}}"#
        );
        let response = call(Fake { steps: hello(), ..Fake::default() }, post(body)).await;
        assert_eq!(response.headers()["x-ibeam-controls"], "ignored=(temperature seed)");
    }
    let plain = call(Fake { steps: hello(), ..Fake::default() }, post(chat_body(true))).await;
    assert!(!plain.headers().contains_key("x-ibeam-controls"));
}

#[tokio::test]
async fn strict_mode_refuses_ignored_parameters() {
    let body = r#"{"model":"auto","max_tokens":9,"seed":1,"user":"ann","messages":[{"role":"user","content":"Hi"}]}"#;
    // The setting, the header, and whether it is refused.
    for (strict, header, refused) in [
        (false, None, false),
        (true, None, true),
        (false, Some("true"), true),
        (false, Some("1"), true),
        (true, Some("False"), false),
    ] {
        let settings = ApiSettings { strict, ..ApiSettings::default() };
        let (router, fake) = app(Fake { settings, steps: hello(), ..Fake::default() });
        let mut request = post(body.to_owned());
        if let Some(header) = header {
            request.headers_mut().insert("x-ibeam-strict", header.parse().unwrap());
        }
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status() == 400, refused, "{strict} {header:?}");
        assert_eq!(fake.seen.lock().is_empty(), refused);
        if refused {
            let error = whole(response).await;
            assert_eq!(code_of(&error), "unsupported_parameter");
            assert!(error.contains(r#""param":"seed""#), "the first one: {error}");
        } else {
            let controls = &response.headers()["x-ibeam-controls"];
            assert_eq!(controls, "emulated=(max_tokens), ignored=(seed user)");
        }
    }
}

#[tokio::test]
async fn invalid_strict_header_is_refused() {
    for word in ["maybe", "", "truee", "\u{e9}"] {
        let (router, fake) = app(Fake { steps: hello(), ..Fake::default() });
        let mut request = post(chat_body(false));
        let value = http::HeaderValue::from_bytes(word.as_bytes()).unwrap();
        request.headers_mut().insert("x-ibeam-strict", value);
        let response = router.oneshot(request).await.unwrap();
        is(&response, 400);
        let error = whole(response).await;
        assert_eq!(code_of(&error), "invalid_value", "{word}");
        assert!(error.contains(r#""param":"x-ibeam-strict""#), "{error}");
        assert!(fake.seen.lock().is_empty());
    }
}

#[tokio::test]
async fn unclear_reuse_header_is_refused() {
    for (word, fresh) in [("on", Some(false)), ("OFF", Some(true)), ("0", Some(true)), ("no", None)]
    {
        let (router, fake) = app(Fake { steps: hello(), ..Fake::default() });
        let mut request = post(chat_body(false));
        request.headers_mut().insert("x-ibeam-session-reuse", word.parse().unwrap());
        let response = router.oneshot(request).await.unwrap();
        let seen = fake.seen.lock().first().map(|(_, context)| context.fresh);
        assert_eq!(seen, fresh, "{word}");
        is(&response, if fresh.is_some() { 200 } else { 400 });
    }
}

#[tokio::test]
async fn headers_reach_the_turn() {
    let (router, fake) = app(Fake { steps: hello(), ..Fake::default() });
    let mut request = post(chat_body(false));
    for (name, value) in [
        ("x-request-id", "mine-1"),
        ("idempotency-key", "key-1"),
        ("x-stainless-retry-count", "2"),
        ("x-session-affinity", "window-1"),
        ("x-ibeam-session-reuse", "off"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.headers()["x-request-id"], "mine-1");
    let seen = fake.seen.lock();
    let (_, context) = &seen[0];
    let (name, source) = ("window-1".to_owned(), NameSource::Affinity);
    let expect = RequestContext {
        request_id: "mine-1".to_owned(),
        idempotency_key: Some("key-1".to_owned()),
        retry_count: 2,
        session: Some(SessionName { name, source }),
        fresh: true,
        workspace: None,
        body: Sha256::digest(chat_body(false)).into(),
        caller: Caller { id: Sha256::digest("").into(), ..Caller::default() },
    };
    assert_eq!(*context, expect);
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let settings = || ApiSettings { body_limit: 200, ..ApiSettings::default() };
    let large = chat_body(false).replace("Hi", &"x".repeat(300));
    // With a length, and without one.
    let chunked = Body::new(Chunks(large.clone().into_bytes()));
    for body in [Body::from(large.clone()), chunked] {
        let fake = Fake { settings: settings(), steps: hello(), ..Fake::default() };
        let response = call(fake, post(body)).await;
        is(&response, 413);
        assert_eq!(code_of(&whole(response).await), "request_too_large");
    }
    let chunked = Body::new(Chunks(chat_body(false).into_bytes()));
    let fake = Fake { settings: settings(), steps: hello(), ..Fake::default() };
    is(&call(fake, post(chunked)).await, 200);
}

#[tokio::test(start_paused = true)]
async fn oversized_body_is_not_read_to_its_end() {
    let settings = ApiSettings { body_limit: 200, ..ApiSettings::default() };
    let endless = post(Body::new(Endless));
    is(&call(Fake { settings, ..Fake::default() }, endless).await, 413);
}

#[tokio::test]
async fn compressed_bodies_are_refused() {
    let mut request = post(chat_body(false));
    request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    let response = call(Fake::default(), request).await;
    is(&response, 400);
    assert!(whole(response).await.contains("content-encoding"));
}

#[tokio::test]
async fn panic_in_a_handler_is_a_500_for_one_client() {
    let response = call(Fake { panics: true, ..Fake::default() }, post(chat_body(false))).await;
    is(&response, 500);
    let body = whole(response).await;
    assert_eq!(code_of(&body), "server_error");
    assert!(!body.contains("a bug"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn disconnected_client_drops_the_turn() {
    let mut steps = hello();
    steps.insert(3, Step::Hang);
    let (router, fake) = app(Fake { steps, ..Fake::default() });
    let waiting = router.oneshot(post(chat_body(false)));
    assert!(tokio::time::timeout(Duration::from_secs(60), waiting).await.is_err());
    assert_eq!(fake.seen.lock().len(), 1);
    assert_eq!(fake.alive.load(Ordering::SeqCst), 0);
}

/// Bytes in small pieces, with no length announced.
struct Chunks(Vec<u8>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        let end = self.0.len().min(7);
        let rest = self.0.split_off(end);
        let piece = std::mem::replace(&mut self.0, rest);
        let piece = Some(piece).filter(|piece| !piece.is_empty());
        Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece.into()))))
    }
}

struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(&[b' '; 65_536])))))
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_body_times_out() {
    // It sends a frame, pauses for less than the limit, and then for ever.
    let (sender, frames) = tokio::sync::mpsc::channel(4);
    sender.send(bytes::Bytes::from_static(b"{")).await.unwrap();
    let begin = tokio::time::Instant::now();
    let (router, _fake) = app(Fake::default());
    let (response, ()) = tokio::join!(router.oneshot(post(Body::new(Frames(frames)))), async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        sender.send(bytes::Bytes::from_static(b"\"model\"")).await.unwrap();
    });
    let response = response.unwrap();
    is(&response, 408);
    assert_eq!(response.headers()["connection"], "close");
    assert_eq!(begin.elapsed().as_secs(), 50);
    assert!(whole(response).await.contains("stalled"));
    drop(sender);
}

/// Never silent for long, and never done.
#[tokio::test(start_paused = true)]
async fn trickling_body_times_out() {
    let (sender, frames) = tokio::sync::mpsc::channel(4);
    let begin = tokio::time::Instant::now();
    let (router, _fake) = app(Fake::default());
    let trickle = async {
        while sender.send(bytes::Bytes::from_static(b" ")).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(7)).await;
        }
    };
    let request = router.oneshot(post(Body::new(Frames(frames))));
    let (response, ()) = tokio::join!(request, trickle);
    is(&response.unwrap(), 408);
    assert_eq!(begin.elapsed().as_secs() / 10, 12);
}

/// A body that comes piece by piece.
struct Frames(tokio::sync::mpsc::Receiver<bytes::Bytes>);

impl http_body::Body for Frames {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|data| data.map(|data| Ok(http_body::Frame::data(data))))
    }
}
