//! The random numbers of a turn, all of them from one seed.

use sha2::{Digest as _, Sha256};

use crate::model::ids::uuid_from_random;

#[derive(Debug)]
pub(crate) struct Draws {
    seed: [u8; 16],
    drawn: u64,
}

impl Draws {
    pub(crate) fn new(seed: [u8; 16]) -> Self {
        Self { seed, drawn: 0 }
    }

    /// The id that all streams of the turn share.
    pub(crate) fn original_id(&self) -> String {
        uuid_from_random(self.seed)
    }

    pub(crate) fn uuid(&mut self) -> String {
        uuid_from_random(self.next())
    }

    /// A number in `0..1`.
    pub(crate) fn fraction(&mut self) -> f64 {
        let [a, b, ..] = self.next();
        f64::from(u16::from_be_bytes([a, b])) / 65_536.0
    }

    fn next(&mut self) -> [u8; 16] {
        self.drawn += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(self.drawn.to_be_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        *digest.first_chunk().unwrap_or(&self.seed)
    }
}
