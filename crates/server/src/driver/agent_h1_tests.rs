use super::*;
use crate::driver::{Dial as _, LinkReceiver as _, LinkSender as _};
use crate::driver::{
    Driver as _, Transport,
    testing::{APPEND as APPEND_PATH, Backend, all_gone, driver, framed, read, settle, spec},
};

#[tokio::test(start_paused = true)]
async fn http1_appends_in_order_and_reads_the_long_answer() {
    let backend = Backend::default();
    let (driver, tasks) = driver(&backend.connector(), Transport::H1);
    let mut link = driver.open(spec()).await.unwrap();
    for text in ["a", "bc"] {
        link.tx.send(framed(text)).await.unwrap();
    }
    let id = "11111111-1111-4111-8111-111111111111";
    let want = format!(
        r#"{{"data":"61","requestId":{{"requestId":"{id}"}},"appendSeqno":"0"}}{{"data":"6263","requestId":{{"requestId":"{id}"}},"appendSeqno":"1"}}"#
    );
    let got = read(&mut link.rx, want.len()).await;
    assert_eq!(String::from_utf8(got).unwrap(), want);
    assert_eq!(backend.paths(), ["RunSSE", "BidiAppend", "BidiAppend"]);
    {
        let seen = backend.seen.lock();
        let (_, head, body) = &seen[0];
        assert_eq!(head.version, http::Version::HTTP_11);
        assert_eq!(head.headers["content-type"], "application/connect+proto");
        assert_eq!(head.headers["x-cursor-streaming"], "true");
        let stream = BidiRequestId { request_id: id.to_owned() };
        assert_eq!(*body, connect::encode(&stream));
        let ids: Vec<_> = seen.iter().map(|(_, head, _)| &head.headers["x-request-id"]).collect();
        assert!(ids[0] == id && ids[1] != ids[2], "{ids:?}");
        assert!(seen.iter().all(|(_, head, _)| {
            head.headers["x-original-request-id"] == spec().original_request_id.as_str()
        }));
    }
    // The server ends the answer.
    backend.answer.lock().take();
    assert!(link.rx.next().await.is_none());
    drop((link, driver));
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn http1_cancel_delivers_what_was_sent_and_closes() {
    let backend = Backend::default();
    let (driver, tasks) = driver(&backend.connector(), Transport::H1);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("run")).await.unwrap();
    read(&mut link.rx, 10).await;
    link.tx.send(framed("cancel")).await.unwrap();
    link.tx.cancel();
    drop(link);
    settle().await;
    assert_eq!(backend.paths(), ["RunSSE", "BidiAppend", "BidiAppend"]);
    assert_eq!((*backend.closed.lock(), driver.stats().http1_streams), (1, 0));
    drop(driver);
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn http1_without_a_reader_stops() {
    let backend = Backend::default();
    let (driver, _tasks) = driver(&backend.connector(), Transport::H1);
    let link = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(driver.stats().http1_streams, 1);
    drop(link.rx);
    settle().await;
    assert_eq!(driver.stats().http1_streams, 0);
    assert!(link.tx.send(framed("x")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_refused_append_ends_the_stream_and_is_not_sent_again() {
    let backend = Backend::default();
    backend.can(APPEND_PATH, 429, r#"{"code":"resource_exhausted","message":"later"}"#);
    let (driver, _tasks) = driver(&backend.connector(), Transport::H1);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    let error = link.rx.next().await.unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Status { status: 429, error: Some(_), .. }), "{error:?}");
    assert!(link.rx.next().await.is_none());
    settle().await;
    let appends = backend.paths().iter().filter(|path| *path == "BidiAppend").count();
    assert_eq!(appends, 1);
}

#[tokio::test(start_paused = true)]
async fn an_append_without_an_answer_times_out() {
    // The stream's answer is never read, so the echoing append blocks for ever.
    let backend = Backend::default();
    let (driver, _tasks) = driver(&backend.connector(), Transport::H1);
    let mut link = driver.open(spec()).await.unwrap();
    settle().await;
    let (full, _keep) = tokio::sync::mpsc::channel(1);
    full.try_send(Bytes::new()).unwrap();
    let old = backend.answer.lock().replace(full);
    link.tx.send(framed("x")).await.unwrap();
    let began = Instant::now();
    let error = link.rx.next().await.unwrap().unwrap_err();
    assert!(matches!(error, LinkError::Reset(_)), "{error:?}");
    assert_eq!(began.elapsed().as_secs(), 30);
    drop(old);
}

/// Sends the run, and then another message whose append has this answer.
async fn second_append(backend: &Backend, status: u16) -> AgentLink {
    let (driver, _tasks) = driver(&backend.connector(), Transport::H1);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("run")).await.unwrap();
    read(&mut link.rx, 10).await;
    backend.can(APPEND_PATH, status, "");
    link.tx.send(framed("more")).await.unwrap();
    link
}

#[tokio::test(start_paused = true)]
async fn later_append_errors_concern_only_the_stream() {
    for status in [400, 404, 409, 500, 503] {
        let mut link = second_append(&Backend::default(), status).await;
        let error = link.rx.next().await.unwrap().unwrap_err();
        assert!(matches!(error, LinkError::Reset(_)), "{status}: {error:?}");
    }
    for status in [401, 403, 429] {
        let mut link = second_append(&Backend::default(), status).await;
        let error = link.rx.next().await.unwrap().unwrap_err();
        assert!(matches!(error, LinkError::Status { .. }), "{status}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn append_to_an_ended_stream_is_not_a_failure() {
    let backend = Backend::default();
    let mut link = second_append(&backend, 404).await;
    settle().await;
    // The end comes a moment after the refusal.
    let answer = backend.answer.lock().take().unwrap();
    answer.send(Bytes::from_static(b"end")).await.unwrap();
    drop(answer);
    assert_eq!(read(&mut link.rx, 3).await, b"end");
    assert!(link.rx.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn answer_continues_after_the_last_append() {
    let backend = Backend::default();
    let (driver, _tasks) = driver(&backend.connector(), Transport::H1);
    let AgentLink { tx, mut rx } = driver.open(spec()).await.unwrap();
    tx.send(framed("run")).await.unwrap();
    read(&mut rx, 10).await;
    drop(tx);
    let answer = backend.answer.lock().take().unwrap();
    for _ in 0..3 {
        settle().await;
        answer.send(Bytes::from_static(b"x")).await.unwrap();
        read(&mut rx, 1).await;
    }
    drop(answer);
    assert!(rx.next().await.is_none());
}
