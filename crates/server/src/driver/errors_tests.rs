use http::HeaderValue;
use ibeam_core::codec::connect::Code;

use super::*;

#[test]
fn refusal_keeps_the_words_of_the_backend() {
    let mut headers = HeaderMap::new();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("7"));
    let body = br#"{"code":"resource_exhausted","message":"slow down"}"#;
    let error = status_error(StatusCode::TOO_MANY_REQUESTS, &headers, body);
    assert_eq!(
        error,
        LinkError::Status {
            status: 429,
            error: Some(ConnectError::new(Code::ResourceExhausted, "slow down")),
            retry_after: Some(Duration::from_secs(7)),
        }
    );
    let bare = status_error(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>");
    assert_eq!(bare, LinkError::Status { status: 502, error: None, retry_after: None });
}

#[test]
fn resets_differ_by_reason_and_phase() {
    let refused = h2::Error::from(h2::Reason::REFUSED_STREAM);
    assert!(matches!(h2_before_answer(&refused), LinkError::Refused(_)));
    assert!(matches!(h2_after_answer(&refused), LinkError::Reset(_)));
    let downgrade = h2::Error::from(h2::Reason::HTTP_1_1_REQUIRED);
    assert!(wants_http1(&downgrade));
    assert!(matches!(h2_before_answer(&downgrade), LinkError::Refused(_)));
    let internal = h2_before_answer(&h2::Error::from(h2::Reason::INTERNAL_ERROR));
    assert!(matches!(internal, LinkError::Reset(why) if why.contains("INTERNAL_ERROR")));
}
