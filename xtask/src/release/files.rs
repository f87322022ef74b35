//! Archives that come out the same each time: sorted, with one time for all files, and without
//! a trace of the machine.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};

/// Files by their path, which is relative and has slashes.
#[derive(Clone, Default)]
pub(crate) struct ArchiveFiles(BTreeMap<String, ArchiveFile>);

#[derive(Clone)]
struct ArchiveFile {
    bytes: Vec<u8>,
    mode: u32,
}

impl ArchiveFiles {
    pub(crate) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), ArchiveFile { bytes: bytes.into(), mode: 0o644 });
    }

    pub(crate) fn add_program(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), ArchiveFile { bytes: bytes.into(), mode: 0o755 });
    }

    /// A file of the workspace.
    pub(crate) fn copy(&mut self, path: impl Into<String>, from: &str) -> anyhow::Result<()> {
        self.add(path, read(&crate::root().join(from))?);
        Ok(())
    }

    /// The same files in a folder.
    pub(crate) fn below(&self, prefix: &str) -> Self {
        Self(self.0.iter().map(|(path, file)| (format!("{prefix}{path}"), file.clone())).collect())
    }

    #[cfg(test)]
    pub(crate) fn get(&self, path: &str) -> Option<&[u8]> {
        self.0.get(path).map(|file| file.bytes.as_slice())
    }

    /// A `.tar.gz` of them.
    pub(crate) fn archive(&self, epoch: u64, level: u32) -> anyhow::Result<Vec<u8>> {
        let zip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::new(level));
        let mut tar = tar::Builder::new(zip);
        for (path, file) in &self.0 {
            let mut header = tar::Header::new_ustar();
            header.set_size(file.bytes.len().try_into()?);
            header.set_mode(file.mode);
            header.set_mtime(epoch);
            header.set_uid(0);
            header.set_gid(0);
            header.set_entry_type(tar::EntryType::Regular);
            tar.append_data(&mut header, path, file.bytes.as_slice())?;
        }
        Ok(tar.into_inner()?.finish()?)
    }

    /// The files themselves, in a folder that is empty or not there.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        for (path, file) in &self.0 {
            let place = folder.join(path);
            if let Some(parent) = place.parent() {
                make_folder(parent)?;
            }
            fs::write(&place, &file.bytes).with_context(|| place.display().to_string())?;
            set_mode(&place, file.mode)?;
        }
        Ok(())
    }
}

/// A gzip file, as Debian wants it: the best compression, no name, no time.
pub(crate) fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut zip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    zip.write_all(bytes)?;
    Ok(zip.finish()?)
}

pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// Makes a folder and those above it with the mode that packages want, whatever the umask is.
fn make_folder(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folder(parent)?;
    }
    fs::create_dir(folder).with_context(|| folder.display().to_string())?;
    set_mode(folder, 0o755)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode).with_context(|| path.display().to_string())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail where there are modes")]
fn set_mode(_: &Path, _: u32) -> anyhow::Result<()> {
    Ok(())
}
