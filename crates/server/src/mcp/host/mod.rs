//! The MCP server that offers the tools of a request to Cursor's CLI.
//!
//! There is one listener for the program, on 127.0.0.1 and a port of the system's choice.
//! It is not there before the first request with tools. Each child process gets a [`ToolRoom`]
//! of its own: a path that cannot be guessed, and a bearer that goes with it.
//!
//! A call waits for its answer without a limit: the client may ask its user. Meanwhile the stream
//! is kept alive, and a caller that gave a progress token gets progress.
//!
//! *When a caller has gone:* it cancels a call with `notifications/cancelled`, and by ending its
//! session. Without a session, a closed connection cancels its calls. In a session it does not: the
//! client may fetch the rest of the stream with `Last-Event-ID`. When a child dies, its room is
//! closed.

mod call;
pub(crate) mod callers;
mod entrance;
mod feed;
mod listener;
mod reply;
mod room;
mod served;
mod session;

use std::{collections::HashMap, fmt, io, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ibeam_core::{
    model::Tool,
    peer::child::{HostAddress, HostedCall, HostedResult},
};
use parking_lot::Mutex;
use secrecy::SecretString;
use tokio::sync::{OnceCell, mpsc};

use self::{
    callers::Callers,
    entrance::HostEntrance,
    room::RoomState,
    served::{RoomVisit, ServedRoom},
};
use crate::{random, tasks::Tasks};

/// Rooms at once. Each belongs to a running child, so there are far fewer.
const ROOMS: usize = 1024;

/// All rooms, and their listener.
#[derive(Debug)]
pub struct ToolHost {
    tasks: Tasks,
    rooms: Arc<Rooms>,
    callers: Arc<Callers>,
    port: OnceCell<u16>,
}

impl ToolHost {
    /// For at most `children` at once.
    #[must_use]
    pub fn new(tasks: &Tasks, children: usize) -> Self {
        Self {
            tasks: tasks.clone(),
            rooms: Arc::default(),
            callers: Callers::new(callers::limit(children)),
            port: OnceCell::new(),
        }
    }

    /// A room that offers exactly these tools. The first one starts the listener.
    ///
    /// # Errors
    /// No port is available, there are too many rooms, or the program ends.
    pub async fn open(&self, tools: Arc<[Tool]>) -> io::Result<ToolRoom> {
        if self.tasks.is_stopping() {
            return Err(io::Error::other("the program ends"));
        }
        let start = async || listener::start(&self.tasks, &self.rooms, &self.callers);
        let port = *self.port.get_or_try_init(start).await?;
        let name = URL_SAFE_NO_PAD.encode(random::bytes::<24>());
        let bearer = URL_SAFE_NO_PAD.encode(random::bytes::<32>());
        let (inside, events) = RoomState::new(&tools, &bearer);
        let inside = Arc::new(inside);
        let served = Arc::new(ServedRoom::new(&inside, &self.tasks));
        self.rooms.add(&name, &served)?;
        self.tasks.spawn("mcp room", served.look_after(self.tasks.stopped()));
        let url = format!("http://127.0.0.1:{port}{}{name}", HostEntrance::PREFIX);
        Ok(ToolRoom {
            address: HostAddress { url, bearer: SecretString::from(bearer) },
            name,
            inside,
            events,
            rooms: Arc::clone(&self.rooms),
            callers: Arc::clone(&self.callers),
            turned_away: self.callers.turned_away(),
            tasks: self.tasks.clone(),
        })
    }
}

/// An event of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomEvent {
    /// A tool was called, and the caller waits.
    Call(HostedCall),
    /// The caller of this one does not wait any more.
    Dropped(u64),
}

/// One child's tools. When it is dropped its path is gone, and the calls that wait get an
/// error.
pub struct ToolRoom {
    address: HostAddress,
    name: String,
    inside: Arc<RoomState>,
    events: mpsc::Receiver<RoomEvent>,
    rooms: Arc<Rooms>,
    callers: Arc<Callers>,
    /// Connections that had been closed for want of room when this one was made.
    turned_away: u64,
    tasks: Tasks,
}

impl ToolRoom {
    #[must_use]
    pub fn address(&self) -> HostAddress {
        self.address.clone()
    }

    /// What happens next; `None` when the program ends. Nothing is lost when the future is
    /// dropped.
    pub async fn next_call(&mut self) -> Option<RoomEvent> {
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = self.tasks.stopped() => None,
        }
    }

    /// Answers a waiting call. Without effect if it does not wait any more.
    pub fn answer(&self, result: HostedResult) {
        self.inside.answer(result);
    }

    /// Whether a client has listed the tools.
    #[must_use]
    pub fn seen(&self) -> bool {
        self.inside.seen()
    }

    /// Whether connections were evicted since the room was opened: its client may have had one.
    #[must_use]
    pub fn was_crowded(&self) -> bool {
        self.callers.turned_away() > self.turned_away
    }
}

impl Drop for ToolRoom {
    fn drop(&mut self) {
        self.rooms.remove(&self.name);
        self.inside.close();
    }
}

impl fmt::Debug for ToolRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its name is half of the secret.
        f.debug_struct("ToolRoom").field("seen", &self.seen()).finish_non_exhaustive()
    }
}

/// The open rooms, by the last part of their path.
#[derive(Default)]
struct Rooms(Mutex<HashMap<String, Arc<ServedRoom>>>);

impl Rooms {
    fn add(&self, name: &str, served: &Arc<ServedRoom>) -> io::Result<()> {
        let mut rooms = self.0.lock();
        if rooms.len() >= ROOMS {
            return Err(io::Error::other(format!("{ROOMS} children have tools already")));
        }
        rooms.insert(name.to_owned(), Arc::clone(served));
        Ok(())
    }

    fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// A visit to the room of this name. A closing room waits for its visits.
    fn visit(&self, name: &str) -> Option<RoomVisit> {
        self.0.lock().get(name).map(ServedRoom::visit)
    }
}

impl fmt::Debug for Rooms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rooms").field("open", &self.0.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "host_tests/mod.rs"]
mod tests;
