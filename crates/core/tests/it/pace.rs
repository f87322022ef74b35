//! What encoding costs by itself. Where the bench says that a dialect is slow, this shows
//! whether its encoder is to blame.

use bytes::BytesMut;
use ibeam_core::model::{FinishReason, TurnEvent};

use crate::{dialects::ALL, events::text};

const EVENTS: u32 = 20_000;
/// About as much as goes out in one write.
const CHUNK: usize = 16 * 1024;

/// Run it by name, with `--release --ignored --nocapture`.
#[test]
#[ignore = "measures, and says nothing about right or wrong"]
#[expect(clippy::disallowed_methods, reason = "a measurement for a person")]
fn cost_of_an_event() {
    let event = text("lorem ipsum dolor @");
    for dialect in ALL {
        let mut bytes = 0;
        let mut once = || {
            let mut encoder = (dialect.encoder)();
            let mut out = BytesMut::with_capacity(2 * CHUNK);
            bytes = 0;
            let started = std::time::Instant::now();
            for _ in 0..EVENTS {
                encoder.on_event(&event, &mut out);
                if out.len() >= CHUNK {
                    bytes += out.len();
                    out.clear();
                }
            }
            encoder.on_event(&TurnEvent::Finished(FinishReason::Stop), &mut out);
            bytes += out.len();
            started.elapsed()
        };
        let best = (0..20).map(|_| once()).min().unwrap();
        let events = usize::try_from(EVENTS).unwrap();
        println!("{:<18}{:?} and {} bytes an event", dialect.name, best / EVENTS, bytes / events);
    }
}
