//! A gateway with its simulator in this process, and the plainest of clients.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use ibeam_server::{api, app::App, config::Config, tasks::Tasks};
use ibeam_sim::{Scenario, Sim, SimConfig};
use serde_json::Value;
use tower::ServiceExt as _;

/// The same words as for the SDKs.
const SCENARIO: &str = include_str!("../../../sdks.toml");

pub(super) struct Gate {
    router: axum::Router,
    _sim: Sim,
    _tasks: Tasks,
}

pub(super) struct Reply {
    pub(super) status: StatusCode,
    body: String,
}

impl Gate {
    pub(super) fn new() -> Self {
        let sim = Sim::new(SimConfig::scenario(Scenario::from_toml(SCENARIO).unwrap()));
        let tasks = Tasks::new();
        let app = Arc::new(App::new(Config::default(), Some(&sim), &tasks).unwrap());
        Self { router: api::router(app), _sim: sim, _tasks: tasks }
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.send(Request::get(path), Body::empty()).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Reply {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request, Body::from(body.to_string())).await
    }

    async fn send(&self, request: http::request::Builder, body: Body) -> Reply {
        let request = request.header("host", "localhost").body(body).unwrap();
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply { status: parts.status, body: String::from_utf8(body.to_vec()).unwrap() }
    }
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The answer of a request that must succeed.
    #[track_caller]
    pub(super) fn good(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        self.json()
    }

    /// The objects of a stream that must have begun, without its `[DONE]`.
    #[track_caller]
    pub(super) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, StatusCode::OK, "{}", self.body);
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap_or_else(|_| panic!("no JSON: {data}")))
            .collect()
    }
}
