//! The random numbers of a turn, all of them from one seed.

use sha2::{Digest as _, Sha256};

use crate::model::ids::uuid_from_random;

/// What the ids of a turn and the jitter of its back-off are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnSeed {
    pub ids: [u8; 16],
    /// Made from the other one, which cannot be found from it: a recording can name this one
    /// without naming the ids.
    pub jitter: [u8; 16],
}

impl From<[u8; 16]> for TurnSeed {
    fn from(seed: [u8; 16]) -> Self {
        Self { ids: seed, jitter: hashed(b"jitter", &seed, 0) }
    }
}

#[derive(Debug)]
pub(crate) struct Draws {
    seed: TurnSeed,
    drawn: u64,
}

impl Draws {
    pub(crate) fn new(seed: TurnSeed) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The id that all streams of the turn share.
    pub(crate) fn original_id(&self) -> String {
        uuid_from_random(self.seed.ids)
    }

    pub(crate) fn uuid(&mut self) -> String {
        self.drawn += 1;
        uuid_from_random(hashed(b"", &self.seed.ids, self.drawn))
    }

    /// A number in `0..1`.
    pub(crate) fn fraction(&mut self) -> f64 {
        self.drawn += 1;
        let [a, b, ..] = hashed(b"", &self.seed.jitter, self.drawn);
        f64::from(u16::from_be_bytes([a, b])) / 65_536.0
    }
}

fn hashed(what: &[u8], seed: &[u8; 16], number: u64) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(what);
    hash.update(seed);
    hash.update(number.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    *digest.first_chunk().unwrap_or(seed)
}
