use prost::Message as _;

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03\x08\x06";

fn with_image(text: &str) -> Message {
    let source = ImageSource::Inline { mime: "image/png".into(), data: Bytes::from_static(PNG) };
    let parts = vec![Part::Text(text.into()), Part::Image(Image { source })];
    Message { role: Role::User, parts }
}

#[test]
fn section_1_6_a_turn_names_the_last_message_of_the_user_and_no_steps() {
    let mut blobs = Blobs::default();
    let answer = Message { role: Role::Assistant, parts: vec![Part::Text("an answer".into())] };
    let items = [with_image("first"), with_image("last"), answer].map(Item::Message);
    let id = turn_of(&items, &mut blobs);
    let turn = ConversationTurnStructure::decode(blobs.get(&id).unwrap()).unwrap();
    let Some(conversation_turn_structure::Turn::AgentConversationTurn(turn)) = turn.turn else {
        panic!()
    };
    let user = UserMessage::decode(blobs.get(&turn.user_message).unwrap()).unwrap();
    assert_eq!((user.text.as_str(), user.mode), ("last", MODE_AGENT));
    assert_eq!(turn.user_message_id, Some(user.message_id));
    assert!(turn.steps.is_empty());
}

#[test]
fn an_image_keeps_its_id_between_turns() {
    let message = with_image("And this?");
    let inline = user_message(&message, 0, None).selected_context.unwrap();
    let mut blobs = Blobs::default();
    let stored = user_message(&message, 9, Some(&mut blobs)).selected_context.unwrap();
    let (inline, stored) = (&inline.selected_images[0], &stored.selected_images[0]);
    assert_eq!(inline.uuid, stored.uuid);
    assert_eq!(inline.dimension.map(|d| (d.width, d.height)), Some((2, 3)));
    assert_eq!(inline.data_or_blob_id, Some(DataOrBlobId::Data(Bytes::from_static(PNG))));
    let Some(DataOrBlobId::BlobId(id)) = &stored.data_or_blob_id else { panic!() };
    assert_eq!(blobs.get(id).as_deref(), Some(PNG));
}

#[test]
fn only_one_entry_of_a_state_is_replaced() {
    let (one, two, new) = ([1; 32], [2; 32], [3; 32]);
    let state = ConversationStateStructure {
        root_prompt_messages_json: vec![one.to_vec().into(), two.to_vec().into()],
        ..empty()
    };
    // A field that our schema does not have stays, too.
    let mut bytes = state.to_wire().to_vec();
    bytes.extend([0xf8, 0x3f, 0x01]);
    let bytes = Bytes::from(bytes);
    let changed = with_root(&bytes, 0, &new);
    assert_eq!(root_ids(&changed).next(), Some(&new[..]));
    assert_eq!(changed.len(), bytes.len());
    let decoded = ConversationStateStructure::decode(changed.clone()).unwrap();
    assert_eq!(decoded.root_prompt_messages_json[1], &two[..]);
    assert!(changed.ends_with(&[0xf8, 0x3f, 0x01]));
    let second = with_root(&bytes, 1, &new);
    assert_eq!(root_ids(&second).collect::<Vec<_>>(), [&one[..], &new[..]]);
    assert_eq!(with_root(&bytes, 2, &new), bytes, "no such entry");
    assert_eq!(with_root(&bytes, 0, b"short"), bytes, "not an id");
}
