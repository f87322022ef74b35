use super::*;

const KEY: KeyHash = [1; 32];
const OTHER: KeyHash = [2; 32];

fn bytes(bodies: &Bodies) -> (u64, u64, u64) {
    let health = bodies.health();
    (health.reading, health.bytes, health.refused)
}

#[test]
fn largest_body_of_a_key_is_evicted_first() {
    let bodies = Bodies::new(100);
    let (mut large, mut small) = (bodies.begin(KEY), bodies.begin(KEY));
    large.grow(80).unwrap();
    small.grow(20).unwrap();
    assert_eq!(bytes(&bodies), (2, 100, 0));
    small.grow(1).unwrap();
    assert!(large.evicted.is_cancelled() && !small.evicted.is_cancelled());
    assert_eq!(bytes(&bodies), (1, 21, 1));
    assert_eq!((large.grow(1), large.complete()), (Err(BodyEvicted), Err(BodyEvicted)));
    drop(large);
    assert_eq!(bytes(&bodies), (1, 21, 1));
    small.complete().unwrap();
    assert_eq!(bytes(&bodies), (0, 21, 1));
    drop(small);
    assert_eq!(bytes(&bodies), (0, 0, 1));
}

#[test]
fn body_that_becomes_the_largest_is_refused() {
    let bodies = Bodies::new(100);
    let (mut first, mut second, mut late) =
        (bodies.begin(KEY), bodies.begin(KEY), bodies.begin(KEY));
    first.grow(50).unwrap();
    second.grow(40).unwrap();
    assert_eq!(late.grow(60), Err(BodyEvicted));
    assert_eq!(second.grow(10), Ok(()), "it fits");
    // Of equal ones, the newest.
    let mut third = bodies.begin(KEY);
    assert_eq!(third.grow(50), Err(BodyEvicted));
    assert_eq!(bytes(&bodies), (2, 100, 2));
    drop((first, second, late, third));
    assert_eq!(bytes(&bodies), (0, 0, 2));
}

/// The key with the most bytes loses one, however small its bodies are.
#[test]
fn small_bodies_of_one_key_do_not_evict_a_larger_one_of_another() {
    let bodies = Bodies::new(100);
    let mut small: Vec<BodyShare> = (0..10).map(|_| bodies.begin(KEY)).collect();
    for share in &mut small {
        share.grow(10).unwrap();
    }
    let evicted =
        |small: &[BodyShare]| small.iter().filter(|share| share.evicted.is_cancelled()).count();
    let mut large = bodies.begin(OTHER);
    assert_eq!((large.grow(30), evicted(&small)), (Ok(()), 3));
    large.complete().unwrap();
    assert_eq!((large.wait(50), evicted(&small)), (Ok(()), 5), "also once it is decoded");
    assert_eq!(large.wait(51), Err(BodyEvicted), "it would hold more than the other key");
    assert_eq!((bytes(&bodies), evicted(&small)), ((5, 50, 6), 5));
}

#[test]
fn key_with_the_most_bytes_loses_its_body() {
    let bodies = Bodies::new(100);
    let (mut first, mut second) = (bodies.begin(KEY), bodies.begin(OTHER));
    first.grow(60).unwrap();
    second.grow(40).unwrap();
    let mut more = bodies.begin(KEY);
    assert_eq!(more.grow(1), Ok(()), "the larger body of the same key is evicted");
    assert!(first.evicted.is_cancelled() && !second.evicted.is_cancelled());
    assert_eq!(bytes(&bodies), (2, 41, 1));
    drop((first, second, more));
    assert!(bodies.state.lock().keys.is_empty());
}

#[test]
fn complete_body_is_not_evicted() {
    let bodies = Bodies::new(100);
    let mut whole = bodies.begin(KEY);
    whole.grow(90).unwrap();
    whole.complete().unwrap();
    let mut next = bodies.begin(KEY);
    assert_eq!(next.grow(20), Err(BodyEvicted));
    drop(whole);
    let mut next = bodies.begin(KEY);
    assert_eq!(next.grow(20), Ok(()));
}

/// A body of a few bytes may be much more once it is decoded, and then waits for a free turn.
#[test]
fn decoded_request_counts_by_its_size_and_can_be_evicted() {
    let bodies = Bodies::new(100);
    let mut waiting = bodies.begin(KEY);
    waiting.grow(30).unwrap();
    waiting.complete().unwrap();
    assert_eq!((waiting.wait(60), waiting.wait(80)), (Ok(()), Ok(())));
    assert_eq!(bytes(&bodies), (0, 80, 0));
    let mut coming = bodies.begin(KEY);
    assert_eq!(coming.grow(20), Ok(()), "both fit");
    assert_eq!(bodies.begin(KEY).grow(1), Ok(()), "a small one comes in");
    assert!(waiting.evicted.is_cancelled());
    assert_eq!(waiting.wait(10), Err(BodyEvicted));
    assert_eq!(bytes(&bodies), (1, 20, 1));
    let mut large = bodies.begin(KEY);
    large.complete().unwrap();
    assert_eq!(large.wait(101), Err(BodyEvicted), "it is the largest itself");
    drop((waiting, coming, large));
    assert_eq!(bytes(&bodies), (0, 0, 2));
    let mut alone = bodies.begin(KEY);
    alone.complete().unwrap();
    assert_eq!(alone.wait(101), Ok(()));
}

/// Whatever comes, the limit holds, and nothing is left in the end.
#[test]
fn memory_limit_is_never_exceeded() {
    let bodies = Bodies::new(100);
    let mut shares: Vec<Option<BodyShare>> = (0..6).map(|_| None).collect();
    let mut seed = 7_u32;
    let mut draw = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    for _ in 0..5_000 {
        let at = draw(6) as usize;
        let share = shares[at].take();
        shares[at] = match share {
            None => Some(bodies.begin(if draw(3) == 0 { KEY } else { OTHER })),
            Some(mut share) => {
                let whole = share.stage != BodyStage::Coming;
                let over = match draw(8) {
                    0 => true,
                    1 => share.complete().is_ok() && draw(2) == 0,
                    _ if whole => share.wait(draw(80) as usize).is_err(),
                    _ => share.grow(draw(80) as usize).is_err(),
                };
                (!over).then_some(share)
            }
        };
        let health = bodies.health();
        assert!(health.bytes <= 100);
        let alive: Vec<&BodyShare> =
            shares.iter().flatten().filter(|share| !share.evicted.is_cancelled()).collect();
        let coming = alive.iter().filter(|share| share.stage == BodyStage::Coming);
        assert_eq!(health.reading as usize, coming.count());
        assert_eq!(health.bytes as usize, alive.iter().map(|share| share.bytes).sum::<usize>());
    }
    assert!(bodies.health().refused > 100, "it came to that");
    shares.clear();
    assert_eq!((bodies.health().reading, bodies.health().bytes), (0, 0));
    assert!(bodies.state.lock().keys.is_empty());
}
