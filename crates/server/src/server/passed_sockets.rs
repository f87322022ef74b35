//! Sockets that a service manager opens and passes to us (`LISTEN_FDS`). Clients can connect before
//! we run; the first of them is why we are started.

use super::{StartError, listener::Listener};
use crate::config::{Config, Listen};

/// The passed sockets, usually none.
#[derive(Debug, Default)]
pub struct PassedSockets {
    sockets: Vec<PassedSocket>,
}

#[derive(Debug)]
struct PassedSocket {
    place: Listen,
    open: PassedListener,
}

/// The runtime takes it over once there is one.
#[derive(Debug)]
pub(super) enum PassedListener {
    #[cfg(unix)]
    Tcp(std::net::TcpListener),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener),
}

impl PassedSockets {
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    /// Takes the sockets that the environment names, and removes those variables. To be called at
    /// the start of the program, while it has one thread.
    ///
    /// # Errors
    /// A passed socket cannot be served, or there are too many.
    pub fn take() -> Result<Self, StartError> {
        #[cfg(unix)]
        return unix::take();
        #[cfg(not(unix))]
        return Ok(Self::none());
    }

    /// These replace the addresses in the settings, so that every rule about those holds for passed
    /// sockets, too.
    pub(super) fn settle(&self, config: &mut Config) {
        let mut places = self.sockets.iter().map(|socket| socket.place.clone());
        if let Some(first) = places.next() {
            config.server.listen = first;
            config.server.also = places.collect();
        }
    }

    /// # Errors
    /// The runtime does not take one.
    pub(super) fn open(self) -> Result<Vec<Listener>, StartError> {
        let open = |socket: PassedSocket| {
            let place = socket.place.clone();
            Listener::given(socket.open, socket.place).map_err(|error| {
                let hint = "start it without one: `ibeam serve`";
                StartError::new(format!("cannot use the socket for {place}"), hint).because(error)
            })
        };
        self.sockets.into_iter().map(open).collect()
    }
}

#[cfg(unix)]
mod unix {
    use std::{
        io,
        os::{fd::AsFd, unix::fs::PermissionsExt as _},
        path::Path,
    };

    use listenfd::ListenFd;

    use super::{Listen, PassedListener, PassedSocket, PassedSockets, StartError};

    /// More than anyone configures. The number comes from outside.
    const MOST: usize = 64;

    pub(super) fn take() -> Result<PassedSockets, StartError> {
        // The crate also takes sockets without a process id. A variable that was left over from
        // another program must not give us files that are something else.
        if !is_for(std::env::var("LISTEN_PID").ok().as_deref(), std::process::id()) {
            return Ok(PassedSockets::none());
        }
        let count = std::env::var("LISTEN_FDS").ok().and_then(|count| count.parse().ok());
        if count.is_some_and(|count: usize| count > MOST) {
            let text = "the service manager passed too many sockets";
            return Err(refused(text.to_owned(), "list fewer addresses with `ListenStream=`"));
        }
        // Takes `LISTEN_FDS` and `LISTEN_PID` out of the environment. What we start gets
        // none of the variables anyway, but a few that it needs.
        let mut handed = ListenFd::from_env();
        let sockets = (0..handed.len()).map(|at| one(&mut handed, at));
        Ok(PassedSockets { sockets: sockets.collect::<Result<_, _>>()? })
    }

    pub(super) fn is_for(pid: Option<&str>, own: u32) -> bool {
        pid.and_then(|pid| pid.parse::<u32>().ok()) == Some(own)
    }

    fn one(handed: &mut ListenFd, at: usize) -> Result<PassedSocket, StartError> {
        let number = at + 1;
        let stream = |what: io::Error| {
            let text = format!("socket {number} from the service manager cannot be served: {what}");
            refused(text, "give it with `ListenStream=`, as an address and port or as a path")
        };
        if let Ok(Some(listener)) = handed.take_tcp_listener(at) {
            listens(&listener, number)?;
            let place = Listen::Tcp(listener.local_addr().map_err(stream)?);
            return Ok(PassedSocket { place, open: PassedListener::Tcp(listener) });
        }
        let Some(listener) = handed.take_unix_listener(at).map_err(stream)? else {
            return Err(stream(io::ErrorKind::NotFound.into()));
        };
        listens(&listener, number)?;
        let address = listener.local_addr().map_err(stream)?;
        let Some(path) = address.as_pathname() else {
            let text = format!("socket {number} from the service manager has no path");
            return Err(refused(
                text,
                "everyone on this machine can call such a socket; name a path",
            ));
        };
        private(path)?;
        Ok(PassedSocket {
            place: Listen::Unix(path.to_path_buf()),
            open: PassedListener::Unix(listener),
        })
    }

    /// With `Accept=yes` we would get a connection instead of a listener.
    fn listens(socket: impl AsFd, number: usize) -> Result<(), StartError> {
        match rustix::net::sockopt::socket_acceptconn(socket) {
            Ok(false) => {
                let text = format!("socket {number} from the service manager does not listen");
                Err(refused(text, "`ListenStream=` with `Accept=no`, which is the default, does"))
            }
            // Some systems cannot answer this.
            Ok(true) | Err(_) => Ok(()),
        }
    }

    /// Those that we make ourselves are for their owner alone.
    fn private(path: &Path) -> Result<(), StartError> {
        let mode = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta.permissions().mode() & 0o777,
            Err(error) => {
                let text = format!("cannot look at the socket {}", path.display());
                return Err(refused(text, "give it a path that you may read").because(error));
            }
        };
        if mode & 0o077 == 0 {
            return Ok(());
        }
        let text = format!("others may open the socket {} (mode {mode:03o})", path.display());
        Err(refused(text, "put `SocketMode=0600` into the socket's unit"))
    }

    fn refused(text: String, hint: &'static str) -> StartError {
        StartError::new(text, hint)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_sockets_for_this_process_are_taken() {
            assert!(is_for(Some("7"), 7));
            for pid in [None, Some(""), Some("8"), Some("7x"), Some("-7")] {
                assert!(!is_for(pid, 7), "{pid:?}");
            }
        }
    }
}
