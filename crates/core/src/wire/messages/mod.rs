//! Anthropic's Messages.

mod error;

pub use error::ErrorBody;
