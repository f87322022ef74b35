use prost::Message as _;

use super::*;
use crate::model::Reasoning;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x03\x08\x06";

fn message(role: Role, text: &str) -> Item {
    Item::Message(Message { role, parts: vec![Part::Text(text.into())] })
}

fn history() -> Vec<Item> {
    vec![
        message(Role::User, "Read a.txt"),
        Item::Reasoning(Reasoning { text: "I need the tool".into() }),
        message(Role::Assistant, "Reading."),
        Item::ToolCall(ToolCall {
            id: "call_1\nfc_2".into(),
            name: "read".into(),
            arguments: r#"{"path":"a.txt"}"#.into(),
        }),
        Item::ToolResult(ToolResult {
            call_id: "call_1\nfc_2".into(),
            content: vec![Part::Text("hello".into())],
            is_error: false,
        }),
        message(Role::Assistant, "It says hello."),
        Item::Message(Message {
            role: Role::User,
            parts: vec![
                Part::Text("And this?".into()),
                Part::Image(Image {
                    source: ImageSource::Inline {
                        mime: "image/png".into(),
                        data: Bytes::from_static(PNG),
                    },
                }),
            ],
        }),
    ]
}

#[test]
fn the_prompt_holds_the_whole_history() {
    let mut blobs = Blobs::default();
    let state = build(&history(), &mut blobs);
    let prompt: Vec<String> = state
        .root_prompt_messages_json
        .iter()
        .map(|id| String::from_utf8(blobs.get(id).unwrap().to_vec()).unwrap())
        .collect();
    insta::assert_snapshot!(prompt.join("\n"));
}

#[test]
fn turns_name_their_blobs_by_hash() {
    let mut blobs = Blobs::default();
    let state = build(&history(), &mut blobs);
    assert_eq!(state.turns.len(), 2);
    let turn = ConversationTurnStructure::decode(blobs.get(&state.turns[0]).unwrap()).unwrap();
    let Some(conversation_turn_structure::Turn::AgentConversationTurn(turn)) = turn.turn else {
        panic!()
    };
    let user = UserMessage::decode(blobs.get(&turn.user_message).unwrap()).unwrap();
    assert_eq!(user.text, "Read a.txt");
    assert_eq!(turn.steps.len(), 4);
    let call = ConversationStep::decode(blobs.get(&turn.steps[2]).unwrap()).unwrap();
    let text = format!("{call:?}");
    assert!(text.contains("call_1_fc_2_") && text.contains("hello"), "{text}");
}

#[test]
fn the_same_history_gives_the_same_bytes() {
    let build = || {
        let mut blobs = Blobs::default();
        build(&history(), &mut blobs).encode_to_vec()
    };
    assert_eq!(build(), build());
}

#[test]
fn an_image_keeps_its_id_between_turns() {
    let Item::Message(with_image) = &history()[6] else { panic!() };
    let inline = user_message(with_image, 0, None).selected_context.unwrap();
    let mut blobs = Blobs::default();
    let stored = user_message(with_image, 9, Some(&mut blobs)).selected_context.unwrap();
    let (inline, stored) = (&inline.selected_images[0], &stored.selected_images[0]);
    assert_eq!(inline.uuid, stored.uuid);
    assert_eq!(inline.dimension.map(|d| (d.width, d.height)), Some((2, 3)));
    assert_eq!(inline.data_or_blob_id, Some(DataOrBlobId::Data(Bytes::from_static(PNG))));
    let Some(DataOrBlobId::BlobId(id)) = &stored.data_or_blob_id else { panic!() };
    assert_eq!(blobs.get(id).as_deref(), Some(PNG));
}

#[test]
fn an_answer_before_any_question_is_in_the_prompt_only() {
    let mut blobs = Blobs::default();
    let state = build(&[message(Role::Assistant, "Welcome!")], &mut blobs);
    assert_eq!(state.root_prompt_messages_json.len(), 1);
    assert_eq!(state.turns.len(), 0);
}

fn told(items: &[Item]) -> Vec<String> {
    let mut blobs = Blobs::default();
    let ids = put_prompt(items, &mut blobs);
    ids.iter().map(|id| String::from_utf8(blobs.get(id).unwrap().to_vec()).unwrap()).collect()
}

#[test]
fn a_call_without_a_result_gets_one_and_a_result_without_a_call_is_text() {
    let call = |id: &str| {
        Item::ToolCall(ToolCall { id: id.into(), name: "a.b".into(), arguments: "{}".into() })
    };
    let result = |id: &str| {
        Item::ToolResult(ToolResult {
            call_id: id.into(),
            content: vec![Part::Text(format!("result {id}"))],
            is_error: false,
        })
    };
    let items = [call("1"), call("2"), result("1"), message(Role::User, "go on"), result("9")];
    let told = told(&items);
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(told[0].contains(r#""toolName":"a_b""#), "the name that was offered: {}", told[0]);
    assert!(told[1].contains("result 1") && told[1].contains("There was no result."));
    assert!(told[2].contains("go on"));
    assert!(told[3].contains(r#""role":"user""#) && told[3].contains("result 9"), "{}", told[3]);
}

fn looked(id: &str, png: &'static [u8]) -> [Item; 2] {
    let call = ToolCall { id: id.into(), name: "look".into(), arguments: "{}".into() };
    let source = ImageSource::Inline { mime: "image/png".into(), data: Bytes::from_static(png) };
    let content = vec![Part::Text("seen".into()), Part::Image(Image { source })];
    let result = ToolResult { call_id: id.into(), content, is_error: false };
    [Item::ToolCall(call), Item::ToolResult(result)]
}

#[test]
fn images_in_results_follow_them_as_the_users() {
    let [first, result] = looked("c1", PNG);
    let [second, another] = looked("c2", b"png");
    let question = message(Role::User, "Look twice");
    let answer = message(Role::Assistant, "Seen.");
    let expected = ["user", "assistant", "tool", "user", "assistant"];
    let items = [question, first, second, result, another, answer];
    let roles = |told: &[String]| -> Vec<String> {
        let role = |text: &String| serde_json::from_str::<serde_json::Value>(text).unwrap();
        told.iter().map(|text| role(text)["role"].as_str().unwrap().to_owned()).collect()
    };
    let told_all = told(&items);
    assert_eq!(roles(&told_all), expected, "{told_all:?}");
    for png in [PNG, b"png"] {
        let encoded = base64::engine::general_purpose::STANDARD.encode(png);
        assert!(told_all[3].contains(&encoded), "{}", told_all[3]);
    }
    // The run is to continue from the results.
    let told_half = told(&items[..5]);
    assert_eq!(roles(&told_half), expected[..4], "{told_half:?}");
    let mut texts = Vec::new();
    assert_eq!(prompt_texts(told_half[3].as_bytes(), &mut texts), 2, "they count as images");
}

#[test]
fn an_image_in_a_result_without_a_call_is_kept() {
    let [_, result] = looked("c1", PNG);
    let told = told(&[message(Role::User, "hi"), result]);
    let encoded = base64::engine::general_purpose::STANDARD.encode(PNG);
    assert!(told[1].contains(&encoded), "{told:?}");
}
