use super::*;

fn error(code: i64, words: &str) -> RpcError {
    RpcError { code, words: words.to_owned() }
}

#[test]
fn errors_that_require_a_sign_in() {
    for (code, words, demands) in [
        (-32001, "", true),
        (-32000, "", true),
        (-32000, "Authentication required", true),
        (-32603, "Not logged in", true),
        (-32000, "server failure", false),
        (-32603, "", false),
    ] {
        assert_eq!(demands_sign_in(&error(code, words)), demands, "{code} {words}");
    }
}

#[test]
fn error_message_is_passed_on_without_secrets() {
    let failure = rpc(&error(7, "it broke with Authorization: Bearer abcdefghijklmnopqrstuvwxyz."));
    let message = failure.error.message;
    assert!(message.contains("it broke") && !message.contains("abcdefghijkl"), "{message}");
    assert!(message.ends_with('.') && !message.ends_with(".."), "{message}");
    let bare = rpc(&error(7, "")).error.message;
    assert_eq!(bare, "cursor-agent said: error 7.");
}

#[test]
fn exit_message_names_the_cause() {
    let signal = gone(&Exit::default(), false, Remedy::Retry);
    assert!(signal.error.message.contains("killed by a signal"), "{}", signal.error.message);
    let said = Exit { code: Some(3), stderr: "(node:1) Warning\nboom\n".to_owned() };
    let said = gone(&said, false, Remedy::None);
    assert_eq!(
        said.error.message,
        "cursor-agent exited with code 3 before its answer was complete: boom."
    );
    let lost = Exit { code: Some(1), stderr: "Session x not found".to_owned() };
    assert_eq!(gone(&lost, true, Remedy::None).remedy, Remedy::FreshConversation);
    assert_eq!(gone(&lost, false, Remedy::None).remedy, Remedy::None);
}
