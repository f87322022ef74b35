//! Chains of tool calls: tasks of several steps, the service's own tools, and batches.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use ibeam_proto::agent::exec_server_message::Message as Exec;
use ibeam_sim::{Quirk, Quirks, Scenario, Sim, SimConfig};

use crate::peer::{Ended, Heard, Peer, summer};

const TASK: &str = "Read the file notes-7f3a.txt, replace \"alpha\" with \"beta\" in it, then \
                    run `cat notes-7f3a.txt`.";

fn calls(heard: &Heard) -> Vec<String> {
    let calls = heard.execs.iter().filter_map(|exec| match exec.message.as_ref()? {
        Exec::McpArgs(args) => Some(args.tool_name.clone()),
        Exec::RequestContextArgs(_) => None,
        other => Some(format!("{other:?}").split(['(', ' ']).next().unwrap().to_owned()),
    });
    calls.collect()
}

fn coder(sim: &Sim) -> Peer {
    let peer = Peer::new(sim).tool("bash", Bytes::new()).tool("read", Bytes::new());
    peer.tool("edit", Bytes::new())
}

#[tokio::test(start_paused = true)]
async fn task_is_done_step_by_step() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = coder(&sim);
    peer.tool_time = Duration::from_secs(100);
    let heard = peer.ask(TASK).await;
    assert_eq!(calls(&heard), ["read", "edit", "bash"]);
    assert!(heard.text.ends_with("bash answered:\n```\ntool says hi\n```"), "{}", heard.text);
    // Each waited for the one before, with a heartbeat every ten seconds.
    assert!((27..=30).contains(&heard.heartbeats), "{}", heard.heartbeats);
    assert_eq!(sim.stats().runs_started, 1);
    assert_eq!(sim.stats().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn patch_is_made_from_the_lines_that_were_read() {
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim).tool("exec_command", Bytes::new());
    peer = peer.tool("apply_patch", Bytes::new());
    peer.mcp_text = "Output:\nfirst\nthe alpha line".to_owned();
    let heard = peer.ask(TASK).await;
    assert_eq!(calls(&heard), ["exec_command", "apply_patch", "exec_command"]);
    let patch = heard.partials.iter().map(|(text, _)| text).find(|text| text.contains("Patch\"}"));
    let patch: serde_json::Value = serde_json::from_str(patch.unwrap()).unwrap();
    assert_eq!(
        patch["input"],
        "*** Begin Patch\n*** Update File: notes-7f3a.txt\n@@\n-the alpha line\n+the beta line\n*** \
         End Patch"
    );
}

#[tokio::test(start_paused = true)]
async fn changes_are_written_into_the_answer_without_tools() {
    let rule = "Mark changes so:\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n";
    let shown = "notes-7f3a.txt\n```\nfirst\nthe alpha line\n```\n";
    let wish = "Now replace \"alpha\" with \"beta\" in notes-7f3a.txt.";
    let change = "notes-7f3a.txt\n```\n<<<<<<< SEARCH\nthe alpha line\n=======\nthe beta \
                  line\n>>>>>>> REPLACE\n```";
    let sim = Sim::new(summer(SimConfig::default()));
    let mut peer = Peer::new(&sim);
    peer.cloud_rule = Some(rule.to_owned());
    let mut request = peer.request(wish);
    let said = serde_json::json!({ "role": "user", "content": shown });
    let id = peer.put_blob(said.to_string());
    request.conversation_state.get_or_insert_default().root_prompt_messages_json.push(id);
    assert_eq!(peer.run(request).await.text, change);
    // Not for clients that have tools for it, nor for those that did not ask for it.
    peer = peer.tool("edit", Bytes::new());
    assert_eq!(calls(&peer.ask(wish).await), ["edit"]);
    let heard = Peer::new(&sim).ask(wish).await;
    assert!(heard.text.contains("not offered a tool"), "{}", heard.text);
}

fn native() -> Sim {
    let quirks = Quirks::default().with(Quirk::NativeToolsFirst);
    Sim::new(summer(SimConfig { quirks, ..SimConfig::default() }))
}

#[tokio::test(start_paused = true)]
async fn native_edit_is_a_read_and_a_write() {
    let sim = native();
    let mut peer = coder(&sim);
    let files = HashMap::from([("notes-7f3a.txt".to_owned(), "alpha, alpha\nend".to_owned())]);
    let files = Arc::new(Mutex::new(files));
    peer.files = Some(Arc::clone(&files));
    let heard = peer.ask(TASK).await;
    assert_eq!(calls(&heard), ["ReadArgs", "ReadArgs", "WriteArgs", "ShellStreamArgs"]);
    assert_eq!(files.lock().unwrap()["notes-7f3a.txt"], "beta, beta\nend");
    let ids: Vec<_> = heard
        .execs
        .iter()
        .filter_map(|exec| match exec.message.as_ref()? {
            Exec::ReadArgs(args) => Some(args.tool_call_id.clone()),
            Exec::WriteArgs(args) => Some(args.tool_call_id.clone()),
            Exec::ShellStreamArgs(args) => Some(args.tool_call_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ids[1], ids[2]);
    assert!(ids[0] != ids[1] && ids[2] != ids[3] && ids[0] != ids[3], "{ids:?}");
    for update in ["PartialToolCall", "ToolCallStarted", "ToolCallCompleted"] {
        assert_eq!(heard.updates.iter().filter(|u| *u == update).count(), 3, "{update}");
    }
    assert!(heard.text.contains("alpha, alpha"), "{}", heard.text);
    assert!(heard.text.contains("notes-7f3a.txt is written"), "{}", heard.text);
    assert_eq!(sim.stats().violations, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn tool_error_ends_the_task() {
    let sim = native();
    let mut peer = coder(&sim);
    peer.files = Some(Arc::default());
    let heard = peer.ask(TASK).await;
    assert_eq!(calls(&heard), ["ReadArgs"]);
    assert!(heard.text.contains("read_file failed, so I stop here"), "{}", heard.text);
    assert!(heard.text.contains("File not found"), "{}", heard.text);
}

#[tokio::test(start_paused = true)]
async fn arguments_are_streamed_in_pieces() {
    let heard =
        coder(&Sim::new(summer(SimConfig::default()))).ask("replace `a` with `b` in f.txt").await;
    let (first, rest) = heard.partials.split_first().unwrap();
    assert_eq!(first, &(String::new(), false), "an empty arm that names nothing");
    assert!(rest.iter().all(|(_, named)| *named));
    assert!(rest.iter().any(|(text, _)| text.is_empty()));
    let texts: Vec<_> = rest.iter().map(|(text, _)| text).filter(|t| !t.is_empty()).collect();
    assert!(texts.len() > 3, "{texts:?}");
    assert!(texts.windows(2).all(|pair| pair[1].starts_with(pair[0].as_str())), "{texts:?}");
    let whole: serde_json::Value = serde_json::from_str(texts.last().unwrap()).unwrap();
    assert_eq!(whole["old_string"], "a");
    assert!(texts.last().unwrap().contains("\": "), "written with spaces");
    for (partial, pieces) in [("", 2), (", partial = 0", 1), (", partial = 4", 5)] {
        let scenario = format!(
            "[[rule]]\nsteps = [{{ exec = {{ arm = \"mcp\", args = {{ name = \"t\", args = \
             {{ n = \"123\" }} }}{partial} }} }}]"
        );
        let sim = Sim::new(summer(SimConfig::scenario(Scenario::from_toml(&scenario).unwrap())));
        assert_eq!(Peer::new(&sim).ask("go").await.partials.len(), pieces, "{partial}");
    }
}

#[tokio::test(start_paused = true)]
async fn batch_waits_for_all_of_its_calls() {
    let scenario = r#"
        [[rule]]
        steps = [
            { batch = [
                { exec = { arm = "mcp", args = { name = "first" } } },
                { text = "Working." },
                { kv_set = "while a call is open" },
                { wait_ms = 20000 },
                { exec = { arm = "mcp", args = { name = "late" } } },
                { abort = { exec = { arm = "mcp", args = { name = "never" } } } },
            ] },
            { text = " Got {result}" },
        ]
    "#;
    let sim = Sim::new(summer(SimConfig::scenario(Scenario::from_toml(scenario).unwrap())));
    let mut peer = Peer::new(&sim);
    let start = tokio::time::Instant::now();
    let heard = peer.ask("go").await;
    assert_eq!(heard.text, "Working. Got tool says hi\ntool says hi");
    assert_eq!(calls(&heard), ["first", "late", "never"]);
    assert_eq!((heard.aborted.len(), start.elapsed().as_secs()), (1, 20));
    assert_eq!(heard.ended, Some(Ended::EndFrame));
}

#[tokio::test(start_paused = true)]
async fn two_hundred_conversations_do_not_mix() {
    let sim = Sim::new(summer(SimConfig { pace: Duration::ZERO, ..SimConfig::default() }));
    let mut running = Vec::new();
    for number in 0..200 {
        let mut peer = coder(&sim);
        peer.mcp_text = format!("result of {number}.");
        peer.tool_time = Duration::from_millis(number % 7);
        running.push(async move {
            let mut request = peer.request(TASK);
            request.conversation_id = Some(format!("conversation-{number}"));
            let heard = peer.run(request).await;
            let mine = heard.text.matches(&format!("result of {number}.")).count();
            assert_eq!((mine, heard.text.matches("result of").count()), (3, 3));
        });
    }
    all_of(running).await;
    let stats = sim.stats();
    assert_eq!((stats.runs_finished, stats.open_streams), (200, 0));
    assert_eq!((stats.conversations.len(), stats.execs_sent), (200, 800));
    assert_eq!(stats.violations, Vec::<String>::new());
}

/// Runs all in parallel.
async fn all_of(work: Vec<impl Future<Output = ()> + 'static>) {
    let local = tokio::task::LocalSet::new();
    let mut tasks = tokio::task::JoinSet::new();
    for work in work {
        tasks.spawn_local_on(work, &local);
    }
    local
        .run_until(async { while tasks.join_next().await.transpose().unwrap().is_some() {} })
        .await;
}
