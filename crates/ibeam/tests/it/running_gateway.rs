//! What is done beside a gateway that runs, and what keeps one from running, with the
//! binary.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    process::Output,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    cli::{Home, Server},
    client::{ask, send},
    lab::chat,
};

const TICKS: &str =
    "[[rule]]\nsteps = [{ text = { text = \"tick \", repeat = 100, pace_ms = 20 } }]";

/// Stores a sign-in, as `ibeam login` does.
fn sign_in(home: &Home, name: &str) {
    let folder = home.0.path().join(".config/ibeam/credentials");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    let claims = format!(r#"{{"sub":"auth0|{name}","iat":1,"exp":99999999999}}"#);
    let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
    let new = folder.join("new");
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let credential = serde_json::json!({ "type": "oauth", "access": token, "refresh": token });
    serde_json::to_writer(file.unwrap(), &credential).unwrap();
    std::fs::rename(new, folder.join("default.json")).unwrap();
}

/// A program that answers every request as a gateway would. Gives its port.
fn claims_to_be_ibeam() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let answer = "HTTP/1.0 200 OK\r\n\r\n{\"name\":\"ibeam\",\"version\":\"9.9.9\"}";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn health(gateway: &Server) -> Value {
    let text = gateway.request("GET /health", "");
    serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

#[test]
fn running_gateway_notices_sign_out_and_sign_in() {
    let home = Home::new();
    let scenario = home.0.path().join("ticks.toml");
    std::fs::write(&scenario, TICKS).unwrap();
    let mut sim = home.ibeam("sim --port 0 --any-token --scenario");
    sim.arg(&scenario);
    let sim = Server::start(sim);
    sign_in(&home, "one");
    let mut serve = home.ibeam("serve --port 0");
    serve.env("CURSOR_API_URL", &sim.url);
    let gateway = Server::start(serve);
    assert_eq!(health(&gateway)["auth"], "authenticated");

    let mut running = send(&gateway.url, &[], &chat("go", true));
    running.until("tick");
    let output = home.ibeam("logout").output().unwrap();
    assert!(output.status.success(), "{}", words(&output));
    assert_eq!(health(&gateway)["auth"], "not_authenticated");
    let refused = send(&gateway.url, &[], &chat("go on", true)).rest();
    assert!(refused.starts_with("HTTP/1.0 401"), "{refused}");
    assert!(refused.contains("not_authenticated") && refused.contains("ibeam login"), "{refused}");
    let rest = running.rest();
    assert!(
        rest.contains("[DONE]") && !rest.contains("\"error\""),
        "what runs is finished: {rest}"
    );

    sign_in(&home, "two");
    assert!(ask(&gateway.url, &[], &chat("go on", true)).text.contains("tick"));
    assert_eq!(health(&gateway)["auth"], "authenticated");
}

/// Requests with a revoked key are refused; answers that it began are finished.
#[test]
fn revoked_key_finishes_running_answers() {
    let home = Home::new();
    let scenario = home.0.path().join("ticks.toml");
    std::fs::write(&scenario, TICKS).unwrap();
    let made = home.ibeam("keys add laptop").output().unwrap();
    let key = String::from_utf8(made.stdout).unwrap();
    let mut serve = home.ibeam("serve --sim --port 0 --scenario");
    serve.arg(&scenario);
    let gateway = Server::start(serve);
    let headers = [("x-api-key", key.trim())];
    let mut running = send(&gateway.url, &headers, &chat("go", true));
    running.until("tick");
    assert!(home.ibeam("keys revoke laptop").output().unwrap().status.success());
    let began = Instant::now();
    // A refused chat, with an error for clients that have a key.
    while send(&gateway.url, &headers, &Value::Null).until("HTTP").starts_with("HTTP/1.0 400") {
        assert!(began.elapsed() < Duration::from_secs(5), "a revoked key still works");
    }
    let refused = send(&gateway.url, &headers, &Value::Null).rest();
    assert!(refused.starts_with("HTTP/1.0 401"), "{refused}");
    let rest = running.rest();
    assert!(rest.contains("[DONE]") && !rest.contains("\"error\""), "{rest}");
}

#[test]
fn simulator_and_api_url_exclude_each_other() {
    let home = Home::new();
    for line in [
        "serve --sim --port 0 --api-url http://127.0.0.1:1",
        "up --port 0 --api-url http://127.0.0.1:1 --sim",
        "models --sim --set api_url=http://127.0.0.1:1",
    ] {
        let output = home.ibeam(line).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{line}");
        let words = words(&output);
        assert!(words.contains("--sim") && words.contains("api_url"), "{words}");
    }
    // A setting for all runs does not decide about this one.
    let mut command = home.ibeam("models --sim");
    assert!(command.env("CURSOR_API_URL", "http://127.0.0.1:1").output().unwrap().status.success());
}

#[test]
fn taken_port_names_its_owner() {
    let home = Home::new();
    let first = Server::start(home.ibeam("serve --sim --port 0"));
    let port = first.url.rsplit(':').next().unwrap();
    let output = home.ibeam(&format!("up --sim --port {port}")).output().unwrap();
    let said = words(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let version = env!("CARGO_PKG_VERSION");
    assert!(said.contains(&format!("your ibeam {version} is running there already")), "{said}");
    assert!(said.contains("--port"), "{said}");

    // What any program can say proves nothing.
    let port = claims_to_be_ibeam();
    let said = words(&home.ibeam(&format!("up --sim --port {port}")).output().unwrap());
    assert!(said.contains("a program that calls itself ibeam 9.9.9"), "{said}");
    assert!(!said.contains("as it is"), "{said}");
    let doctor = home.ibeam(&format!("doctor --offline --sim --port {port}")).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned() + &words(&doctor);
    assert!(said.contains("calls itself ibeam 9.9.9, not one of your gateways"), "{said}");

    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let said = words(&home.ibeam(&format!("up --sim --port {port}")).output().unwrap());
    assert!(said.contains("another program has that port") && said.contains("--port"), "{said}");
}

/// Signing in would not help while the token is set.
#[test]
fn refused_token_is_named_by_its_setting() {
    let home = Home::new();
    let sim = Server::start(home.ibeam("sim --port 0"));
    for line in ["whoami", "models"] {
        let mut command = home.ibeam(line);
        command.env("CURSOR_API_URL", &sim.url).env("CURSOR_ACCESS_TOKEN", "not-this-one");
        let output = command.output().unwrap();
        let said = words(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("`access_token`. Replace it, or remove it"), "{said}");
        assert!(!said.contains("hint: "), "the message has it all: {said}");
        assert!(!said.contains("not-this-one"), "{said}");
    }
}
