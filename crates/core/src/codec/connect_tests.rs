use super::*;
use ibeam_proto::aiserver::ErrorKind;
use proptest::prelude::*;

fn quota_error() -> ConnectError {
    ConnectError {
        code: Code::ResourceExhausted,
        message: "slow down".into(),
        detail: Some(Box::new(CursorError {
            kind: ErrorKind::ErrorRateLimited,
            title: "Limit".into(),
            detail: "Wait a while".into(),
            retryable: Some(true),
            additional_info: [("providerStatusCode".to_owned(), "400".to_owned())].into(),
            action_required: "cyber_policy_review".to_owned(),
        })),
    }
}

#[test]
fn end_frame_is_the_documented_bytes() {
    assert_eq!(&end_frame(None)[..], b"\x02\x00\x00\x00\x02{}");
    assert_eq!(read_all(&[b"\x02\x00\x00\x00\x02{}"]), [Ok(Envelope::End(None))]);
}

#[test]
fn error_details_survive_the_wire_both_ways() {
    let error = quota_error();
    assert_eq!(read_all(&[&end_frame(Some(&error))]), [Ok(Envelope::End(Some(error.clone())))]);
    let body = error.to_json().to_string();
    assert!(!body.contains('='), "base64 without padding: {body}");
    assert_eq!(ConnectError::from_json(body.as_bytes()), Some(error));
}

#[test]
fn readable_details_are_used_when_the_encoded_ones_are_missing() {
    let body = br#"{"code":"resource_exhausted","details":[{"type":"aiserver.v1.ErrorDetails",
        "debug":{"error":"ERROR_OUTDATED_CLIENT","details":{"title":"Update Required"}}}]}"#;
    let detail = ConnectError::from_json(body).unwrap().detail.unwrap();
    assert_eq!(detail.kind, ErrorKind::ErrorOutdatedClient);
    assert_eq!(detail.title, "Update Required");
}

#[test]
fn grpc_web_trailers_end_the_stream() {
    let ok = frame(0x80, b"grpc-status: 0\r\n");
    assert_eq!(read_all(&[&ok]), [Ok(Envelope::End(None))]);
    let failed = frame(0x80, b"grpc-status: 16\r\ngrpc-message: not%20signed%20in\r\n");
    let want = ConnectError::new(Code::Unauthenticated, "not signed in");
    assert_eq!(read_all(&[&failed]), [Ok(Envelope::End(Some(want)))]);
}

#[test]
fn gzip_messages_are_inflated_and_invalid_data_is_an_error() {
    use std::io::Write as _;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"hello").unwrap();
    let packed = frame(0x01, &gz.finish().unwrap());
    assert_eq!(read_all(&[&packed]), [Ok(Envelope::Message(Bytes::from_static(b"hello")))]);
    assert_eq!(read_all(&[&frame(0x01, b"no gzip")]), [Err(FrameError::Gzip)]);
}

#[test]
fn oversize_and_unknown_flags_are_refused_from_the_header_alone() {
    assert_eq!(read_all(&[b"\x00\xff\xff\xff\xff"]), [Err(FrameError::TooLarge(0xffff_ffff))]);
    assert_eq!(read_all(&[b"\x40\x00\x00\x00\x00"]), [Err(FrameError::Flags(0x40))]);
}

fn gzip(payload: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(payload).unwrap();
    out.finish().unwrap()
}

#[test]
fn a_payload_inflates_up_to_the_limit() {
    let stored = |len| {
        use std::io::Write as _;
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        out.write_all(&vec![0; len]).unwrap();
        frame(FLAG_GZIP, &out.finish().unwrap())
    };
    let Ok(Envelope::Message(payload)) = &read_all(&[&stored(MAX_INFLATED)])[0] else {
        panic!("the largest payload is refused")
    };
    assert_eq!(payload.len(), MAX_INFLATED);
    let large = stored(MAX_INFLATED + 1);
    assert_eq!(read_all(&[&large]), [Err(FrameError::TooLarge(MAX_INFLATED + 1))]);
}

#[test]
fn large_and_small_messages_are_inflated_whole() {
    for count in [3, 300_000, 700_000_u32] {
        let text: Vec<u8> = (0..count).flat_map(u32::to_be_bytes).collect();
        assert_eq!(inflate(&gzip(&text), MAX_INFLATED).unwrap(), text);
    }
}

#[test]
fn message_with_a_wrong_length_is_an_error() {
    for length in [1_000, 1_200_000_u32] {
        let text: Vec<u8> = (0..length / 4).flat_map(u32::to_be_bytes).collect();
        for announced in [0, length - 1, length + 1] {
            let mut packed = gzip(&text);
            let end = packed.len() - 4;
            packed.truncate(end);
            packed.extend_from_slice(&announced.to_le_bytes());
            let read = inflate(&packed, MAX_INFLATED);
            assert_eq!(read, Err(FrameError::Gzip), "{length} as {announced}");
        }
    }
}

#[test]
fn compression_ratio_is_limited() {
    let zeros = |len| frame(FLAG_GZIP, &gzip(&vec![0; len]));
    let payload = Bytes::from(vec![0; ANY_RATIO]);
    assert_eq!(read_all(&[&zeros(ANY_RATIO)]), [Ok(Envelope::Message(payload))]);
    let bomb = zeros(8 * ANY_RATIO);
    assert!(bomb.len() * MAX_RATIO < 8 * ANY_RATIO, "{}", bomb.len());
    assert_eq!(read_all(&[&bomb]), [Err(FrameError::TooLarge(8 * ANY_RATIO))]);
}

/// It is parsed whole: a list of empty details would be sixty times as large as its bytes.
#[test]
fn last_frame_is_limited_on_the_wire_and_inflated() {
    let end = |flags: u8, length: usize| {
        let body =
            format!(r#"{{"error":{{"code":"internal","message":"{}"}}}}"#, " ".repeat(length));
        let body = if flags & FLAG_GZIP == 0 { body.into_bytes() } else { gzip(body.as_bytes()) };
        read_all(&[&frame(flags, &body)]).remove(0)
    };
    for kind in [FLAG_END, FLAG_TRAILER] {
        for gzipped in [0, FLAG_GZIP] {
            assert!(end(kind | gzipped, MAX_END - 100).is_ok());
            let large = end(kind | gzipped, MAX_END);
            assert!(
                matches!(large, Err(FrameError::TooLarge(size)) if size > MAX_END),
                "{large:?}"
            );
        }
    }
    // The header is enough.
    assert_eq!(read_all(&[b"\x02\x00\x04\x00\x01"]), [Err(FrameError::TooLarge(MAX_END + 1))]);
}

#[test]
fn an_announced_length_alone_takes_little_memory() {
    let mut decoder = Decoder::new();
    let mut head = vec![0];
    head.extend_from_slice(&u32::try_from(MAX_PAYLOAD).unwrap().to_be_bytes());
    decoder.push(head.into());
    assert_eq!(decoder.next(), Ok(None));
    assert!(decoder.partial.capacity() <= 2 * MAX_RESERVED, "{}", decoder.partial.capacity());
}

#[test]
fn mid_frame_detects_a_cut_stream() {
    let mut decoder = Decoder::new();
    decoder.push(Bytes::from_static(b"\x00\x00\x00"));
    assert_eq!(decoder.next(), Ok(None));
    assert!(decoder.mid_frame());
}

proptest! {
    #[test]
    fn any_split_gives_the_same_envelopes(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
        cuts in prop::collection::vec(1_usize..40, 1..60),
    ) {
        let mut bytes = Vec::new();
        for payload in &payloads {
            bytes.extend_from_slice(&frame(0, payload));
        }
        bytes.extend_from_slice(&end_frame(Some(&quota_error())));
        let mut chunks = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            chunks.push(head);
            rest = tail;
        }
        prop_assert_eq!(read_all(&chunks), read_all(&[&bytes]));
        prop_assert_eq!(read_all(&[&bytes]).len(), payloads.len() + 1);
    }

    #[test]
    fn no_bytes_panic(data in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz(&data);
    }
}
