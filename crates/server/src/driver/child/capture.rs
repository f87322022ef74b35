//! Runs the program for what it prints: its version, who is signed in, its models.

use std::{ffi::OsString, time::Duration};

use ibeam_core::error::{ErrorCode, TurnError};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

use super::{find::Program, spawn::spawn};
use crate::tasks::Tasks;

/// Nothing that is asked for is longer.
const LONGEST: u64 = 1 << 20;

/// What a program said before it ended.
#[derive(Debug)]
pub(super) struct Captured {
    /// None: a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs it to its end, in a folder that means nothing to it.
///
/// # Errors
/// It cannot be started, or takes too long.
pub(super) async fn capture(
    program: &Program,
    args: &[&str],
    limit: Duration,
    tasks: &Tasks,
) -> Result<Captured, TurnError> {
    let list: Vec<OsString> = args.iter().map(OsString::from).collect();
    let folder = std::env::temp_dir();
    let (mut child, mut pipes) = spawn(program, &list, &folder, "ask", tasks)?;
    drop(pipes.stdin.take());
    let ended = async {
        let code = child.wait().await.ok().and_then(|status| status.code());
        // Something that it left running may hold its streams open.
        child.clear().await;
        code
    };
    let said = async {
        let all = (whole(pipes.stdout), whole(pipes.stderr), ended);
        let (stdout, stderr, code) = tokio::join!(all.0, all.1, all.2);
        Captured { code, stdout, stderr }
    };
    let said = timeout(limit, said).await;
    match said {
        Ok(said) => Ok(said),
        Err(_elapsed) => {
            child.end().await;
            let text = format!(
                "`cursor-agent {}` did not answer within {} ms.",
                args.join(" "),
                limit.as_millis()
            );
            Err(TurnError::new(ErrorCode::Timeout, text))
        }
    }
}

async fn whole(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut all = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before it broke is as good as any.
        let _ = pipe.take(LONGEST).read_to_end(&mut all).await;
    }
    String::from_utf8_lossy(&all).into_owned()
}
