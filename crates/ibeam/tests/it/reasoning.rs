//! Reasoning that clients send back: the model that signed it gets it again when the conversation
//! is rebuilt.

use axum::body::Body;
use http::Request;
use ibeam_core::peer::agent::probe::ProbeFindings;
use ibeam_server::{config::Config, findings};
use ibeam_sim::{BehaviourChanges, Scenario, SimConfig};
use serde_json::{Value, json};

use crate::{
    lab::{Lab, Reply},
    watch,
};

const MODEL: &str = "claude-haiku-4-5";
const OTHER_MODEL: &str = "claude-sonnet-5";

/// The first run thinks and calls a tool. Any other run is the conversation, sent again.
const SCENARIO: &str = r#"
    [[rule]]
    when = { nth = 1 }
    steps = [
      { thinking = "Where would it be?" },
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    steps = [{ text = "told anew: {history} {prompt}" }]
"#;

fn lab(value: &str, change: impl FnOnce(&mut Config)) -> Lab {
    let behaviour = BehaviourChanges::default().with("reasoning.signed", value).unwrap();
    let sim = SimConfig::scenario(Scenario::from_toml(SCENARIO).unwrap());
    Lab::with(SimConfig { behaviour, ..sim }, change)
}

/// An API in which clients send reasoning back.
#[derive(Clone, Copy, Debug)]
enum Api {
    Messages,
    Responses,
    Chat,
}

const APIS: [Api; 3] = [Api::Messages, Api::Responses, Api::Chat];

/// A conversation as a client of this API has it.
struct Conversation {
    api: Api,
    body: Value,
}

impl Conversation {
    fn new(api: Api) -> Self {
        let user = json!({ "role": "user", "content": "look" });
        let schema = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
        let body = match api {
            Api::Messages => json!({
                "model": MODEL, "max_tokens": 9000, "messages": [user],
                "thinking": { "type": "enabled", "budget_tokens": 8000 },
                "tools": [{ "name": "bash", "input_schema": schema }],
            }),
            Api::Responses => json!({
                "model": MODEL, "store": false, "input": [user],
                "include": ["reasoning.encrypted_content"],
                "tools": [{ "type": "function", "name": "bash", "parameters": schema }],
            }),
            Api::Chat => json!({
                "model": MODEL, "messages": [user],
                "tools": [{ "type": "function",
                    "function": { "name": "bash", "parameters": schema } }],
            }),
        };
        Self { api, body }
    }

    /// Sends it, takes the answer into it, and gives the answer.
    async fn ask(&mut self, lab: &Lab, reuse: &str) -> Value {
        let path = match self.api {
            Api::Messages => "/v1/messages",
            Api::Responses => "/v1/responses",
            Api::Chat => "/v1/chat/completions",
        };
        let request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("x-ibeam-session-reuse", reuse);
        let body = Body::from(self.body.to_string());
        let reply = Reply::read(lab.send(request.body(body).unwrap()).await).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
        let answer = reply.json();
        match self.api {
            Api::Messages => {
                self.push(json!({ "role": "assistant", "content": answer["content"] }));
            }
            Api::Responses => {
                answer["output"].as_array().unwrap().iter().for_each(|i| self.push(i.clone()));
            }
            Api::Chat => self.push(answer["choices"][0]["message"].clone()),
        }
        answer
    }

    fn push(&mut self, item: Value) {
        let list = if matches!(self.api, Api::Responses) { "input" } else { "messages" };
        self.body[list].as_array_mut().unwrap().push(item);
    }

    fn say(&mut self, text: &str) {
        self.push(json!({ "role": "user", "content": text }));
    }

    /// The result of the call in an answer.
    fn result(&mut self, answer: &Value, text: &str) {
        let item = match self.api {
            Api::Messages => {
                let blocks = answer["content"].as_array().unwrap();
                let call = blocks.iter().find(|block| block["type"] == "tool_use").unwrap();
                let result =
                    json!({ "type": "tool_result", "tool_use_id": call["id"], "content": text });
                json!({ "role": "user", "content": [result] })
            }
            Api::Responses => {
                let items = answer["output"].as_array().unwrap();
                let call = items.iter().find(|item| item["type"] == "function_call").unwrap();
                let id = &call["call_id"];
                json!({ "type": "function_call_output", "call_id": id, "output": text })
            }
            Api::Chat => {
                let call = &answer["choices"][0]["message"]["tool_calls"][0];
                json!({ "role": "tool", "tool_call_id": call["id"], "content": text })
            }
        };
        self.push(item);
    }

    /// A finished conversation with a call, and a further question.
    async fn with_call(api: Api, lab: &Lab) -> Self {
        let mut talk = Self::new(api);
        let first = talk.ask(lab, "on").await;
        assert!(first.to_string().contains("Where would it be?"), "{first}");
        talk.result(&first, "a b c");
        let second = talk.ask(lab, "on").await;
        assert!(second.to_string().contains("It says: a b c"), "{second}");
        assert_eq!(lab.sim.stats().runs_started, 1);
        talk.say("And now?");
        talk
    }

    /// Sends it to a new run, and gives how much reasoning that has.
    async fn rebuild(&mut self, lab: &Lab) -> usize {
        let answer = self.ask(lab, "off").await.to_string();
        assert!(answer.contains("told anew") && answer.contains("a b c"), "{answer}");
        lab.sim.prompts().last().unwrap().reasoning
    }
}

#[tokio::test(start_paused = true)]
async fn section_1_3_reasoning_that_a_client_sends_back_reaches_the_model_that_signed_it() {
    for api in APIS {
        let lab = lab("accepted", |_| {});
        let talk = Conversation::with_call(api, &lab).await;
        let mut same = Conversation { api, body: talk.body.clone() };
        assert_eq!(same.rebuild(&lab).await, 1, "{api:?}");
        let mut other = Conversation { api, body: talk.body.clone() };
        other.body["model"] = OTHER_MODEL.into();
        assert_eq!(other.rebuild(&lab).await, 0, "{api:?}");
        // In the Responses API the text is in a token that ibeam has signed itself.
        if !matches!(api, Api::Responses) {
            let text = talk.body.to_string().replace("Where would it be?", "Where is it?");
            let mut changed = Conversation { api, body: serde_json::from_str(&text).unwrap() };
            assert_eq!(changed.rebuild(&lab).await, 0, "{api:?}");
        }
        let refused: Vec<String> = lab.sim.runs().into_iter().map(|run| run.refused).collect();
        assert!(refused.iter().all(String::is_empty), "{refused:?}");
        lab.assert_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn section_1_3_a_service_that_refuses_reasoning_gets_the_conversation_without_it() {
    let lab = lab("refused", |_| {});
    let mut talk = Conversation::with_call(Api::Messages, &lab).await;
    assert_eq!(talk.rebuild(&lab).await, 0);
    assert_eq!(lab.sim.runs()[1].refused, "replayed reasoning");
    assert!(lab.sim.runs()[2].resumed, "the form was not at fault");
    talk.say("And then?");
    assert_eq!(talk.rebuild(&lab).await, 0);
    assert_eq!(lab.sim.stats().runs_started, 4, "refused once");
    lab.assert_gone().await;
}

#[tokio::test(start_paused = true)]
async fn question_o_leaves_reasoning_out_where_it_is_refused() {
    const FOUND: &str = r#"{ "version": 1, "findings": [{
        "question": "o", "observation": "reasoning-refused", "at": 1790000000,
        "client_version": "cli-2026.08.11-e8db854", "ibeam_version": "0.1.0"
    }] }"#;
    let folder = watch::folder();
    let path = folder.path().join("findings.json");
    findings::write(&path, &ProbeFindings::from_json(FOUND).unwrap()).unwrap();
    let lab = lab("refused", |config| config.upstream.findings = Some(path));
    let mut talk = Conversation::with_call(Api::Messages, &lab).await;
    assert_eq!(talk.rebuild(&lab).await, 0);
    assert_eq!(lab.sim.stats().runs_started, 2, "it is not tried");
    lab.assert_gone().await;
}
