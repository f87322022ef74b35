use crate::{
    model::{Item, Message, Part, Role},
    wire::messages::testing::{messages, ok, said, user, with},
};

#[test]
fn results_precede_the_other_content_of_their_message() {
    let request = ok(&messages(
        r#"{"role":"user","content":"go"},
        {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]},
        {"role":"user","content":[{"type":"text","text":"by the way"},{"type":"tool_result","tool_use_id":"a"}]}"#,
    ));
    assert!(matches!(&request.items[2], Item::ToolResult(result) if result.content.is_empty()));
    assert_eq!(said(&request), ["by the way"]);
}

/// Client rule 20. First words belong to the prompt; later ones must leave it as it was, or
/// the conversation would become another one.
#[test]
fn client_rule_20_system_messages() {
    let request = ok(&messages(
        r#"{"role":"system","content":"first"},{"role":"user","content":"a"},
        {"role":"system","content":[{"type":"text","text":"later"},{"type":"text","text":"on"}]}"#,
    ));
    assert_eq!(request.system, ["first"]);
    assert_eq!(said(&request), ["a", "<system_message>\nlater\non\n</system_message>"]);
    let request = ok(&messages(
        r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"c"}"#,
    ));
    assert!(request.system.is_empty());
    assert_eq!(said(&request), ["<system_message>\nc\n</system_message>"]);
}

#[test]
fn session_name_is_removed_from_the_prompt() {
    let request = ok(&with(r#""system":"Be brief.\nSession: session-7\n""#));
    assert_eq!(request.hints.session.as_deref(), Some("session-7"));
    assert_eq!(request.system, ["Be brief.\n"]);
}

#[test]
fn documents_and_search_results_become_text() {
    let request = ok(&user(
        r#"{"type":"document","title":"T","context":"C","citations":{"enabled":true},
            "source":{"type":"text","media_type":"text/plain","data":"plain"}},
        {"type":"document","source":{"type":"content","content":[{"type":"text","text":"one"},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}},
            {"type":"text","text":"two"}]}},
        {"type":"document","source":{"type":"content","content":"three"}},
        {"type":"search_result","source":"https://example.com","title":"Found","content":[{"type":"text","text":"it"}]}"#,
    ));
    assert_eq!(
        said(&request),
        [
            "<document>\n<title>T</title>\n<context>C</context>\nplain\n</document>",
            "<document>\none\ntwo\n</document>",
            "(image)",
            "<document>\nthree\n</document>",
            "<search_result>\n<source>https://example.com</source>\n<title>Found</title>\nit\n</search_result>",
        ]
    );
    assert_eq!(request.sampling.params.ignored, ["citations"]);
}

#[test]
fn results_may_contain_documents_and_search_results() {
    let request = ok(&user(
        r#"{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"WebFetch"},
        {"type":"document","source":{"type":"text","data":"doc"}},
        {"type":"search_result","source":"s","title":"t","content":[]}]}"#,
    ));
    let Some(Item::ToolResult(result)) = request.items.last() else { panic!("{request:?}") };
    let expect = [
        "The tool `WebFetch` can be called.",
        "<document>\ndoc\n</document>",
        "<search_result>\n<source>s</source>\n<title>t</title>\n</search_result>",
    ];
    assert_eq!(result.content, expect.map(|text| Part::Text(text.to_owned())));
}

#[test]
fn assistant_content_keeps_its_order() {
    let request = ok(&messages(
        r#"{"role":"user","content":"go"},{"role":"assistant","content":[
        {"type":"text","text":"a"},{"type":"text","text":""},{"type":"text","text":"b"},
        {"type":"tool_use","id":"1","name":"x","input":{"k": [1, 2]}},{"type":"text","text":"c"}]},
        {"role":"assistant","content":""}"#,
    ));
    let assistant = |texts: &[&str]| {
        let parts = texts.iter().map(|text| Part::Text((*text).to_owned())).collect();
        Item::Message(Message { role: Role::Assistant, parts })
    };
    assert_eq!(request.items[1], assistant(&["a", "b"]));
    assert!(
        matches!(&request.items[2], Item::ToolCall(call) if call.arguments == "{\"k\": [1, 2]}")
    );
    assert_eq!(request.items[3..], [assistant(&["c"])]);
}
