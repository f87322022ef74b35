//! A socket in the file system: for its owner only, and removed at the end.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener as StdListener, UnixStream as StdStream},
    },
    path::{Path, PathBuf},
    task::{Context, Poll},
    time::Duration,
};

use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};

use super::StartError;
use crate::files::{folder, lock};

/// The length that every system accepts.
const PATH_CAP: usize = 103;

/// For another ibeam that starts in the same folder. That takes a moment.
const START_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode: another program may have the path by the time we exit.
    id: Option<(u64, u64)>,
}

impl UnixSocket {
    /// # Errors
    /// Another program listens there, another file is there, or the folder cannot be written.
    pub(super) async fn bind(path: &Path) -> Result<Self, StartError> {
        let failed = |hint: &'static str| {
            StartError::new(format!("cannot listen on unix:{}", path.display()), hint)
        };
        if path.as_os_str().len() > PATH_CAP {
            return Err(failed("the path is too long for a socket; about 100 characters fit"));
        }
        let _alone = alone(path).await;
        match fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(failed("another file is at that path; choose another path"));
            }
            Ok(_) => match StdStream::connect(path) {
                Ok(_) => {
                    let hint = "another ibeam is running there; end it, or choose another path";
                    return Err(failed(hint));
                }
                // Left behind by a process that has ended.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => {
                    return Err(
                        failed("cannot find out whether a program listens there").because(error)
                    );
                }
            },
            Err(_) => {}
        }
        place(path).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "the folder does not exist; create it first",
                io::ErrorKind::PermissionDenied => "choose a folder that is yours",
                io::ErrorKind::InvalidInput => "the path is too long for a socket",
                _ => "choose another path",
            };
            failed(hint).because(error)
        })
    }

    /// A socket that a service manager has created, and will remove.
    pub(super) fn given(listener: StdListener, path: PathBuf) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, path, id: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if self.id.is_some() && id(&self.path) == self.id {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates the socket in a private folder, and moves it to its path once it is private itself. So
/// other users can never connect, and an old socket is replaced without a gap.
fn place(path: &Path) -> io::Result<UnixSocket> {
    let folder = hideout(folder(path))?;
    let hidden = folder.path().join("s");
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
    fs::rename(&hidden, path)?;
    Ok(UnixSocket { listener, path: path.to_path_buf(), id: id(path) })
}

/// A private folder. The name is short because the whole path must be.
fn hideout(parent: &Path) -> io::Result<TempDir> {
    let mut folder = tempfile::Builder::new();
    // Otherwise it would be as open as the umask lets it.
    folder.prefix(".i").permissions(Permissions::from_mode(0o700)).tempdir_in(parent)
}

/// Prevents two processes from checking and creating at the same moment: the second would silently
/// replace the first one's socket. A folder that cannot be locked, or stays locked, does not
/// prevent the start.
async fn alone(path: &Path) -> Option<File> {
    let path = folder(path);
    let folder = File::open(path).ok()?;
    lock::hold(&folder, path, START_WAIT).await.ok()?;
    Some(folder)
}

fn id(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_socket_is_created_in_a_private_folder() {
        let folder = tempfile::tempdir().unwrap();
        let hidden = hideout(folder.path()).unwrap();
        let mode = fs::metadata(hidden.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[tokio::test]
    async fn unix_socket_is_private_and_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibeam.sock");
        let socket = UnixSocket::bind(&path).await.unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let _client = StdStream::connect(&path).unwrap();
        std::future::poll_fn(|cx| socket.poll_accept(cx)).await.unwrap();
        let error = UnixSocket::bind(&path).await.unwrap_err();
        assert!(error.hint().unwrap().contains("another ibeam"), "{error:?}");
        drop(socket);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }

    #[tokio::test]
    async fn only_a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibeam.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let socket = UnixSocket::bind(&path).await.unwrap();
        StdStream::connect(&path).unwrap();
        // The path has another file by now.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(socket);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let error = UnixSocket::bind(&path).await.unwrap_err();
        assert!(error.hint().unwrap().contains("another file"), "{error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        let error = UnixSocket::bind(&folder.path().join("no/such")).await.unwrap_err();
        assert!(error.hint().unwrap().contains("create it first"), "{error:?}");
        let error = UnixSocket::bind(&folder.path().join("x".repeat(120))).await.unwrap_err();
        assert!(error.hint().unwrap().contains("too long"), "{error:?}");
    }

    /// The second process must not silently replace the first one's socket.
    #[tokio::test(start_paused = true)]
    async fn concurrent_starts_are_serialized() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ibeam.sock");
        let locked = File::open(folder.path()).unwrap();
        locked.lock().unwrap();
        let first = async {
            let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
            drop(locked);
            socket
        };
        let (second, _first) = tokio::join!(UnixSocket::bind(&path), first);
        let error = second.unwrap_err();
        assert!(error.hint().unwrap().contains("another ibeam"), "{error:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn locked_folder_does_not_prevent_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let locked = File::open(folder.path()).unwrap();
        locked.lock().unwrap();
        let began = tokio::time::Instant::now();
        UnixSocket::bind(&folder.path().join("ibeam.sock")).await.unwrap();
        assert_eq!(began.elapsed(), START_WAIT);
    }
}
