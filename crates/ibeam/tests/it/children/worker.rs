//! The process that newer builds of Cursor's CLI leave behind, with their output open.

use std::time::Duration;

use tokio::time::Instant;

use super::{Gateway, body, nothing_left, user};
use crate::client::ask;

/// It would keep the output open for half a minute.
#[test]
fn section_9_a_turn_ends_with_its_result_although_the_output_stays_open() {
    const SOON: Duration = Duration::from_secs(20);
    let gateway = Gateway::start("cli", "set:cli.worker_stdout=on", &[]);
    let since = Instant::now();
    let said = ask(gateway.url(), &[], &body(&[user("hello there")]));
    assert_eq!(said.finish, "stop", "{said:?}");
    assert!(said.text.contains("hello there"), "{said:?}");
    nothing_left("the worker", SOON, || {
        gateway.marked().into_iter().map(|process| process.line).collect()
    });
    nothing_left("folders", SOON, || {
        gateway.folders().iter().map(|folder| folder.display().to_string()).collect()
    });
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}
