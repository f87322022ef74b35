use proptest::prelude::*;

use super::*;

fn read(chunks: &[&[u8]]) -> Vec<SseEvent> {
    let mut events = SseDecoder::new(1000);
    let mut all = Vec::new();
    for chunk in chunks {
        events.push(chunk).unwrap();
        while let Some(event) = events.next() {
            all.push(event);
        }
    }
    all
}

fn data(text: &str) -> SseEvent {
    SseEvent { data: Some(text.to_owned()), ..SseEvent::default() }
}

const STREAM: &[u8] = "\u{feff}: hello\r\n\r\ndata: one\n\nevent: message\r\nid: 7/2\r\ndata:two\r\
    \ndata: \u{e4}\r\n\r\nretry: 500\rid: 8\rdata\r\rretry: soon\nfoo: bar\n\nid: a\0b\ndata:  x\n\ndata: cut"
    .as_bytes();

fn expected() -> Vec<SseEvent> {
    let two = SseEvent {
        event: Some("message".to_owned()),
        id: Some("7/2".to_owned()),
        ..data("two\n\u{e4}")
    };
    let priming = SseEvent { id: Some("8".to_owned()), retry: Some(500), ..data("") };
    vec![data("one"), two, priming, data(" x")]
}

#[test]
fn fields_line_ends_and_comments_are_read() {
    assert_eq!(read(&[STREAM]), expected());
}

#[test]
fn every_split_into_two_chunks_gives_the_same() {
    for at in 0..=STREAM.len() {
        let (one, two) = STREAM.split_at(at);
        assert_eq!(read(&[one, two]), expected(), "split at {at}");
    }
    let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
    assert_eq!(read(&bytes), expected());
}

#[test]
fn only_the_size_of_one_event_is_limited() {
    let mut events = SseDecoder::new(12);
    for _ in 0..5 {
        events.push(b": a comment\ndata: ab\r\n\r\n").unwrap();
        assert_eq!(events.next(), Some(data("ab")));
    }
    events.push(b"data: c").unwrap();
    assert_eq!(events.push(b"cccccc"), Err(TooLarge(12)), "a line without an end");
    let mut events = SseDecoder::new(12);
    assert_eq!(events.push(b"data: a\r\ndata: b\r\n"), Err(TooLarge(12)), "two lines");
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(bytes in prop::collection::vec(prop::sample::select(b"data: id\r\n\n:x".to_vec()), 0..80), cuts in prop::collection::vec(0usize..80, 0..6)) {
        let whole = read(&[&bytes]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            chunks.push(&bytes[from..cut]);
            from = cut;
        }
        prop_assert_eq!(read(&chunks), whole);
    }
}
