use bytes::Bytes;
use ibeam_core::model::{
    Hints, Image, ImageSource, Message, Part, Role, Sampling, ToolChoice, ToolResult, TurnEvent,
};

use std::sync::atomic::Ordering;

use ibeam_sim::{Scenario, Sim, SimConfig};

use super::*;
use crate::{config::Config, tasks::Tasks};

fn image() -> Image {
    let data = Bytes::from_static(b"png");
    Image { source: ImageSource::Inline { mime: "image/png".into(), data } }
}

fn said(role: Role, part: Part) -> Item {
    Item::Message(Message { role, parts: vec![part] })
}

fn request(items: Vec<Item>) -> TurnRequest {
    TurnRequest {
        model: "auto".into(),
        system: Vec::new(),
        items,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        sampling: Sampling::default(),
        dialect: Dialect::Chat,
        hints: Hints::default(),
    }
}

#[test]
fn new_image_is_refused_by_backends_without_images() {
    let shown = said(Role::User, Part::Image(image()));
    let error = check_images(&request(vec![shown.clone()]), BackendKind::Cli, None).unwrap_err();
    assert_eq!((error.code.row().status, error.param.as_deref()), (400, Some("messages")));

    let answer = said(Role::Assistant, Part::Text("a cat".into()));
    let next = said(Role::User, Part::Text("whose?".into()));
    assert_eq!(
        check_images(&request(vec![shown.clone(), answer.clone(), next]), BackendKind::Cli, None),
        Ok(())
    );
    assert!(check_images(&request(vec![answer, shown]), BackendKind::Cli, None).is_err());
}

#[test]
fn an_image_in_a_result_is_not_part_of_the_prompt() {
    let content = vec![Part::Image(image())];
    let result = ToolResult { call_id: "c".into(), content, is_error: false };
    assert_eq!(
        check_images(&request(vec![Item::ToolResult(result)]), BackendKind::Cli, None),
        Ok(())
    );
}

/// The error names the call, the limit and its setting, in each dialect's field.
#[test]
fn a_result_beyond_the_limit_is_refused() {
    let result = |parts: Vec<Part>| {
        Item::ToolResult(ToolResult { call_id: "call_7".into(), content: parts, is_error: false })
    };
    let text = |bytes: usize| Part::Text("x".repeat(bytes));
    for (dialect, field) in [
        (Dialect::Chat, "messages"),
        (Dialect::Messages, "messages"),
        (Dialect::Responses, "input"),
    ] {
        let fits = request(vec![result(vec![text(1000), text(24)]), result(vec![text(1024)])]);
        assert_eq!(fit_results(&TurnRequest { dialect, ..fits }, 1024), Ok(()));
        for parts in
            [vec![text(1025)], vec![text(1000), text(25)], vec![text(1022), Part::Image(image())]]
        {
            let refused = request(vec![result(parts)]);
            let error = fit_results(&TurnRequest { dialect, ..refused }, 1024).unwrap_err();
            assert_eq!(error.code, ErrorCode::RequestTooLarge);
            assert_eq!(error.param.as_deref(), Some(field));
            assert_eq!(
                error.message,
                "the result of the tool call `call_7` has 1025 bytes; the limit is 1 KiB, the \
                 setting `limits.tool_result`"
            );
        }
    }
    let mut long = ToolResult { call_id: "\n".into(), content: vec![text(2)], is_error: false };
    long.call_id.push_str(&"y".repeat(1000));
    let error = fit_results(&request(vec![Item::ToolResult(long)]), 1).unwrap_err();
    assert!(error.message.contains(&format!("`{}`", "y".repeat(80))), "{}", error.message);
}

/// Hashing a request and building its first message take long for a large one.
#[tokio::test(start_paused = true)]
async fn large_request_is_processed_outside_the_event_loop() {
    let sim = Sim::new(SimConfig::default());
    let app = App::new(Config::default(), Some(&sim), &Tasks::new()).unwrap();
    let done = || app.hub.large_work.done.load(Ordering::Relaxed);
    let of_size =
        |bytes: usize| request(vec![said(Role::User, Part::Text("x ".repeat(bytes / 2)))]);
    drop(app.start(of_size(1000), RequestContext::default()).await.unwrap());
    assert_eq!(done(), 0);
    drop(app.start(of_size(2 << 20), RequestContext::default()).await.unwrap());
    assert_eq!(done(), 2, "it was read, and its machine was made");
}

/// Its first message is written again for each try.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_of_a_large_request_is_prepared_beside_the_event_loop() {
    let scenario = Scenario::from_toml("[[rule]]\ntimes = 1\nrefuse = { status = 503 }").unwrap();
    let sim = Sim::new(SimConfig::scenario(scenario));
    let app = App::new(Config::default(), Some(&sim), &Tasks::new()).unwrap();
    let large = request(vec![said(Role::User, Part::Text("x ".repeat(1 << 20)))]);
    let mut stream = app.start(large, RequestContext::default()).await.unwrap();
    let done = || app.hub.large_work.done.load(Ordering::Relaxed);
    assert!(done() >= 2, "{}: it was read, and its machine was made", done());
    let ending = loop {
        let event = stream.next().await.unwrap();
        if event.is_terminal() {
            break event;
        }
    };
    assert!(matches!(ending, TurnEvent::Finished(_)), "{ending:?}");
    assert!(done() >= 4, "{}: the end of the wait, and the stream that opened", done());
}
