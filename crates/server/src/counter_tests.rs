use std::time::Duration;

use ibeam_core::wire::chat;

use super::*;

const CLAUDE: (Family, &str) = (Family::Claude, "claude-4.6-sonnet");
const GPT: (Family, &str) = (Family::Gpt, "gpt-5.5");
const KEY: KeyHash = [1; 32];

fn asked(text: &str) -> (TurnRequest, CountedBody) {
    let body = serde_json::json!({
        "model": "auto",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}],
        "tools": [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}],
    });
    let body = body.to_string();
    let digest = Sha256::digest(&body).into();
    (chat::decode(body.as_bytes()).unwrap(), CountedBody::Messages(digest))
}

async fn count(counter: &Counter, model: (Family, &str), text: &str) -> Count {
    let (request, body) = asked(text);
    counter.request(model, request, body, &KEY).await.unwrap()
}

async fn estimate(counter: &Counter, uncounted: Uncounted) -> Usage {
    let measure = counter.measure(GPT.0, GPT.1);
    counter.clone().estimate(measure, uncounted, KEY).await
}

/// What the counter did so far is done.
async fn settled(counter: &Counter) {
    while counter.known.learning.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_text_of_a_request_is_counted() {
    let counter = Counter::new(Tasks::new());
    let words = "many words ".repeat(200);
    let texts = ["Be brief.", "ls", r#"{"type":"object"}"#, &words];
    let own: u64 = texts.iter().map(|text| Vocabulary::O200k.count(text).tokens).sum();
    assert_eq!(count(&counter, GPT, &words).await, Count { tokens: own, exact: true });
    let claude = count(&counter, CLAUDE, &words).await;
    assert!(!claude.exact && claude.tokens > own);
}

#[tokio::test]
async fn images_are_estimated() {
    let counter = Counter::new(Tasks::new());
    let body = r#"{"model":"auto","messages":[{"role":"user","content":[{"type":"image_url",
        "image_url":{"url":"data:image/png;base64,aGk="}}]}]}"#;
    let request = chat::decode(body.as_bytes()).unwrap();
    let counted =
        counter.request(GPT, request, CountedBody::Messages([0; 32]), &KEY).await.unwrap();
    assert_eq!(counted, Count { tokens: IMAGE_TOKENS, exact: false });
}

#[tokio::test]
async fn counts_are_cached_by_hash() {
    let counter = Counter::new(Tasks::new());
    let words = "many words ".repeat(200);
    let first = count(&counter, GPT, &words).await;
    let key = (Vocabulary::O200k, Sha256::digest(&words).into());
    assert!(counter.known.texts.lock().get(&key).is_some());
    // If it were counted again, it would not be this.
    let lie = Count { tokens: 7, exact: true };
    counter.known.texts.lock().put(key, lie);
    assert_eq!(count(&counter, GPT, &words).await, first, "the whole request is known");
    let (request, _) = asked(&words);
    let other = counter.request(GPT, request, CountedBody::Messages([9; 32]), &KEY).await.unwrap();
    assert!(other.tokens < 30, "its longest text is known: {other:?}");
}

/// The same bytes may be a request in both dialects, which read other parts of them.
#[tokio::test]
async fn cached_count_is_separate_for_each_dialect() {
    let counter = Counter::new(Tasks::new());
    let count = async |text: &str, body| {
        counter.request(GPT, asked(text).0, body, &KEY).await.unwrap().tokens
    };
    let (messages, responses) = (CountedBody::Messages([7; 32]), CountedBody::Responses([7; 32]));
    let short = count("word", messages).await;
    let long = count(&"word ".repeat(100), responses).await;
    assert!(long > short + 90, "{short}, then {long}");
    assert_eq!(count("another text than before", messages).await, short, "it is remembered");
}

#[tokio::test]
async fn reported_usage_corrects_later_estimates() {
    let counter = Counter::new(Tasks::new());
    let words = "an answer of many words ".repeat(50);
    let raw = Vocabulary::O200k.count(&words).tokens;
    let sample = || Sample { text: words.clone(), reported: raw * 3 / 2 };
    let before = count(&counter, CLAUDE, &words).await.tokens;
    for _ in 0..8 {
        counter.learn(CLAUDE, sample());
        settled(&counter).await;
    }
    // The same request, and yet not from memory: its measure is another.
    let after = count(&counter, CLAUDE, &words).await.tokens;
    assert!(after > before + before / 5, "{before}, then {after}");
    // Others know nothing of it, and what is exact stays so.
    counter.learn(GPT, sample());
    settled(&counter).await;
    let exact = count(&counter, GPT, &words).await;
    assert!(exact.exact && exact.tokens < before);
}

#[tokio::test]
async fn samples_are_learned_one_at_a_time() {
    let counter = Counter::new(Tasks::new());
    // The first count loads it.
    let _ = Vocabulary::O200k.count("a");
    let lesson = LearningGuard::begin(&counter.known).unwrap();
    assert!(LearningGuard::begin(&counter.known).is_none());
    let sample = Sample { text: "word ".repeat(200), reported: 300 };
    counter.learn(CLAUDE, sample);
    assert!(counter.tasks.is_empty(), "it was dropped");
    drop(lesson);
    assert!(LearningGuard::begin(&counter.known).is_some());
}

#[tokio::test]
async fn estimate_adds_to_the_counted_part() {
    let counter = Counter::new(Tasks::new());
    let uncounted = Uncounted {
        before: 100,
        prompt: vec!["hello world".to_owned()],
        images: 1,
        answer: "hello world".to_owned(),
        thoughts: String::new(),
        output: None,
    };
    let usage = estimate(&counter, uncounted.clone()).await;
    assert_eq!((usage.input, usage.output), (100 + 2 + IMAGE_TOKENS, 2));
    assert_eq!(usage.source, UsageSource::Estimate);
    let told = Uncounted { output: Some(5), ..uncounted.clone() };
    assert_eq!(estimate(&counter, told).await.output, 5);
    let thought = Uncounted { thoughts: "one two three".to_owned(), ..uncounted };
    let usage = estimate(&counter, thought).await;
    assert_eq!((usage.output, usage.reasoning), (5, 3));
}

/// It ends with its client, and others are counted meanwhile.
#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "the count waits for it, and nothing else does")]
async fn count_stops_when_its_client_disconnects() {
    let counter = Counter::new(Tasks::new());
    let long = "many words ".repeat(30_000);
    let (request, body) = asked(&long);
    // The count looks for the text in there before it begins with it.
    let held = counter.known.texts.lock();
    let mut client = Box::pin(counter.request(GPT, request, body, &KEY));
    let begun = tokio::time::timeout(Duration::ZERO, &mut client).await;
    assert!(begun.is_err() && counter.large.free() == 0);

    assert!(count(&counter, GPT, "hello").await.exact, "small ones do not wait for it");
    let (request, _) = asked(&long);
    let second = counter.request(GPT, request, CountedBody::Messages([1; 32]), &KEY);
    let second = tokio::time::timeout(Duration::from_millis(1), second).await;
    assert!(second.is_err() && counter.tasks.len() == 1, "one large one at a time");

    drop(client);
    drop(held);
    counter.tasks.join().await;
    assert_eq!(counter.large.free(), LARGE_AT_ONCE);
    let key = (Vocabulary::O200k, Sha256::digest(&long).into());
    assert!(counter.known.texts.lock().get(&key).is_none(), "it was not counted to its end");
}

#[tokio::test]
async fn large_counts_of_one_key_do_not_block_another_key() {
    let counter = Counter::new(Tasks::new());
    let held = counter.large.acquire(&KEY).await;
    let long = "many words ".repeat(30_000);
    let (request, _) = asked(&long);
    let mut queue: Vec<_> = (1..5)
        .map(|body| {
            Box::pin(counter.request(GPT, request.clone(), CountedBody::Messages([body; 32]), &KEY))
        })
        .collect();
    for client in &mut queue {
        assert!(tokio::time::timeout(Duration::ZERO, client).await.is_err());
    }
    let mut other =
        Box::pin(counter.request(GPT, request.clone(), CountedBody::Messages([9; 32]), &[2; 32]));
    assert!(tokio::time::timeout(Duration::ZERO, &mut other).await.is_err());
    drop(held);
    // The first of the queue, and then the other key, though three were there before it.
    let first = queue.remove(0).await.unwrap();
    let other = tokio::time::timeout(Duration::from_secs(20), other).await;
    assert_eq!(other.expect("the keys take turns").unwrap(), first);
}

/// The end of an answer is counted like a request, and not at all once it is not wanted.
#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "the count waits for it, and nothing else does")]
async fn estimates_share_the_limit_of_counts() {
    let counter = Counter::new(Tasks::new());
    let answer = |answer: String| Uncounted { answer, ..Uncounted::default() };
    let mut held = Vec::new();
    for _ in 0..AT_ONCE {
        held.push(counter.permits.acquire(&KEY).await);
    }
    let mut short = Box::pin(estimate(&counter, answer("hello world".to_owned())));
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut short).await.is_err());
    assert!(counter.tasks.is_empty(), "it waits for its turn");
    held.pop();
    assert_eq!(short.await.output, 2);

    let long = "many words ".repeat(30_000);
    let texts = counter.known.texts.lock();
    let mut client = Box::pin(estimate(&counter, answer(long.clone())));
    assert!(tokio::time::timeout(Duration::ZERO, &mut client).await.is_err());
    assert_eq!((counter.large.free(), counter.tasks.len()), (0, 1));
    drop(client);
    drop(texts);
    counter.tasks.join().await;
    let key = (Vocabulary::O200k, Sha256::digest(&long).into());
    assert!(counter.known.texts.lock().get(&key).is_none(), "it was not counted to its end");
    assert_eq!(counter.large.free(), LARGE_AT_ONCE);
}
