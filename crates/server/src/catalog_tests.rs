use std::sync::atomic::{AtomicUsize, Ordering};

use ibeam_core::models::ModelInfo;

use super::*;

/// A backend with scripted answers, each after a second.
#[derive(Clone, Default)]
struct Backend {
    calls: Arc<AtomicUsize>,
    answer: Arc<Mutex<Option<Result<ModelList, TurnError>>>>,
}

impl Backend {
    fn with(ids: &[&str]) -> Self {
        let backend = Self::default();
        backend.lists(ids);
        backend
    }

    fn lists(&self, ids: &[&str]) {
        *self.answer.lock() = Some(Ok(list(ids)));
    }

    fn fails(&self) {
        let error = TurnError::new(ErrorCode::Unavailable, "Cursor is down.");
        *self.answer.lock() = Some(Err(error));
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn catalog(&self, file: Option<PathBuf>) -> Catalog {
        let backend = self.clone();
        let fetch: FetchModels = Arc::new(move || {
            backend.calls.fetch_add(1, Ordering::SeqCst);
            let answer = backend.answer.lock().clone();
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            })
        });
        let ttl = Duration::from_secs(300);
        Catalog::new(
            fetch,
            CatalogOptions { ttl, file, unknown: UnknownName::Refuse },
            Tasks::new(),
        )
    }
}

fn list(ids: &[&str]) -> ModelList {
    ModelList::new(ids.iter().copied().map(ModelInfo::from_id).collect())
}

fn ids(list: &ModelList) -> Vec<String> {
    list.models().iter().map(|model| model.id.clone()).collect()
}

fn has_list(catalog: &Catalog) -> bool {
    catalog.inner.state.lock().list.is_some()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn callers_share_one_fetch_and_then_the_cache() {
    let backend = Backend::with(&["a"]);
    let catalog = backend.catalog(None);
    assert!(!has_list(&catalog));
    let (x, y, z) = tokio::join!(catalog.get(), catalog.get(), catalog.get());
    assert_eq!(ids(&x.unwrap()), ["a"]);
    assert!(y.is_ok() && z.is_ok());
    pass(299).await;
    catalog.get().await.unwrap();
    assert_eq!(backend.calls(), 1);
    assert!(has_list(&catalog));
}

#[tokio::test(start_paused = true)]
async fn stale_list_is_returned_and_refreshed_in_the_background() {
    let backend = Backend::with(&["a"]);
    let catalog = backend.catalog(None);
    catalog.get().await.unwrap();
    backend.lists(&["b"]);
    pass(301).await;
    let before = Instant::now();
    assert_eq!(ids(&catalog.get().await.unwrap()), ["a"]);
    assert_eq!(ids(&catalog.get().await.unwrap()), ["a"]);
    assert_eq!(before.elapsed(), Duration::ZERO);
    pass(2).await;
    assert_eq!(ids(&catalog.get().await.unwrap()), ["b"]);
    assert_eq!(backend.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_refresh_keeps_the_list_and_pauses() {
    let backend = Backend::with(&["a"]);
    let catalog = backend.catalog(None);
    catalog.get().await.unwrap();
    backend.fails();
    pass(301).await;
    for _ in 0..20 {
        assert_eq!(ids(&catalog.get().await.unwrap()), ["a"]);
        pass(1).await;
    }
    assert_eq!(backend.calls(), 2);
    pass(30).await;
    catalog.get().await.unwrap();
    pass(2).await;
    assert_eq!(backend.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn missing_list_error_contains_its_cause() {
    let backend = Backend::default();
    backend.fails();
    let error = backend.catalog(None).get().await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("The model list is not available"), "{}", error.message);
    assert!(error.message.contains("Cursor is down."), "{}", error.message);
    backend.lists(&[]);
    assert!(backend.catalog(None).get().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn last_good_list_is_kept_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deeper").join("models.json");
    let backend = Backend::with(&["a"]);
    let first = backend.catalog(Some(file.clone()));
    first.get().await.unwrap();
    first.inner.tasks.join().await;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // A new process, and the backend does not answer.
    backend.fails();
    let second = backend.catalog(Some(file.clone()));
    assert_eq!(ids(&second.get().await.unwrap()), ["a"]);
    // A live list is preferred when it comes in time, and the wait for it is limited.
    backend.lists(&["b"]);
    let third = backend.catalog(Some(file.clone()));
    assert_eq!(ids(&third.get().await.unwrap()), ["b"]);
    third.inner.tasks.join().await;
    *backend.answer.lock() = None;
    let fourth = backend.catalog(Some(file.clone()));
    let before = Instant::now();
    assert_eq!(ids(&fourth.get().await.unwrap()), ["b"]);
    assert_eq!(before.elapsed(), PATIENCE);
    // A damaged file is ignored.
    std::fs::write(&file, "{").unwrap();
    backend.fails();
    assert!(backend.catalog(Some(file)).get().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn unknown_model_name_causes_one_refresh() {
    let backend = Backend::with(&["a"]);
    let catalog = backend.catalog(None);
    assert_eq!(catalog.resolve("a", None).await.unwrap().wire_id, "a");
    // The list has only just come.
    let error = catalog.resolve("b", None).await.unwrap_err();
    assert_eq!((error.code, backend.calls()), (ErrorCode::ModelNotFound, 1));
    backend.lists(&["a", "b"]);
    pass(31).await;
    assert_eq!(catalog.resolve("b", None).await.unwrap().wire_id, "b");
    assert_eq!(backend.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn section_7_a_model_that_the_service_does_not_know_renews_the_list() {
    let backend = Backend::with(&["a"]);
    let catalog = backend.catalog(None);
    catalog.get().await.unwrap();
    // The list has only just come.
    catalog.doubt();
    pass(31).await;
    assert_eq!(backend.calls(), 1);
    backend.lists(&["b"]);
    catalog.doubt();
    catalog.doubt();
    pass(2).await;
    assert_eq!(backend.calls(), 2);
    assert_eq!(catalog.known().unwrap().models()[0].id, "b");
}

#[tokio::test(start_paused = true)]
async fn unknown_names_pass_through_if_enabled() {
    let backend = Backend::with(&["a"]);
    let mut catalog = backend.catalog(None);
    Arc::get_mut(&mut catalog.inner).unwrap().options.unknown = UnknownName::PassThrough;
    assert_eq!(catalog.resolve("zz", None).await.unwrap().wire_id, "zz");
}

#[tokio::test(start_paused = true)]
async fn dropped_caller_does_not_stop_the_fetch() {
    let backend = Backend::with(&["a"]);
    let catalog = backend.catalog(None);
    let left = tokio::time::timeout(Duration::from_millis(10), catalog.get()).await;
    assert!(left.is_err());
    pass(2).await;
    assert!(has_list(&catalog));
    assert_eq!(backend.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_first_fetch_pauses_too() {
    let backend = Backend::default();
    backend.fails();
    let catalog = backend.catalog(None);
    for _ in 0..3 {
        let error = catalog.get().await.unwrap_err();
        assert!(error.message.contains("Cursor is down."), "{}", error.message);
    }
    assert_eq!(backend.calls(), 1);
    pass(30).await;
    backend.lists(&["a"]);
    assert_eq!(ids(&catalog.get().await.unwrap()), ["a"]);
    assert_eq!(backend.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_waiting_callers_get_the_list_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("models.json");
    write(&file, &list(&["a"])).unwrap();
    let backend = Backend::default();
    backend.fails();
    let catalog = backend.catalog(Some(file));
    // The second comes while the first still reads.
    let (x, y) = tokio::join!(catalog.get(), catalog.get());
    assert_eq!((ids(&x.unwrap()), ids(&y.unwrap())), (vec!["a".to_owned()], vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn hanging_fetch_ends_at_shutdown() {
    // It never answers.
    let catalog = Backend::default().catalog(None);
    let tasks = catalog.inner.tasks.clone();
    let (listed, left) = tokio::join!(catalog.get(), async {
        pass(5).await;
        tasks.stop();
        tasks.join_within(Duration::from_secs(1)).await
    });
    assert_eq!((listed.unwrap_err().code, left), (ErrorCode::Unavailable, 0));
}
