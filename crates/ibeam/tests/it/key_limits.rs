//! Places for turns, with keys: limits of their own, taking turns in the queue, and tool
//! results that need not wait.

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::body::Body;
use ibeam_server::{config::Config, keys::KeyFile};
use ibeam_sim::{Scenario, SimConfig};
use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::lab::{Lab, Reply, Talk, chat};

const SCRIPT: &str = r#"
    [[rule]]
    when = { contains = "look" }
    steps = [
      { exec = { arm = "mcp", args = { name = "bash", args = { command = "ls" } } } },
      { text = "It says: {result}" },
    ]
    [[rule]]
    when = { contains = "quick" }
    steps = [{ text = "done" }]
    [[rule]]
    steps = [{ text = { text = "tick ", repeat = 600, pace_ms = 1000 } }]
"#;

/// Long enough for a request to get to where it waits.
const MOMENT: Duration = Duration::from_millis(20);

struct Shop {
    lab: Lab,
    keys: PathBuf,
    _folder: tempfile::TempDir,
}

impl Shop {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let folder = crate::watch::folder();
        let keys = folder.path().join("keys.json");
        let scenario = Scenario::from_toml(SCRIPT).unwrap();
        let lab = Lab::with(SimConfig::scenario(scenario), |config| {
            config.keys_file = Some(keys.clone());
            change(config);
        });
        Self { lab, keys, _folder: folder }
    }

    /// A key that the gateway has noticed.
    async fn key(&self, name: &str, limit: Option<usize>) -> String {
        let key = KeyFile::at(&self.keys).add(name, limit, 0).unwrap();
        sleep(Duration::from_secs(1)).await;
        crate::watch::secret(key.expose_secret());
        key.expose_secret().to_owned()
    }

    /// A stream that does not end by itself.
    async fn open(&self, key: &str) -> http::Response<Body> {
        self.lab.open_with(chat("go on", true).to_string(), &[("x-api-key", key)]).await
    }

    async fn quick(&self, key: &str) -> Reply {
        self.lab.post_with(&chat("quick", false), &[("x-api-key", key)]).await
    }
}

#[tokio::test(start_paused = true)]
async fn key_limit_is_enforced() {
    let shop = Shop::new(|config| {
        config.limits.turns = 4;
        config.limits.turns_per_key = 2;
        config.clocks.queue = Duration::from_secs(3);
    });
    let (one, usual) = (shop.key("one", Some(1)).await, shop.key("usual", None).await);
    let first = shop.open(&one).await;
    assert_eq!(first.status(), 200);
    let began = Instant::now();
    let refused = shop.quick(&one).await;
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(
        (refused.status.as_u16(), refused.error().as_deref()),
        (429, Some("quota_exceeded"))
    );
    assert!(refused.headers.contains_key("retry-after"));
    assert!(refused.body.contains("already runs 1 turn, which is its limit"), "{}", refused.body);
    // Other keys are not affected.
    let others = (shop.open(&usual).await, shop.open(&usual).await);
    assert_eq!(
        (others.0.status(), others.1.status()),
        (http::StatusCode::OK, http::StatusCode::OK)
    );
    assert!(shop.quick(&usual).await.body.contains("already runs 2 turns"));
    drop(first);
    sleep(MOMENT).await;
    assert_eq!(shop.quick(&one).await.status, 200);
    drop(others);
    shop.lab.assert_clean().await;
}

#[tokio::test(start_paused = true)]
async fn queue_alternates_between_keys() {
    let shop = Arc::new(Shop::new(|config| config.limits.turns = 1));
    let (many, few) = (shop.key("many", None).await, shop.key("few", None).await);
    let holder = shop.open(&many).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut requests = JoinSet::new();
    for (name, key) in [("a1", &many), ("a2", &many), ("a3", &many), ("b1", &few), ("b2", &few)] {
        let (shop, order, key) = (Arc::clone(&shop), Arc::clone(&order), key.clone());
        requests.spawn(async move {
            assert_eq!(shop.quick(&key).await.status, 200);
            order.lock().push(name);
        });
        sleep(MOMENT).await;
    }
    assert!(order.lock().is_empty());
    drop(holder);
    requests.join_all().await;
    assert_eq!(*order.lock(), ["a1", "b1", "a2", "b2", "a3"]);
    shop.lab.assert_clean().await;
}

/// One key asks for more than there is. Another one that comes later is served at once, and
/// both share what there is without a limit of their own.
#[tokio::test(start_paused = true)]
async fn one_key_cannot_take_all_turns() {
    let shop = Arc::new(Shop::new(|config| config.clocks.queue = Duration::from_secs(3)));
    let greedy = shop.key("greedy", None).await;
    let other = shop.key("other", None).await;
    let mut opened = JoinSet::new();
    for _ in 0..64 {
        let (shop, greedy) = (Arc::clone(&shop), greedy.clone());
        opened.spawn(async move { shop.open(&greedy).await });
    }
    let mut running = Vec::new();
    let mut refused = 0;
    while let Some(reply) = opened.join_next().await {
        let reply = reply.unwrap();
        if reply.status() == 200 {
            running.push(reply);
        } else {
            assert_eq!(reply.status(), 429);
            refused += 1;
        }
    }
    assert_eq!((running.len(), refused, shop.lab.app.free_turns()), (24, 40, 8));
    let began = Instant::now();
    assert_eq!(shop.quick(&other).await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let error = shop.quick(&greedy).await;
    assert!(error.body.contains("its share of the turn slots"), "{}", error.body);
    drop(running);
    shop.lab.assert_clean().await;
}

/// The same for responses that are made in the background.
#[tokio::test(start_paused = true)]
async fn one_key_cannot_take_all_background_slots() {
    let shop = Shop::new(|config| config.clocks.queue = Duration::from_secs(3600));
    let greedy = shop.key("greedy", None).await;
    let other = shop.key("other", None).await;
    let begin = async |key: &str| {
        let body = serde_json::json!({ "model": "auto", "input": "go on", "background": true });
        let request = http::Request::post("/v1/responses").header("host", "localhost");
        let request = request.header("x-api-key", key).body(Body::from(body.to_string()));
        Reply::read(shop.lab.send(request.unwrap()).await).await
    };
    let mut begun = 0;
    let refused = loop {
        let reply = begin(&greedy).await;
        if reply.status != 200 {
            break reply;
        }
        begun += 1;
    };
    assert_eq!((begun, refused.status.as_u16()), (192, 429), "{}", refused.body);
    assert!(refused.body.contains("reserved for other keys"), "{}", refused.body);
    assert_eq!(begin(&other).await.status, 200);
}

/// Every place is taken and many wait; the results of a turn that was let in before go
/// through, whether it is parked or only stored.
#[tokio::test(start_paused = true)]
async fn tool_results_do_not_wait_behind_new_turns() {
    let shop = Arc::new(Shop::new(|config| {
        config.limits.turns = 2;
        config.limits.reserve = 1;
    }));
    let (worker, crowd) = (shop.key("worker", Some(1)).await, shop.key("crowd", Some(2)).await);
    let mut parked = Talk::new("look");
    parked.headers.push(("x-api-key", worker.clone()));
    let call = parked.ask(&shop.lab).await.call();
    parked.result(&call, "a.txt");
    let mut stored = Talk::new("look there");
    stored.headers.push(("x-api-key", worker.clone()));
    let call = stored.ask(&shop.lab).await.call();
    stored.result(&call, "b.txt");

    let running = (shop.open(&crowd).await, shop.open(&crowd).await);
    assert_eq!(shop.lab.app.free_turns(), 0);
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let (shop, crowd) = (Arc::clone(&shop), crowd.clone());
        waiting.spawn(async move { shop.quick(&crowd).await.status.as_u16() });
    }
    sleep(MOMENT).await;

    let began = Instant::now();
    let reply = parked.send(&shop.lab).await;
    assert_eq!(reply.text(), "It says: a.txt", "{}", reply.body);
    assert_eq!(shop.lab.fates().resumed, 1);
    shop.lab.app.drain_turns();
    sleep(MOMENT).await;
    assert_eq!(shop.lab.app.sessions().parked, 0);
    let headers = [("x-api-key", worker.as_str())];
    let reply = shop.lab.open_with(stored.body.to_string(), &headers).await;
    assert_eq!(reply.status(), 200);
    assert_eq!(shop.lab.fates().continued + shop.lab.fates().rebuilt, 1);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());

    // Results of a turn that is not known are a new turn like any other.
    let mut unknown = Talk::new("quick");
    unknown.headers.push(("x-api-key", worker));
    let id = "sess_0123456789abcdef01234567__call_0".to_owned();
    let function = json!({ "name": "list", "arguments": "{}" });
    let calls = json!([{ "id": id, "type": "function", "function": function }]);
    unknown.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
    unknown.result(&crate::lab::Call { id, ..call }, "x");
    assert_eq!(unknown.send(&shop.lab).await.status, 429);
    assert_eq!(waiting.join_all().await, [429; 20], "they had their time");
    drop((running, reply));
    shop.lab.assert_clean().await;
}
