//! Connections to the server that hosts tools for Cursor's CLI. Every program of this machine may
//! open them, and they must not keep the CLI from calling its tools.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    AttackScale,
    attacks::RunningAttack,
    honest_stream::PATIENCE,
    target::{AttackTarget, TargetAddress},
};
use crate::sessions::{dialogue::Dialogue, requests::ClientSetup};

const FILE: &str = "notes.txt";
const CONTENT: &str = "This is what the file says.";

/// A turn of an honest client that waits for the result of a tool call.
pub(super) struct ParkedTurn(Dialogue);

impl ParkedTurn {
    pub(super) async fn start(target: &AttackTarget) -> anyhow::Result<Self> {
        let mut dialogue = Dialogue::open(target.socket(), &Arc::new(ClientSetup::agent())).await?;
        dialogue.key(target.honest_key());
        dialogue.user(&format!("read file {FILE}"));
        let answer = dialogue.ask().await?;
        let call = answer.only_call()?.clone();
        ensure!(call.arguments.contains(FILE), "the call is {call:?}");
        dialogue.keep(&answer);
        dialogue.result(&call.id, CONTENT);
        Ok(Self(dialogue))
    }

    async fn finish(mut self) -> anyhow::Result<()> {
        let answer = self.0.ask().await?;
        ensure!(answer.text.contains(CONTENT), "the answer lacks the result: {}", answer.text);
        Ok(())
    }

    /// Ends this turn and runs another one, whose child has yet to connect. Returns how long both
    /// took. None: one of them failed.
    pub(super) async fn finish_and_repeat(self, target: &AttackTarget) -> Option<Duration> {
        let begun = Instant::now();
        timeout(PATIENCE, self.finish()).await.ok()?.ok()?;
        probe(target).await?;
        Some(begun.elapsed())
    }
}

/// How long a turn with a tool call takes. None: it fails.
pub(super) async fn probe(target: &AttackTarget) -> Option<Duration> {
    let begun = Instant::now();
    let turn = async { ParkedTurn::start(target).await?.finish().await };
    timeout(PATIENCE, turn).await.ok()?.ok()?;
    Some(begun.elapsed())
}

/// Many more connections than the server accepts. None says a word, and each is opened again when
/// it is closed.
pub(super) fn idle_connections(
    address: &TargetAddress,
    scale: AttackScale,
) -> anyhow::Result<RunningAttack> {
    let host = host(address.pid, address.socket.port())?;
    let (mut tasks, opened) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..scale.pick(500, 1_000) {
        let opened = Arc::clone(&opened);
        tasks.spawn(async move {
            loop {
                if let Ok(mut socket) = TcpStream::connect(host).await {
                    opened.fetch_add(1, Ordering::Relaxed);
                    // Until it is closed.
                    drop(socket.read(&mut [0]).await);
                }
                sleep(Duration::from_millis(500)).await;
            }
        });
    }
    let note = move || format!("{} connections", opened.load(Ordering::Relaxed));
    Ok(RunningAttack { note: Box::new(note), ..RunningAttack::new(tasks, 0) })
}

/// Where the gateway hosts tools: the one port on which it listens beside its own.
fn host(pid: u32, own: u16) -> anyhow::Result<SocketAddr> {
    let links = fs::read_dir(format!("/proc/{pid}/fd"))?;
    let sockets: Vec<String> = links
        .filter_map(|link| {
            let link = fs::read_link(link.ok()?.path()).ok()?;
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").context("the system's connections")?;
    let mut ports = listening(&table, &sockets);
    ports.retain(|port| *port != own);
    match ports[..] {
        [port] => Ok((Ipv4Addr::LOCALHOST, port).into()),
        _ => bail!("the gateway listens on {ports:?} beside {own}"),
    }
}

/// The ports on which these sockets listen, by the kernel's table.
fn listening(table: &str, sockets: &[String]) -> Vec<u16> {
    let rows = table.lines().skip(1).map(|row| row.split_whitespace());
    rows.filter_map(|row| {
        let mut row = row.skip(1);
        let (local, state, inode) = (row.next()?, row.nth(1)?, row.nth(5)?);
        let (_, port) = local.split_once(':')?;
        let ours = state == "0A" && sockets.iter().any(|socket| socket == inode);
        ours.then(|| u16::from_str_radix(port, 16).ok()).flatten()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_listening_sockets_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\
             uid  timeout inode\n\
             0: 0100007F:4935 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 11 1\n\
             1: 0100007F:C350 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12 1\n\
             2: 0100007F:4935 0100007F:C351 01 00000000:00000000 00:00000000 00000000 0 0 13 1\n\
             3: 0100007F:C352 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 14 1\n";
        let sockets = ["11", "12", "13"].map(str::to_owned);
        assert_eq!(listening(table, &sockets), [0x4935, 0xC350]);
    }
}
