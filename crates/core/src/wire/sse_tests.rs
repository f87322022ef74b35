use bytes::BytesMut;

use super::SseFrame;

fn written(event: Option<&str>, data: &str) -> String {
    let mut out = BytesMut::new();
    SseFrame { event, data }.write(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn frames_follow_the_event_stream_format() {
    assert_eq!(written(None, "[DONE]"), "data: [DONE]\n\n");
    assert_eq!(written(Some("ping"), "{}"), "event: ping\ndata: {}\n\n");
    assert_eq!(written(None, "a\r\nb\n"), "data: a\ndata: b\ndata: \n\n");
}
