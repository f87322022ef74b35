//! Whether a program can be started at all: it runs with the user's rights, so no other user
//! may be able to put something else in its place.
//!
//! The check holds for the moment in which it is made, so it is repeated before each start. What
//! it accepts, only the user and root can replace between the check and the start.

use std::path::Path;

/// Refuses a program that another user owns or may change, or that is below a folder in which
/// another user may replace it. Links are followed one by one, and each folder that they pass
/// through is checked like the last. On systems without modes there is nothing to check.
///
/// # Errors
/// The error names what is wrong, and with which file.
#[cfg(unix)]
pub fn check_program(path: &Path) -> Result<(), String> {
    unix::check(path)
}

/// See above.
///
/// # Errors
/// None on this system.
#[cfg(not(unix))]
pub fn check_program(_: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::{
        cell::OnceCell,
        collections::VecDeque,
        ffi::OsString,
        fs::{self, Metadata},
        io,
        os::unix::fs::MetadataExt as _,
        path::{Component, Path, PathBuf},
    };

    use rustix::process::geteuid;

    /// In a folder with this bit, only the owner of a file can replace it.
    const STICKY: u32 = 0o1000;
    /// Links on the way to one program. The system follows no more.
    const LINKS: usize = 40;
    /// macOS: who is in this group can become root. Homebrew's folders belong to it.
    const ADMIN: u32 = 80;

    pub(super) fn check(path: &Path) -> Result<(), String> {
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let accounts = Accounts::default();
        let whole = std::path::absolute(path).map_err(|error| failed(path, error))?;
        let mut ahead = parts(&whole);
        // The folder that was reached: without links, and checked.
        let mut folder = PathBuf::new();
        let mut links = 0_usize;
        while let Some(part) = ahead.pop_front() {
            let name = match part {
                PathPart::Root => {
                    folder = PathBuf::from("/");
                    let meta = fs::metadata(&folder).map_err(|error| failed(&folder, error))?;
                    check_folder(&folder, &meta, &accounts)?;
                    continue;
                }
                PathPart::Up => {
                    folder.pop();
                    continue;
                }
                PathPart::Name(name) => name,
            };
            let at = folder.join(name);
            let meta = fs::symlink_metadata(&at).map_err(|error| failed(&at, error))?;
            if meta.is_symlink() {
                check_owner(&at, &meta)?;
                links += 1;
                if links > LINKS {
                    return Err(format!("{}: too many links", path.display()));
                }
                let target = fs::read_link(&at).map_err(|error| failed(&at, error))?;
                let mut through = parts(&target);
                through.append(&mut ahead);
                ahead = through;
            } else if meta.is_dir() {
                check_folder(&at, &meta, &accounts)?;
                folder = at;
            } else {
                check_owner(&at, &meta)?;
                check_mode(&at, &Access::of(&at, &meta), &accounts)?;
                return match ahead.is_empty() {
                    true => Ok(()),
                    false => Err(format!("{} is not a folder", at.display())),
                };
            }
        }
        Err(format!("{} is a folder", path.display()))
    }

    /// A step on the way to a program.
    enum PathPart {
        Root,
        Up,
        Name(OsString),
    }

    fn parts(path: &Path) -> VecDeque<PathPart> {
        let part = |component: Component<'_>| match component {
            Component::RootDir | Component::Prefix(_) => Some(PathPart::Root),
            Component::ParentDir => Some(PathPart::Up),
            Component::CurDir => None,
            Component::Normal(name) => Some(PathPart::Name(name.to_owned())),
        };
        path.components().filter_map(part).collect()
    }

    fn check_folder(path: &Path, meta: &Metadata, accounts: &Accounts) -> Result<(), String> {
        check_owner(path, meta)?;
        match meta.mode() & STICKY {
            0 => check_mode(path, &Access::of(path, meta), accounts),
            _ => Ok(()),
        }
    }

    fn check_owner(path: &Path, meta: &Metadata) -> Result<(), String> {
        let (owner, user) = (meta.uid(), geteuid().as_raw());
        if owner == user || owner == 0 {
            return Ok(());
        }
        Err(format!("{} belongs to another user (uid {owner})", path.display()))
    }

    /// Who may write to a file or folder.
    pub(super) struct Access {
        pub(super) mode: u32,
        pub(super) owner: u32,
        pub(super) group: u32,
        /// The bits of the group stand for an access list.
        pub(super) has_list: bool,
    }

    impl Access {
        fn of(path: &Path, meta: &Metadata) -> Self {
            let mode = meta.mode();
            let has_list = mode & 0o020 != 0 && has_access_list(path);
            Self { mode, owner: meta.uid(), group: meta.gid(), has_list }
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn has_access_list(path: &Path) -> bool {
        rustix::fs::lgetxattr_query(path, "system.posix_acl_access").is_ok()
    }

    /// On other systems the bits of the group are the group's.
    #[cfg(not(target_os = "linux"))]
    fn has_access_list(_: &Path) -> bool {
        false
    }

    /// A group may write if root or an administrator chose it, or if the owner is its only member.
    /// The latter is the default on several systems: each user has a group of the same name, and
    /// files are writable for it. An access list that root did not write may let anyone in.
    pub(super) fn check_mode(
        path: &Path,
        access: &Access,
        accounts: &Accounts,
    ) -> Result<(), String> {
        let &Access { mode, owner, group, has_list } = access;
        let administrators = group == 0 || (cfg!(target_os = "macos") && group == ADMIN);
        let others = mode & 0o002 != 0;
        let by_group = mode & 0o020 != 0
            && owner != 0
            && (has_list || !(administrators || accounts.is_private(owner, group)));
        if !others && !by_group {
            return Ok(());
        }
        let mode = mode & 0o7777;
        Err(match others {
            true => format!("other users may write to {} (mode {mode:04o})", path.display()),
            false => format!(
                "other users may write to {}, through its group {group} (mode {mode:04o}); \
                 `chmod g-w` prevents that",
                path.display()
            ),
        })
    }

    /// The users and groups of this machine, read when they are first asked for.
    #[derive(Default)]
    pub(super) struct Accounts(OnceCell<(String, String)>);

    impl Accounts {
        #[cfg(test)]
        pub(super) fn of(users: &str, groups: &str) -> Self {
            Self(OnceCell::from((users.to_owned(), groups.to_owned())))
        }

        /// Whether the group is the owner's private one. An equal number proves nothing, because
        /// users and groups are numbered separately. The group must have the owner's name, be the
        /// group of the owner's files, and have no other user, neither as a member nor by that
        /// user's own files. A group or user that is not in these files comes from a directory that
        /// does not list the other members, so it is not private.
        pub(super) fn is_private(&self, owner: u32, group: u32) -> bool {
            let read = |path| fs::read_to_string(path).unwrap_or_default();
            let (users, groups) = self.0.get_or_init(|| (read("/etc/passwd"), read("/etc/group")));
            // name:password:uid:gid:…
            let users = || {
                users.lines().filter_map(|line| {
                    let mut fields = line.split(':');
                    let (name, uid) = (fields.next()?, fields.nth(1)?.parse::<u32>().ok()?);
                    Some((name, uid, fields.next()?.parse::<u32>().ok()?))
                })
            };
            // name:password:gid:member,member
            let mut groups = groups.lines().filter_map(|line| {
                let mut fields = line.split(':');
                let (name, gid) = (fields.next()?, fields.nth(1)?.parse::<u32>().ok()?);
                (gid == group).then(|| (name, fields.next().unwrap_or_default()))
            });
            let Some((user, ..)) = users().find(|(_, uid, gid)| (*uid, *gid) == (owner, group))
            else {
                return false;
            };
            let is_only = |(name, members): (&str, &str)| {
                name == user && members.split(',').all(|member| [user, ""].contains(&member.trim()))
            };
            let shared = users().any(|(_, uid, gid)| gid == group && uid != owner);
            !shared && groups.next().is_some_and(is_only) && groups.all(is_only)
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
#[path = "trust_tests.rs"]
mod tests;
