//! The driver with shell scripts in place of Cursor's CLI.

mod acp;
mod cli;

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use ibeam_core::{
    model::{AgentMode, Tool},
    peer::child::{ChildOwner, ChildStart, Exit, FromChild, Ready, ToChild},
};

use super::*;
use crate::config::Config;

pub(super) struct Bench {
    pub(super) driver: ChildDriver,
    pub(super) tasks: Tasks,
    /// Where the children's folders are.
    pub(super) folders: PathBuf,
    _base: tempfile::TempDir,
}

/// A driver whose program is a shell script. It gets the arguments of the CLI.
pub(super) fn script(text: &str) -> Program {
    let leading = ["-c", text, "cursor-agent"].map(OsString::from).to_vec();
    Program { leading, ..Program::at("/bin/sh") }
}

pub(super) fn bench(
    protocol: MakeProtocol,
    text: &str,
    change: impl FnOnce(&mut ChildConfig),
) -> Bench {
    let base = tempfile::tempdir().unwrap();
    let tasks = Tasks::new();
    let folders = base.path().join("runs");
    let mut config = ChildConfig {
        agent: CursorAgent { warm: 0, ..Config::default().cursor_agent },
        queue: Duration::from_secs(10),
        program: Some(script(text)),
        folders: Some(folders.clone()),
        result_bytes: 1 << 20,
        chats: StoredChats::default(),
    };
    change(&mut config);
    Bench { driver: ChildDriver::new(config, protocol, &tasks), tasks, folders, _base: base }
}

pub(super) fn start() -> ChildStart {
    // Each turn has a conversation of its own.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    ChildStart {
        model: "auto".to_owned(),
        conversation: NEXT.fetch_add(1, Ordering::Relaxed).to_string(),
        resume: None,
        workspace: None,
        mode: AgentMode::Agent,
        tools: Arc::default(),
        owner: ChildOwner { scope: [0; 32], assured: usize::MAX },
    }
}

pub(super) fn tool() -> Arc<[Tool]> {
    vec![Tool { name: "look".to_owned(), description: String::new(), schema: None }].into()
}

impl Bench {
    pub(super) async fn open(&self, start: ChildStart) -> Result<ChildLink, LinkError> {
        let open = Open {
            token: SecretString::default(),
            tokens: None,
            request_id: String::new(),
            original_request_id: String::new(),
            peer: Box::new(start),
        };
        self.driver.open(open).await
    }

    /// Opens a link, and waits for the child.
    pub(super) async fn begin(&self, start: ChildStart) -> (ChildLink, Ready) {
        let mut link = self.open(start).await.unwrap();
        let Some(FromChild::Ready(ready)) = next(&mut link).await else { panic!("not ready") };
        (link, ready)
    }

    /// All tasks have ended, and with them all children and folders.
    pub(super) async fn over(&self) {
        assert_eq!(self.tasks.join_within(Duration::from_secs(4)).await, 0);
        assert_eq!(self.driver.stats().children, 0);
        let homes = std::fs::read_dir(&self.folders).unwrap();
        for home in homes {
            let names: Vec<_> = std::fs::read_dir(home.unwrap().path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(names, ["lock"]);
        }
    }
}

pub(super) async fn next(link: &mut ChildLink) -> Option<FromChild> {
    let heard = tokio::time::timeout(Duration::from_secs(20), link.rx.next()).await;
    match heard.expect("the child is silent")? {
        Ok(heard) => Some(heard),
        Err(error) => panic!("{error:?}"),
    }
}

pub(super) async fn tell(link: &ChildLink, message: ToChild) {
    link.tx.send(message).await.unwrap();
}

pub(super) fn input(text: &str) -> ToChild {
    ToChild::Input(Bytes::copy_from_slice(text.as_bytes()))
}

/// The first lines of the output.
pub(super) async fn lines(link: &mut ChildLink, count: usize) -> String {
    let mut all = String::new();
    while all.lines().count() < count || !all.ends_with('\n') {
        match next(link).await {
            Some(FromChild::Output(bytes)) => all.push_str(std::str::from_utf8(&bytes).unwrap()),
            other => panic!("{other:?} after {all}"),
        }
    }
    all
}

/// All output, and how the child ended.
pub(super) async fn rest(link: &mut ChildLink) -> (Vec<u8>, Exit) {
    let mut all = Vec::new();
    loop {
        match next(link).await {
            Some(FromChild::Output(bytes)) => all.extend_from_slice(&bytes),
            Some(FromChild::Exited(exit)) => return (all, exit),
            other => panic!("{other:?}"),
        }
    }
}

/// Gone, or dead and not reaped yet.
pub(super) fn is_dead(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}
