//! `ibeam doctor` with the real program: each fault is caused, and the first failed check must name
//! it.

mod bundle;
mod docs;
mod faults;
mod world;

use serde_json::Value;

use self::world::{Patient, World};

/// The first red line.
fn first_red(report: &Value) -> Option<&Value> {
    report["checks"].as_array().unwrap().iter().find(|line| line["state"] == "fail")
}

/// How a check stands.
fn state<'a>(report: &'a Value, check: &str) -> &'a str {
    let lines = report["checks"].as_array().unwrap();
    let line = lines.iter().find(|line| line["check"] == check);
    line.unwrap_or_else(|| panic!("{check} is missing: {report:#}"))["state"].as_str().unwrap()
}

#[test]
fn every_check_passes_on_the_simulator() {
    let world = World::new();
    let report = world.sim("").json();
    assert_eq!(report["cause"], Value::Null, "{report:#}");
    assert_eq!((&report["ok"], &report["requests"]), (&true.into(), &2.into()));
    for check in [
        "settings",
        "disk",
        "files",
        "access",
        "credential",
        "network",
        "clock",
        "http2",
        "token",
        "client_version",
        "models",
        "model",
        "answer",
        "tools",
    ] {
        assert_eq!(state(&report, check), "ok", "{check}: {report:#}");
    }
    // The service of autumn sends an update that no client knows, which is skipped.
    assert_eq!(state(&report, "drift"), "ok", "{report:#}");
}

/// Without any network: the simulator in the process, and the simulated CLI in both its ways.
#[test]
fn other_backends_are_examined() {
    for (line, backend) in
        [("--sim", "sim"), ("--sim --backend cli", "cli"), ("--sim --backend acp", "acp")]
    {
        let world = World::new();
        let report = Patient::new(&world, line).json();
        assert_eq!(report["cause"], Value::Null, "{line}: {report:#}");
        assert_eq!(report["backend"], backend);
        for check in ["models", "model", "answer", "tools", "drift"] {
            assert_eq!(state(&report, check), "ok", "{line} {check}: {report:#}");
        }
    }
}

#[test]
fn offline_contacts_no_host() {
    let world = World::new();
    let backend = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    backend.set_nonblocking(true).unwrap();
    let url = format!("http://{}", backend.local_addr().unwrap());
    let report = world.at(&url, "--offline").json();
    assert!(backend.accept().is_err(), "somebody was called");
    assert_eq!(report["ok"], true, "{report:#}");
    assert_eq!(report["requests"], 0);
    for check in ["network", "clock", "http2", "token", "models", "answer", "tools", "drift"] {
        assert_eq!(state(&report, check), "skipped", "{check}: {report:#}");
    }
}

#[test]
fn piped_report_has_no_colour() {
    let world = World::new();
    let output = Patient::new(&world, "--sim --model no-such-model").page();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!text.contains('\u{1b}'), "{text}");
    let red = text.lines().find(|line| line.starts_with("FAIL")).unwrap();
    assert!(red.contains("no-such-model"), "{text}");
    assert!(text.contains("fix: ibeam models\n"), "{text}");
    assert!(text.ends_with("The cause: model.\n"), "{text}");
}

#[test]
fn json_report_has_stable_fields() {
    let world = World::new();
    let report = Patient::new(&world, "--sim --offline").json();
    let names = |value: &Value| -> Vec<String> {
        let mut names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        names.sort_unstable();
        names
    };
    assert_eq!(
        names(&report),
        [
            "backend",
            "cause",
            "checks",
            "milliseconds",
            "model",
            "offline",
            "ok",
            "requests",
            "version"
        ]
    );
    assert_eq!(names(&report["checks"][0]), ["check", "code", "fix", "state", "what"]);
}

#[test]
fn running_gateway_is_not_a_conflict() {
    let world = World::new();
    let gateway = crate::cli::Server::start(world.home.ibeam("serve --sim --port 0"));
    let port = gateway.url.rsplit(':').next().unwrap().to_owned();
    let report = Patient::new(&world, &format!("--sim --offline --port {port}")).json();
    assert_eq!(report["ok"], true, "{report:#}");
    let lines = report["checks"].as_array().unwrap();
    let line = lines.iter().find(|line| line["check"] == "port").unwrap();
    assert!(line["what"].as_str().unwrap().contains("is running at"), "{line}");
}

/// Unknown messages that a running gateway has counted are reported, too.
#[test]
fn drift_of_a_running_gateway_is_reported() {
    let world = World::new();
    let steps = "[[rule]]\nsteps = [{ unknown_query = { field = 99 } }, { text = \"ok\" }]\n";
    let scenario = world.put("drift.toml", steps, 0o600);
    let line = format!("serve --sim --port 0 --scenario {}", scenario.display());
    let gateway = crate::cli::Server::start(world.home.ibeam(&line));
    let hello = r#"{"model":"auto","messages":[{"role":"user","content":"Hello"}]}"#;
    assert!(gateway.request("POST /v1/chat/completions", hello).starts_with("HTTP/1.1 200"));
    let record = serde_json::json!({ "v": 1, "url": gateway.url }).to_string();
    world.put(".local/state/ibeam/instances/fedcba9876543210.json", &record, 0o600);
    let report = Patient::new(&world, "--sim --offline --port 0").json();
    let lines = report["checks"].as_array().unwrap();
    let drift = lines.iter().find(|line| line["code"] == "drift");
    let drift = drift.unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(drift["state"], "warn");
    assert!(drift["what"].as_str().unwrap().contains(&gateway.url), "{drift}");
    assert_eq!(report["ok"], true, "{report:#}");
}
