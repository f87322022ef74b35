use ibeam_core::codec::connect::{Code, CursorError, Decoder, Envelope};
use ibeam_proto::aiserver::ErrorKind;

use super::*;

#[test]
fn trailer_has_the_whole_error() {
    let error = ConnectError {
        code: Code::ResourceExhausted,
        message: "Error".to_owned(),
        detail: Some(Box::new(CursorError {
            kind: ErrorKind::ErrorRateLimited,
            title: "Slow".to_owned(),
            detail: "100 % full\n".to_owned(),
            retryable: Some(false),
            ..CursorError::default()
        })),
    };
    let mut decoder = Decoder::new();
    decoder.push(trailer_frame(Some(&error)));
    assert_eq!(decoder.next(), Ok(Some(Envelope::End(Some(error)))));
    decoder.push(trailer_frame(None));
    assert_eq!(decoder.next(), Ok(Some(Envelope::End(None))));
}
