//! Everything that opens connections: TLS, proxies, the HTTP/2 stream pool and a small client for
//! plain requests.
//!
//! *Invariant:* all of it dials through [`connect::Connector`], so that a test can
//! put an in-memory peer behind the whole program.
//!
//! *Invariant:* only hosts in the table of [`hosts`] are dialled. ([`probe`] asks gateways on
//! this machine, and nothing else.)

pub mod connect;
pub mod hosts;
pub mod http;
pub mod pool;
pub mod probe;
pub mod proxy;
pub mod tls;

#[cfg(test)]
pub(crate) mod testing;

use std::error::Error;

/// An error with its causes, outermost first. Causes that only repeat what was
/// said are left out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// The first cause of a given type.
pub(crate) fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
