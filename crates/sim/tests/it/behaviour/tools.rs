//! How the client's tools are declared, seen and called.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use ibeam_proto::agent::{
    McpDescriptor, McpMetaToolOptions, McpToolError, McpTools, conversation_action::Action,
    exec_server_message::Message as Exec, mcp_tool_result, tool_call,
};
use ibeam_sim::Sim;
use serde_json::{Value, json};

use super::{answered, autumn, entries_of, entry, error, resumed, scripted, with_bash};
use crate::peer::{Heard, Peer};

const TWO: &str = r#"
[[rule]]
steps = [
  { execs = [
    { arm = "mcp", args = { name = "bash", args = { command = "a" } } },
    { arm = "mcp", args = { name = "bash", args = { command = "b" } } },
  ] },
  { text = "{result}" },
]
"#;

async fn run_ls(changes: &[(&str, &str)]) -> (Heard, Peer) {
    let mut peer = with_bash(&autumn(changes));
    let heard = peer.ask("run `ls`").await;
    (heard, peer)
}

async fn run_two(changes: &[(&str, &str)]) -> Heard {
    let heard = with_bash(&scripted(changes, TWO)).ask("go").await;
    answered(&heard);
    heard
}

/// The names of called tools.
fn called(heard: &Heard) -> Vec<&str> {
    let name = |exec: &Option<Exec>| -> Option<String> {
        match exec {
            Some(Exec::McpArgs(args)) => Some(args.tool_name.clone()),
            _ => None,
        }
    };
    heard
        .execs
        .iter()
        .filter(|exec| name(&exec.message).is_some())
        .map(|exec| match &exec.message {
            Some(Exec::McpArgs(args)) => args.tool_name.as_str(),
            _ => "",
        })
        .collect()
}

fn asks_state(heard: &Heard) -> Vec<Vec<String>> {
    let asked = heard.execs.iter().filter_map(|exec| match &exec.message {
        Some(Exec::McpStateExecArgs(args)) => Some(args.server_identifiers.clone()),
        _ => None,
    });
    asked.collect()
}

/// The errors of calls that the service refused.
fn refusals(heard: &Heard) -> Vec<McpToolError> {
    let errors = heard.completed.iter().filter_map(|completed| {
        let Some(tool_call::Tool::McpToolCall(call)) = &completed.tool_call.as_ref()?.tool else {
            return None;
        };
        match &call.result.as_ref()?.result {
            Some(mcp_tool_result::Result::Error(error)) => Some(error.clone()),
            _ => None,
        }
    });
    errors.collect()
}

#[tokio::test(start_paused = true)]
async fn history_has_calls_as_the_model_made_them() {
    for (mode, name, listed) in [
        ("direct", "bash", 0),
        ("meta", "CallDynamicTool", 1),
        ("meta-old-names", "CallMcpTool", 1),
    ] {
        let (heard, peer) = run_ls(&[("tools.mode", mode)]).await;
        // The exec has the client's tool in every mode.
        assert_eq!(called(&heard), ["bash"]);
        let entries = entries_of(&peer, heard.checkpoint.as_ref().unwrap());
        let parts = entries.iter().filter_map(|entry| entry["content"].as_array()).flatten();
        let calls: Vec<_> = parts.filter(|part| part["type"] == "tool-call").collect();
        assert_eq!(calls[0]["toolName"], name);
        let args =
            if mode == "direct" { &calls[0]["args"] } else { &calls[0]["args"]["arguments"] };
        assert_eq!(args["command"], "ls");
        let catalogues = heard.completed.iter().filter(|completed| {
            let tool = completed.tool_call.as_ref().and_then(|call| call.tool.as_ref());
            matches!(tool, Some(tool_call::Tool::GetMcpToolsToolCall(_)))
        });
        assert_eq!(catalogues.count(), listed);
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_model_knows_the_tools_of_its_catalogue_only() {
    for (mode, system, known) in
        [("meta", "You have: bash", true), ("meta", "No tools", false), ("direct", "", true)]
    {
        let sim = autumn(&[("tools.mode", mode), ("roots.empty_slots_57", "off")]);
        let mut peer = with_bash(&sim);
        let entries = [entry("system", system), entry("user", "run `ls`")];
        let request = resumed(&mut peer, &entries);
        let heard = peer.run(request).await;
        assert_eq!(called(&heard).is_empty(), !known, "{mode} {system}");
        assert_eq!(sim.prompts()[0].tools.is_empty(), !known);
    }
}

#[tokio::test(start_paused = true)]
async fn execs_can_name_the_meta_tools() {
    let (heard, _) = run_ls(&[("tools.literal_meta", "on")]).await;
    assert_eq!(called(&heard), ["GetDynamicTools", "CallDynamicTool"]);
    let (heard, peer) = run_ls(&[("tools.literal_meta", "off")]).await;
    assert_eq!(called(&heard), ["bash"]);
    assert_eq!(peer.sim.stats().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn allowed_tools_are_read_strictly_or_not() {
    const BOTH: &str = "mcp_tool_call,get_mcp_tools_tool_call,camelCase";
    for (value, mode, list, outcome) in [
        ("strict", "meta", BOTH, Ok(true)),
        ("strict", "meta", "mcp_tool_call", Err("GET_MCP_TOOLS")),
        ("strict", "direct", "mcp_tool_call", Ok(true)),
        ("strict", "meta", "", Ok(false)),
        ("strict", "meta", "mcpToolCall", Ok(false)),
        ("lenient", "meta", "mcp_tool_call", Ok(true)),
    ] {
        let sim = autumn(&[("tools.allow_header", value), ("tools.mode", mode)]);
        let mut peer = with_bash(&sim);
        peer.headers.push(("x-cursor-agent-allowed-tools", list));
        let heard = peer.ask("run `ls`").await;
        match outcome {
            Ok(calls) => assert_eq!(!called(&heard).is_empty(), calls, "{value} {mode} {list}"),
            Err(part) => assert!(error(heard).message.contains(part)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn native_tools_are_allowed_by_their_names_in_the_header() {
    for (list, native) in [("shell_tool_call,mcp_tool_call", true), ("mcp_tool_call", false)] {
        let mut sim = autumn(&[("tools.mode", "direct")]).config().clone();
        sim.quirks.extend([ibeam_sim::Quirk::NativeToolsFirst]);
        let mut peer = with_bash(&Sim::new(sim));
        peer.headers.push(("x-cursor-agent-allowed-tools", list));
        let heard = peer.ask("run `ls`").await;
        let shells = |exec: &Option<Exec>| matches!(exec, Some(Exec::ShellStreamArgs(_)));
        assert_eq!(heard.execs.iter().any(|exec| shells(&exec.message)), native);
    }
}

#[tokio::test(start_paused = true)]
async fn state_of_the_servers_is_awaited() {
    let (heard, _) = run_ls(&[]).await;
    answered(&heard);
    assert_eq!(asks_state(&heard), [vec!["peer".to_owned()], Vec::new()]);
    let (heard, _) = run_ls(&[("tools.mcp_state", "off")]).await;
    assert_eq!(asks_state(&heard), Vec::<Vec<String>>::new());
    for (value, text) in [("blocking", false), ("ask", true)] {
        let mut peer = with_bash(&autumn(&[("tools.mcp_state", value)]));
        peer.mcp_state = false;
        peer.patience = Duration::from_secs(600);
        let heard = peer.ask("hello").await;
        assert_eq!(!heard.text.is_empty(), text);
        assert_eq!(heard.heartbeats > 50, !text);
    }
}

#[tokio::test(start_paused = true)]
async fn namespace_may_need_the_meta_tool_options() {
    for (value, described, calls) in [("on", false, 0), ("on", true, 1), ("off", false, 1)] {
        let mut peer = with_bash(&autumn(&[("tools.need34", value)]));
        peer.inline_context = true;
        let mut request = peer.request("run `ls`");
        let action = request.action.as_mut().unwrap().action.as_mut().unwrap();
        let Action::UserMessageAction(action) = action else { panic!("no message") };
        let descriptor = McpDescriptor {
            server_identifier: "peer".to_owned(),
            tools: vec![ibeam_proto::agent::McpToolDescriptor::default()],
            ..McpDescriptor::default()
        };
        let options = McpMetaToolOptions { enabled: true, descriptors: vec![descriptor] };
        let context = action.request_context.as_mut().unwrap();
        context.mcp_meta_tool_options = described.then_some(options);
        let heard = peer.run(request).await;
        assert_eq!(called(&heard).len(), calls, "{value} {described}");
    }
}

#[tokio::test(start_paused = true)]
async fn declaring_tools_twice_may_stall() {
    for (value, stalls) in [("on", true), ("off", false)] {
        let mut peer = with_bash(&autumn(&[("tools.double_declare_stall", value)]));
        peer.patience = Duration::from_secs(300);
        let mut request = peer.request("hello");
        request.mcp_tools = Some(McpTools { mcp_tools: peer.tools.clone() });
        let heard = peer.run(request).await;
        assert_eq!(heard.text.is_empty(), stalls);
    }
}

#[tokio::test(start_paused = true)]
async fn service_refuses_calls_by_itself() {
    const SCRIPT: &str = r#"
        [[rule]]
        steps = [
          { exec = { arm = "mcp", refused = "bad wrapper", args = { name = "bash" } } },
          { exec = { arm = "mcp", args = { name = "unknown" } } },
          { exec = { arm = "mcp", args = { name = "bash", provider_identifier = "cursor" } } },
          { exec = { arm = "mcp", args = { name = "bash" } } },
          { text = "{result}" },
        ]"#;
    let heard = with_bash(&scripted(&[], SCRIPT)).ask("go").await;
    assert_eq!(called(&heard), ["bash"]);
    let details: Vec<_> = refusals(&heard).into_iter().filter_map(|error| error.detail).collect();
    assert_eq!(
        details,
        ["bad wrapper", "Tool unknown was not found", "cursor is a reserved namespace"]
    );
    let off = &[("tools.refuse_server_side", "off")];
    let heard = with_bash(&scripted(off, SCRIPT)).ask("go").await;
    assert_eq!(called(&heard).len(), 3, "only the marked call is refused");
    let first = &[("tools.refuse_server_side", "first")];
    let (heard, _) = run_ls(first).await;
    assert_eq!((called(&heard).len(), refusals(&heard).len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn number_of_calls_is_announced_where_the_switch_says() {
    const PARTIAL: &str = "PartialToolCall";
    const STARTED: &str = "ToolCallStarted";
    for (value, order) in [
        ("between", vec![PARTIAL, STARTED, PARTIAL, STARTED, "listed 2", "exec", "exec"]),
        ("before-started", vec!["listed 2", PARTIAL, STARTED, "exec", PARTIAL, STARTED, "exec"]),
        ("after-execs", vec![PARTIAL, STARTED, "exec", PARTIAL, STARTED, "exec", "listed 2"]),
        ("off", vec![PARTIAL, STARTED, "exec", PARTIAL, STARTED, "exec"]),
    ] {
        let changes =
            [("tools.listed27", value), ("tools.mode", "direct"), ("tools.mcp_state", "off")];
        let heard = run_two(&changes).await;
        let end = ["ToolCallCompleted", "ToolCallCompleted"];
        assert_eq!(heard.order, [&order[..], &end[..]].concat(), "{value}");
    }
    // Refused calls count, too.
    let refused = TWO.replacen("args = { name", "refused = \"no\", args = { name", 1);
    let heard = with_bash(&scripted(&[], &refused)).ask("go").await;
    assert!(heard.order.contains(&"listed 2".to_owned()), "{:?}", heard.order);
}

#[tokio::test(start_paused = true)]
async fn partial_calls_are_one_empty_message_or_grow() {
    let (heard, _) = run_ls(&[]).await;
    assert_eq!(heard.partials, [(String::new(), false)]);
    let (heard, _) = run_ls(&[("tools.partial", "cumulative")]).await;
    assert!(heard.partials.last().unwrap().0.contains("ls"));
    let (heard, _) = run_ls(&[("tools.partial", "off")]).await;
    assert_eq!(heard.partials, []);
}

#[tokio::test(start_paused = true)]
async fn second_call_may_wait_for_the_first() {
    for (value, calls) in [("on", 1), ("off", 2)] {
        let mut peer = with_bash(&scripted(
            &[("tools.serial_second_call", value), ("tools.mcp_state", "off")],
            TWO,
        ));
        peer.inline_context = true;
        peer.mute = true;
        peer.patience = Duration::from_secs(20);
        // The prompt of a mute client is never stored, so nothing before the call may ask.
        let sim = peer.sim.config().clone();
        let quirks = ibeam_sim::Quirks::default().with(ibeam_sim::Quirk::Terse);
        peer.sim = Sim::new(ibeam_sim::SimConfig { quirks, ..sim });
        let heard = peer.ask("go").await;
        assert_eq!(called(&heard).len(), calls);
    }
    let heard = run_two(&[("tools.serial_second_call", "on")]).await;
    assert_eq!(called(&heard).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_may_come_as_execs_only() {
    let changes = [("tools.exec_without_partial", "on"), ("tools.mode", "direct")];
    let (heard, _) = run_ls(&changes).await;
    answered(&heard);
    assert!(heard.text.contains("tool says hi"));
    assert_eq!(heard.updates.iter().filter(|name| name.contains("ToolCall")).count(), 0);
    let call = heard.execs.iter().find(|exec| matches!(exec.message, Some(Exec::McpArgs(_))));
    assert_eq!(call.unwrap().exec_id, "");
}

#[tokio::test(start_paused = true)]
async fn large_arguments_may_be_missing_when_a_call_has_completed() {
    let script = TWO.replace("\"a\"", &format!("\"{}\"", "x".repeat(400)));
    for (value, arguments) in [("on", 0), ("off", 1)] {
        let changes = [("tools.map_drops_large", value), ("tools.mode", "direct")];
        let heard = with_bash(&scripted(&changes, &script)).ask("go").await;
        let completed = heard.completed[0].tool_call.clone().unwrap();
        let Some(tool_call::Tool::McpToolCall(call)) = completed.tool else { panic!("no call") };
        assert_eq!(call.args.unwrap().args.len(), arguments);
    }
}

#[tokio::test(start_paused = true)]
async fn permission_can_be_requested_before_a_call() {
    for (approves, calls) in [(true, 2), (false, 1)] {
        let mut peer = with_bash(&autumn(&[("tools.approval_only", "on")]));
        peer.approves = approves;
        let heard = peer.ask("run `ls`").await;
        assert_eq!(called(&heard).len(), calls);
        assert_eq!(refusals(&heard).len(), usize::from(!approves));
        assert_eq!(peer.sim.stats().violations, Vec::<String>::new());
    }
    let (heard, _) = run_ls(&[]).await;
    assert_eq!(called(&heard).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn catalogue_may_be_spilled_into_a_file_of_the_client() {
    let sim = autumn(&[("tools.spill_catalogue", "on")]);
    let mut peer = with_bash(&sim);
    peer.files = Some(Arc::default());
    let heard = peer.ask("run `ls`").await;
    answered(&heard);
    let files: HashMap<String, String> = peer.files.take().unwrap().lock().unwrap().clone();
    let (path, text) = files.iter().next().unwrap();
    let listed: Value = serde_json::from_str(text).unwrap();
    assert_eq!(listed[0]["toolName"], json!("bash"));
    let shown = heard.completed.iter().find_map(|completed| {
        match completed.tool_call.as_ref()?.tool.as_ref()? {
            tool_call::Tool::GetMcpToolsToolCall(call) => call.result.clone()?.result,
            _ => None,
        }
    });
    let Some(ibeam_proto::agent::get_mcp_tools_result::Result::Success(success)) = shown else {
        panic!("no catalogue")
    };
    assert_eq!(success.output_file_path.as_ref(), Some(path));
    // A client that keeps no file ends the run.
    let mut peer = with_bash(&sim);
    assert!(error(peer.ask("run `ls`").await).message.contains("catalogue"));
}

#[tokio::test(start_paused = true)]
async fn names_of_built_in_tools_may_collide() {
    for (value, fails) in [("on", true), ("off", false)] {
        let sim = autumn(&[("tools.collide_builtin_error", value)]);
        let mut peer = Peer::new(&sim).tool("read", Bytes::new());
        peer.inline_context = true;
        let heard = peer.ask("hello").await;
        match fails {
            true => assert!(error(heard).detail.is_some()),
            false => answered(&heard),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ids_have_a_newline_where_the_switch_says() {
    for (value, model, newline) in [
        ("gpt-auto", "default", true),
        ("gpt-auto", "claude-opus-5", false),
        ("always", "claude-opus-5", true),
        ("off", "default", false),
    ] {
        let mut peer = with_bash(&autumn(&[("ids.newline", value)]));
        let request = super::with_model(peer.request("run `ls`"), model);
        let heard = peer.run(request).await;
        let id = heard.execs.iter().find_map(|exec| match &exec.message {
            Some(Exec::McpArgs(args)) => Some(args.tool_call_id.clone()),
            _ => None,
        });
        assert_eq!(id.unwrap().contains('\n'), newline, "{value} {model}");
    }
}
