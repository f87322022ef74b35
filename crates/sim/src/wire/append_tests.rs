use prost::Message as _;

use super::*;
use crate::{config::SimSignIn, protobuf::hex};

fn read(rx: &mut mpsc::Receiver<Bytes>) -> Vec<u8> {
    let mut out = Vec::new();
    while let Ok(data) = rx.try_recv() {
        out.extend_from_slice(&data);
    }
    out
}

fn message(seqno: i64) -> ReceivedAppend {
    let data = vec![u8::try_from(seqno).unwrap()].into();
    ReceivedAppend { seqno, data, size: 1, listed: false }
}

fn put(appends: &Appends, seqno: i64) -> Appended {
    appends.append("r", message(seqno))
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_in_order_and_once() {
    let appends = Appends::default();
    // Before the stream, and in the wrong order.
    assert_eq!(put(&appends, 2), Appended::New);
    assert_eq!(put(&appends, 0), Appended::New);
    let OpenAppends { mut rx, bytes, .. } = appends.open("r").unwrap();
    assert_eq!(read(&mut rx), [0]);
    assert!(appends.open("r").is_none(), "a stream has one reader");
    assert_eq!(put(&appends, 0), Appended::Duplicate);
    assert_eq!(put(&appends, 2), Appended::Duplicate);
    assert_eq!(put(&appends, 1), Appended::New);
    assert_eq!(read(&mut rx), [1, 2]);
    // Sixteen in flight, the last first.
    for seqno in (3..19).rev() {
        assert_eq!(put(&appends, seqno), Appended::New);
    }
    assert_eq!(read(&mut rx), (3..19).collect::<Vec<u8>>());
    // Duplicates count as bytes, too.
    assert_eq!(bytes.load(std::sync::atomic::Ordering::Relaxed), 21);
    appends.close("r");
    assert_eq!(put(&appends, 19), Appended::Gone);
    assert_eq!(appends.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn appends_without_a_stream_are_dropped() {
    let appends = Appends::default();
    appends.append("lost", message(0));
    tokio::time::advance(ORPHAN * 2).await;
    appends.append("other", message(0));
    assert_eq!(appends.len(), 1);
}

#[tokio::test]
async fn every_body_format_is_read() {
    let sim = Sim::new(SimSignIn { any_token: true, ..SimSignIn::default() }.into());
    let mut rx = sim.service.appends.open("r").unwrap().rx;
    let request = |seqno: i64, binary: bool| BidiAppendRequest {
        data: if binary { String::new() } else { hex(&[0x3a, 0]) },
        data_binary: if binary { Bytes::from_static(&[0x3a, 0]) } else { Bytes::new() },
        request_id: Some(BidiRequestId { request_id: "r".to_owned() }),
        append_seqno: Some(seqno),
    };
    let enveloped = |r: &BidiAppendRequest| ibeam_core::codec::connect::encode(r).to_vec();
    let cases = [
        ("application/proto", request(0, false).encode_to_vec()),
        ("application/proto", request(1, true).encode_to_vec()),
        ("application/grpc-web+proto", enveloped(&request(2, false))),
        ("application/connect+proto", enveloped(&request(3, true))),
        (
            "application/json",
            br#"{"data":"3a00","requestId":{"requestId":"r"},"appendSeqno":"4"}"#.to_vec(),
        ),
        (
            "application/json; charset=utf-8",
            br#"{"dataBinary":"OgA=","requestId":{"requestId":"r"},"appendSeqno":5}"#.to_vec(),
        ),
    ];
    for (mime, body) in cases {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, mime.parse().unwrap());
        headers.insert(http::header::AUTHORIZATION, "Bearer x".parse().unwrap());
        let reply = answer(&sim, &headers, &body);
        assert_eq!(reply.status(), 200, "{mime}");
        assert_eq!(rx.try_recv().unwrap(), &[0x3a, 0][..], "{mime}");
    }
    assert_eq!(sim.stats().appends, 6);
}

#[tokio::test]
async fn hex_is_lower_case_and_without_spaces() {
    let sim = Sim::new(SimSignIn { any_token: true, ..SimSignIn::default() }.into());
    let mut headers = HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, "application/json".parse().unwrap());
    headers.insert(http::header::AUTHORIZATION, "Bearer x".parse().unwrap());
    for (data, status) in [("3a00", 200), ("3A00", 400), ("3a 00", 400), ("3a0", 400)] {
        let body = json!({"data": data, "requestId": {"requestId": data}, "appendSeqno": "0"});
        let reply = answer(&sim, &headers, body.to_string().as_bytes());
        assert_eq!(reply.status(), status, "{data}");
    }
    assert_eq!(sim.stats().violations, ["BidiAppend that cannot be read"]);
}
