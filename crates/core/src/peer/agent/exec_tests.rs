use ibeam_proto::agent::{
    ExecuteHookArgs, ExecuteHookRequest, McpArgs, ShellArgs, ShellResult, shell_result,
};
use prost::Message as _;

use super::*;
use crate::{codec::pbwalk, model::Tool};

/// Every arm of `ExecServerMessage`, by number, with the number its answer has.
/// `None`: thrown back.
const ARMS: [(u32, Option<u32>); 40] = [
    (2, Some(2)),
    (3, Some(3)),
    (4, Some(4)),
    (5, Some(5)),
    (7, Some(7)),
    (8, Some(8)),
    (9, Some(9)),
    (10, Some(10)),
    (11, Some(11)),
    (14, Some(14)),
    (16, Some(16)),
    (17, Some(17)),
    (18, Some(18)),
    (20, Some(20)),
    (21, Some(21)),
    (22, Some(22)),
    (23, Some(23)),
    // Empty: a hook of an unknown kind.
    (27, None),
    (28, Some(28)),
    (29, Some(29)),
    (30, Some(30)),
    (31, Some(31)),
    (36, Some(36)),
    (37, Some(37)),
    (38, Some(38)),
    (40, Some(40)),
    (41, Some(41)),
    (42, Some(42)),
    (43, Some(43)),
    (44, None),
    // The results of this family are shifted by one.
    (45, Some(46)),
    (46, Some(47)),
    (47, Some(48)),
    (48, Some(49)),
    (49, Some(50)),
    (50, Some(51)),
    (51, Some(52)),
    (52, Some(55)),
    (53, Some(53)),
    (54, Some(54)),
];

/// An exec request whose arm `number` is an empty message, decoded from bytes as
/// the wire would bring it.
fn request(number: u32) -> ExecServerMessage {
    let mut bytes = vec![0x08, 0x09];
    prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut bytes);
    bytes.push(0);
    ExecServerMessage::decode(&bytes[..]).unwrap()
}

fn toolbox(names: &[&str]) -> Toolbox {
    let tools: Vec<Tool> = names
        .iter()
        .map(|name| Tool { name: (*name).into(), description: String::new(), schema: None })
        .collect();
    Toolbox::new(&tools)
}

fn verdict(exec: &ExecServerMessage, tools: &[&str]) -> Verdict {
    judge(
        exec,
        &toolbox(tools),
        &Equipment::default(),
        &RequestContext::default(),
        Permissions::default(),
    )
}

#[test]
fn every_arm_is_answered_under_its_own_number() {
    for (ask, answer) in ARMS {
        let exec = request(ask);
        assert!(exec.message.is_some(), "arm {ask} is in the schema");
        match (verdict(&exec, &["read"]), answer) {
            (Verdict::Reply(reply) | Verdict::Refuse(reply), Some(number)) => {
                let bytes = result(exec.id, &exec.exec_id, *reply).encode_to_vec();
                let fields: Vec<u32> = pbwalk::fields(&bytes).map(|field| field.number).collect();
                assert_eq!(fields, [1, number], "arm {ask}");
            }
            (Verdict::Throw(_), None) => {}
            (verdict, _) => panic!("arm {ask}: {verdict:?}"),
        }
    }
    assert!(matches!(verdict(&request(60), &[]), Verdict::Throw(_)));
}

#[test]
fn refusals_name_the_tools_on_offer() {
    let shell = ExecServerMessage {
        message: Some(Ask::ShellArgs(ShellArgs { command: "ls".into(), ..ShellArgs::default() })),
        ..ExecServerMessage::default()
    };
    for (tools, want) in [(&["read", "bash"][..], "read, bash"), (&[][..], "Answer in text")] {
        let Verdict::Refuse(reply) = verdict(&shell, tools) else { panic!() };
        let Reply::ShellResult(ShellResult {
            result: Some(shell_result::Result::Rejected(rejected)),
            ..
        }) = *reply
        else {
            panic!()
        };
        assert_eq!(rejected.command, "ls");
        assert!(rejected.reason.contains(want), "{}", rejected.reason);
    }
}

#[test]
fn offered_tool_is_run_by_the_client() {
    let exec = ExecServerMessage {
        message: Some(Ask::McpArgs(McpArgs { name: "mcp_read".into(), ..McpArgs::default() })),
        ..ExecServerMessage::default()
    };
    let Verdict::ClientTool(call) = verdict(&exec, &["read"]) else { panic!() };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("read", "{}"));
    assert!(call.back.is_mcp());
}

/// Whatever the names of two tools are, a call reaches the one that the model was offered.
#[test]
fn a_call_reaches_the_tool_that_was_offered_under_its_name() {
    let pairs = [["read", "read_tool"], ["shell", "shell_tool"], ["a.b", "a_b"], ["a b", "a_b"]];
    for names in pairs.into_iter().flat_map(|[one, other]| [[one, other], [other, one]]) {
        let tool = |name: &str| Tool { name: name.into(), description: name.into(), schema: None };
        let tools = names.map(tool);
        let toolbox = Toolbox::of(&tools, &tools, true);
        let called = |call: McpArgs| {
            let ask = Some(Ask::McpArgs(call));
            let exec = ExecServerMessage { message: ask, ..ExecServerMessage::default() };
            let nothing = (Equipment::default(), RequestContext::default());
            let verdict = judge(&exec, &toolbox, &nothing.0, &nothing.1, Permissions::default());
            let Verdict::ClientTool(call) = verdict else { panic!("{verdict:?}") };
            call.name
        };
        for (definition, own) in toolbox.definitions().iter().zip(names) {
            assert!(definition.description.starts_with(own));
            let (wire, offered) = (definition.name.clone(), definition.tool_name.clone());
            let direct = McpArgs { name: wire.clone(), tool_name: offered, ..McpArgs::default() };
            let by_wire = McpArgs { name: wire, ..McpArgs::default() };
            let arguments = format!(r#"{{"toolName":"{}","arguments":{{}}}}"#, direct.tool_name);
            let meta = McpArgs {
                name: "CallMcpTool".into(),
                args: crate::peer::agent::tools::arguments_map(&arguments),
                ..McpArgs::default()
            };
            for call in [direct, by_wire, meta] {
                let text = format!("{call:?}");
                assert_eq!(called(call), own, "{names:?}: {text}");
            }
        }
    }
}

#[test]
fn hook_is_answered_with_its_own_arm() {
    for number in [1_u32, 2, 3, 4, 5, 6, 7, 8, 9, 11] {
        let mut bytes = Vec::new();
        prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut bytes);
        bytes.push(0);
        let request = ExecuteHookRequest::decode(&bytes[..]).unwrap();
        let exec = ExecServerMessage {
            message: Some(Ask::ExecuteHookArgs(ExecuteHookArgs { request: Some(request) })),
            ..ExecServerMessage::default()
        };
        let Verdict::Reply(reply) = verdict(&exec, &[]) else { panic!() };
        let Reply::ExecuteHookResult(result) = *reply else { panic!() };
        let answer = result.response.unwrap().encode_to_vec();
        assert_eq!(pbwalk::fields(&answer).next().unwrap().number, number);
    }
}

#[test]
fn fetching_on_the_server_needs_consent_of_the_user() {
    for allowed in [false, true] {
        let allow = Permissions { web_search: false, web_fetch: allowed };
        let verdict = judge(
            &request(43),
            &toolbox(&[]),
            &Equipment::default(),
            &RequestContext::default(),
            allow,
        );
        let Verdict::Reply(reply) = verdict else { panic!() };
        let Reply::WebFetchAllowlistPrecheckResult(result) = *reply else { panic!() };
        assert_eq!(result.allowlisted, allowed);
    }
}
