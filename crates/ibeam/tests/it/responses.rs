//! Responses through the whole program: what is stored, what is continued, and that a
//! chain of tools is one run in each form of input.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use axum::body::Body;
use http::Request;
use ibeam_sim::{Scenario, SimConfig};
use serde_json::{Value, json};

use crate::{
    cli::{Home, Server},
    lab::{Lab, Reply},
};

/// The first run asks for two commands, one after the other. Any other run is a
/// conversation that was sent again, and repeats what it was sent.
const CHAIN: &str = r#"
    [[rule]]
    when = { nth = 1 }
    steps = [
      { text = "Let me look. " },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "a" } } } },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "b" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    steps = [{ text = "told anew: {history} {system} {prompt}" }]
"#;

const ECHO: &str = "[[rule]]\nsteps = [{ text = \"{history}|{system}|{prompt}\" }]";

async fn send(lab: &Lab, body: &Value) -> Reply {
    let request = Request::post("/v1/responses").header("host", "localhost");
    Reply::read(lab.send(request.body(Body::from(body.to_string())).unwrap()).await).await
}

/// The response, streamed or not.
async fn ask(lab: &Lab, body: &Value) -> Value {
    let reply = send(lab, body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    if body["stream"] != json!(true) {
        return reply.json();
    }
    let events = reply.chunks();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    events.last().unwrap()["response"].clone()
}

fn text(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    items.filter_map(|item| item["content"][0]["text"].as_str()).collect()
}

fn call(response: &Value) -> Value {
    let calls: Vec<&Value> = response["output"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["type"] == "function_call")
        .collect();
    assert_eq!(calls.len(), 1, "{response}");
    calls[0].clone()
}

fn result(call: &Value, output: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": call["call_id"], "output": output })
}

fn question(stream: bool) -> Value {
    json!({
        "model": "auto",
        "stream": stream,
        "instructions": "Be brief.",
        "input": [{ "role": "user", "content": "look" }],
        "tools": [{ "type": "function", "name": "bash", "parameters": {
            "type": "object", "properties": { "command": { "type": "string" } } } }],
    })
}

/// What the next request of a client is.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// The whole conversation again.
    Whole,
    /// What is new, and everything else as before.
    New,
    /// What is new, and nothing else at all.
    Results,
}

#[tokio::test(start_paused = true)]
async fn chain_of_tool_calls_is_one_run_in_each_input_format() {
    for told in [Told::Whole, Told::New, Told::Results] {
        for stream in [false, true] {
            let lab = Lab::scenario(CHAIN);
            let mut body = question(stream);
            let mut response = ask(&lab, &body).await;
            for output in ["one", "two"] {
                assert_eq!(response["status"], "completed");
                let result = result(&call(&response), output);
                match told {
                    Told::Whole => {
                        let input = body["input"].as_array_mut().unwrap();
                        input.extend(response["output"].as_array().unwrap().clone());
                        input.push(result);
                        body["store"] = json!(false);
                    }
                    Told::New => {
                        body["input"] = json!([result]);
                        body["previous_response_id"] = response["id"].clone();
                    }
                    Told::Results => {
                        body = json!({
                            "model": "auto", "stream": stream, "input": [result],
                            "previous_response_id": response["id"],
                        });
                    }
                }
                response = ask(&lab, &body).await;
            }
            assert_eq!(text(&response), "It says: two", "{told:?}, {stream}");
            assert_eq!(lab.sim.stats().runs_started, 1, "{told:?}, {stream}");
            assert_eq!(lab.sim.stats().violations, Vec::<String>::new());
            lab.assert_gone().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn earlier_messages_reach_the_model() {
    let lab = Lab::scenario(ECHO);
    let first = json!({ "model": "auto", "input": "My name is Ada.", "instructions": "Rhyme." });
    let first = ask(&lab, &first).await;
    let second = json!({
        "model": "auto", "previous_response_id": first["id"], "stream": true,
        "input": [
            { "role": "developer", "content": "Be kind." },
            { "role": "user", "content": "And my dog is Rex." },
        ],
    });
    let second = ask(&lab, &second).await;
    let third = json!({
        "model": "auto", "input": "Who is who?", "previous_response_id": second["id"],
    });
    let third = text(&ask(&lab, &third).await);
    for piece in ["My name is Ada.", "my dog is Rex", "Be kind.", "Who is who?"] {
        assert!(third.contains(piece), "{piece} is missing in {third}");
    }
    // Instructions are of one request only.
    assert!(third.ends_with("|Be kind.|Who is who?"), "{third}");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn a_response_outlives_the_program_and_its_parked_turn_does_not() {
    let folder = crate::watch::folder();
    let path = folder.path().join("store.db");
    let keep = |config: &mut ibeam_server::config::Config| config.store.path = Some(path.clone());
    let sim = SimConfig::scenario(Scenario::from_toml(CHAIN).unwrap());
    let lab = Lab::with(sim, keep);
    let first = ask(&lab, &question(true)).await;
    let lab = lab.restarted(keep).await;
    let found = lab.get(&format!("/v1/responses/{}", first["id"].as_str().unwrap())).await;
    assert_eq!((found.status.as_u16(), found.json()), (200, first.clone()));
    let results = json!({
        "model": "auto", "previous_response_id": first["id"],
        "input": [result(&call(&first), "one")],
    });
    let told = text(&ask(&lab, &results).await);
    assert!(told.contains("told anew") || told.contains("It says"), "{told}");
    assert!(told.contains("one"), "{told}");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn background_response_completes_or_is_cancelled() {
    let lab = Lab::scenario(
        "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 50, pace_ms = 100 } }]",
    );
    let body = json!({ "model": "auto", "input": "go", "background": true });
    let begun = ask(&lab, &body).await;
    assert_eq!(begun["status"], "in_progress");
    let path = format!("/v1/responses/{}", begun["id"].as_str().unwrap());
    let mut polls = 0;
    let done = loop {
        let now = lab.get(&path).await.json();
        if now["status"] != "in_progress" {
            break now;
        }
        polls += 1;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    };
    assert_eq!((&done["status"], polls > 2), (&json!("completed"), true), "{done}");
    assert_eq!(text(&done).trim(), "tick ".repeat(50).trim());

    // Errors of the request itself are reported at once.
    let wrong = json!({ "model": "no-such-model", "input": "go", "background": true });
    let request = Request::post("/v1/responses").header("host", "localhost");
    let refused = lab.send(request.body(Body::from(wrong.to_string())).unwrap()).await;
    assert_eq!(refused.status(), 400);

    let begun = ask(&lab, &body).await;
    let path = format!("/v1/responses/{}/cancel", begun["id"].as_str().unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let request = Request::post(path).header("host", "localhost").body(Body::empty()).unwrap();
    let ended = Reply::read(lab.send(request).await).await.json();
    assert_eq!(ended["status"], "cancelled", "{ended}");
    lab.assert_clean().await;
    assert_eq!(lab.sim.stats().runs_cancelled, 1);
    lab.assert_gone().await;
}

/// The history of a conversation, as a summary.
#[tokio::test(start_paused = true)]
async fn compacted_conversation_continues() {
    let lab = Lab::scenario(ECHO);
    let first = ask(&lab, &json!({ "model": "auto", "input": "The word is plum." })).await;
    let request = Request::post("/v1/responses/compact").header("host", "localhost");
    let body = json!({
        "model": "auto", "input": "Remember it.", "previous_response_id": first["id"],
    });
    let short = lab.send(request.body(Body::from(body.to_string())).unwrap()).await;
    let short = Reply::read(short).await.json();
    assert_eq!(short["object"], "response.compaction", "{short}");
    let mut input = short["output"].as_array().unwrap().clone();
    assert_eq!(input.last().unwrap()["type"], "compaction");
    // The summary alone, without what the user said.
    input.drain(..input.len() - 1);
    input.push(json!({ "role": "user", "content": "What is the word?" }));
    let last = text(&ask(&lab, &json!({ "model": "auto", "input": input })).await);
    assert!(last.contains("The word is plum."), "{last}");
    lab.assert_gone().await;
}

/// A client that has the end of a response can continue it, whatever happens to the program in
/// the next moment.
#[test]
fn response_is_stored_before_its_end_is_sent() {
    let home = Home::new();
    let start = || Server::start(home.ibeam("serve --sim --port 0"));
    for stream in [true, false] {
        let mut server = start();
        let address = server.url.strip_prefix("http://").unwrap();
        let body = json!({ "model": "auto", "input": "Say hello", "stream": stream }).to_string();
        let mut connection = TcpStream::connect(address).unwrap();
        write!(
            connection,
            "POST /v1/responses HTTP/1.0\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let (mut reader, mut line) = (BufReader::new(connection), String::new());
        // The data of the last event, or the body.
        while !line.contains(r#""status":"completed","completed_at""#) {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "no end");
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        crate::watch::heard(&line);
        let line = line.strip_prefix("data: ").unwrap_or(&line);
        let mut made: Value = serde_json::from_str(line).unwrap();
        if stream {
            made = made["response"].take();
        }
        let server = start();
        let head = format!("GET /v1/responses/{}", made["id"].as_str().unwrap());
        let answer = server.request(&head, "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (_, found) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(serde_json::from_str::<Value>(found).unwrap(), made);
    }
}
