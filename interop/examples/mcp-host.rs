//! A room with the tools that the MCP conformance test wants to find, and some for the
//! official SDK. Prints where it is, answers calls, and ends with Ctrl-C.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ibeam_core::{
    model::{Image, ImageSource, Part, Tool},
    peer::child::{HostedCall, HostedResult},
};
use ibeam_server::{
    mcp::host::{Host, RoomEvent},
    tasks::Tasks,
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json, value::to_raw_value};

/// A pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\xdac\xfc\xcf\xc0\xf0\x1f\0\x05\x05\x02\0_\xc8\xf1\xd2\0\0\0\0IEND\xaeB`\x82";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks = Tasks::new();
    let host = Host::new(&tasks, 1);
    let mut room = host.open(tools()?).await?;
    let address = room.address();
    #[expect(clippy::print_stdout, reason = "whoever started it reads this line")]
    {
        println!("{}", json!({ "url": address.url, "bearer": address.bearer.expose_secret() }));
    }
    let mut enough = Box::pin(tokio::signal::ctrl_c());
    let mut dropped = 0_u64;
    let mut answers = FuturesUnordered::new();
    loop {
        tokio::select! {
            event = room.next_call() => match event {
                Some(RoomEvent::Call(call)) => answers.push(answer(call, dropped)),
                Some(RoomEvent::Dropped(_)) => dropped += 1,
                None => break,
            },
            Some(result) = answers.next() => room.answer(result),
            ended = &mut enough => break ended?,
        }
    }
    drop(room);
    tasks.stop();
    tasks.join().await;
    Ok(())
}

fn tools() -> Result<Arc<[Tool]>, serde_json::Error> {
    let mut tools = Vec::new();
    let mut add = |name: &str, schema: Option<Value>| {
        let schema = schema.map(|schema| to_raw_value(&schema)).transpose()?;
        let description = format!("What {name} does is of no matter.");
        tools.push(Tool { name: name.to_owned(), description, schema });
        Ok::<_, serde_json::Error>(())
    };
    for name in [
        "test_simple_text",
        "test_image_content",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_reconnection",
        "dropped",
    ] {
        add(name, None)?;
    }
    add(
        "json_schema_2020_12_tool",
        Some(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                },
            },
            "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
            "additionalProperties": false,
        })),
    )?;
    add(
        "slow",
        Some(json!({
            "type": "object",
            "properties": { "seconds": { "type": "number" }, "word": { "type": "string" } },
            "required": ["seconds", "word"],
        })),
    )?;
    Ok(tools.into())
}

async fn answer(call: HostedCall, dropped: u64) -> HostedResult {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let text = |text: &str| Part::Text(text.to_owned());
    let image = || {
        let source = ImageSource::Inline { mime: "image/png".to_owned(), data: PNG.into() };
        Part::Image(Image { source })
    };
    let content = match call.name.as_str() {
        "test_simple_text" => vec![text("This is a simple text response for testing.")],
        "test_image_content" => vec![image()],
        "test_multiple_content_types" => vec![text("Multiple content types test:"), image()],
        "test_error_handling" => vec![text("This tool intentionally returns an error for testing")],
        "test_tool_with_progress" => {
            // Three words of progress.
            tokio::time::sleep(Duration::from_secs(16)).await;
            vec![text("done")]
        }
        "slow" => {
            let seconds = arguments.get("seconds").and_then(Value::as_u64).unwrap_or_default();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            vec![text(arguments.get("word").and_then(Value::as_str).unwrap_or_default())]
        }
        "dropped" => vec![text(&dropped.to_string())],
        other => vec![text(other)],
    };
    HostedResult { id: call.id, content, is_error: call.name == "test_error_handling" }
}
