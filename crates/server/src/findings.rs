//! The file with what probes have found out: written by `ibeam probe`, read when a driver starts.

use std::{io, path::Path};

use ibeam_core::peer::agent::{
    ServiceFacts,
    probe::{FindingsError, ProbeFindings},
};

use crate::files::{self, FileError, private};

/// Why there are no findings although there is a file.
#[derive(Debug, thiserror::Error)]
pub enum FindingsFileError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0}")]
    Content(#[from] FindingsError),
}

/// What the driver goes by. A file that cannot be used is as good as none, with a warning.
#[must_use]
pub fn facts(path: Option<&Path>) -> ServiceFacts {
    let Some(path) = path else { return ServiceFacts::default() };
    match read(path) {
        Ok(findings) => findings.facts(),
        Err(error) => {
            tracing::warn!(
                "the findings of `ibeam probe` in {} are not used: {error}; run `ibeam probe` \
                 again, or remove them with `ibeam probe --forget`",
                path.display()
            );
            ServiceFacts::default()
        }
    }
}

/// All findings; none without a file.
///
/// # Errors
/// The file cannot be read, is open to other users, or is not one that this version reads.
pub fn read(path: &Path) -> Result<ProbeFindings, FindingsFileError> {
    match private::read(path)? {
        Some(text) => Ok(ProbeFindings::from_json(&text)?),
        None => Ok(ProbeFindings::default()),
    }
}

/// Replaces the file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, findings: &ProbeFindings) -> Result<(), FileError> {
    if let Some(folder) = path.parent() {
        private::make_dir(folder)?;
    }
    private::replace(path, &findings.to_json())
}

/// Removes the file. Gives whether there was one.
///
/// # Errors
/// It cannot be removed.
pub fn forget(path: &Path) -> io::Result<bool> {
    files::remove(path)
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
