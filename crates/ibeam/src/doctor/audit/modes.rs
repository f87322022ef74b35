//! Modes and owners: who else may do something, and how that is fixed.

use std::{
    collections::BTreeSet,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use super::{
    AuditFindings, AuditProblem,
    files::{FileLine, FilePurpose, ModeRule},
};
use ibeam_server::files::quoted;

/// In a folder with this bit only the owner of a file can put another in its place.
const STICKY: u32 = 0o1000;

/// Fills in what there is to say of a file that is there.
pub(super) fn judge(
    line: &mut FileLine,
    rule: ModeRule,
    meta: &Metadata,
    found: &mut AuditFindings,
) {
    let path = line.path.clone();
    // A link's own mode says nothing.
    let target = if meta.is_symlink() { fs::metadata(&path).ok() } else { Some(meta.clone()) };
    let Some(target) = target else { return };
    line.mode = Some(format!("{:04o}", target.mode() & 0o7777));
    line.owner = Some(owner(target.uid()));
    if meta.is_symlink() && rule == ModeRule::Own {
        let what = format!("{} is a symbolic link, which ibeam does not follow", path.display());
        line.problem = Some(AuditProblem { what, fix: Some(format!("rm {}", quoted(&path))) });
        return;
    }
    let fault = exposed(&path, rule, &target);
    match rule {
        // Its program made it so, and ibeam does not use it.
        ModeRule::Foreign { consent: false } => {
            if let Some(AuditProblem { what, fix }) = fault {
                let fix = fix.map(|fix| format!("; `{fix}` fixes it")).unwrap_or_default();
                found.note(format!("{what}{fix}"));
            }
        }
        _ => line.problem = fault,
    }
}

/// What others may do that they should not.
pub(super) fn exposed(path: &Path, rule: ModeRule, meta: &Metadata) -> Option<AuditProblem> {
    let (mode, folder) = (meta.mode(), meta.is_dir());
    let forbidden = match rule {
        ModeRule::Own | ModeRule::Secret => 0o077,
        ModeRule::Foreign { .. } if is_reachable(path) => 0o077,
        ModeRule::Foreign { .. } | ModeRule::Any => return None,
        ModeRule::Shared => 0o027,
        ModeRule::Safe if folder && mode & STICKY != 0 => 0,
        ModeRule::Safe => strange_writers(meta),
    };
    if let Some(fault) = stranger(path, meta) {
        return Some(fault);
    }
    let open = mode & forbidden;
    if open == 0 {
        return None;
    }
    let may = match (open & 0o044 != 0, open & 0o022 != 0) {
        (true, true) => "read and change",
        (true, false) => "read",
        (false, true) => "change",
        // Into a folder whose files have names that can be guessed.
        (false, false) => "enter",
    };
    let chmod = match (rule, folder) {
        (ModeRule::Safe, _) => "go-w",
        (ModeRule::Shared, _) => "g-w,o-rwx",
        (_, true) => "700",
        (_, false) => "600",
    };
    Some(AuditProblem {
        what: format!("other users can {may} {} (mode {:04o})", path.display(), mode & 0o7777),
        fix: Some(format!("chmod {chmod} {}", quoted(path))),
    })
}

/// Its owner can do anything with a file, so it must be us, or who can do so anyway.
fn stranger(path: &Path, meta: &Metadata) -> Option<AuditProblem> {
    let (uid, us) = (meta.uid(), geteuid().as_raw());
    (uid != us && uid != 0).then(|| AuditProblem {
        what: format!("{} belongs to uid {uid}, not to you", path.display()),
        fix: Some(format!("sudo chown {us} {}", quoted(path))),
    })
}

fn owner(uid: u32) -> String {
    match uid {
        uid if uid == geteuid().as_raw() => "you".to_owned(),
        0 => "root".to_owned(),
        uid => format!("uid {uid}"),
    }
}

/// Whether others get to a file at all.
fn is_reachable(path: &Path) -> bool {
    let closed = |folder: &Path| fs::metadata(folder).is_ok_and(|meta| meta.mode() & 0o011 == 0);
    !path.ancestors().skip(1).any(closed)
}

/// The folders above ours that are not as they should be: who can write in one can put
/// another in the place of ours.
pub(super) fn ways(
    folders: &BTreeSet<PathBuf>,
    known: &BTreeSet<PathBuf>,
    found: &mut AuditFindings,
) -> Vec<FileLine> {
    let above: BTreeSet<&Path> = folders
        .iter()
        .flat_map(|folder| folder.ancestors())
        .filter(|folder| folder.is_absolute() && !known.contains(*folder))
        .collect();
    let mut lines = Vec::new();
    for folder in above {
        let Ok(meta) = fs::metadata(folder) else { continue };
        let Some(fault) = stranger(folder, &meta).or_else(|| writable(folder, &meta)) else {
            continue;
        };
        found.problem(fault.what.clone(), fault.fix.clone());
        lines.push(FileLine {
            path: folder.to_path_buf(),
            what: "folder above",
            purpose: FilePurpose::Read,
            there: true,
            mode: Some(format!("{:04o}", meta.mode() & 0o7777)),
            owner: Some(owner(meta.uid())),
            consent: None,
            problem: Some(fault),
        });
    }
    lines
}

fn writable(folder: &Path, meta: &Metadata) -> Option<AuditProblem> {
    let mode = meta.mode();
    (mode & strange_writers(meta) != 0 && mode & STICKY == 0).then(|| AuditProblem {
        what: format!(
            "other users can replace ibeam's files in {} (mode {:04o})",
            folder.display(),
            mode & 0o7777
        ),
        fix: Some(format!("chmod go-w {}", quoted(folder))),
    })
}

/// The bits that let other users write. Many systems give each user a group of their
/// own, and let it.
fn strange_writers(meta: &Metadata) -> u32 {
    if meta.gid() == meta.uid() { 0o002 } else { 0o022 }
}
