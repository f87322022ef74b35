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

use crate::{keys::Hash, limits::Permits, tasks::Tasks};

/// Texts whose counts are remembered: some hundred bytes each, and a long conversation has
/// a few hundred.
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
    known: Arc<Known>,
    permits: Permits,
    large: Permits,
    tasks: Tasks,
}

#[derive(Debug)]
struct Known {
    calibration: Mutex<Calibration>,
    texts: Mutex<Cache<TextKey, Count>>,
    requests: Mutex<Cache<RequestKey, Count>>,
    /// One sample is looked at; others that come meanwhile are let go.
    learning: AtomicBool,
}

impl Counter {
    pub(crate) fn new(tasks: Tasks) -> Self {
        let known = Known {
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
        key: &Hash,
    ) -> Result<Count, TurnError> {
        let measure = self.known.calibration.lock().measure(family, model);
        let known_as = (measure, body);
        if let Some(count) = self.known.requests.lock().get(&known_as) {
            return Ok(count);
        }
        let failed =
            || TurnError::new(ErrorCode::Unavailable, "the tokens could not be counted; try again");
        let length: usize = request.texts().map(str::len).sum();
        let permits = if length > LARGE { &self.large } else { &self.permits };
        let permit = permits.acquire(key).await.ok_or_else(failed)?;
        let known = Arc::clone(&self.known);
        let left = CancellationToken::new();
        let _leaves = left.clone().drop_guard();
        let count = move || {
            let texts = known.all_while(request.texts(), measure, || !left.is_cancelled());
            drop(permit);
            Some(texts?.plus(images(request.images())))
        };
        let counted = match length > LARGE {
            true => self.tasks.spawn_large(count),
            false => self.tasks.spawn_blocking(count),
        };
        let count = counted.await.ok().flatten().ok_or_else(failed)?;
        self.known.requests.lock().put(known_as, count);
        Ok(count)
    }

    /// The tokens of a leg, where the backend reported none.
    pub(crate) async fn estimate(
        &self,
        (family, model): (Family, &str),
        uncounted: Uncounted,
    ) -> Usage {
        let measure = self.known.calibration.lock().measure(family, model);
        let known = Arc::clone(&self.known);
        let counted = self.tasks.spawn_blocking(move || {
            let prompt = known.all(uncounted.prompt.iter().map(String::as_str), measure);
            let prompt = prompt.plus(images(uncounted.images)).tokens;
            let thoughts = measure.count(&uncounted.thoughts).tokens;
            let output = uncounted.output;
            let output =
                output.unwrap_or_else(|| measure.count(&uncounted.answer).tokens + thoughts);
            (uncounted.before.saturating_add(prompt), output, thoughts.min(output))
        });
        let (input, output, reasoning) = counted.await.unwrap_or_default();
        debug!(input, output, estimated = true, "the backend reported no usage");
        Usage { input, output, reasoning, source: UsageSource::Estimate, ..Usage::default() }
    }

    /// Learns from an answer whose tokens the backend reported, if that delays no request: the
    /// vocabulary is loaded, and nothing else is being learned.
    pub(crate) fn learn(&self, (family, model): (Family, &str), sample: Sample) {
        if !Calibration::wants(family, model, &sample) {
            return;
        }
        let Some(lesson) = Lesson::begin(&self.known) else { return };
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
struct Lesson(Arc<Known>);

impl Lesson {
    fn begin(known: &Arc<Known>) -> Option<Self> {
        let busy = known.learning.swap(true, Ordering::AcqRel);
        (!busy).then(|| Self(Arc::clone(known)))
    }
}

impl Drop for Lesson {
    fn drop(&mut self) {
        self.0.learning.store(false, Ordering::Release);
    }
}

impl Known {
    fn all<'a>(&self, texts: impl Iterator<Item = &'a str>, measure: TokenMeasure) -> Count {
        self.all_while(texts, measure, || true).unwrap_or(Count::NONE)
    }

    /// `None`: it is not wanted any more.
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
