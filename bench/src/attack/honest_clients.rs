//! Honest clients that work all the time: each asks a question that takes a chain of tool calls,
//! answers every call and checks the answer at the end, again and again.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::target::AttackTarget;
use crate::sessions::{
    dialogue::{Dialogue, DialogueAnswer},
    requests::{ClientSetup, RESULT_BYTES, padded},
};

/// Tool calls of one question.
const CALLS: usize = 3;
/// How long a client runs a tool, or its user takes to ask again.
const THINK: Duration = Duration::from_millis(500);

/// They run on a thread of their own: the attackers' tasks do not delay them.
pub(super) struct HonestClients {
    watch: Arc<ClientWatch>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct ClientWatch {
    stop: AtomicBool,
    seen: Mutex<ClientResults>,
}

/// What honest clients noticed since the last look.
#[derive(Debug, Default)]
pub(super) struct ClientResults {
    /// How long each request took that was answered.
    pub(super) took: Vec<Duration>,
    /// Questions whose whole chain was right.
    pub(super) chains: usize,
    pub(super) failures: Vec<String>,
}

impl HonestClients {
    pub(super) fn start(target: &AttackTarget, clients: usize) -> anyhow::Result<Self> {
        let watch = Arc::new(ClientWatch::default());
        let (socket, keys) = (target.socket(), Arc::clone(&target.honest));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let theirs = Arc::clone(&watch);
        let work = move || {
            runtime.block_on(async move {
                let setup = Arc::new(ClientSetup::agent());
                let mut tasks = JoinSet::new();
                for (client, key) in (0..clients).zip(keys.iter().cycle()) {
                    let (watch, setup) = (Arc::clone(&theirs), Arc::clone(&setup));
                    tasks.spawn(live(socket, key.clone(), client, setup, watch));
                }
                tasks.join_all().await;
            });
        };
        let thread = thread::Builder::new().name("honest clients".to_owned()).spawn(work)?;
        Ok(Self { watch, thread: Some(thread) })
    }

    /// What they noticed since the last look.
    pub(super) fn look(&self) -> ClientResults {
        std::mem::take(&mut *self.watch.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for HonestClients {
    fn drop(&mut self) {
        self.watch.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ClientWatch {
    fn note(&self, note: impl FnOnce(&mut ClientResults)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

async fn live(
    socket: SocketAddr,
    key: String,
    client: usize,
    setup: Arc<ClientSetup>,
    watch: Arc<ClientWatch>,
) {
    let mut question = 0;
    while !watch.stop.load(Ordering::Relaxed) {
        question += 1;
        let file = |call| format!("c{client:02}-q{question}-{call}.txt");
        let chain = chain(socket, &key, &setup, &watch, file);
        match chain.await {
            Ok(()) => watch.note(|seen| seen.chains += 1),
            Err(error) => {
                let failure = format!("client {client}, question {question}: {error:#}");
                watch.note(|seen| seen.failures.push(failure));
            }
        }
        sleep(THINK).await;
    }
}

/// One question. A request that fails is not sent again: real clients would, and hide the failure.
async fn chain(
    socket: SocketAddr,
    key: &str,
    setup: &Arc<ClientSetup>,
    watch: &ClientWatch,
    file: impl Fn(usize) -> String,
) -> anyhow::Result<()> {
    let mut dialogue = Dialogue::open(socket, setup).await.context("connect")?;
    dialogue.key(key);
    let wishes: Vec<String> = (1..=CALLS).map(|at| format!("read file {}", file(at))).collect();
    dialogue.user(&wishes.join(" then "));
    for at in 1..=CALLS {
        let answer = timed(&mut dialogue, watch).await.with_context(|| format!("request {at}"))?;
        let call = answer.only_call()?.clone();
        ensure!(call.arguments.contains(&file(at)), "call {at} is {call:?}");
        dialogue.keep(&answer);
        dialogue.result(&call.id, &padded(&content(&file(at)), RESULT_BYTES));
        sleep(THINK).await;
    }
    let answer = timed(&mut dialogue, watch).await.context("the last request")?;
    ensure!(answer.text.contains(&content(&file(CALLS))), "the answer lacks the last result");
    Ok(())
}

fn content(file: &str) -> String {
    format!("This is {file}.")
}

async fn timed(dialogue: &mut Dialogue, watch: &ClientWatch) -> anyhow::Result<DialogueAnswer> {
    let begun = Instant::now();
    let answer = dialogue.ask().await?;
    watch.note(|seen| seen.took.push(begun.elapsed()));
    Ok(answer)
}
