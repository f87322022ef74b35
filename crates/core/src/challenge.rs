//! How a gateway shows that it is the one whose key a program has, before the program sends
//! that key or anything else.
//!
//! A port of this machine can be taken by any user once the gateway there has ended. So a
//! program sends a random challenge with its request for `/health`, and the answer carries an
//! HMAC of it. The key of the HMAC is the SHA-256 of the gateway's key, which the gateway
//! keeps instead of the key. The address is part of the message: a program that has taken the
//! port cannot pass the challenge on to the real gateway on another port.

use sha2::{Digest as _, Sha256};

use crate::{constant_time, model::ids};

/// The header of the request: 32 to 128 hexadecimal digits.
pub const CHALLENGE: &str = "x-ibeam-challenge";

/// The header of the answer: 64 hexadecimal digits.
pub const PROOF: &str = "x-ibeam-proof";

/// Keeps these messages apart from any other use of the key.
const PURPOSE: &[u8] = b"ibeam gateway proof 1";

/// Whether a challenge is one that is answered.
#[must_use]
pub fn is_challenge(text: &str) -> bool {
    (32..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The answer to a challenge at `authority`, such as `127.0.0.1:18741`.
#[must_use]
pub fn proof(key_hash: &[u8; 32], authority: &str, challenge: &str) -> String {
    let message = [PURPOSE, b"\0", authority.as_bytes(), b"\0", challenge.as_bytes()];
    ids::hex(&hmac_sha256(key_hash, &message))
}

/// Whether `given` is the answer to the challenge. The time does not depend on where it
/// differs.
#[must_use]
pub fn is_proof(given: &str, key_hash: &[u8; 32], authority: &str, challenge: &str) -> bool {
    constant_time::eq(given.as_bytes(), proof(key_hash, authority, challenge).as_bytes())
}

/// RFC 2104 with SHA-256.
fn hmac_sha256(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let hashed;
    let key = if key.len() > BLOCK {
        hashed = Sha256::digest(key);
        hashed.as_slice()
    } else {
        key
    };
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let mut inner = Sha256::new_with_prefix(padded(0x36));
    for part in message {
        inner.update(part);
    }
    Sha256::new_with_prefix(padded(0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
#[path = "challenge_tests.rs"]
mod tests;
