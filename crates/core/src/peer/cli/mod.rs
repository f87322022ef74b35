//! `cursor-agent --print --output-format stream-json`: its lines, its failures, its lists.

mod event;
pub(crate) mod failure;
pub mod listing;
pub(crate) mod plain;
mod recap;
mod speaker;
#[cfg(test)]
mod testing;
mod tool;

use bytes::Bytes;

pub use speaker::CliSpeaker;

use crate::peer::child::{ChildEvent, Exit, Speaker as _};

/// A prompt on standard input is text: images are only named in it.
pub const TAKES_IMAGES: bool = false;

/// All that is heard of a run whose output comes in these chunks.
fn hear(chunks: &[&[u8]]) -> Vec<ChildEvent> {
    let mut speaker = CliSpeaker::default();
    for chunk in chunks {
        speaker.on_output(Bytes::copy_from_slice(chunk));
    }
    speaker.on_exit(&Exit { code: Some(0), ..Exit::default() });
    std::iter::from_fn(|| speaker.poll_heard()).collect()
}

/// Entry point for fuzzing: any bytes, cut in two at any place, are heard alike and end in
/// exactly one way; any text is a list of some kind.
pub fn fuzz(data: &[u8]) {
    let (head, tail) = data.split_at(data.len() / 2);
    let heard = hear(&[data]);
    assert_eq!(heard, hear(&[head, tail]));
    let ends = |heard: &&ChildEvent| matches!(heard, ChildEvent::Ended(_) | ChildEvent::Failed(_));
    assert_eq!(heard.iter().filter(ends).count(), 1);
    assert!(heard.last().as_ref().is_some_and(ends));
    let text = String::from_utf8_lossy(data);
    for model in listing::models(&text, TAKES_IMAGES).list.models() {
        assert!(!model.id.contains(char::is_whitespace));
    }
    let _ = (listing::SignInStatus::read(&text), listing::version(&text));
}

#[cfg(test)]
#[path = "shapes_tests.rs"]
mod tests;
