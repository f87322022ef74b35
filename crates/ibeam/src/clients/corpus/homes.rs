//! Homes on a disk, with nothing of this machine in them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::clients::{
    ClientSpec, System, UserMachine, Wiring,
    engine::{SetupEngine, SetupError, Undone},
};
use ibeam_server::config::Env;

/// What is at a path: what it is, its mode and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HomeEntry {
    kind: &'static str,
    mode: u32,
    bytes: Vec<u8>,
}

pub(super) type HomeTree = BTreeMap<PathBuf, HomeEntry>;

pub(super) struct TestHome {
    home: tempfile::TempDir,
    state: tempfile::TempDir,
}

impl TestHome {
    pub(super) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> &Path {
        self.home.path()
    }

    pub(super) fn machine(&self) -> UserMachine {
        UserMachine::of(System::HERE, self.path().to_path_buf(), Env::default())
    }

    fn engine(&self) -> SetupEngine {
        SetupEngine::at(self.state.path().join("setup"))
    }

    pub(super) fn put(&self, file: &Path, bytes: &[u8], mode: u32) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        self.set_mode(file, mode);
    }

    #[cfg(unix)]
    pub(super) fn set_mode(&self, file: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(self.path().join(file), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[cfg(not(unix))]
    pub(super) fn set_mode(&self, _: &Path, _: u32) {}

    #[cfg(unix)]
    pub(super) fn mode(&self, file: &Path) -> u32 {
        mode(&fs::metadata(self.path().join(file)).unwrap())
    }

    /// Says whether anything was written.
    pub(super) fn set_up(&self, client: &ClientSpec, wiring: &Wiring) -> Result<bool, SetupError> {
        let engine = self.engine();
        let _lock = engine.lock()?;
        let prepared = engine.prepare(client, &self.machine(), wiring)?;
        if prepared.changes() {
            engine.apply(client, &prepared, None)?;
        }
        Ok(prepared.changes())
    }

    /// As if the program had been killed after it wrote this number of files.
    pub(super) fn die_in_setup(&self, client: &ClientSpec, wiring: &Wiring, survived: usize) {
        let engine = self.engine();
        let prepared = engine.prepare(client, &self.machine(), wiring).unwrap();
        if prepared.changes() {
            engine.apply_in_part(client, &prepared, survived);
        }
    }

    pub(super) fn recover(&self, client: &ClientSpec) -> bool {
        let there = self.engine().recover(client).unwrap().is_some();
        if there {
            self.engine().forget(client).unwrap();
        }
        there
    }

    pub(super) fn try_undo(&self, client: &ClientSpec) -> Result<(), SetupError> {
        let engine = self.engine();
        if engine.undo(client)?.is_some() {
            engine.forget(client)?;
        }
        Ok(())
    }

    /// What `ibeam undo` finds and does.
    pub(super) fn undone(&self, client: &ClientSpec) -> Undone {
        let undone = self.engine().undo(client).unwrap().unwrap();
        self.engine().forget(client).unwrap();
        undone
    }

    pub(super) fn is_set_up(&self, client: &ClientSpec) -> bool {
        self.engine().is_set_up(client)
    }

    pub(super) fn undo(&self, client: &ClientSpec) {
        self.try_undo(client).unwrap();
        assert!(!self.engine().is_set_up(client));
    }

    pub(super) fn tree(&self) -> HomeTree {
        let mut tree = HomeTree::new();
        look(self.path(), self.path(), &mut tree);
        tree
    }

    pub(super) fn assert_is(&self, wanted: &HomeTree, what: &str) {
        let is = self.tree();
        let paths = |tree: &HomeTree| tree.keys().cloned().collect::<Vec<_>>();
        assert_eq!(paths(&is), paths(wanted), "{what}");
        for (path, thing) in &is {
            let (is, was) = (thing, &wanted[path]);
            assert!(is == was, "{what}: {} is {is:?}, was {was:?}", path.display());
        }
    }
}

fn look(root: &Path, folder: &Path, tree: &mut HomeTree) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let (kind, bytes) = if meta.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            ("link", target.to_string_lossy().replace(&*root.to_string_lossy(), "~").into_bytes())
        } else if meta.is_dir() {
            look(root, &path, tree);
            ("folder", Vec::new())
        } else {
            ("file", fs::read(&path).unwrap())
        };
        let name = path.strip_prefix(root).unwrap().to_path_buf();
        tree.insert(name, HomeEntry { kind, mode: mode(&meta), bytes });
    }
}

#[cfg(unix)]
fn mode(meta: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    meta.permissions().mode() & 0o7777
}

#[cfg(not(unix))]
fn mode(meta: &fs::Metadata) -> u32 {
    u32::from(meta.permissions().readonly())
}
