use ibeam_core::codec::connect::{Decoder, Envelope};

use super::*;

#[test]
fn a_trailer_carries_the_whole_error() {
    let error =
        cursor_error(Code::ResourceExhausted, ErrorKind::ErrorRateLimited, "Slow", "100 % full\n");
    let mut decoder = Decoder::new();
    decoder.push(trailer_frame(Some(&error)));
    assert_eq!(decoder.next(), Ok(Some(Envelope::End(Some(error)))));
    decoder.push(trailer_frame(None));
    assert_eq!(decoder.next(), Ok(Some(Envelope::End(None))));
}
