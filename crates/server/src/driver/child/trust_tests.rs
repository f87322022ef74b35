use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use super::{
    unix::{Access, Accounts, check_mode},
    *,
};

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

/// A folder, and its path without links, as messages show it.
fn base() -> (tempfile::TempDir, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().canonicalize().unwrap();
    (base, path)
}

#[test]
fn program_that_others_can_replace_is_refused() {
    let (_kept, base) = base();
    let path = program(&base, "a/bin/agent");
    assert_eq!(check_program(&path), Ok(()));
    let (bin, above) = (base.join("a/bin"), base.join("a"));
    for open in [&path, &bin, &above] {
        mode(open, 0o777);
        let why = check_program(&path).unwrap_err();
        assert!(why.contains(&format!("write to {} ", open.display())), "{why}");
        mode(open, 0o755);
    }
    // Like the folder for temporary files: others can add names but not remove them.
    mode(&above, 0o1777);
    assert_eq!(check_program(&path), Ok(()));
    assert!(check_program(&base.join("none/agent")).is_err());
    assert!(check_program(&bin).is_err(), "a folder");
    assert!(check_program(&path.join("below")).is_err(), "below a file");
}

#[test]
fn a_link_is_followed_and_each_folder_on_the_way_is_checked() {
    let (_kept, base) = base();
    program(&base, "versions/1/agent");
    let (middle, bin) = (base.join("middle"), base.join("bin"));
    for folder in [&middle, &bin] {
        fs::create_dir(folder).unwrap();
    }
    symlink("../versions/1/agent", middle.join("agent")).unwrap();
    symlink(middle.join("agent"), bin.join("agent")).unwrap();
    let path = bin.join("agent");
    assert_eq!(check_program(&path), Ok(()));
    for open in [&middle, &bin, &base.join("versions")] {
        mode(open, 0o777);
        assert!(check_program(&path).is_err(), "{}", open.display());
        mode(open, 0o755);
    }
    symlink("loop", bin.join("loop")).unwrap();
    assert!(check_program(&bin.join("loop")).is_err());
}

/// `bin` is a link to `open/hop`, which is a link to `real`: who can write to `open` chooses
/// which program is below `bin`, although neither `bin` nor `real` shows it.
#[test]
fn a_folder_that_a_linked_folder_passes_through_is_checked() {
    let (_kept, base) = base();
    program(&base, "real/deep/agent");
    let open = base.join("open");
    fs::create_dir(&open).unwrap();
    symlink("../real", open.join("hop")).unwrap();
    symlink("open/hop", base.join("bin")).unwrap();
    for path in ["bin/deep/agent", "bin/../real/deep/agent", "./bin/deep/../deep/agent"] {
        let path = base.join(path);
        mode(&open, 0o755);
        assert_eq!(check_program(&path), Ok(()), "{}", path.display());
        mode(&open, 0o777);
        let why = check_program(&path).unwrap_err();
        assert!(why.contains(&format!("write to {} ", open.display())), "{why}");
    }
}

#[test]
fn writable_group_with_only_the_owner_is_accepted() {
    const USERS: &str = "root:x:0:0::/root:/bin/sh\n\
        ann:x:1000:1000::/home/ann:/bin/sh\n\
        bob:x:1001:1001::/home/bob:/bin/sh\n\
        eve:x:1002:100::/home/eve:/bin/sh\n";
    let check = |mode: u32, owner: u32, group: u32, groups: &str| {
        let access = Access { mode, owner, group, has_list: false };
        check_mode(Path::new("/x"), &access, &Accounts::of(USERS, groups)).is_ok()
    };
    for (groups, private) in [
        ("ann:x:1000:\nbob:x:1001:\n", true),
        ("ann:x:1000:ann\n", true),
        // The number is the owner's, but the group has other members.
        ("ann:x:1000:bob\n", false),
        ("ann:x:1000:ann,bob\n", false),
        ("ann:x:1000:\nann:x:1000:bob\n", false),
        // The number alone proves nothing.
        ("games:x:1000:\n", false),
        ("bob:x:1000:\n", false),
        ("ann:x:1001:\n", false),
        ("", false),
        ("ann:x\n\n:::\n", false),
    ] {
        assert_eq!(check(0o775, 1000, 1000, groups), private, "{groups}");
        assert!(check(0o755, 1000, 1000, groups), "only the owner may write: {groups}");
        assert!(!check(0o777, 1000, 1000, groups), "everybody may write: {groups}");
    }
    let shared = "users:x:100:\neve:x:1002:\nann:x:1000:\n";
    assert!(!check(0o775, 1000, 100, shared), "not the group of ann's files");
    assert!(!check(0o775, 1002, 1002, shared), "eve's files have another group");
    assert!(!check(0o775, 1005, 1005, "nn:x:1005:\n"), "a user who is not in the file");
    // Root chose the group, or its members.
    assert!(check(0o775, 0, 100, shared) && check(0o775, 1000, 0, shared));
    // An access list may name other users; only root's is accepted.
    let listed = |owner, group| {
        let access = Access { mode: 0o775, owner, group, has_list: true };
        check_mode(Path::new("/x"), &access, &Accounts::of(USERS, shared)).is_ok()
    };
    assert_eq!([listed(1000, 1000), listed(1000, 0), listed(0, 100)], [false, false, true]);
    // Another user's files get ann's group.
    let access = Access { mode: 0o775, owner: 1000, group: 1000, has_list: false };
    let users = format!("{USERS}mal:x:1003:1000::/:/bin/sh\n");
    let accounts = Accounts::of(&users, "ann:x:1000:\n");
    assert!(check_mode(Path::new("/x"), &access, &accounts).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn access_list_is_detected() {
    use rustix::{fs::XattrFlags, io::Errno};

    let (_kept, base) = base();
    assert!(!super::unix::has_access_list(&base));
    // Owner, the user 12345, group, mask and others: all may write but the last.
    let entries = [(1, 7, u32::MAX), (2, 7, 12345), (4, 7, u32::MAX), (16, 7, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries.into_iter().chain([(32, 0, u32::MAX)]) {
        let (tag, may): (u16, u16) = (tag, may);
        list.extend([tag.to_le_bytes(), may.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    match rustix::fs::setxattr(&base, "system.posix_acl_access", &list, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => eprintln!("this file system has no access lists"),
        set => {
            set.unwrap();
            assert!(super::unix::has_access_list(&base));
        }
    }
}
