use tokio::time::Instant;

use super::*;

/// What came in one frame of the body, and when.
async fn frames(response: Response<Body>) -> Vec<(u64, String)> {
    let start = Instant::now();
    let mut body = response.into_body();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        frames.push((start.elapsed().as_secs(), String::from_utf8(data.to_vec()).unwrap()));
    }
    frames
}

#[tokio::test]
async fn streamed_answer_has_openais_chunks() {
    let body = r#"{"model":"auto","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]}"#;
    let response = call(Fake { steps: hello(), ..Fake::default() }, post(body)).await;
    assert_eq!(response.headers()["cache-control"], "no-cache");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert!(!response.headers().contains_key("content-length"));
    insta::assert_snapshot!(shown(response).await);
}

#[tokio::test]
async fn ready_events_share_a_frame() {
    let response = call(Fake { steps: hello(), ..Fake::default() }, post(chat_body(true))).await;
    assert_eq!(frames(response).await.len(), 1);
    // Up to a point.
    let mut steps = vec![text(&"x".repeat(1000)); 100];
    steps.push(finished(FinishReason::Stop));
    let response = call(Fake { steps, ..Fake::default() }, post(chat_body(true))).await;
    let frames = frames(response).await;
    assert!((5..=10).contains(&frames.len()), "{}", frames.len());
    assert!(frames.iter().all(|(_, data)| data.len() < super::super::FRAME_CAP + 2000));
}

#[tokio::test(start_paused = true)]
async fn silent_stream_gets_comments() {
    let steps = vec![
        text("a"),
        Step::Wait(Duration::from_secs(25)),
        text("b"),
        Step::Wait(Duration::from_secs(9)),
        finished(FinishReason::Stop),
    ];
    let response = call(Fake { steps, ..Fake::default() }, post(chat_body(true))).await;
    let frames = frames(response).await;
    let times: Vec<u64> = frames.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [0, 10, 20, 25, 34]);
    assert_eq!(frames[1].1, ": keep-alive\n\n");
    assert_eq!(frames[2].1, ": keep-alive\n\n");
    assert!(frames[4].1.ends_with("data: [DONE]\n\n"));
}

#[tokio::test(start_paused = true)]
async fn late_failure_is_an_event_in_the_stream() {
    let steps = vec![
        text("half"),
        Step::Wait(Duration::from_secs(1)),
        failed(ErrorCode::Unavailable, "the backend went away"),
    ];
    let (router, fake) = app(Fake { steps, ..Fake::default() });
    let response = router.oneshot(post(chat_body(true))).await.unwrap();
    is(&response, 200);
    let stream = whole(response).await;
    assert!(stream.ends_with(
        "data: {\"error\":{\"message\":\"the backend went away\",\"type\":\"server_error\",\
         \"param\":null,\"code\":\"unavailable\",\"status\":503}}\n\n"
    ));
    assert!(!stream.contains("[DONE]"));
    assert_eq!(fake.alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn cut_off_turn_is_an_error_in_the_stream() {
    let steps = vec![text("half"), Step::Wait(Duration::from_secs(1))];
    let response = call(Fake { steps, ..Fake::default() }, post(chat_body(true))).await;
    let stream = whole(response).await;
    assert!(stream.contains("upstream_closed") && !stream.contains("[DONE]"), "{stream}");
}

#[tokio::test(start_paused = true)]
async fn headers_wait_for_the_first_event_within_the_grace_period() {
    // A slow failure within the grace still has its status.
    let steps = vec![Step::Wait(Duration::from_secs(9)), failed(ErrorCode::Timeout, "slow")];
    is(&call(Fake { steps, ..Fake::default() }, post(chat_body(true))).await, 504);

    // After it, the headers are out and the failure comes in the stream. The time to
    // the start of the turn does not count.
    let steps = vec![
        Step::Event(TurnEvent::Started),
        Step::Wait(Duration::from_secs(15)),
        failed(ErrorCode::Timeout, "slow"),
    ];
    for start_after in [0, 50].map(Duration::from_secs) {
        let fake = Fake { steps: steps.clone(), start_after, ..Fake::default() };
        let start = Instant::now();
        let response = call(fake, post(chat_body(true))).await;
        is(&response, 200);
        assert_eq!(start.elapsed(), start_after + Duration::from_secs(10));
        let frames = frames(response).await;
        assert_eq!(frames[0].0, 0, "something goes out at once");
        let (time, last) = frames.last().unwrap();
        assert!(last.contains("\"code\":\"timeout\""), "{last}");
        assert_eq!(*time, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn disconnected_stream_drops_the_turn() {
    let (router, fake) = app(Fake { steps: vec![text("a"), Step::Hang], ..Fake::default() });
    let response = router.oneshot(post(chat_body(true))).await.unwrap();
    let mut body = response.into_body();
    assert!(body.frame().await.is_some());
    assert_eq!(fake.alive.load(Ordering::SeqCst), 1);
    drop(body);
    assert_eq!(fake.alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn finished_turn_is_released_before_the_client_has_read_it() {
    let (router, fake) = app(Fake { steps: hello(), ..Fake::default() });
    let response = router.oneshot(post(chat_body(true))).await.unwrap();
    let mut body = response.into_body();
    let _first = body.frame().await;
    assert_eq!(fake.alive.load(Ordering::SeqCst), 0);
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn late_start_failure_still_has_its_status() {
    let refuse = Some(TurnError::new(ErrorCode::Overloaded, "all turns are in use"));
    let start_after = Duration::from_secs(60);
    let response =
        call(Fake { start_after, refuse, ..Fake::default() }, post(chat_body(true))).await;
    is(&response, 429);
    assert!(response.headers().contains_key("retry-after"));
}
