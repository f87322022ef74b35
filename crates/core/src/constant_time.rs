//! Compares secrets in a time that does not depend on where they differ.

/// Whether the two are equal. Only their lengths show in the time that it takes.
#[must_use]
pub fn eq(a: &[u8], b: &[u8]) -> bool {
    // The compiler must not see that the result is known early.
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    a.len() == b.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_covers_every_byte_and_the_length() {
        assert!(eq(b"", b"") && eq(b"secret", b"secret"));
        for other in [&b"Secret"[..], b"secreT", b"secre", b"secrets", b""] {
            assert!(!eq(b"secret", other) && !eq(other, b"secret"), "{other:?}");
        }
    }
}
