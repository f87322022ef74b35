//! The live list of models: cached, refreshed in the background, with the last good list on disk in
//! case the backend does not answer.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::Effort,
    models::{ModelList, Resolved, UnknownName},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use crate::{
    files::{self, FileAccess, private},
    tasks::Tasks,
};

/// Asks the backend.
pub type FetchModels = Arc<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<ModelList, TurnError>> + Send>> + Send + Sync,
>;

/// With a list on disk, the first callers do not wait longer than this for a live one.
const PATIENCE: Duration = Duration::from_secs(3);
/// After a failed refresh the backend is left alone for this long.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(30);
/// A name that the list does not know is worth a new list when it is older than this.
const STALE_FOR_UNKNOWN: Duration = Duration::from_secs(30);

type ListOutcome = Result<Arc<ModelList>, TurnError>;

/// The models of the account. Clones share it.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<CatalogInner>,
}

struct CatalogInner {
    fetch: FetchModels,
    options: CatalogOptions,
    tasks: Tasks,
    state: Mutex<CatalogState>,
    /// The list on disk, read once for all callers.
    kept: OnceCell<Option<Arc<ModelList>>>,
}

/// How a catalog behaves.
#[derive(Clone, Debug)]
pub struct CatalogOptions {
    /// How long a list counts as fresh.
    pub ttl: Duration,
    /// Where the last good list is kept, if anywhere.
    pub file: Option<PathBuf>,
    pub unknown: UnknownName,
}

#[derive(Default)]
struct CatalogState {
    list: Option<Arc<ModelList>>,
    /// When the list came from the backend; `None` for one from disk.
    fetched: Option<Instant>,
    /// The last refresh failed: why, and when to try again.
    failed: Option<(TurnError, Instant)>,
    /// The refresh that is under way.
    flight: Option<watch::Receiver<Option<ListOutcome>>>,
}

impl CatalogState {
    /// Why the last refresh failed, as long as the backend is left alone for it.
    fn pause(&self, now: Instant) -> Option<&TurnError> {
        self.failed.as_ref().filter(|(_, until)| now < *until).map(|(error, _)| error)
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let models = self.inner.state.lock().list.as_ref().map(|list| list.len());
        f.debug_struct("Catalog").field("models", &models).finish_non_exhaustive()
    }
}

impl Catalog {
    #[must_use]
    pub fn new(fetch: FetchModels, options: CatalogOptions, tasks: Tasks) -> Self {
        let state = Mutex::new(CatalogState::default());
        Self {
            inner: Arc::new(CatalogInner { fetch, options, tasks, state, kept: OnceCell::new() }),
        }
    }

    /// The list. Fresh, it comes at once; old, it comes at once while a new one is
    /// fetched; without one, the caller waits for the backend.
    ///
    /// # Errors
    /// No list is available, neither live nor on disk; with the cause.
    pub async fn get(&self) -> ListOutcome {
        let now = Instant::now();
        {
            let state = self.inner.state.lock();
            if let (Some(list), Some(fetched)) = (&state.list, state.fetched) {
                let list = list.clone();
                let old = now.duration_since(fetched) >= self.inner.options.ttl;
                let paused = state.pause(now).is_some();
                drop(state);
                if old && !paused {
                    drop(self.refresh());
                }
                return Ok(list);
            }
        }
        let last_good = self.last_good().await;
        let pause = self.inner.state.lock().pause(now).cloned();
        match (last_good, pause) {
            (Some(list), Some(_)) => Ok(list),
            (Some(list), None) => {
                match tokio::time::timeout(PATIENCE, wait(self.refresh())).await {
                    Ok(Ok(live)) => Ok(live),
                    Ok(Err(_)) | Err(_) => Ok(list),
                }
            }
            (None, Some(error)) => Err(no_list(error)),
            (None, None) => wait(self.refresh()).await.map_err(no_list),
        }
    }

    /// The backend does not know a model of the list: it is fetched again, in the background.
    pub fn doubt(&self) {
        if self.may_be_outdated() {
            drop(self.refresh());
        }
    }

    /// The list as far as it is known, without asking for one.
    #[must_use]
    pub fn known(&self) -> Option<Arc<ModelList>> {
        self.inner.state.lock().list.clone()
    }

    /// What a client's model name means.
    ///
    /// # Errors
    /// No list, or a name that is not in it.
    pub async fn resolve(&self, name: &str, effort: Option<Effort>) -> Result<Resolved, TurnError> {
        let unknown = self.inner.options.unknown;
        let list = self.get().await?;
        // Looked up strictly first: a new list may know what this one does not.
        let refusal = match list.resolve(name, effort) {
            Ok(resolved) => return Ok(resolved),
            Err(refusal) => refusal,
        };
        let list = if self.may_be_outdated() { wait(self.refresh()).await.ok() } else { None };
        match (list, unknown) {
            (Some(list), _) => list.resolve_with(name, effort, unknown),
            (None, UnknownName::PassThrough) => {
                ModelList::default().resolve_with(name, effort, unknown)
            }
            (None, UnknownName::Refuse) => Err(refusal),
        }
    }

    fn may_be_outdated(&self) -> bool {
        let state = self.inner.state.lock();
        let now = Instant::now();
        state.fetched.is_none_or(|at| now.duration_since(at) >= STALE_FOR_UNKNOWN)
            && state.pause(now).is_none()
    }

    /// Joins the refresh that is under way, or starts one. It continues when no caller waits for it
    /// any more.
    fn refresh(&self) -> watch::Receiver<Option<ListOutcome>> {
        let mut state = self.inner.state.lock();
        if let Some(flight) = &state.flight {
            return flight.clone();
        }
        let (tx, rx) = watch::channel(None);
        state.flight = Some(rx.clone());
        drop(state);
        let catalog = self.clone();
        self.inner.tasks.spawn("models", async move {
            let landed = FlightGuard { catalog: &catalog };
            let outcome = tokio::select! {
                fetched = (catalog.inner.fetch)() => usable(fetched),
                () = catalog.inner.tasks.stopped() => {
                    Err(TurnError::new(ErrorCode::Unavailable, "ibeam is shutting down."))
                }
            };
            catalog.settle(&outcome);
            drop(landed);
            let list = outcome.as_ref().ok().cloned();
            tx.send_replace(Some(outcome));
            if let Some(list) = list {
                catalog.save(list).await;
            }
        });
        rx
    }

    fn settle(&self, outcome: &ListOutcome) {
        let mut state = self.inner.state.lock();
        match outcome {
            Ok(list) => {
                state.list = Some(list.clone());
                state.fetched = Some(Instant::now());
                state.failed = None;
            }
            Err(error) => {
                // A user who has just signed in must not get this error from before; the tokens
                // remember a sign-in that Cursor refused.
                let pause = match error.code {
                    ErrorCode::NotAuthenticated => Duration::ZERO,
                    _ => PAUSE_AFTER_FAILURE,
                };
                state.failed = Some((error.clone(), Instant::now() + pause));
                if self.inner.tasks.is_stopping() {
                    return;
                }
                tracing::warn!(
                    code = error.code.row().code,
                    cause = error.cause.as_deref(),
                    "the model list could not be fetched: {error}"
                );
            }
        }
    }

    /// The list in memory, else the one on disk.
    async fn last_good(&self) -> Option<Arc<ModelList>> {
        let known = self.inner.state.lock().list.clone();
        if known.is_some() {
            return known;
        }
        let kept = self.inner.kept.get_or_init(|| async {
            let file = self.inner.options.file.clone()?;
            let list = self.inner.tasks.spawn_blocking(move || read(&file)).await.ok()??;
            Some(Arc::new(list))
        });
        let kept = kept.await.clone()?;
        let mut state = self.inner.state.lock();
        // A live one may have come in the meantime.
        Some(state.list.get_or_insert(kept).clone())
    }

    async fn save(&self, list: Arc<ModelList>) {
        let Some(file) = self.inner.options.file.clone() else { return };
        let saved = self.inner.tasks.spawn_blocking(move || write(&file, &list)).await;
        if let Ok(Err(error)) = saved {
            tracing::debug!("cannot save the model list: {error}");
        }
    }
}

/// Clears the flight also when the fetch panics, so that the next caller may try.
struct FlightGuard<'a> {
    catalog: &'a Catalog,
}

impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        self.catalog.inner.state.lock().flight = None;
    }
}

async fn wait(mut flight: watch::Receiver<Option<ListOutcome>>) -> ListOutcome {
    let landed = flight.wait_for(Option::is_some).await;
    match landed.ok().and_then(|outcome| outcome.clone()) {
        Some(outcome) => outcome,
        None => Err(TurnError::new(ErrorCode::Internal, "The model list could not be fetched.")),
    }
}

/// An empty list is an error: it would make every name unknown.
fn usable(fetched: Result<ModelList, TurnError>) -> ListOutcome {
    let list = fetched?;
    if list.is_empty() {
        return Err(TurnError::new(ErrorCode::UpstreamError, "The backend lists no models."));
    }
    Ok(Arc::new(list))
}

fn no_list(error: TurnError) -> TurnError {
    let message = format!("The model list is not available: {}", error.message);
    TurnError { message: message.into(), ..error }
}

/// The file's content. The version is raised when the shape of a model changes.
#[derive(Serialize, Deserialize)]
struct CatalogFile<L> {
    version: u32,
    models: L,
}

const VERSION: u32 = 1;

fn read(file: &Path) -> Option<ModelList> {
    let text = std::fs::read(file).ok()?;
    let kept: CatalogFile<ModelList> = serde_json::from_slice(&text).ok()?;
    (kept.version == VERSION && !kept.models.is_empty()).then_some(kept.models)
}

/// All or nothing: a reader never sees half a file.
fn write(file: &Path, list: &ModelList) -> io::Result<()> {
    let folder = file.parent().ok_or_else(|| io::Error::other("no folder"))?;
    private::dir_builder().recursive(true).create(folder)?;
    let text = serde_json::to_vec(&CatalogFile { version: VERSION, models: list })?;
    files::replace(file, &text, FileAccess::Private)
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
