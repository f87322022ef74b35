use super::*;
use crate::model::Reasoning;
use crate::peer::agent::service_facts::USUAL_MAX_ROOTS;

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

fn written(items: &[Item]) -> Vec<String> {
    written_as(items, &EntryStyle::default(), USUAL_MAX_ROOTS)
}

fn written_as(items: &[Item], style: &EntryStyle, most: usize) -> Vec<String> {
    let mut blobs = Blobs::default();
    let ids = put(items, style, most, &TurnSignatures::default(), &mut blobs);
    ids.iter().map(|id| String::from_utf8(blobs.get(id).unwrap().to_vec()).unwrap()).collect()
}

#[test]
fn the_prompt_holds_the_whole_history() {
    insta::assert_snapshot!(written(&history()).join("\n"));
}

#[test]
fn section_1_3_entries_in_the_form_of_newer_builds() {
    let style = EntryStyle { tagged: true, wrapped: true, ..EntryStyle::default() };
    insta::assert_snapshot!(written_as(&history(), &style, USUAL_MAX_ROOTS).join("\n"));
}

#[test]
fn section_1_3_a_failure_is_in_the_text_of_the_result() {
    let items = [
        Item::ToolCall(ToolCall { id: "c".into(), name: "t".into(), arguments: "[1]".into() }),
        Item::ToolResult(ToolResult {
            call_id: "c".into(),
            content: vec![Part::Text("no such file".into())],
            is_error: true,
        }),
    ];
    let written = written(&items);
    assert!(written[0].contains(r#""args":{"input":"[1]"}"#), "always an object: {}", written[0]);
    let result = r#""result":"[error] The tool failed.\nno such file","isError":true"#;
    assert!(written[1].contains(result), "{}", written[1]);
}

#[test]
fn section_1_3_oldest_entries_are_dropped_together_with_their_results() {
    let call = |n: usize| {
        let id = format!("c{n}");
        [
            message(Role::User, &format!("question {n}")),
            Item::ToolCall(ToolCall { id: id.clone(), name: "t".into(), arguments: "{}".into() }),
            Item::ToolResult(ToolResult {
                call_id: id,
                content: vec![Part::Text(format!("result {n}"))],
                is_error: false,
            }),
        ]
    };
    let items: Vec<Item> = (0..100).flat_map(call).collect();
    for most in [60, 61, 62, USUAL_MAX_ROOTS] {
        let written = written_as(&items, &EntryStyle::default(), most);
        let left = shortened(most);
        assert!(written.len() <= left && written.len() + 3 > left, "{} of {most}", written.len());
        for n in 0..100 {
            let has = |text: String| written.iter().any(|entry| entry.contains(&text));
            assert!(has(format!("question {n}")) && has(format!("result {n}")), "{n}");
        }
        assert!(
            !written[1].contains(r#""role":"tool""#),
            "a result without its call: {}",
            written[1]
        );
    }
    assert_eq!(written_as(&items[..9], &EntryStyle::default(), 9).len(), 9);
    assert_eq!(written_as(&items[..9], &EntryStyle::default(), 0).len(), 1, "all in one");
}

#[test]
fn section_1_1_our_system_entry_differs_from_the_services() {
    let mut blobs = Blobs::default();
    let id = put_system("Be \"brief\".", &mut blobs);
    let ours = blobs.get(&id).unwrap();
    assert!(is_our_system(&ours));
    let value: serde_json::Value = serde_json::from_slice(&ours).unwrap();
    assert_eq!(value["content"], "Be \"brief\".");
    for theirs in
        [r#"{"role":"system","content":"You are"}"#, r#"{"content":"You are","role":"system"}"#]
    {
        assert!(!is_our_system(theirs.as_bytes()));
    }
    let rules = put_rules("Be brief.", &mut blobs);
    let rules = blobs.get(&rules).unwrap();
    assert!(is_our_rules(&rules) && !is_our_system(&rules) && !is_our_rules(&ours));
    let item = [message(Role::User, "<rules>\nmine\n</rules>")];
    let of_user = put(&item, &EntryStyle::default(), 9, &TurnSignatures::default(), &mut blobs);
    assert!(!is_our_rules(&blobs.get(&of_user[0]).unwrap()), "a client may say the same");
    let mut texts = Vec::new();
    assert_eq!((prompt_texts(&ours, &mut texts), texts), (0, vec!["Be \"brief\".".to_owned()]));
}

#[test]
fn call_without_a_result_gets_one_and_result_without_a_call_becomes_text() {
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
    let written = written(&items);
    assert_eq!(written.len(), 4, "{written:#?}");
    assert!(
        written[0].contains(r#""toolName":"a_b""#),
        "the name that was offered: {}",
        written[0]
    );
    assert!(written[1].contains("result 1") && written[1].contains("There was no result."));
    assert!(written[2].contains("go on"));
    assert!(
        written[3].contains(r#""role":"user""#) && written[3].contains("result 9"),
        "{}",
        written[3]
    );
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
    let roles = |written: &[String]| -> Vec<String> {
        let role = |text: &String| serde_json::from_str::<serde_json::Value>(text).unwrap();
        written.iter().map(|text| role(text)["role"].as_str().unwrap().to_owned()).collect()
    };
    let all = written(&items);
    assert_eq!(roles(&all), expected, "{all:?}");
    for png in [PNG, b"png"] {
        let encoded = hex(png);
        assert!(all[3].contains(&encoded), "{}", all[3]);
    }
    // The run is to continue from the results.
    let half = written(&items[..5]);
    assert_eq!(roles(&half), expected[..4], "{half:?}");
    let mut texts = Vec::new();
    assert_eq!(prompt_texts(half[3].as_bytes(), &mut texts), 2, "they count as images");
}

#[test]
fn an_image_in_a_result_without_a_call_is_kept() {
    let [_, result] = looked("c1", PNG);
    let written = written(&[message(Role::User, "hi"), result]);
    let encoded = hex(PNG);
    assert!(written[1].contains(&encoded), "{written:?}");
}

#[test]
fn section_1_3_an_image_has_one_of_two_shapes() {
    let image = Image {
        source: ImageSource::Inline {
            mime: "image/png".into(),
            data: Bytes::from_static(b"\x89PN"),
        },
    };
    let items = [Item::Message(Message { role: Role::User, parts: vec![Part::Image(image)] })];
    let part = |image| {
        let style = EntryStyle { image, ..EntryStyle::default() };
        let entry: serde_json::Value =
            serde_json::from_str(&written_as(&items, &style, USUAL_MAX_ROOTS)[0]).unwrap();
        entry["content"][0].clone()
    };
    assert_eq!(
        part(ImageShape::Hex),
        serde_json::json!({
            "type": "image",
            "mimeType": "image/png",
            "image": { "__type": "Uint8Array", "hex": "89504e" },
        })
    );
    assert_eq!(
        part(ImageShape::DataUrl),
        serde_json::json!({
            "type": "image",
            "image": "data:image/png;base64,iVBO",
            "mediaType": "image/png",
        })
    );
}

/// A parser that builds a tree of them first refuses them at 128 levels.
#[test]
fn parts_of_a_stored_entry_are_counted_as_they_are_written() {
    let deep = format!("{}0{}", r#"{"a":"#.repeat(500), "}".repeat(500));
    let entry = format!(
        r#"{{"role":"assistant","content":[{{"type":"text","text":"hi"}},{{"type":"image"}},
            {{"type":"tool-call","args":{deep}}},{{"type":"tool-result","result":"done"}}]}}"#
    );
    let mut texts = Vec::new();
    assert_eq!(prompt_texts(entry.as_bytes(), &mut texts), 1);
    assert_eq!(texts, ["hi", &deep, "done"]);
}

#[test]
fn calls_of_the_history_have_the_names_that_the_model_is_offered() {
    let call = |name: &str| {
        Item::ToolCall(ToolCall { id: name.into(), name: name.into(), arguments: "{}".into() })
    };
    for own in [
        ["read", "read_tool"],
        ["read_tool", "read"],
        ["a.b", "a_b"],
        ["a_b", "a.b"],
        ["a b", "a_b"],
        ["shell", "shell_tool"],
    ] {
        let names = Arc::new(ToolNames::new(own.into_iter(), true));
        for wrapped in [false, true] {
            let style = EntryStyle { names: Arc::clone(&names), wrapped, ..EntryStyle::default() };
            let entries = written_as(&own.map(call), &style, USUAL_MAX_ROOTS);
            let entry: serde_json::Value = serde_json::from_str(&entries[0]).unwrap();
            for (at, own) in own.iter().enumerate() {
                let part = &entry["content"][at];
                let name = if wrapped { &part["args"]["toolName"] } else { &part["toolName"] };
                let found = names.resolve(name.as_str().unwrap()).unwrap();
                assert_eq!(found.own, *own, "{part}");
                let want = if wrapped { &found.offered } else { &found.wire };
                assert_eq!(name, want.as_str(), "not only found, but offered so");
            }
        }
    }
}
