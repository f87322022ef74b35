//! Chats that Cursor's CLI has lost. (Over ACP a chat that is not there is an error.)

use std::fs;

use super::{
    Backend, Gateway,
    gateway::{plain, user},
};

/// Under the id of a chat that it does not have, the CLI begins an empty one and says nothing.
#[test]
fn section_9_a_chat_that_the_cli_has_lost_is_rebuilt_from_the_request() {
    let gateway = Gateway::start_with(Backend::Cli, "", "set:cli.resume_unknown=empty-chat");
    let mut messages = vec![user("My word is heliotrope.")];
    let first = gateway.ask(&plain(&messages, true));
    messages.extend([first.message(), user("And my number is 7.")]);
    let second = gateway.ask(&plain(&messages, true));
    assert_eq!(gateway.health()["sessions"]["continued"], 1, "{}", gateway.log());
    messages.extend([second.message(), user("What did I say?")]);
    assert!(lose_chats(&gateway) > 0);
    let third = gateway.ask(&plain(&messages, true));
    for known in ["My word is heliotrope.", "And my number is 7."] {
        assert!(third.text.contains(known), "{known}: {third:?}\n{}", gateway.log());
    }
    gateway.assert_idle();
}

/// Removes all chats of the CLI, and gives how many there were.
fn lose_chats(gateway: &Gateway) -> usize {
    let mut lost = 0;
    for entry in fs::read_dir(gateway.fake_home().join("chats")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::remove_file(path).unwrap();
            continue;
        }
        for chat in fs::read_dir(path).unwrap() {
            fs::remove_dir_all(chat.unwrap().path()).unwrap();
            lost += 1;
        }
    }
    lost
}
