//! Only the right answer closes a question; wrong ones are recorded, and the run waits.

use std::time::Duration;

use bytes::Bytes;
use ibeam_core::codec::connect::{self, Code};
use ibeam_proto::agent::{
    AgentClientMessage, ExecClientControlMessage, ExecClientMessage, ExecClientStreamClose,
    ExecClientThrow, GetBlobResult, GrepError, GrepResult, InteractionResponse, KvClientMessage,
    LsResult, PiReadExecResult, ReadResult, SetBlobError, SetBlobResult, ShellResult, ShellStream,
    ShellStreamExit, agent_client_message::Message as ToServer, exec_client_control_message,
    exec_client_message::Message as Result_, grep_result, kv_client_message, shell_stream,
};
use ibeam_sim::{Scenario, Sim, SimConfig};
use prost::Message as _;

use crate::peer::{Ended, Heard, Peer, approval, beats, send, summer};

/// Plays one step and then a text; the replies are sent one after the other.
async fn play(step: &str, quirks: &str, replies: Vec<Bytes>) -> (Heard, Vec<String>) {
    let scenario =
        format!("quirks = [\"terse\"{quirks}]\n[[rule]]\nsteps = [{step}, {{ text = \"done\" }}]");
    let sim = Sim::new(summer(SimConfig::scenario(Scenario::from_toml(&scenario).unwrap())));
    let mut peer = Peer::new(&sim);
    (peer.inline_context, peer.mute) = (true, true);
    peer.patience = Duration::from_secs(120);
    let (tx, pending) = peer.open().await;
    send(&tx, ToServer::RunRequest(peer.request("go"))).await;
    let beat = beats(&tx, false);
    let sender = {
        let tx = tx.clone();
        crate::peer::spawn(async move {
            for reply in replies {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let _ = tx.send(connect::frame(0, &reply)).await;
            }
        })
    };
    let heard = peer.listen(pending, &tx).await;
    sender.abort();
    beat.abort();
    (heard, sim.stats().violations)
}

/// Wrong replies leave the question open and are recorded; the right one closes it.
async fn only(step: &str, wrong: Vec<(Bytes, &str)>, right: Bytes) {
    let (mut replies, notes): (Vec<_>, Vec<_>) = wrong.into_iter().unzip();
    let (heard, violations) = play(step, "", replies.clone()).await;
    assert_eq!((heard.text.as_str(), &heard.ended), ("", &None), "{step}");
    assert_eq!(violations, notes, "{step}");
    replies.push(right);
    let (heard, violations) = play(step, "", replies).await;
    assert_eq!((heard.text.as_str(), heard.ended), ("done", Some(Ended::EndFrame)), "{step}");
    assert_eq!(violations, notes, "{step}");
}

fn message(message: ToServer) -> Bytes {
    AgentClientMessage { message: Some(message) }.encode_to_vec().into()
}

#[tokio::test(start_paused = true)]
async fn queries_are_answered_under_their_own_arm() {
    let none = InteractionResponse { id: 1, result: None };
    let wrong = vec![
        (message(ToServer::InteractionResponse(none)), "query arm 2 answered with no arm"),
        (approval(1, 9, &[0x0a, 0]), "query arm 2 answered with arm 9"),
        (approval(1, 2, &[]), "query arm 2 answered with nothing in it"),
    ];
    let step = r#"{ query = { arm = "web_search", args = { args = { search_term = "x" } } } }"#;
    only(step, wrong, approval(1, 2, &[0x0a, 0])).await;
    let step = "{ unknown_query = { field = 99 } }";
    let wrong = vec![(approval(1, 2, &[0x0a, 0]), "query arm 99 answered with arm 2")];
    only(step, wrong, approval(1, 99, &[0x0a, 0])).await;
}

fn result(result: Option<Result_>) -> Bytes {
    message(ToServer::ExecClientMessage(ExecClientMessage {
        id: 1,
        exec_id: "e".to_owned(),
        message: result,
        ..ExecClientMessage::default()
    }))
}

fn control(control: exec_client_control_message::Message) -> Bytes {
    message(ToServer::ExecClientControlMessage(ExecClientControlMessage { message: Some(control) }))
}

fn exec(arm: &str) -> String {
    format!("{{ exec = {{ arm = \"{arm}\", exec_id = \"e\" }} }}")
}

#[tokio::test(start_paused = true)]
async fn execs_are_answered_by_their_own_result_arm() {
    let ls = || result(Some(Result_::LsResult(LsResult::default())));
    let read = || result(Some(Result_::ReadResult(ReadResult::default())));
    let wrong = vec![
        (result(None), "exec arm 7 answered with no result"),
        (ls(), "exec arm 7 answered with result arm 8"),
    ];
    only(&exec("read"), wrong, read()).await;
    let close = exec_client_control_message::Message::StreamClose(ExecClientStreamClose { id: 1 });
    only(&exec("ls"), vec![(control(close), "exec closed without a result")], ls()).await;
    // A throw closes any of them.
    let throw = ExecClientThrow { id: 1, error: "no".to_owned(), stack_trace: None };
    let throw = || control(exec_client_control_message::Message::Throw(throw.clone()));
    let wrong = vec![(ls(), "exec arm 10 answered with result arm 8")];
    only(&exec("request_context"), wrong, throw()).await;
    let step = "{ unknown_exec = { field = 99 } }";
    let wrong = (result(None), "exec_id is not echoed");
    let (heard, violations) = play(step, "", vec![wrong.0]).await;
    assert_eq!(heard.text, "");
    assert_eq!(violations, [wrong.1, "exec arm 99 answered with no result"]);
    assert_eq!(play(step, "", vec![throw()]).await.0.text, "done");
}

#[tokio::test(start_paused = true)]
async fn shifted_results_and_streamed_shells() {
    let pi = |n| match n {
        46 => result(Some(Result_::PiReadResult(PiReadExecResult::default()))),
        47 => result(Some(Result_::PiBashResult(Default::default()))),
        52 => result(Some(Result_::PiLsResult(Default::default()))),
        _ => result(Some(Result_::MiniSweAgentBashResult(ShellResult::default()))),
    };
    let wrong = vec![(pi(47), "exec arm 45 answered with result arm 47")];
    only(&exec("pi_read"), wrong, pi(46)).await;
    let wrong = vec![(pi(46), "exec arm 46 answered with result arm 46")];
    only(&exec("pi_bash"), wrong, pi(47)).await;
    let wrong = vec![(pi(52), "exec arm 52 answered with result arm 52")];
    only(&exec("mini_swe_agent_bash"), wrong, pi(55)).await;

    let shell = || result(Some(Result_::ShellResult(ShellResult::default())));
    let event = |event| result(Some(Result_::ShellStream(ShellStream { event })));
    let exit = || event(Some(shell_stream::Event::Exit(ShellStreamExit::default())));
    only(&exec("shell_stream"), vec![], shell()).await;
    let wrong = vec![(event(None), "shell stream without an event")];
    only(&exec("shell_stream"), wrong, exit()).await;
    let wrong = vec![(exit(), "exec arm 2 answered with result arm 14")];
    only(&exec("shell"), wrong, shell()).await;
}

#[tokio::test(start_paused = true)]
async fn search_can_only_be_refused_with_an_error() {
    let grep = |grep| result(Some(Result_::GrepResult(GrepResult { result: grep })));
    let error = || grep(Some(grep_result::Result::Error(GrepError::default())));
    let wrong = vec![(grep(None), "grep answered with neither success nor error")];
    only(&exec("grep"), wrong, error()).await;
    let (heard, violations) = play(&exec("grep"), ", \"grep_refusal_ok\"", vec![grep(None)]).await;
    assert_eq!((heard.text.as_str(), violations.len()), ("done", 0));
}

fn kv(message_: Option<kv_client_message::Message>) -> Bytes {
    message(ToServer::KvClientMessage(KvClientMessage { id: 1, message: message_ }))
}

#[tokio::test(start_paused = true)]
async fn blobs_are_answered_by_their_own_arm() {
    use kv_client_message::Message as Kv;
    let get = || {
        kv(Some(Kv::GetBlobResult(GetBlobResult {
            blob_data: Some(Bytes::new()),
            ..GetBlobResult::default()
        })))
    };
    let set = |error| kv(Some(Kv::SetBlobResult(SetBlobResult { error })));
    let wrong = vec![
        (kv(None), "blob arm 3 answered with result arm 0"),
        (get(), "blob arm 3 answered with result arm 2"),
    ];
    only("{ kv_set = \"x\" }", wrong, set(None)).await;
    let wrong = vec![
        (kv(None), "blob arm 2 answered with result arm 0"),
        (set(None), "blob arm 2 answered with result arm 3"),
    ];
    only("{ kv_get = { data = \"x\" } }", wrong, get()).await;

    let error = SetBlobError { message: "disk full".to_owned() };
    let (heard, violations) = play("{ kv_set = \"x\" }", "", vec![set(Some(error))]).await;
    let Some(Ended::Error(error)) = heard.ended else { panic!("{:?}", heard.ended) };
    assert_eq!((heard.text.as_str(), error.code), ("", Code::Internal));
    assert_eq!(violations, ["client could not store a blob"]);
}

/// Sends the request, then closes the client's side.
async fn half_closed(quirks: &str) -> (Heard, Sim) {
    let scenario = format!("quirks = [{quirks}]\n[[rule]]\nsteps = [{{ text = \"done\" }}]");
    let sim = Sim::new(summer(SimConfig::scenario(Scenario::from_toml(&scenario).unwrap())));
    let mut peer = Peer::new(&sim);
    (peer.inline_context, peer.mute) = (true, true);
    let (tx, pending) = peer.open().await;
    send(&tx, ToServer::RunRequest(peer.request("go"))).await;
    drop(tx);
    // The reader needs a sender, although it sends nothing.
    let (idle, _rest) = tokio::sync::mpsc::channel(1);
    peer.patience = Duration::from_secs(35);
    let heard = peer.listen(pending, &idle).await;
    (heard, sim)
}

#[tokio::test(start_paused = true)]
async fn closing_the_request_leaves_only_heartbeats() {
    for quirks in ["", "\"terse\""] {
        let (heard, sim) = half_closed(quirks).await;
        assert_eq!((heard.text.as_str(), heard.ended, heard.heartbeats), ("", None, 3), "{quirks}");
        assert_eq!(sim.stats().violations, ["request closed while the run goes on"]);
    }
    let (heard, sim) = half_closed("\"half_close_ok\"").await;
    assert_eq!((heard.text.as_str(), heard.ended), ("done", Some(Ended::EndFrame)));
    assert_eq!(sim.stats().violations, Vec::<String>::new());
}
