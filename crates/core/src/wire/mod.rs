//! The APIs that clients speak: decoding their requests, encoding their replies.
