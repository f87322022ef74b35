//! An empty folder below `target` that is removed when it is dropped.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::Context as _;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let own = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = crate::target().join(format!("xtask/tmp/{name}-{}-{}", own.0, own.1));
        // An earlier process may have had the same number, and may have been killed.
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(std::path::absolute(folder)?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
