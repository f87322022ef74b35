//! Images and reasoning in a history: questions h and o.

use base64::Engine as _;
use serde_json::json;

use super::{
    ProbeObservation as Seen,
    draft::{ProbeSubject, RunDraft, tool},
    plan::{Runs, settled},
    run::ProbeRun,
};
use crate::peer::agent::service_facts::ImageShape;

// === h ===

/// A red square of 64 pixels, PNG, in hexadecimal digits.
const RED: &str = concat!(
    "89504e470d0a1a0a0000000d49484452000000400000004008030000009db781ec00000003504c5445dc",
    "1414179df2a60000001b4944415478daedc18100000000c3a0f953dfe00455010000007c0310400001bd",
    "3cb78f0000000049454e44ae426082",
);

/// The same in blue.
const BLUE: &str = concat!(
    "89504e470d0a1a0a0000000d49484452000000400000004008030000009db781ec00000003504c544514",
    "14dc1d9e7fdc0000001b4944415478daedc18100000000c3a0f953dfe00455010000007c0310400001bd",
    "3cb78f0000000049454e44ae426082",
);

/// The colour differs from shape to shape, so that a lucky guess shows.
fn square(shape: ImageShape) -> (&'static str, &'static str) {
    match shape {
        ImageShape::Hex => ("red", RED),
        ImageShape::DataUrl => ("blue", BLUE),
    }
}

const SHAPES: [ImageShape; 2] = [ImageShape::Hex, ImageShape::DataUrl];

pub(super) fn root_images(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    const COLOUR: &str = "Which colour fills the square in the image that I sent before? Answer \
                          with one word.";
    let shape = *SHAPES.get(runs.len())?;
    let (_, hex) = square(shape);
    let image = match shape {
        ImageShape::Hex => json!({
            "type": "image",
            "mimeType": "image/png",
            "image": { "__type": "Uint8Array", "hex": hex },
        }),
        ImageShape::DataUrl => {
            let base64 = base64::engine::general_purpose::STANDARD.encode(bytes_of(hex));
            json!({
                "type": "image",
                "image": format!("data:image/png;base64,{base64}"),
                "mediaType": "image/png",
            })
        }
    };
    let draft = RunDraft::new(subject, &format!("h{}", runs.len())).system("Answer briefly.");
    let draft = draft.user_with("Here is an image for later.", &image).assistant("Noted.");
    Some(draft.ask(COLOUR).finish())
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

pub(super) fn judge_root_images(runs: &Runs<'_>) -> Seen {
    let seen = |shape: ImageShape, run: &super::ProbeTrace| {
        let (colour, _) = square(shape);
        // A refused image is one that is not seen.
        (run.answered() || run.is_refusal()).then(|| run.answered() && run.says(colour))
    };
    let [hex, url] = runs[..] else { return Seen::Unclear };
    match (seen(ImageShape::Hex, hex), seen(ImageShape::DataUrl, url)) {
        (Some(true), Some(true)) => Seen::ImagesBoth,
        (Some(true), Some(false)) => Seen::ImagesHex,
        (Some(false), Some(true)) => Seen::ImagesDataUrl,
        (Some(false), Some(false)) => Seen::ImagesUnseen,
        _ => Seen::Unclear,
    }
}

// === o ===

/// A run in which the model thinks and calls a tool; then its entries once more, as the history
/// of a new conversation.
pub(super) fn reasoning_replay(subject: &ProbeSubject, runs: &Runs<'_>) -> Option<ProbeRun> {
    const ECHO: &str = "ibeam_probe_echo";
    const THINK: &str = "Think about which of 3^21 and 5^14 is larger. Call the tool \
                         ibeam_probe_echo with {\"text\":\"larger\"}, then repeat the word that it \
                         answered.";
    let draft = |name| RunDraft::new(subject, name).tools(&[tool(ECHO, "text")]);
    match runs[..] {
        [] => Some(draft("o1").ask(THINK).finish()),
        [first] if first.answered() && first.signed => {
            let entries = first.entries.iter().cloned();
            let draft = entries.fold(draft("o2"), RunDraft::raw_entry);
            Some(draft.ask("Which word did the tool answer?").finish())
        }
        _ => None,
    }
}

pub(super) fn judge_reasoning_replay(runs: &Runs<'_>) -> Seen {
    match runs[..] {
        [first] => settled((first.answered() && !first.signed).then_some(Seen::ReasoningUnsigned)),
        [_, second] if second.answered() => Seen::ReasoningAccepted,
        [_, second] => settled(second.is_refusal().then_some(Seen::ReasoningRefused)),
        _ => Seen::Unclear,
    }
}

#[cfg(test)]
#[path = "content_probes_tests.rs"]
mod tests;
