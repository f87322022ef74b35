//! The one place that draws random numbers.

use ibeam_core::model::ids;

/// Random bytes from the operating system.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        // Ids without randomness could be guessed, so the program cannot continue.
        std::process::abort();
    }
    bytes
}

/// A fresh UUID.
#[must_use]
pub fn uuid() -> String {
    ids::uuid_from_random(bytes())
}

/// A number in `0..1`.
#[must_use]
pub fn fraction() -> f64 {
    f64::from(u16::from_be_bytes(bytes())) / 65_536.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ_and_have_their_shape() {
        assert_ne!(bytes::<16>(), bytes::<16>());
        assert_eq!(uuid().len(), 36);
    }
}
