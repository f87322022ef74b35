use ibeam_proto::{
    Wire as _,
    agent::{
        AgentServerMessage, ExecServerMessage, McpArgs, agent_server_message, exec_server_message,
    },
    fields::SERVER_MESSAGE,
};
use proptest::prelude::*;

use super::*;

fn texts(bytes: &[u8]) -> WireTree {
    WireTree::read(SERVER_MESSAGE, bytes, &mut Mask::with_texts())
}

fn redacted(bytes: &[u8]) -> WireTree {
    WireTree::read(SERVER_MESSAGE, bytes, &mut Mask::redacted([7; 32]))
}

/// `interaction_update.text_delta` "Hello".
const HELLO: &[u8] = b"\x0a\x09\x0a\x07\x0a\x05Hello";

#[test]
fn a_message_is_written_by_numbers_and_names() {
    let tree = texts(HELLO);
    assert_eq!(
        tree.to_json().to_string(),
        r#"[["1 interaction_update",[["1 text_delta",[["1 text","Hello"]]]]]]"#
    );
    assert_eq!(tree.kind(), "interaction_update.text_delta");
    assert_eq!(WireTree::from_json(&tree.to_json()).unwrap().encode(), HELLO);
    let masked = redacted(HELLO);
    assert_eq!(masked.kind(), tree.kind());
    assert_eq!(masked.encode().len(), HELLO.len());
    assert!(!masked.to_json().to_string().contains("Hello"));
}

#[test]
fn a_call_is_decoded_from_its_placeholders() {
    let value = |text: &str| {
        let kind = Some(prost_types::value::Kind::StringValue(text.to_owned()));
        Bytes::from(prost::Message::encode_to_vec(&prost_types::Value { kind }))
    };
    let call = McpArgs {
        name: "ibeam-read_file".into(),
        tool_name: "read_file".into(),
        tool_call_id: "toolu_alice".into(),
        args: [("path".to_owned(), value("/home/alice")), ("alice".to_owned(), value("x"))].into(),
        provider_identifier: "ibeam".into(),
        ..McpArgs::default()
    };
    let exec = ExecServerMessage {
        id: 7,
        message: Some(exec_server_message::Message::McpArgs(call)),
        ..ExecServerMessage::default()
    };
    let message = AgentServerMessage {
        message: Some(agent_server_message::Message::ExecServerMessage(Box::new(exec))),
        ..AgentServerMessage::default()
    };
    let bytes = message.to_wire();
    assert_eq!(texts(&bytes).encode(), bytes);
    let masked = redacted(&bytes).encode();
    assert!(!String::from_utf8_lossy(&masked).contains("alice"));
    let read = AgentServerMessage::from_wire(masked).unwrap();
    let Some(agent_server_message::Message::ExecServerMessage(exec)) = read.message else {
        panic!()
    };
    let Some(exec_server_message::Message::McpArgs(call)) = exec.message else { panic!() };
    assert_eq!((exec.id, call.tool_name.as_str(), call.args.len()), (7, "read_file", 2));
    assert_eq!(call.args["path"].len(), value("/home/alice").len());
}

#[test]
fn fields_that_the_schema_does_not_have_keep_their_structure_only() {
    // Field 99 with a text, field 98 with a number, in `interaction_update`.
    let bytes = b"\x0a\x0f\x9a\x06\x08alice-99\x90\x06\xb9\x60";
    let masked = redacted(bytes);
    let text = masked.to_json().to_string();
    assert!(text.contains("\"99\"") && text.contains("\"98\""), "{text}");
    assert!(!text.contains("alice") && !text.contains("12345"), "{text}");
    assert_eq!(masked.encode().len(), bytes.len());
}

#[test]
fn bytes_that_are_no_message_stay_so() {
    for bytes in
        [&b"\x0a\xff"[..], b"\x0a\x05ab", b"\x07", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
    {
        assert_eq!(texts(bytes).encode(), bytes, "as it was");
        let masked = redacted(bytes).encode();
        assert_eq!(masked.len(), bytes.len());
        assert_eq!(
            AgentServerMessage::from_wire(masked).is_ok(),
            AgentServerMessage::from_wire(bytes.into()).is_ok()
        );
    }
}

#[test]
fn ids_of_blobs_are_paired_and_renamed() {
    let id = |byte: u8| Bytes::from(vec![byte; 32]);
    let tree = |byte: u8| {
        let value = WireValue::Bytes(id(byte));
        let inner = WireTree(vec![WireField { number: 1, name: "blob_id".into(), value }]);
        let value = WireValue::Message(inner);
        WireTree(vec![WireField { number: 4, name: "kv".into(), value }])
    };
    let mut names = HashMap::new();
    tree(0xfe).pair_ids(&tree(0xfd), &mut |one, other| {
        names.insert(one.clone(), other.clone());
    });
    let mut renamed = tree(0xfe);
    renamed.rename_ids(&names);
    assert_eq!(renamed, tree(0xfd));
}

proptest! {
    #[test]
    fn any_bytes_are_read_and_written_again(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let tree = texts(&bytes);
        let again = WireTree::from_json(&tree.to_json());
        prop_assert_eq!(again.as_ref().map(WireTree::encode), Some(tree.encode()));
        let masked = redacted(&bytes);
        prop_assert_eq!(WireTree::from_json(&masked.to_json()).map(|tree| tree.encode()), Some(masked.encode()));
    }
}
