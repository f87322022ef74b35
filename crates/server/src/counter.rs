//! Counts tokens off the event loop. Earlier counts are cached, and each answer whose tokens the
//! backend reports improves the estimates.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ibeam_core::{
    error::{ErrorCode, TurnError},
    model::{TurnRequest, Usage, UsageSource},
    models::Family,
    tokens::{Cache, Calibration, Count, IMAGE_TOKENS, Sample, TokenMeasure, Vocabulary},
    turn::Uncounted,
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::{keys::KeyHash, limits::Permits, tasks::Tasks};

/// Cached counts of texts: some hundred bytes each, and a long conversation has a few hundred.
const TEXTS: usize = 8192;

/// Whole requests, which clients like to ask about twice.
const REQUESTS: usize = 512;

/// Counting a shorter text takes no longer than looking for it.
const SHORT: usize = 512;

/// Requests with more text than this take long to count. They do not hold up smaller ones.
const LARGE: usize = 256 << 10;

/// How many are counted at once, and how many of the large ones. Keys take turns for both.
const AT_ONCE: usize = 4;
const LARGE_AT_ONCE: usize = 1;

type TextKey = (Vocabulary, [u8; 32]);
type RequestKey = (TokenMeasure, CountedBody);

/// The SHA-256 of a body, as the dialect of its endpoint reads it: the same bytes say something
/// else in another dialect, and have another number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountedBody {
    Messages([u8; 32]),
    Responses([u8; 32]),
}

/// The counter of the program. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    known: Arc<CountState>,
    permits: Permits,
    large: Permits,
    tasks: Tasks,
}

#[derive(Debug)]
struct CountState {
    calibration: Mutex<Calibration>,
    texts: Mutex<Cache<TextKey, Count>>,
    requests: Mutex<Cache<RequestKey, Count>>,
    /// A sample is being learned; others are dropped meanwhile.
    learning: AtomicBool,
}

impl Counter {
    pub(crate) fn new(tasks: Tasks) -> Self {
        let known = CountState {
            calibration: Mutex::default(),
            texts: Mutex::new(Cache::new(TEXTS)),
            requests: Mutex::new(Cache::new(REQUESTS)),
            learning: AtomicBool::new(false),
        };
        Self {
            known: Arc::new(known),
            permits: Permits::new(AT_ONCE),
            large: Permits::new(LARGE_AT_ONCE),
            tasks,
        }
    }

    /// How many tokens a model would read. `model` is its id at the backend, `body` the request
    /// as it came, `key` the one that its client called with. Few are counted at
    /// once; dropping the future ends its count.
    ///
    /// # Errors
    /// The counting itself failed.
    pub(crate) async fn request(
        &self,
        (family, model): (Family, &str),
        request: TurnRequest,
        body: CountedBody,
        key: &KeyHash,
    ) -> Result<Count, TurnError> {
        let measure = self.measure(family, model);
        let known_as = (measure, body);
        if let Some(count) = self.known.requests.lock().get(&known_as) {
            return Ok(count);
        }
        let failed =
            || TurnError::new(ErrorCode::Unavailable, "the tokens could not be counted; try again");
        let length = request.texts().map(str::len).sum();
        let counted = self.beside(length, key, move |known, wanted| {
            let texts = known.all_while(request.texts(), measure, wanted)?;
            Some(texts.plus(images(request.images())))
        });
        let count = counted.await.ok_or_else(failed)?;
        self.known.requests.lock().put(known_as, count);
        Ok(count)
    }

    /// The tokens of a leg, where the backend reported none. They are counted like requests.
    pub(crate) async fn estimate(
        self,
        measure: TokenMeasure,
        uncounted: Uncounted,
        key: KeyHash,
    ) -> Usage {
        let Uncounted { before, prompt, images: shown, answer, thoughts, output } = uncounted;
        let length = prompt.iter().chain([&answer, &thoughts]).map(String::len).sum();
        let counted = self.beside(length, &key, move |known, wanted| {
            let one = |text: &str| {
                Some(measure.convert(known.one(text, measure.vocabulary(), wanted)?))
            };
            let prompt = known.all_while(prompt.iter().map(String::as_str), measure, wanted)?;
            let prompt = prompt.plus(images(shown)).tokens;
            let thoughts = one(&thoughts)?.tokens;
            let output = match output {
                Some(output) => output,
                None => one(&answer)?.tokens + thoughts,
            };
            Some((before.saturating_add(prompt), output, thoughts.min(output)))
        });
        let (input, output, reasoning) = counted.await.unwrap_or_default();
        debug!(input, output, estimated = true, "the backend reported no usage");
        Usage { input, output, reasoning, source: UsageSource::Estimate, ..Usage::default() }
    }

    /// How the texts of a model are counted at present.
    pub(crate) fn measure(&self, family: Family, model: &str) -> TokenMeasure {
        self.known.calibration.lock().measure(family, model)
    }

    /// Counts `length` bytes beside the event loop, few of one size at once. Dropping the future
    /// ends the count.
    async fn beside<T: Send + 'static>(
        &self,
        length: usize,
        key: &KeyHash,
        count: impl FnOnce(&CountState, &dyn Fn() -> bool) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let permits = if length > LARGE { &self.large } else { &self.permits };
        let permit = permits.acquire(key).await?;
        let known = Arc::clone(&self.known);
        let left = CancellationToken::new();
        let _leaves = left.clone().drop_guard();
        let count = move || {
            let counted = count(&known, &|| !left.is_cancelled());
            drop(permit);
            counted
        };
        let counted = match length > LARGE {
            true => self.tasks.spawn_large(count),
            false => self.tasks.spawn_blocking(count),
        };
        counted.await.ok().flatten()
    }

    /// Learns from an answer whose tokens the backend reported, if that delays no request: the
    /// vocabulary is loaded, and nothing else is being learned.
    pub(crate) fn learn(&self, (family, model): (Family, &str), sample: Sample) {
        if !Calibration::wants(family, model, &sample) {
            return;
        }
        let Some(lesson) = LearningGuard::begin(&self.known) else { return };
        let model = model.to_owned();
        // No request waits for it.
        drop(self.tasks.spawn_blocking(move || {
            let counted = Calibration::count(&sample);
            let learned = lesson.0.calibration.lock().learn(&model, counted, sample.reported);
            debug!(model, counted, reported = sample.reported, learned, "tokens of an answer");
        }));
    }
}

/// The right to learn; there is one.
struct LearningGuard(Arc<CountState>);

impl LearningGuard {
    fn begin(known: &Arc<CountState>) -> Option<Self> {
        let busy = known.learning.swap(true, Ordering::AcqRel);
        (!busy).then(|| Self(Arc::clone(known)))
    }
}

impl Drop for LearningGuard {
    fn drop(&mut self) {
        self.0.learning.store(false, Ordering::Release);
    }
}

impl CountState {
    /// `None`: the caller has left.
    fn all_while<'a>(
        &self,
        mut texts: impl Iterator<Item = &'a str>,
        measure: TokenMeasure,
        wanted: impl Fn() -> bool,
    ) -> Option<Count> {
        let vocabulary = measure.vocabulary();
        let sum = texts.try_fold(Count::NONE, |sum, text| {
            Some(sum.plus(self.one(text, vocabulary, &wanted)?))
        });
        Some(measure.convert(sum?))
    }

    fn one(&self, text: &str, vocabulary: Vocabulary, wanted: impl Fn() -> bool) -> Option<Count> {
        if text.len() < SHORT {
            return vocabulary.count_while(text, wanted);
        }
        let key = (vocabulary, Sha256::digest(text).into());
        let found = self.texts.lock().get(&key);
        found.or_else(|| {
            let count = vocabulary.count_while(text, wanted)?;
            self.texts.lock().put(key, count);
            Some(count)
        })
    }
}

fn images(number: usize) -> Count {
    Count::guess((number as u64).saturating_mul(IMAGE_TOKENS))
}

#[cfg(test)]
#[path = "counter_tests.rs"]
mod tests;
