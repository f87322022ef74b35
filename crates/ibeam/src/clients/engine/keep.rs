//! What an undo could not bring back byte for byte, since it was changed meanwhile: kept for
//! who wants it, for the owner alone.

use std::path::{Path, PathBuf};

use super::{SetupError, text};
use ibeam_server::files::private;

/// How many versions of one file are kept. The last is then replaced.
const MOST: usize = 20;

/// Puts a text down under the name of its file, with a number where that is taken. Says
/// where; a text that is there already is not put down again.
pub(super) fn put(folder: &Path, file: &Path, before: &str) -> Result<PathBuf, SetupError> {
    if let Some(above) = folder.parent() {
        private::make_secret_dir(above)?;
    }
    private::make_secret_dir(folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut place = folder.join(&name);
    for number in 2..=MOST {
        match text(&place)? {
            Some(there) if there == before => return Ok(place),
            Some(_) => place = folder.join(format!("{name}.{number}")),
            None => break,
        }
    }
    private::replace(&place, before)?;
    Ok(place)
}
