//! The backend's conversation state: messages of the user, turns, and states that continue.

use std::borrow::Cow;

use bytes::Bytes;
use ibeam_proto::Wire as _;
use ibeam_proto::agent::{
    AgentConversationTurnStructure, ConversationStateStructure, ConversationTurnStructure,
    SelectedContext, SelectedImage, SelectedImageDimension, UserMessage,
    conversation_turn_structure, selected_image::DataOrBlobId,
};

use super::{
    blobs::Blobs,
    reasoning::TurnSignatures,
    roots::{self, EntryStyle},
};
use crate::{
    codec::pbwalk,
    model::{AgentMode, Image, ImageSource, Item, Message, Part, Role, ids::uuid_from_content},
};

pub(super) const MODE_AGENT: i32 = AgentMode::Agent.wire_number();

/// `mode` in `ConversationStateStructure`.
const MODE: u32 = 10;

impl AgentMode {
    /// The number of `AgentMode` on the wire.
    pub(super) const fn wire_number(self) -> i32 {
        match self {
            Self::Agent => 1,
            Self::Ask => 2,
            Self::Plan => 3,
        }
    }
}

/// The state of a new conversation.
pub(super) fn empty() -> ConversationStateStructure {
    ConversationStateStructure { mode: Some(MODE_AGENT), ..ConversationStateStructure::default() }
}

/// The kept state with further messages behind it. Fields of one protobuf message may
/// be written in several runs, so that nothing of the state has to be understood.
pub(super) fn append(
    checkpoint: &Bytes,
    items: &[Item],
    style: &EntryStyle,
    most: usize,
    signatures: &TurnSignatures,
    blobs: &mut Blobs,
) -> Bytes {
    if items.is_empty() {
        return checkpoint.clone();
    }
    let entries = roots::put(items, style, most, signatures, blobs);
    with_entries(checkpoint, entries)
}

/// The kept state with further entries of the prompt.
pub(super) fn with_entries(checkpoint: &Bytes, entries: Vec<Bytes>) -> Bytes {
    extend(
        checkpoint,
        &ConversationStateStructure {
            root_prompt_messages_json: entries,
            ..ConversationStateStructure::default()
        },
    )
}

/// The kept state with a further turn, which is about the last question among `items`.
pub(super) fn with_turn_of(checkpoint: &Bytes, items: &[Item], blobs: &mut Blobs) -> Bytes {
    extend(
        checkpoint,
        &ConversationStateStructure {
            turns: vec![turn_of(items, blobs)],
            ..ConversationStateStructure::default()
        },
    )
}

fn extend(checkpoint: &Bytes, more: &ConversationStateStructure) -> Bytes {
    let mut state = checkpoint.to_vec();
    state.extend_from_slice(&more.to_wire());
    state.into()
}

/// The mode of a kept state. Those that ibeam does not set count as the usual one.
pub(super) fn mode_of(state: &[u8]) -> AgentMode {
    let newest = pbwalk::fields(state).filter(|field| field.number == MODE).last();
    let number = newest.and_then(|field| field.varint);
    let is = |mode: &AgentMode| u64::try_from(mode.wire_number()).ok() == number;
    AgentMode::ALL.into_iter().find(is).unwrap_or_default()
}

/// The same state in this mode. The last value of a field counts.
pub(super) fn with_mode(state: &[u8], mode: AgentMode) -> Cow<'_, [u8]> {
    if mode_of(state) == mode {
        return Cow::Borrowed(state);
    }
    let more = ConversationStateStructure {
        mode: Some(mode.wire_number()),
        ..ConversationStateStructure::default()
    };
    Cow::Owned([state, &more.to_wire()].concat())
}

/// `root_prompt_messages_json` in `ConversationStateStructure`.
const ROOT: u32 = 1;

/// The same state with these entries instead of its own.
pub(super) fn with_roots(state: &[u8], entries: Vec<Bytes>) -> Bytes {
    with_entries(&pbwalk::without(state, ROOT).into(), entries)
}

/// The ids of the entries of the prompt.
pub(super) fn root_ids(state: &[u8]) -> impl Iterator<Item = &[u8]> {
    pbwalk::fields(state).filter(|field| field.number == ROOT).filter_map(|field| field.payload)
}

/// The same state with another entry at this place. Ids have one length, so nothing else moves.
pub(super) fn with_root(state: &Bytes, index: usize, id: &[u8]) -> Bytes {
    let Some(old) = root_ids(state).nth(index).filter(|old| old.len() == id.len()) else {
        return state.clone();
    };
    let at = old.as_ptr().addr().saturating_sub(state.as_ptr().addr());
    let mut new = state.to_vec();
    if let Some(place) = new.get_mut(at..at + id.len()) {
        place.copy_from_slice(id);
    }
    new.into()
}

/// A turn that names what the user said last. Its steps are left out: the model reads the
/// entries of the prompt, and some refuse steps that they did not make.
pub(super) fn turn_of(items: &[Item], blobs: &mut Blobs) -> Bytes {
    let last = items.iter().enumerate().rev().find_map(|(at, item)| match item {
        Item::Message(message) if message.role == Role::User => Some((at, message)),
        _ => None,
    });
    let user = match last {
        Some((at, message)) => user_message(message, at, Some(blobs)),
        None => UserMessage { mode: MODE_AGENT, ..UserMessage::default() },
    };
    let turn = AgentConversationTurnStructure {
        user_message_id: Some(user.message_id.clone()),
        user_message: blobs.put(user.to_wire()),
        ..AgentConversationTurnStructure::default()
    };
    let turn = conversation_turn_structure::Turn::AgentConversationTurn(turn);
    blobs.put(ConversationTurnStructure { turn: Some(turn) }.to_wire())
}

/// A user message with its images. `inline` sends their bytes along; otherwise
/// they become blobs, as history is kept.
pub(super) fn user_message(message: &Message, at: usize, blobs: Option<&mut Blobs>) -> UserMessage {
    let text = texts(message);
    let images = images(message, blobs);
    let selected_context = (!images.is_empty())
        .then(|| SelectedContext { selected_images: images, ..SelectedContext::default() });
    UserMessage {
        message_id: uuid_from_content([b"user".as_slice(), &at.to_be_bytes(), text.as_bytes()]),
        text,
        selected_context,
        mode: MODE_AGENT,
        ..UserMessage::default()
    }
}

/// Puts images before those that the message has already.
pub(super) fn put_images_first(message: &mut UserMessage, images: &[Image]) {
    if images.is_empty() {
        return;
    }
    let context = message.selected_context.get_or_insert_default();
    let images = images.iter().map(|image| selected_image(image, None));
    context.selected_images.splice(..0, images);
}

fn texts(message: &Message) -> String {
    message.parts.iter().filter_map(Part::text).collect::<Vec<_>>().join("\n")
}

fn images(message: &Message, mut blobs: Option<&mut Blobs>) -> Vec<SelectedImage> {
    let pictures = message.parts.iter().filter_map(|part| match part {
        Part::Image(image) => Some(image),
        Part::Text(_) => None,
    });
    pictures.map(|image| selected_image(image, blobs.as_deref_mut())).collect()
}

/// The images that a message carries itself.
pub(super) fn inline_images(message: &UserMessage) -> impl Iterator<Item = Image> {
    let selected = message.selected_context.iter().flat_map(|context| &context.selected_images);
    selected.filter_map(|image| match &image.data_or_blob_id {
        Some(DataOrBlobId::Data(data)) => {
            let (mime, data) = (image.mime_type.clone(), data.clone());
            Some(Image { source: ImageSource::Inline { mime, data } })
        }
        _ => None,
    })
}

fn selected_image(image: &Image, blobs: Option<&mut Blobs>) -> SelectedImage {
    let ImageSource::Inline { mime, data } = &image.source;
    let dimension = imagesize::blob_size(data).ok().map(|size| SelectedImageDimension {
        width: i32::try_from(size.width).unwrap_or(i32::MAX),
        height: i32::try_from(size.height).unwrap_or(i32::MAX),
    });
    SelectedImage {
        // Made from the content: an old image under a new id is refused.
        uuid: uuid_from_content([b"image".as_slice(), data]),
        path: String::new(),
        dimension,
        mime_type: mime.clone(),
        data_or_blob_id: Some(match blobs {
            Some(blobs) => DataOrBlobId::BlobId(blobs.put(data.clone())),
            None => DataOrBlobId::Data(data.clone()),
        }),
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
