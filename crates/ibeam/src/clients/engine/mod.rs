//! Writes what a plan says, and takes it back.
//!
//! What was there before is kept in ibeam's own folder, with a record of what was written,
//! before the first file changes. So whatever ends the program in between, the next
//! `setup` or `undo` finds the record and puts everything back.
//!
//! *Invariant:* all files of a plan are written or none, and a file that was changed by
//! another program or the user since is never restored over that change.

#[cfg(test)]
pub(super) mod faults;
mod keep;
mod merge;
mod record;
mod write;

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

pub(crate) use self::{
    merge::{Fate, Later},
    record::MadeKey,
};
use self::{
    record::{SetupEntry, SetupRecord, SetupState},
    write::StagedEdit,
};
use super::{ClientSpec, UnfitSettings, UserMachine, Wiring, machine};
use ibeam_server::files::{FileError, lock, private};

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    #[error(transparent)]
    Unfit(#[from] UnfitSettings),
    #[error("{} is read-only", path.display())]
    ReadOnly { path: PathBuf },
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// The written text and later changes are in the same lines.
    #[error(
        "the lines that `setup` wrote to {} were changed since; their content from before is in {}",
        path.display(),
        backup.as_ref().map_or_else(|| "no file".to_owned(), |path| path.display().to_string())
    )]
    Overlap { path: PathBuf, backup: Option<PathBuf> },
    /// Between the look at it and the writing.
    #[error("{} was changed by another program just now", path.display())]
    Changed { path: PathBuf },
    /// It could not be read again.
    #[error("{} would be longer than {} MiB", path.display(), machine::LONGEST >> 20)]
    Long { path: PathBuf },
    #[error("another `ibeam setup` or `ibeam undo` is running")]
    Busy,
    #[error("{} is damaged: {why}", path.display())]
    Record { path: PathBuf, why: String },
    #[error(transparent)]
    Own(#[from] FileError),
}

impl SetupError {
    fn io<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io { what, path: path.to_path_buf(), source }
    }
}

/// A file as it is, and as it will be.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) path: PathBuf,
    /// Now; `None`: not there.
    pub(crate) now: Option<String>,
    pub(crate) after: Option<String>,
    /// What an undo goes back to.
    before: Option<String>,
    /// Of the file as it was before.
    mode: Option<u32>,
    /// Now.
    mode_now: Option<u32>,
    private: bool,
    /// What an undo found.
    pub(crate) fate: Fate,
    /// Where an undo that does not bring every byte back keeps them.
    pub(crate) kept: Option<PathBuf>,
}

impl Edit {
    pub(crate) fn changes(&self) -> bool {
        self.now != self.after
    }

    #[cfg(test)]
    pub(super) fn sample(path: &str, now: Option<&str>, after: Option<&str>) -> Self {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Self {
            path: path.into(),
            now: own(now),
            after: own(after),
            before: own(now),
            mode: None,
            mode_now: None,
            private: false,
            fate: Fate::Same,
            kept: None,
        }
    }
}

/// A plan that was laid over what is there.
#[derive(Debug)]
pub(crate) struct PreparedSetup {
    pub(crate) edits: Vec<Edit>,
    pub(crate) notes: Vec<String>,
    pub(crate) paste: Option<String>,
}

impl PreparedSetup {
    pub(crate) fn changes(&self) -> bool {
        self.edits.iter().any(Edit::changes)
    }
}

/// The result of an undo.
#[derive(Debug, Default)]
pub(crate) struct Undone {
    pub(crate) edits: Vec<Edit>,
    /// The key that the setup made.
    pub(crate) key: Option<MadeKey>,
}

/// The setups of one user.
#[derive(Clone, Debug)]
pub(crate) struct SetupEngine {
    root: PathBuf,
}

impl SetupEngine {
    /// With its records in this folder.
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// That of this user, if there is a place for it.
    pub(crate) fn here() -> Option<Self> {
        ibeam_server::config::state_dir().map(|dir| Self::at(dir.join("setup")))
    }

    fn dir(&self, client: &ClientSpec) -> PathBuf {
        self.root.join(client.name)
    }

    /// Whether a setup of this client was done and not undone.
    pub(crate) fn is_set_up(&self, client: &ClientSpec) -> bool {
        record::path(&self.dir(client)).is_file()
    }

    /// The key that was made for a client.
    pub(crate) fn key(&self, client: &ClientSpec) -> Result<Option<MadeKey>, SetupError> {
        Ok(SetupRecord::load(&self.dir(client))?.and_then(|record| record.key))
    }

    /// Held while anything is read or written that must not change in between.
    pub(crate) fn lock(&self) -> Result<File, SetupError> {
        private::make_secret_dir(&self.root)?;
        let path = self.root.join("lock");
        match lock::acquire_blocking(&path, Duration::ZERO) {
            Ok(file) => Ok(file),
            Err(FileError::Locked { .. }) => Err(SetupError::Busy),
            Err(error) => Err(error.into()),
        }
    }

    /// Plans, and writes nothing. An earlier setup of the client is seen as undone, so that
    /// its own lines are not taken for the user's.
    pub(crate) fn prepare(
        &self,
        client: &ClientSpec,
        machine: &UserMachine,
        wiring: &Wiring,
    ) -> Result<PreparedSetup, SetupError> {
        let mut undone: BTreeMap<PathBuf, Edit> = BTreeMap::new();
        if let Some(record) = SetupRecord::load(&self.dir(client))? {
            for edit in undo_edits(&record)? {
                undone.insert(edit.path.clone(), edit);
            }
        }
        let texts = undone.iter().map(|(path, edit)| (path.clone(), edit.after.clone())).collect();
        let plan = (client.plan)(&machine.with(texts), wiring)?;
        let mut edits = Vec::new();
        for change in plan.changes {
            let edit = match undone.remove(&change.path) {
                Some(earlier) => Edit {
                    before: earlier.after,
                    after: Some(change.after),
                    private: change.private,
                    ..earlier
                },
                None => {
                    let now = text(&change.path)?;
                    let mode = write::mode(&change.path);
                    Edit {
                        before: now.clone(),
                        mode,
                        mode_now: mode,
                        fate: Fate::Same,
                        kept: None,
                        now,
                        after: Some(change.after),
                        private: change.private,
                        path: change.path,
                    }
                }
            };
            edits.push(edit);
        }
        // What only the earlier setup touched goes back to what it was.
        edits.extend(undone.into_values());
        for edit in edits.iter().filter(|edit| edit.changes()) {
            write::refuse_read_only(&edit.path)?;
            if edit.after.as_ref().is_some_and(|text| text.len() as u64 > machine::LONGEST) {
                return Err(SetupError::Long { path: edit.path.clone() });
            }
        }
        Ok(PreparedSetup { edits, notes: plan.notes, paste: plan.paste })
    }

    /// Writes what was prepared, and the record of it. `key` was made for this.
    pub(crate) fn apply(
        &self,
        client: &ClientSpec,
        prepared: &PreparedSetup,
        key: Option<MadeKey>,
    ) -> Result<(), SetupError> {
        let dir = self.dir(client);
        let earlier = SetupRecord::load(&dir)?;
        let mut record = self.begin(client, prepared, key)?;
        match write_all(&prepared.edits, &record) {
            Ok(()) => {
                record.state = SetupState::Done;
                // Of what only an earlier setup needed, nothing is left to be undone.
                let over = record.entries.extract_if(.., |entry| entry.before == entry.after);
                let over: Vec<SetupEntry> = over.collect();
                write::remove_folders(over.iter().flat_map(|entry| &entry.folders));
                record.save(&dir)
            }
            Err(error) => {
                // Back to what was; what cannot be put back stays in the record.
                if roll_back(&prepared.edits, &record) {
                    match earlier {
                        Some(earlier) => earlier.save(&dir)?,
                        None => SetupRecord::remove(&dir)?,
                    }
                }
                Err(error)
            }
        }
    }

    /// Puts down what is to be written, and over what.
    fn begin(
        &self,
        client: &ClientSpec,
        prepared: &PreparedSetup,
        key: Option<MadeKey>,
    ) -> Result<SetupRecord, SetupError> {
        let dir = self.dir(client);
        let entries = prepared.edits.iter().filter_map(entry).collect();
        let mut record = SetupRecord { state: SetupState::Writing, key, entries };
        for entry in &mut record.entries {
            entry.folders = write::missing_folders(&entry.path);
        }
        // An earlier record knows of folders that are there by now and were not before.
        if let Some(earlier) = SetupRecord::load(&dir)? {
            record.take_over_folders(&earlier);
        }
        record.save(&dir)?;
        Ok(record)
    }

    /// As much of a setup as a program gets done that is killed when it has put so many
    /// files in place.
    #[cfg(test)]
    pub(super) fn apply_in_part(
        &self,
        client: &ClientSpec,
        prepared: &PreparedSetup,
        survived: usize,
    ) {
        let record = self.begin(client, prepared, None).unwrap();
        let mut staged = stage_all(&prepared.edits, &record).unwrap();
        let left = staged.split_off(survived.min(staged.len()));
        staged.into_iter().for_each(|staged| staged.commit().unwrap());
        // No clean-up, as after a kill.
        std::mem::forget(left);
    }

    /// What an undo would do, without doing it.
    pub(crate) fn preview_undo(&self, client: &ClientSpec) -> Result<Option<Undone>, SetupError> {
        let Some(record) = SetupRecord::load(&self.dir(client))? else { return Ok(None) };
        let edits = undo_edits(&record)?;
        for edit in edits.iter().filter(|edit| edit.changes()) {
            write::refuse_read_only(&edit.path)?;
        }
        Ok(Some(Undone { edits, key: record.key }))
    }

    /// Takes a setup back. `None`: there is none. The record stays until [`Self::forget`], so
    /// that an undo which is interrupted can be repeated.
    pub(crate) fn undo(&self, client: &ClientSpec) -> Result<Option<Undone>, SetupError> {
        let Some(record) = SetupRecord::load(&self.dir(client))? else { return Ok(None) };
        let Some(mut undone) = self.preview_undo(client)? else { return Ok(None) };
        for (edit, entry) in undone.edits.iter_mut().zip(&record.entries) {
            write::sweep(&edit.path);
            if let (Some(before), false) = (&entry.before, edit.fate == Fate::Same) {
                let folder = self.root.join("kept").join(client.name);
                edit.kept = Some(keep::put(&folder, &edit.path, before)?);
            }
        }
        write_all(&undone.edits, &SetupRecord::default())?;
        write::remove_folders(record.entries.iter().flat_map(|entry| &entry.folders));
        Ok(Some(undone))
    }

    /// The end of an undo.
    pub(crate) fn forget(&self, client: &ClientSpec) -> Result<(), SetupError> {
        SetupRecord::remove(&self.dir(client))
    }

    /// Takes a setup back that was interrupted. `None`: there was none. As with
    /// [`Self::undo`], [`Self::forget`] is the end of it.
    pub(crate) fn recover(&self, client: &ClientSpec) -> Result<Option<Undone>, SetupError> {
        let unfinished = SetupRecord::load(&self.dir(client))?
            .is_some_and(|record| matches!(record.state, SetupState::Writing));
        if unfinished { self.undo(client) } else { Ok(None) }
    }
}

fn undo_edits(record: &SetupRecord) -> Result<Vec<Edit>, SetupError> {
    let edit = |entry: &SetupEntry| {
        let now = text(&entry.path)?;
        let back = merge::undone(entry, now.as_deref()).ok_or_else(|| SetupError::Overlap {
            path: entry.path.clone(),
            backup: entry.backup.clone(),
        })?;
        let mode_now = write::mode(&entry.path);
        Ok(Edit {
            path: entry.path.clone(),
            before: back.text.clone(),
            mode: mode_after(entry, record.state, mode_now),
            mode_now,
            private: false,
            now,
            after: back.text,
            fate: back.fate,
            kept: None,
        })
    };
    record.entries.iter().map(edit).collect()
}

/// The mode that a file had, unless it was changed since.
fn mode_after(entry: &SetupEntry, state: SetupState, now: Option<u32>) -> Option<u32> {
    let (Some(before), Some(is)) = (entry.mode, now) else { return now.or(entry.mode) };
    let closed = before & !0o077;
    let ours = is == before || (is == closed && (entry.private || state == SetupState::Writing));
    Some(if ours { before } else { is })
}

/// `None` for a file in which nothing of any setup is left.
fn entry(edit: &Edit) -> Option<SetupEntry> {
    if edit.before == edit.after && !edit.changes() {
        return None;
    }
    Some(SetupEntry {
        path: edit.path.clone(),
        before: edit.before.clone(),
        after: edit.after.clone(),
        replaced: edit.now.clone().filter(|_| edit.now != edit.before),
        mode: edit.mode,
        private: edit.private,
        backup: None,
        folders: Vec::new(),
    })
}

/// Says whether everything is as it was.
fn roll_back(edits: &[Edit], record: &SetupRecord) -> bool {
    let is_back = |edit: &Edit| {
        text(&edit.path).is_ok_and(|is| is == edit.now)
            || write::put(&edit.path, edit.now.as_deref(), edit.mode_now, edit.private).is_ok()
    };
    let back = edits.iter().filter(|edit| edit.changes()).all(is_back);
    write::remove_folders(record.entries.iter().flat_map(|entry| &entry.folders));
    back
}

/// First everything beside its place, then everything into it: what fails, mostly fails
/// before the first file has changed.
fn write_all(edits: &[Edit], record: &SetupRecord) -> Result<(), SetupError> {
    let staged = stage_all(edits, record)?;
    for (edit, staged) in edits.iter().filter(|edit| edit.changes()).zip(staged) {
        if text(&edit.path)? != edit.now {
            return Err(SetupError::Changed { path: edit.path.clone() });
        }
        #[cfg(test)]
        faults::point()?;
        staged.commit()?;
    }
    Ok(())
}

fn stage_all(edits: &[Edit], record: &SetupRecord) -> Result<Vec<StagedEdit>, SetupError> {
    write::make_folders(record.entries.iter().flat_map(|entry| &entry.folders))?;
    let stage =
        |edit: &Edit| StagedEdit::new(&edit.path, edit.after.as_deref(), edit.mode, edit.private);
    edits.iter().filter(|edit| edit.changes()).map(stage).collect()
}

/// The text of a file before a change.
fn text(path: &Path) -> Result<Option<String>, SetupError> {
    let content = machine::read(path).map_err(SetupError::io("read", path))?;
    Ok(content.map(|content| content.text(path)).transpose()?)
}
