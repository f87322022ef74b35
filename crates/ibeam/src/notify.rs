//! Notifies a service manager of our state, if one has asked for it (`NOTIFY_SOCKET`). Without it,
//! and where it does not listen any more, nothing happens.

/// We serve. `place` is for those who ask the manager.
pub(crate) fn ready(place: &str) {
    notify(&format!("READY=1\nSTATUS=listening on {}", one_line(place)));
}

/// We finish what runs, and take nothing new.
pub(crate) fn stopping() {
    notify("STOPPING=1\nSTATUS=finishing requests");
}

/// What follows a line break would be another message.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

#[cfg(target_os = "linux")]
fn notify(text: &str) {
    use std::os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    };
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        Some((b'/', _)) => SocketAddr::from_pathname(&name),
        _ => return,
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not stop us.
        socket.set_nonblocking(true)?;
        socket.send_to_addr(text.as_bytes(), &address)
    });
    if let Err(error) = sent {
        tracing::debug!(%error, "the service manager was not notified");
    }
}

#[cfg(not(target_os = "linux"))]
fn notify(_: &str) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_one_line() {
        assert_eq!(one_line("unix:/a\nMAINPID=1"), "unix:/a MAINPID=1");
    }
}
