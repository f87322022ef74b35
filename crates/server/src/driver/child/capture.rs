//! Runs the program and reads its output: its version, its sign-in, its models.

use std::{ffi::OsString, fs::DirBuilder, io, path::Path, time::Duration};

use ibeam_core::error::{ErrorCode, TurnError};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

use super::{
    environment::Sight,
    find::Program,
    spawn::{Spawn, spawn},
};
use crate::tasks::Tasks;

/// The prefix of folders for such runs. Leftovers are removed with the folders of children.
const FOLDER: &str = "new-ask-";

/// Every answer that is needed is shorter.
const LONGEST: u64 = 1 << 20;

/// What a program printed before it ended.
#[derive(Debug)]
pub(super) struct Captured {
    /// `None`: it was ended by a signal.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The program to run, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) program: &'a Program,
    /// The folder for the folders of children. `None`: the system's folder for temporary files.
    pub(super) folders: Option<&'a Path>,
    pub(super) tasks: &'a Tasks,
}

impl<'a> Asking<'a> {
    /// It may be any program, so it gets nothing that is only for Cursor's.
    pub(super) fn probing(self) -> (Self, Sight) {
        (self, Sight::Bare)
    }

    /// It is Cursor's, and needs its sign-in.
    pub(super) fn known(self) -> (Self, Sight) {
        (self, Sight::Full)
    }

    /// An empty private folder. Some programs read settings from their working folder, and in a
    /// shared folder these could be another user's.
    fn folder(self) -> io::Result<tempfile::TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(FOLDER);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let Some(base) = self.folders else { return builder.tempdir() };
        let mut folders = DirBuilder::new();
        folders.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        folders.create(base)?;
        builder.tempdir_in(base)
    }
}

/// Runs the program to its end, in a folder of its own.
///
/// # Errors
/// It cannot be started, or takes too long.
pub(super) async fn capture(
    (asking, sight): (Asking<'_>, Sight),
    args: &[&str],
    limit: Duration,
) -> Result<Captured, TurnError> {
    let list: Vec<OsString> = args.iter().map(OsString::from).collect();
    let folder = asking.folder().map_err(|error| {
        let text = format!("Cannot create a folder to run `cursor-agent` in: {error}.");
        TurnError::new(ErrorCode::Unavailable, text)
    })?;
    let start = Spawn { program: asking.program, folder: folder.path(), name: "ask", sight };
    let (mut child, mut pipes) = spawn(start, &list, asking.tasks)?;
    drop(pipes.stdin.take());
    let ended = async {
        let code = child.wait().await.ok().and_then(|status| status.code());
        // A process that it left running may hold its streams open.
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
        // What was read before the error is still useful.
        let _ = pipe.take(LONGEST).read_to_end(&mut all).await;
    }
    String::from_utf8_lossy(&all).into_owned()
}
