//! MCP over the pipes of a child process, one message per line.

use std::{collections::HashMap, process::Stdio as Pipe, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
    task::JoinSet,
};

use super::MESSAGE_CAP;

type UnansweredCalls = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

#[derive(Debug)]
pub(super) struct McpStdio {
    input: AsyncMutex<ChildStdin>,
    waiting: UnansweredCalls,
    /// Killed when this is dropped.
    _child: Child,
    _reader: JoinSet<()>,
}

impl McpStdio {
    pub(super) fn start(
        command: &str,
        args: &[String],
        env: &[(String, String)],
    ) -> Result<Self, String> {
        let mut child = Command::new(command)
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{command}: {error}"))?;
        let no_pipe = || format!("{command}: no pipes");
        let input = child.stdin.take().ok_or_else(no_pipe)?;
        let output = child.stdout.take().ok_or_else(no_pipe)?;
        let waiting = UnansweredCalls::default();
        let mut reader = JoinSet::new();
        reader.spawn(read(output, Arc::clone(&waiting)));
        let input = AsyncMutex::new(input);
        Ok(Self { input, waiting, _child: child, _reader: reader })
    }

    /// The answer to a request, error or not.
    pub(super) async fn ask(&self, id: u64, request: &Value) -> Result<Value, String> {
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().insert(id, answer);
        self.write(request).await?;
        answered.await.map_err(|_| "the server has ended".to_owned())
    }

    pub(super) async fn write(&self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        let mut input = self.input.lock().await;
        input.write_all(line.as_bytes()).await.map_err(|error| error.to_string())?;
        input.flush().await.map_err(|error| error.to_string())
    }
}

/// Passes answers to the requests that wait for them, until the server closes its output.
async fn read(output: ChildStdout, waiting: UnansweredCalls) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        let cap = u64::try_from(MESSAGE_CAP).unwrap_or(u64::MAX);
        match (&mut output).take(cap).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
        let id =
            message.get("id").and_then(Value::as_u64).filter(|_| message.get("method").is_none());
        if let Some(answer) = id.and_then(|id| waiting.lock().remove(&id)) {
            let _ = answer.send(message);
        }
    }
    waiting.lock().clear();
}
