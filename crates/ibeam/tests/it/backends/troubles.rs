//! What goes wrong, in the same words from each backend; and clients that leave.

use super::{
    Backend, Gateway,
    gateway::{plain, soon, user},
    on_each_backend,
};

const PATH: &str = "/v1/chat/completions";

/// Status, code and message of what comes instead of an answer.
fn refusal(gateway: &Gateway, model: &str) -> (u16, String, String, String) {
    let mut body = plain(&[user("Hello")], false);
    body["model"] = model.into();
    let reply = gateway.post(PATH, &[], &body);
    let error = reply.json()["error"].clone();
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    (reply.status, text("code"), text("message"), reply.head)
}

fn a_used_up_plan_is_no_quota(backend: Backend) {
    let scenario = r#"
        [[rule]]
        refuse = { status = 429, error = { kind = "PRO_USER_USAGE_LIMIT",
                   message = "You have hit your usage limit" } }
    "#;
    let gateway = Gateway::start_with(backend, scenario, "usage-limit");
    let (status, code, message, head) = refusal(&gateway, "auto");
    assert_eq!((status, code.as_str()), (429, "insufficient_quota"), "{message}");
    assert!(head.contains("x-should-retry: false"), "{head}");
    // Nothing is tried again.
    soon("the run is logged", || gateway.log().contains("opening an upstream stream"));
    assert_eq!(gateway.log().matches("opening an upstream stream").count(), 1);
    assert!(!gateway.log().contains("trying upstream again"));
    gateway.assert_idle();
}

fn an_unknown_model_is_named(backend: Backend) {
    let gateway = Gateway::start(backend, "");
    let (status, code, message, _) = refusal(&gateway, "no-such-model");
    assert_eq!((status, code.as_str()), (400, "model_not_found"), "{message}");
    assert!(message.contains("no-such-model"), "{message}");
    gateway.assert_idle();
}

fn nobody_signed_in_says_what_to_do(backend: Backend) {
    let scenario = r#"
        [[rule]]
        refuse = { status = 401, error = { kind = "NOT_LOGGED_IN" } }
    "#;
    let gateway = Gateway::start_with(backend, scenario, "not-logged-in");
    let (status, code, message, _) = refusal(&gateway, "auto");
    assert_eq!((status, code.as_str()), (401, "not_authenticated"), "{message}");
    assert!(message.contains("login") || message.contains("sign in"), "{message}");
    gateway.assert_idle();
}

/// The text is there, and then the error, so it is not taken for the whole answer.
fn an_error_in_the_middle_ends_the_stream(backend: Backend) {
    let scenario = r#"
        [[rule]]
        steps = [{ text = "The first half " }, { wait_ms = 300 },
                 { error = { kind = "BAD_REQUEST", message = "it broke" } }]
    "#;
    let gateway = Gateway::start(backend, scenario);
    let reply = gateway.post(PATH, &[], &plain(&[user("Hello")], true));
    assert_eq!(reply.status, 200, "{reply:?}");
    let events = reply.events();
    let said: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(said, "The first half ", "{reply:?}");
    assert!(events.iter().any(|event| event.get("error").is_some()), "{reply:?}");
    assert!(!reply.body.contains("\"finish_reason\":\"stop\""), "{reply:?}");
    gateway.assert_idle();
}

/// A client that leaves ends what was done for it, and the next one finds all in order.
fn a_client_that_leaves_ends_the_run(backend: Backend) {
    let scenario = r#"
        [[rule]]
        when.contains = "endless"
        steps = [{ text = { text = "on ", chunk = 3, pace_ms = 50, repeat = 6000 } }]
    "#;
    let gateway = Gateway::start(backend, scenario);
    let mut incoming = gateway.chat(&plain(&[user("An endless story")], true));
    incoming.until("\"on \"");
    if backend != Backend::Agent {
        assert_eq!(gateway.processes().len(), 1, "{}", gateway.log());
    }
    drop(incoming);
    soon("the client is waited for", || gateway.log().contains("the client left"));
    gateway.assert_idle();
    let said = gateway.ask(&plain(&[user("What did I say?")], false));
    assert_eq!(said.text, "This is the first thing you say to me.");
    assert_eq!(gateway.runs(), 2);
    gateway.assert_idle();
}

on_each_backend!(
    a_used_up_plan_is_no_quota,
    an_unknown_model_is_named,
    nobody_signed_in_says_what_to_do,
    an_error_in_the_middle_ends_the_stream,
    a_client_that_leaves_ends_the_run,
);
