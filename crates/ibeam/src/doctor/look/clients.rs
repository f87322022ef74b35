//! The coding clients on this machine, and which versions they are.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{io::AsyncReadExt as _, process::Command, time::timeout};

use crate::doctor::{findings::Installed, version};
use ibeam_server::driver::child::check_program;

/// For a program to say its version. A cold start reads many files.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: u64 = 4096;

/// A client, and the oldest version that ibeam was seen to work with.
struct KnownClient {
    title: &'static str,
    program: &'static str,
    oldest: &'static str,
    update: &'static str,
}

const KNOWN: [KnownClient; 6] = [
    known("OpenCode", "opencode", "1.18.18", "npm install -g opencode-ai@latest"),
    known("Claude Code", "claude", "2.1.197", "npm install -g @anthropic-ai/claude-code@latest"),
    known("Codex", "codex", "0.166.0", "npm install -g @openai/codex@latest"),
    known("pi", "pi", "0.87.1", "npm install -g @earendil-works/pi-coding-agent@latest"),
    known("Aider", "aider", "0.86.2", "pip install --upgrade aider-chat"),
    known("llm", "llm", "0.36", "pip install --upgrade llm"),
];

const fn known(
    title: &'static str,
    program: &'static str,
    oldest: &'static str,
    update: &'static str,
) -> KnownClient {
    KnownClient { title, program, oldest, update }
}

/// Those in PATH, each asked for its version.
pub(super) async fn look() -> Vec<Installed> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = KNOWN.iter().filter_map(|known| Some((known, find(&path, known.program)?)));
    let ask = |(known, path): (&KnownClient, PathBuf)| {
        let KnownClient { title, oldest, update, .. } = *known;
        async move {
            let said = match check_program(&path) {
                Ok(()) => said(&path, &["--version"]).await,
                Err(why) => Err(why),
            };
            let version = said.ok().and_then(|said| version::in_text(&said).map(str::to_owned));
            Installed { title, version, oldest, update }
        }
    };
    join_all(installed.map(ask)).await
}

fn find(path: &OsStr, name: &str) -> Option<PathBuf> {
    let ends: &[&str] = if cfg!(windows) { &[".exe", ".cmd"] } else { &[""] };
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| ends.iter().map(move |end| folder.join(format!("{name}{end}"))))
        .find(|path| path.is_file())
}

/// What a program prints, or how it ended instead. It gets none of our secrets.
pub(super) async fn said(program: &Path, args: &[&str]) -> Result<String, String> {
    let name = program.display();
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.kill_on_drop(true);
    // Empty, and the user's alone: some programs read settings where they work.
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder.tempdir().map_err(|error| format!("{name} was not run: {error}"))?;
    command.current_dir(folder.path());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("IBEAM_") || text.starts_with("CURSOR_") {
            command.env_remove(&name);
        }
    }
    let running = async {
        let mut child =
            command.spawn().map_err(|error| format!("{name} does not start: {error}"))?;
        let mut text = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            // What was read before it broke is as good as any.
            let _ = stdout.take(LONGEST).read_to_end(&mut text).await;
        }
        let status = child.wait().await.map_err(|error| format!("{name}: {error}"))?;
        match status.success() {
            true => Ok(String::from_utf8_lossy(&text).into_owned()),
            false => Err(format!("{name} {} ended with {status}", args.join(" "))),
        }
    };
    let late = |_| Err(format!("{name} {} did not answer within {PATIENCE:?}", args.join(" ")));
    timeout(PATIENCE, running).await.unwrap_or_else(late)
}
