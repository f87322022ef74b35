//! Whether a program can be started at all: it runs with the user's rights, so no other user
//! may be able to put something else in its place.

use std::path::Path;

/// Refuses a program that another user owns or may change, or that is below a folder in which
/// another user may replace it. On systems without modes there is nothing to look at.
///
/// # Errors
/// Says what is wrong, and with which file.
#[cfg(unix)]
pub fn check_program(path: &Path) -> Result<(), String> {
    unix::check(path)
}

/// See above.
///
/// # Errors
/// None here.
#[cfg(not(unix))]
pub fn check_program(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::{self, Metadata},
        os::unix::fs::MetadataExt as _,
        path::Path,
    };

    use rustix::process::geteuid;

    /// In a folder with this bit only the owner of a file can put another in its place.
    const STICKY: u32 = 0o1000;
    /// Links one after the other. The system follows no more.
    const LINKS: usize = 40;
    /// macOS: who is in this group can become root. Homebrew's folders belong to it.
    const ADMIN: u32 = 80;

    pub(super) fn check(path: &Path) -> Result<(), String> {
        let mut path = path.to_path_buf();
        for _ in 0..LINKS {
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            let folder = path.parent().ok_or_else(|| format!("{} is a folder", path.display()))?;
            // By the names that are used, and where links among them lead.
            let real = folder.canonicalize().map_err(failed)?;
            for folder in folder.ancestors().chain(real.ancestors()) {
                let meta = fs::metadata(folder).map_err(failed)?;
                check_owner(folder, &meta)?;
                if meta.mode() & STICKY == 0 {
                    check_mode(folder, &meta)?;
                }
            }
            let meta = fs::symlink_metadata(&path).map_err(failed)?;
            check_owner(&path, &meta)?;
            if !meta.is_symlink() {
                return check_mode(&path, &meta);
            }
            let target = fs::read_link(&path).map_err(failed)?;
            path = folder.join(target);
        }
        Err(format!("{}: too many links", path.display()))
    }

    fn check_owner(path: &Path, meta: &Metadata) -> Result<(), String> {
        let (owner, user) = (meta.uid(), geteuid().as_raw());
        if owner == user || owner == 0 {
            return Ok(());
        }
        Err(format!("{} belongs to another user (uid {owner})", path.display()))
    }

    /// A group may write if it is the owner's own, or if root or an administrator chose it.
    pub(super) fn check_mode(path: &Path, meta: &Metadata) -> Result<(), String> {
        let (mode, group) = (meta.mode(), meta.gid());
        let chosen = group == meta.uid() || group == 0 || meta.uid() == 0;
        let forbidden = match chosen || (cfg!(target_os = "macos") && group == ADMIN) {
            true => 0o002,
            false => 0o022,
        };
        if mode & forbidden == 0 {
            return Ok(());
        }
        Err(format!("other users may write to {} (mode {:04o})", path.display(), mode & 0o7777))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, symlink},
        path::PathBuf,
    };

    use super::*;

    fn program(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        mode(&path, 0o755);
        path
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_that_others_may_replace_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let path = program(base.path(), "a/bin/agent");
        assert_eq!(check_program(&path), Ok(()));
        let (bin, above) = (base.path().join("a/bin"), base.path().join("a"));
        for open in [&path, &bin, &above] {
            mode(open, 0o777);
            let why = check_program(&path).unwrap_err();
            assert!(why.contains(&format!("write to {} ", open.display())), "{why}");
            mode(open, 0o755);
        }
        // Like the folder for temporary files: others can add names, and take none.
        mode(&above, 0o1777);
        assert_eq!(check_program(&path), Ok(()));
        assert!(check_program(&base.path().join("none/agent")).is_err());
    }

    #[test]
    fn a_link_is_followed_and_each_folder_on_the_way_is_checked() {
        let base = tempfile::tempdir().unwrap();
        program(base.path(), "versions/1/agent");
        let middle = base.path().join("middle");
        let bin = base.path().join("bin");
        for folder in [&middle, &bin] {
            fs::create_dir(folder).unwrap();
        }
        symlink("../versions/1/agent", middle.join("agent")).unwrap();
        symlink(middle.join("agent"), bin.join("agent")).unwrap();
        let path = bin.join("agent");
        assert_eq!(check_program(&path), Ok(()));
        for open in [&middle, &bin, &base.path().join("versions")] {
            mode(open, 0o777);
            assert!(check_program(&path).is_err(), "{}", open.display());
            mode(open, 0o755);
        }
        symlink("loop", bin.join("loop")).unwrap();
        assert!(check_program(&bin.join("loop")).is_err());
    }
}
