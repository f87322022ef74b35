use std::{sync::atomic::Ordering as Atomic, time::Duration};

use ibeam_core::codec::connect::{self, Code, ConnectError};

use super::*;
use crate::driver::{Dial as _, LinkReceiver as _, LinkSender as _};
use crate::{
    driver::{
        Driver as _, Transport,
        testing::{Backend, RUN, all_gone, driver, framed, read, settle, spec},
    },
    net::{
        pool::PoolStats,
        testing::{Mode, Peer, answer},
    },
};

#[tokio::test(start_paused = true)]
async fn a_stream_goes_both_ways() {
    let peer = Peer::echo(100);
    let (driver, tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    for text in ["one", "two"] {
        link.tx.send(framed(text)).await.unwrap();
        assert_eq!(read(&mut link.rx, 8).await, framed(text));
    }
    assert_eq!(driver.stats().http2, PoolStats { connections: 1, streams: 1 });
    drop(link);
    settle().await;
    assert_eq!(driver.stats().http2, PoolStats { connections: 1, streams: 0 });
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
    drop(driver);
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn a_clean_end_is_answered_with_a_clean_end() {
    let ended = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&ended);
    let peer = Peer::new(100, move |_, request, mut respond| {
        let seen = Arc::clone(&seen);
        Box::pin(async move {
            let mut send = respond.send_response(answer(200), false).unwrap();
            send.send_data(connect::end_frame(None), true).unwrap();
            let mut body = request.into_body();
            let mut clean = true;
            while let Some(chunk) = body.data().await {
                clean &= chunk.is_ok();
            }
            *seen.lock() = Some(clean);
        })
    });
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    assert_eq!(read(&mut link.rx, 7).await, connect::end_frame(None));
    assert!(link.rx.next().await.is_none());
    assert!(link.rx.next().await.is_none());
    settle().await;
    assert_eq!(*ended.lock(), Some(true));
    assert!(matches!(link.tx.send(framed("late")).await, Err(LinkError::Reset(_))));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_no_more_input_ends_cleanly() {
    // Dropping the request's body unread resets the stream with NO_ERROR.
    let peer = Peer::new(100, |_, request, mut respond| {
        Box::pin(async move {
            let mut send = respond.send_response(answer(200), false).unwrap();
            send.send_data(connect::end_frame(None), true).unwrap();
            drop((send, request));
        })
    });
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    settle().await;
    assert_eq!(read(&mut link.rx, 7).await, connect::end_frame(None));
    assert!(link.rx.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn small_frames_come_together_and_no_ending_is_lost() {
    for reset in [false, true] {
        let peer = Peer::new(100, move |_, _, mut respond| {
            Box::pin(async move {
                let mut send = respond.send_response(answer(200), false).unwrap();
                for n in 0..1000_u32 {
                    send.send_data(Bytes::copy_from_slice(&n.to_be_bytes()), false).unwrap();
                }
                settle().await;
                if reset {
                    send.send_reset(Reason::INTERNAL_ERROR);
                } else {
                    send.send_data(Bytes::new(), true).unwrap();
                }
            })
        });
        let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
        let mut link = driver.open(spec()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (mut chunks, mut bytes) = (0, Vec::new());
        let end = loop {
            match link.rx.next().await {
                Some(Ok(chunk)) => {
                    chunks += 1;
                    bytes.extend_from_slice(&chunk);
                }
                end => break end,
            }
        };
        assert_eq!(bytes, (0..1000_u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
        assert!(chunks < 5, "{chunks}");
        assert_eq!(end.is_some_and(|item| item.is_err()), reset);
        assert!(link.rx.next().await.is_none());
    }
}

/// The connection keeps memory for the longest queue of frames that it ever had.
#[tokio::test(start_paused = true)]
async fn what_is_not_read_is_held_outside_of_the_connection() {
    const FRAMES: u32 = 100_000;
    let peer = Peer::new(100, move |_, _, mut respond| {
        Box::pin(async move {
            let mut send = respond.send_response(answer(200), false).unwrap();
            for n in 0..FRAMES {
                send.send_data(Bytes::copy_from_slice(&n.to_be_bytes()), n + 1 == FRAMES).unwrap();
            }
        })
    });
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    let first = link.rx.next().await.unwrap().unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), link.rx.hold()).await.is_err());
    {
        let AgentReceiver::H2(receiver) = &mut link.rx else { panic!("it is HTTP/2") };
        let held = receiver.held.len();
        let Http2State::Body(body, _) = &mut receiver.state else { panic!("it has a body") };
        assert!(held > 100_000, "{held}");
        assert_eq!(body.flow_control().used_capacity(), held, "none is left in the queue");
        assert!(held < 4 * FRAMES as usize - first.len(), "the window stops the peer");
    }
    let mut bytes = first.to_vec();
    while let Some(chunk) = link.rx.next().await {
        let chunk = chunk.unwrap();
        assert!(chunk.len() <= GATHER_TO + GATHER_BELOW);
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(bytes, (0..FRAMES).flat_map(u32::to_be_bytes).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_stream_beats_and_calls_when_more_is_unread_than_signs_of_life() {
    let peer = Peer::echo(100);
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    assert!(link.rx.sleep(framed("ab")).is_none(), "there is no answer yet");
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 6).await;
    let begun = Instant::now();
    let (asleep, called) = link.rx.sleep(framed("ab")).unwrap();
    called.notified().await;
    // Three beats came back unread, which the fourth finds.
    assert_eq!(begun.elapsed().as_secs(), 20);
    drop(asleep);
    assert_eq!(read(&mut link.rx, 21).await, [framed("ab"), framed("ab"), framed("ab")].concat());
    tokio::time::sleep(Duration::from_secs(60)).await;
    link.tx.send(framed("y")).await.unwrap();
    assert_eq!(read(&mut link.rx, 6).await, framed("y"), "awake, it beats no more");
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_stream_calls_when_it_is_reset() {
    let peer = Peer::new(100, |_, _request, mut respond| {
        Box::pin(async move {
            let mut send = respond.send_response(answer(200), false).unwrap();
            send.send_data(framed("x"), false).unwrap();
            tokio::time::sleep(Duration::from_secs(7)).await;
            send.send_reset(Reason::INTERNAL_ERROR);
        })
    });
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    read(&mut link.rx, 6).await;
    let begun = Instant::now();
    let (_asleep, called) = link.rx.sleep(framed("ab")).unwrap();
    called.notified().await;
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert!(matches!(link.rx.next().await, Some(Err(LinkError::Reset(_)))));
}

#[tokio::test(start_paused = true)]
async fn cancel_wakes_a_reader_that_waits() {
    for answered in [false, true] {
        let peer = if answered { Peer::echo(100) } else { deaf() };
        let (driver, tasks) = driver(&peer.connector(), Transport::H2);
        let AgentLink { tx, mut rx } = driver.open(spec()).await.unwrap();
        let waiting = tasks.spawn("test", async move { (rx.next().await, rx.next().await) });
        settle().await;
        assert!(!waiting.is_finished());
        tx.cancel();
        let (first, second) = waiting.await.unwrap();
        assert!(matches!(first, Some(Err(LinkError::Reset(_)))), "{first:?}");
        assert!(second.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_is_a_cancel_reset_at_the_peer() {
    let peer = Peer::echo(100);
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 6).await;
    link.tx.cancel();
    assert!(matches!(link.rx.next().await, Some(Err(LinkError::Reset(_)))));
    assert!(link.rx.next().await.is_none());
    assert!(matches!(link.tx.send(framed("y")).await, Err(LinkError::Reset(_))));
    settle().await;
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
}

/// Never answers and never reads; notes how the request ended.
fn deaf() -> Peer {
    Peer::new(100, |peer, request, respond| {
        Box::pin(async move {
            let mut body = request.into_body();
            let _respond = respond;
            // Takes what comes, and gives no window back.
            while let Some(chunk) = body.data().await {
                if let Err(error) = chunk {
                    peer.resets.lock().push(error.reason());
                    return;
                }
            }
        })
    })
    .window(64 * 1024)
}

#[tokio::test(start_paused = true)]
async fn cancel_works_before_an_answer_and_with_a_shut_window() {
    let peer = deaf();
    let (driver, tasks) = driver(&peer.connector(), Transport::H2);
    let link = driver.open(spec()).await.unwrap();
    let big = Bytes::from(vec![0; 1024 * 1024]);
    link.tx.send(big.clone()).await.unwrap();
    let stuck = tokio::time::timeout(Duration::from_secs(60), link.tx.send(big)).await;
    assert!(stuck.is_err(), "the window is shut");
    link.tx.cancel();
    settle().await;
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
    drop((link, driver));
    all_gone(&tasks).await;
}

#[tokio::test(start_paused = true)]
async fn cancel_wakes_a_sender_that_waits() {
    let peer = deaf();
    let (driver, tasks) = driver(&peer.connector(), Transport::H2);
    let link = Arc::new(driver.open(spec()).await.unwrap());
    link.tx.send(Bytes::from(vec![0; 256 * 1024])).await.unwrap();
    let waiting = tasks.spawn("test", {
        let link = Arc::clone(&link);
        async move { link.tx.send(framed("x")).await }
    });
    settle().await;
    assert!(!waiting.is_finished());
    link.tx.cancel();
    assert!(matches!(waiting.await.unwrap(), Err(LinkError::Reset(_))));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_receiver_cancels() {
    let peer = Peer::echo(100);
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let link = driver.open(spec()).await.unwrap();
    settle().await;
    drop(link.rx);
    settle().await;
    assert_eq!(*peer.resets.lock(), [Some(Reason::CANCEL)]);
    assert!(link.tx.send(framed("x")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_megabyte_passes_a_64_kib_window_with_back_pressure() {
    // Reads 16 KiB per second.
    let peer = Peer::new(100, |peer, request, mut respond| {
        Box::pin(async move {
            let mut body = request.into_body();
            let mut send = respond.send_response(answer(200), false).unwrap();
            let mut owed = 0;
            while let Some(Ok(chunk)) = body.data().await {
                owed += chunk.len();
                peer.received.fetch_add(chunk.len(), Atomic::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                body.flow_control().release_capacity(chunk.len()).unwrap();
                if owed >= 1024 * 1024 {
                    owed = 0;
                    send.send_data(Bytes::from_static(b"got it"), false).unwrap();
                }
            }
        })
    })
    .window(64 * 1024);
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    let megabyte = Bytes::from(vec![7; 1024 * 1024]);
    link.tx.send(megabyte.clone()).await.unwrap();
    let began = Instant::now();
    link.tx.send(megabyte).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(peer.received.load(Atomic::SeqCst) >= 512 * 1024);
    assert_eq!(read(&mut link.rx, 12).await, b"got itgot it");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_send_leaves_whole_messages() {
    let peer = Peer::echo(100).window(64 * 1024);
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    let big = connect::frame(0, &vec![1; 200 * 1024]);
    link.tx.send(big.clone()).await.unwrap();
    // Given up while the window is shut.
    let given_up =
        tokio::time::timeout(Duration::ZERO, link.tx.send(framed("never"))).await.is_err();
    link.tx.send(framed("after")).await.unwrap();
    let rest = if given_up {
        framed("after").to_vec()
    } else {
        [framed("never"), framed("after")].concat()
    };
    let got = read(&mut link.rx, big.len() + rest.len()).await;
    assert_eq!(&got[big.len()..], rest);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_comes_as_the_first_item() {
    let backend = Backend::default();
    backend.can(RUN, 401, r#"{"code":"unauthenticated","message":"who are you?"}"#);
    let (driver, _tasks) = driver(&backend.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    let _ = link.tx.send(framed("x")).await;
    let error = link.rx.next().await.unwrap().unwrap_err();
    assert_eq!(
        error,
        LinkError::Status {
            status: 401,
            error: Some(ConnectError::new(Code::Unauthenticated, "who are you?")),
            retry_after: None
        }
    );
    assert!(link.rx.next().await.is_none());
    drop(link);
    assert_eq!(driver.stats().http2.streams, 0);
}

#[tokio::test(start_paused = true)]
async fn resets_keep_their_reason() {
    for (reason, refused) in [(Reason::REFUSED_STREAM, true), (Reason::INTERNAL_ERROR, false)] {
        let peer = Peer::new(100, move |_, _, mut respond| {
            Box::pin(async move { respond.send_reset(reason) })
        });
        let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
        let mut link = driver.open(spec()).await.unwrap();
        match link.rx.next().await.unwrap().unwrap_err() {
            LinkError::Refused(_) => assert!(refused),
            LinkError::Reset(why) => assert!(!refused && why.contains("INTERNAL_ERROR"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_ends_a_parked_stream() {
    let peer = Peer::echo(100);
    let (driver, _tasks) = driver(&peer.connector(), Transport::H2);
    let mut link = driver.open(spec()).await.unwrap();
    link.tx.send(framed("x")).await.unwrap();
    read(&mut link.rx, 6).await;
    peer.set(Mode::BlackHole);
    let began = Instant::now();
    assert!(matches!(link.rx.next().await, Some(Err(LinkError::Reset(_)))));
    assert!(began.elapsed() <= Duration::from_secs(31));
    drop(link);
    assert_eq!(driver.stats().http2.streams, 0);
}
