//! Carries messages between a turn and its child, for one turn.

use std::{future::pending, time::Duration};

use bytes::{Bytes, BytesMut};
use ibeam_core::peer::child::{Exit, FromChild, ToChild};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout},
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{
    ChildEnd,
    spawn::{Child, Pipes},
    tail::Tail,
};
use crate::{
    mcp::host::{RoomEvent, ToolRoom},
    tasks::Tasks,
};

/// One piece of output. A child that is not read stops when its pipe is full.
const PIECE: usize = 16 * 1024;
/// Pieces of input that the child has not read yet.
const INPUTS: usize = 4;
/// How long to read from a dead child. All its output is there; only a process that shares its pipe
/// could add to it.
const LEFTOVERS: Duration = Duration::from_millis(500);
/// How long a child may take to end after it closed its output.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a child that stays may take to read the last input of a turn.
const LAST_INPUT: Duration = Duration::from_millis(250);

/// A child and its streams.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildOutput,
    errors: Option<Tail>,
}

/// How a turn ended for its child.
#[derive(Debug)]
pub(super) enum Over {
    /// The child has ended, with all that it started.
    Exited(Exit),
    /// The turn no longer needs it.
    Left,
    /// The turn released it in an orderly way. This conversation is open in it.
    Released(Option<String>),
}

impl Process {
    pub(super) fn new(child: Child, pipes: Pipes, tasks: &Tasks) -> Self {
        let Pipes { stdin, stdout, stderr } = pipes;
        let stdout = ChildOutput { pipe: stdout, mid_line: false, skip: false };
        Self { child, stdin, stdout, errors: stderr.map(|pipe| Tail::of(pipe, tasks)) }
    }

    /// Carries messages both ways until one side is done.
    pub(super) async fn serve(&mut self, end: &mut ChildEnd, room: &mut Option<ToolRoom>) -> Over {
        // The rest of a line whose beginning the turn before has read.
        self.stdout.skip = self.stdout.mid_line;
        let ChildEnd { told, heard, kill } = end;
        let stop = {
            let (input, inputs) = mpsc::channel(INPUTS);
            let writing = write(inputs, &mut self.stdin);
            tokio::pin!(writing);
            let stop = tokio::select! {
                biased;
                () = kill.cancelled() => ProcessStop::Left,
                stop = talk(told, room, input, heard) => stop,
                () = self.stdout.listen(heard, None) => ProcessStop::Mute,
                _ = self.child.wait() => ProcessStop::Dead,
                () = async { writing.as_mut().await; pending().await } => ProcessStop::Left,
                // The turn's last messages may still be on their way to a child that stays.
                () = async { heard.closed().await; sleep(LAST_INPUT).await } => ProcessStop::Left,
            };
            match stop {
                ProcessStop::Released(session) => match timeout(LAST_INPUT, writing).await {
                    Ok(()) => ProcessStop::Released(session),
                    // Half a message is in its pipe, so it can no longer be used.
                    Err(_elapsed) => ProcessStop::Left,
                },
                stop => stop,
            }
        };
        let gone = async {
            tokio::select! {
                () = kill.cancelled() => {}
                () = heard.closed() => {}
            }
        };
        match stop {
            ProcessStop::Released(session) => return Over::Released(session),
            ProcessStop::Left => return Over::Left,
            ProcessStop::Mute => {}
            ProcessStop::Dead => {
                // Before the rest is read: other processes may hold the pipe open.
                self.child.clear().await;
                tokio::select! {
                    () = self.stdout.listen(heard, Some(LEFTOVERS)) => {}
                    () = gone => return Over::Left,
                }
            }
        }
        Over::Exited(self.exit().await)
    }

    /// Reads the output of a child without a turn, so that it does not block. Returns when it has
    /// ended.
    pub(super) async fn rest(&mut self) {
        tokio::select! {
            () = self.stdout.discard() => {}
            _ = self.child.wait() => {}
        }
    }

    /// Waits for a child that has finished its output: it may still have to save its conversation.
    pub(super) async fn see_off(&mut self) {
        self.stdin = None;
        let Self { child, stdout, .. } = self;
        let ended = timeout(FAREWELL, async {
            tokio::select! {
                _ = child.wait() => {}
                () = async { stdout.discard().await; pending().await } => {}
            }
        });
        match ended.await {
            Ok(()) => self.child.clear().await,
            Err(_elapsed) => self.end().await,
        }
    }

    /// Ends the child in any case.
    pub(super) async fn end(&mut self) {
        // Some end by themselves when their input is closed.
        self.stdin = None;
        self.child.end().await;
    }

    async fn exit(&mut self) -> Exit {
        let code = match timeout(FAREWELL, self.child.wait()).await {
            Ok(ended) => {
                self.child.clear().await;
                ended.ok().and_then(|status| status.code())
            }
            Err(_elapsed) => self.child.end().await,
        };
        let stderr = match &mut self.errors {
            Some(errors) => errors.last().await,
            None => String::new(),
        };
        Exit { code, stderr }
    }
}

/// Why the carrying stopped.
enum ProcessStop {
    Left,
    Released(Option<String>),
    /// The child closed its output.
    Mute,
    Dead,
}

/// Input for the child.
enum ChildInput {
    Bytes(Bytes),
    End,
}

/// Carries out the turn's commands, and sends it the calls of its tools.
async fn talk(
    told: &mut mpsc::Receiver<ToChild>,
    room: &mut Option<ToolRoom>,
    input: mpsc::Sender<ChildInput>,
    heard: &mpsc::Sender<FromChild>,
) -> ProcessStop {
    loop {
        tokio::select! {
            biased;
            message = told.recv() => {
                let next = match message {
                    None => return ProcessStop::Left,
                    Some(ToChild::Release { session }) => return ProcessStop::Released(session),
                    Some(ToChild::Result(result)) => {
                        if let Some(room) = room {
                            room.answer(result);
                        }
                        continue;
                    }
                    Some(ToChild::Input(bytes)) => ChildInput::Bytes(bytes),
                    Some(ToChild::CloseInput) => ChildInput::End,
                };
                // The receiver lives as long as this task.
                let _ = input.send(next).await;
            }
            called = called(room, heard) => {
                let (place, event) = called;
                place.send(match event {
                    RoomEvent::Call(call) => FromChild::Call(call),
                    RoomEvent::Dropped(id) => FromChild::Dropped(id),
                });
            }
        }
    }
}

/// The next call, with a permit to send it to the turn. Safe to drop half-way.
async fn called<'a>(
    room: &mut Option<ToolRoom>,
    heard: &'a mpsc::Sender<FromChild>,
) -> (mpsc::Permit<'a, FromChild>, RoomEvent) {
    let Some(room) = room else { return pending().await };
    let Ok(place) = heard.reserve().await else { return pending().await };
    match room.next_call().await {
        Some(event) => (place, event),
        None => pending().await,
    }
}

/// Writes the input, as fast as the child reads it.
async fn write(mut inputs: mpsc::Receiver<ChildInput>, stdin: &mut Option<ChildStdin>) {
    while let Some(input) = inputs.recv().await {
        let Some(pipe) = stdin else { continue };
        let done = match input {
            ChildInput::Bytes(bytes) => match pipe.write_all(&bytes).await {
                Ok(()) => pipe.flush().await.is_err(),
                Err(_) => true,
            },
            ChildInput::End => true,
        };
        if done {
            *stdin = None;
        }
    }
}

/// Its standard output.
#[derive(Debug)]
struct ChildOutput {
    pipe: Option<ChildStdout>,
    /// The last byte that was read is not the end of a line.
    mid_line: bool,
    /// The output is discarded up to the next line.
    skip: bool,
}

impl ChildOutput {
    /// Passes the output on, up to its end. Reads only when the turn has room for more. With
    /// `patience`, silence counts as the end.
    async fn listen(&mut self, heard: &mpsc::Sender<FromChild>, patience: Option<Duration>) {
        loop {
            // The turn is gone, which other code handles.
            let Ok(place) = heard.reserve().await else { return pending().await };
            let piece = match patience {
                Some(patience) => timeout(patience, self.read()).await.ok().flatten(),
                None => self.read().await,
            };
            let Some(piece) = piece else { return };
            if !piece.is_empty() {
                place.send(FromChild::Output(piece));
            }
        }
    }

    async fn discard(&mut self) {
        while self.read().await.is_some() {}
    }

    /// `None`: the end of the output. Safe to drop half-way.
    async fn read(&mut self) -> Option<Bytes> {
        let mut buffer = BytesMut::with_capacity(PIECE);
        let read = self.pipe.as_mut()?.read_buf(&mut buffer).await;
        if !matches!(read, Ok(1..)) {
            self.pipe = None;
            return None;
        }
        self.mid_line = !buffer.ends_with(b"\n");
        let mut piece = buffer.freeze();
        if self.skip {
            let rest = piece.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            self.skip = rest.is_none();
            piece = piece.split_off(rest.unwrap_or(piece.len()));
        }
        Some(piece)
    }
}
