//! Where the recorded suite works: in memory where that can be, because its tests sync thousands of
//! small files and would spend a minute waiting for the disk.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::command::{first_line, works};

/// A file system in memory that every Linux has.
const MEMORY: &str = "/dev/shm";

/// The suite leaves about 250 MB. On a machine with less to spare it works on the disk.
const ROOM: u64 = 4 << 30;

/// The same folder in each process of a run.
pub(super) fn base() -> &'static Path {
    static BASE: OnceLock<PathBuf> = OnceLock::new();
    BASE.get_or_init(|| {
        let target = absolute(crate::target());
        in_memory(&target).unwrap_or_else(|| target.join("secrets"))
    })
}

/// Gives the memory back.
pub(super) fn clear() {
    if base().starts_with(MEMORY) {
        fs::remove_dir_all(base()).ok();
    }
}

/// The tests run elsewhere.
pub(super) fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn in_memory(target: &Path) -> Option<PathBuf> {
    let mut name = DefaultHasher::new();
    target.hash(&mut name);
    let free = first_line("stat", &["--file-system", "--format=%a %S", MEMORY])?;
    let (blocks, size) = free.split_once(' ')?;
    let free = blocks.parse::<u64>().ok()?.saturating_mul(size.parse().ok()?);
    let folder = Path::new(MEMORY).join(format!("ibeam-{:016x}", name.finish()));
    (free >= ROOM && is_ours(&folder) && can_execute(&folder)).then_some(folder)
}

/// All users may write there, so the folder could be another user's.
#[cfg(unix)]
fn is_ours(folder: &Path) -> bool {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    fs::DirBuilder::new().mode(0o755).create(folder).ok();
    let user = first_line("id", &["-u"]).and_then(|user| user.parse().ok());
    fs::symlink_metadata(folder).is_ok_and(|data| data.is_dir() && user == Some(data.uid()))
}

#[cfg(not(unix))]
fn is_ours(_folder: &Path) -> bool {
    false
}

/// Tests write programs and start them; some systems allow that on disks only.
fn can_execute(folder: &Path) -> bool {
    let program = folder.join("true");
    fs::copy("/bin/true", &program).is_ok() && works(&program, &[])
}
