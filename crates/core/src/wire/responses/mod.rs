//! OpenAI's Responses: bytes to a [`ResponsesRequest`], events to the response's event stream or to
//! the response as a whole. Nothing is stored here; a [`ResponsesRequest`] says what the handler
//! must look up.

mod choice;
mod collect;
mod compact;
mod decode;
mod echo;
mod encode;
mod failure;
mod growing;
mod ids;
mod input;
mod parts;
mod request;
mod sampling;
mod stored_item;
mod text;
mod token;
mod tools;
mod types;

pub use collect::ResponsesCollector;
pub use compact::{compaction, user_messages};
pub use decode::{decode, fuzz};
pub use echo::Echo;
pub use encode::{EndedResponse, ResponsesEncoder};
pub use failure::codex_reads_in_stream;
pub use ids::{response_id, response_of};
pub use request::{MOST_ITEMS, ResponsesRequest, bytes_of};
