//! Puts a service into the system, and takes it out again without a trace.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    CommandRunner, FileOwner, ServiceFile, ServiceManager, ServiceSpec, ServiceStamp, ServiceStep,
    read,
};
use ibeam_server::files::{self, Access};

/// Why it did not work, and what helps.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct ServiceError {
    pub(crate) what: String,
    pub(crate) hints: Vec<String>,
}

impl ServiceError {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hints: vec![hint.into()] }
    }

    fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let text = format!("cannot {what} {}: {error}", path.display());
        Self::new(text, "check its permissions and those of its folder")
    }
}

/// Writes the files and lets the system know. When that fails, all is as it was.
///
/// # Errors
/// A file there is not ours, cannot be written, or the system does not want the service.
pub(crate) fn install(
    manager: &dyn ServiceManager,
    service: &ServiceSpec,
    runner: &dyn CommandRunner,
) -> Result<Vec<PathBuf>, ServiceError> {
    let drafts = manager.drafts(service);
    let before = before(&drafts)?;
    let again = before.iter().any(Option::is_some);
    let mut made = Vec::new();
    let written = write_all(&drafts, &before, service, &mut made)
        .and_then(|()| run_all(&manager.install(again), runner));
    if let Err(failed) = written {
        undo(manager, &before, &made, runner);
        return Err(failed);
    }
    Ok(made.into_iter().map(|made| made.path).collect())
}

/// Stops it and removes what [`install`] wrote: files, and folders if they are empty.
///
/// # Errors
/// It is not installed, or a file was changed since.
pub(crate) fn uninstall(
    manager: &dyn ServiceManager,
    runner: &dyn CommandRunner,
    force: bool,
) -> Result<Vec<PathBuf>, ServiceError> {
    let mut ours = Vec::new();
    for path in manager.files() {
        match read(&path).map_err(|error| ServiceError::io("read", &path, &error))? {
            FileOwner::Missing => {}
            FileOwner::Ours(stamp) => ours.push((path, stamp.folders)),
            FileOwner::Changed if force => ours.push((path, 0)),
            FileOwner::Changed => return Err(changed(&path, "uninstall")),
            FileOwner::Foreign => return Err(foreign(&path)),
        }
    }
    if ours.is_empty() {
        let hint = "`ibeam service install` installs it";
        return Err(ServiceError::new("the service is not installed", hint));
    }
    let (first, last) = manager.uninstall();
    run_all(&first, runner)?;
    for (path, _) in &ours {
        fs::remove_file(path).map_err(|error| ServiceError::io("remove", path, &error))?;
    }
    for (path, folders) in &ours {
        remove_folders(path, *folders);
    }
    run_all(&last, runner)?;
    Ok(ours.into_iter().map(|(path, _)| path).collect())
}

/// What was there: our own file of an earlier time, or nothing.
type Before = Option<(Vec<u8>, ServiceStamp)>;

fn before(drafts: &[ServiceFile]) -> Result<Vec<Before>, ServiceError> {
    let look = |draft: &ServiceFile| {
        let path = draft.path.as_path();
        let failed = |error: io::Error| ServiceError::io("read", path, &error);
        match read(path).map_err(failed)? {
            FileOwner::Missing => Ok(None),
            FileOwner::Ours(stamp) => Ok(Some((fs::read(path).map_err(failed)?, stamp))),
            FileOwner::Changed => Err(changed(path, "install")),
            FileOwner::Foreign => Err(foreign(path)),
        }
    };
    drafts.iter().map(look).collect()
}

/// A file that was written, and the folders made for it.
struct WrittenFile {
    path: PathBuf,
    folders: usize,
}

fn write_all(
    drafts: &[ServiceFile],
    before: &[Before],
    service: &ServiceSpec,
    made: &mut Vec<WrittenFile>,
) -> Result<(), ServiceError> {
    for (draft, before) in drafts.iter().zip(before) {
        let new = make_folders(&draft.path)?;
        // The second time they are there, and still to be removed.
        let folders = before.as_ref().map_or(new, |(_, stamp)| stamp.folders);
        made.push(WrittenFile { path: draft.path.clone(), folders: new });
        let stamp = ServiceStamp { folders, urls: service.urls() };
        replace(&draft.path, &draft.bytes(&stamp))?;
    }
    Ok(())
}

/// As it was before, as far as that can be done.
fn undo(
    manager: &dyn ServiceManager,
    before: &[Before],
    made: &[WrittenFile],
    runner: &dyn CommandRunner,
) {
    let again = before.iter().any(Option::is_some);
    let (first, last) = manager.uninstall();
    let quietly = |steps: &[ServiceStep]| {
        for step in steps {
            let _ = runner.run(&step.line);
        }
    };
    quietly(&first);
    for (made, before) in made.iter().zip(before).rev() {
        match before {
            Some((bytes, _)) => drop(replace(&made.path, bytes)),
            None => {
                let _ = fs::remove_file(&made.path);
                remove_folders(&made.path, made.folders);
            }
        }
    }
    quietly(&last);
    if again {
        quietly(&manager.install(false));
    }
}

fn run_all(steps: &[ServiceStep], runner: &dyn CommandRunner) -> Result<(), ServiceError> {
    for ServiceStep { line, must } in steps {
        let why = match runner.run(line) {
            Ok(ran) if ran.ok => continue,
            Ok(ran) => [ran.stderr, ran.stdout].into_iter().find(|text| !text.is_empty()),
            Err(error) => Some(error.to_string()),
        };
        if *must {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            let hint = "nothing was changed; `ibeam service install --dry-run` shows each step";
            return Err(ServiceError::new(format!("`{line}` failed{why}"), hint));
        }
    }
    Ok(())
}

/// How many had to be made.
fn make_folders(path: &Path) -> Result<usize, ServiceError> {
    let Some(folder) = path.parent() else { return Ok(0) };
    let missing = folder.ancestors().take_while(|folder| !folder.exists()).count();
    fs::create_dir_all(folder).map_err(|error| ServiceError::io("make", folder, &error))?;
    Ok(missing)
}

/// Those that are empty.
fn remove_folders(path: &Path, count: usize) {
    for folder in path.ancestors().skip(1).take(count) {
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// Whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), ServiceError> {
    files::replace(path, bytes, Access::New(0o644))
        .map_err(|error| ServiceError::io("write", path, &error))
}

fn foreign(path: &Path) -> ServiceError {
    let text =
        format!("{} already exists and was not written by `ibeam service install`", path.display());
    ServiceError::new(text, "move or remove it first if you do not need it")
}

fn changed(path: &Path, command: &str) -> ServiceError {
    let text = format!("{} was changed since ibeam wrote it", path.display());
    let mut failed = match command {
        "install" => ServiceError::new(
            text,
            "put settings into `config.toml`, and changes of a unit into an override: `systemctl \
             --user edit ibeam.service`",
        ),
        _ => ServiceError { what: text, hints: Vec::new() },
    };
    failed.hints.push("`ibeam service uninstall --force` removes it with those changes".to_owned());
    failed
}
