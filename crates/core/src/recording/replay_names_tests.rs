//! Names of tools in recordings without texts: what is offered depends on them.

use super::*;

/// A turn in which the backend calls each tool by the name that it was offered, with the names that
/// the client got in the replay.
fn called(names: &[&str]) -> (String, Vec<String>) {
    let tool = |name: &&str| Tool {
        name: (*name).to_owned(),
        description: "PlantedDescription".into(),
        schema: None,
    };
    let request = TurnRequest {
        tools: names.iter().map(tool).collect(),
        ..request(vec![user("PlantedQuestion")])
    };
    let (mut turn, taped) = agent(request, Settings::default());
    drain(&mut turn);
    turn.on_opened(Millis(1));
    let sent = drain(&mut turn);
    let first = AgentClientMessage::from_wire(sent[0].slice(5..)).unwrap();
    let Some(ToServer::RunRequest(run)) = first.message else { panic!() };
    let offered = run.mcp_tools.unwrap().mcp_tools;
    assert_eq!(offered.len(), names.len());
    for (id, tool) in (1..).zip(offered) {
        let call = McpArgs {
            name: tool.name.clone(),
            tool_name: if id % 2 == 0 { String::new() } else { tool.tool_name },
            tool_call_id: format!("call-{id}"),
            ..McpArgs::default()
        };
        let exec = ExecServerMessage {
            id,
            exec_id: format!("exec-{id}"),
            message: Some(Ask::McpArgs(call)),
            ..ExecServerMessage::default()
        };
        turn.on_message(frame(FromServer::ExecServerMessage(Box::new(exec))), Millis(2));
        drain(&mut turn);
    }
    turn.on_timeout(Millis(2_000));
    drain(&mut turn);
    let got: Vec<String> = turn.calls().iter().map(|call| call.name.clone()).collect();
    assert_eq!(got, names, "each call reached its tool");
    let recording = check_redacted(&taped);
    let replay = Replay::same_as_recorded(&recording).unwrap();
    let name = |step: &ReplayStep| match &step.what {
        ReplayWhat::Did(LineBody::Event(EventRecord::CallBegin { name, .. })) => Some(name.clone()),
        _ => None,
    };
    (recording, replay.steps.iter().filter_map(name).collect())
}

#[test]
fn tools_with_the_names_of_built_in_ones_are_called_in_a_replay_without_texts() {
    let names = ["Read", "shell", "grep", "Web-Search", "ls"];
    assert_eq!(called(&names).1, names);
}

#[test]
fn tools_whose_names_had_to_be_told_apart_are_called_in_a_replay_without_texts() {
    let (recording, names) = called(&["read", "read_tool", "PlantedTool.x", "PlantedTool_x"]);
    assert_eq!(names[..2], ["read", "read_tool"], "{recording}");
    assert_eq!(names[2].replace('.', "_"), names[3]);
}
