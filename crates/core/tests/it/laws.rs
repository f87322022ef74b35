//! What holds for every turn in every dialect.

use ibeam_core::{model::TurnEvent, wire::cut_off};
use proptest::prelude::*;

use crate::{
    dialects::{ALL, Dialect, Ending},
    events::{Gist, any_events, legal_events, recut},
};

/// Reads the stream of these events, which must be a legal one.
fn read(dialect: &Dialect, events: &[TurnEvent], silences: &[usize]) -> Ending {
    let stream = dialect.stream(events, silences);
    dialect.read(&stream).unwrap_or_else(|rule| {
        panic!("{}: {rule}\n{}", dialect.name, String::from_utf8_lossy(&stream))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Encode, parse, aggregate: the reply that a client puts together from the stream is
    /// the one that it would have got without, and it says what the turn said.
    #[test]
    fn stream_and_whole_reply_are_equal(
        events in legal_events(),
        silences in prop::collection::vec(0_usize..50, 0..4),
    ) {
        for dialect in ALL {
            let told = read(dialect, &events, &silences);
            match (told, dialect.whole(&events)) {
                (Ending::Whole(streamed), Ok(whole)) => {
                    prop_assert_eq!(&streamed, &whole, "{}", dialect.name);
                    let said = (dialect.can_tell)((dialect.gist)(&whole));
                    let meant = (dialect.can_tell)(Gist::of(&events));
                    prop_assert_eq!(said, meant, "{}", dialect.name);
                }
                (Ending::Failed(told), Err(error)) => {
                    prop_assert!((dialect.tells)(&told, &error), "{}: {}", dialect.name, told);
                }
                (told, whole) => prop_assert!(false, "{}: {told:?}, {whole:?}", dialect.name),
            }
        }
    }

    /// How the backend cuts its words says nothing.
    #[test]
    fn any_chunking_gives_the_same_reply(events in legal_events(), step in 1_usize..7) {
        let pieces = recut(&events, step);
        for dialect in ALL {
            prop_assert_eq!(
                read(dialect, &pieces, &[]),
                read(dialect, &events, &[]),
                "{}", dialect.name
            );
            prop_assert_eq!(dialect.whole(&pieces), dialect.whole(&events), "{}", dialect.name);
        }
    }

    /// Events that no turn may give: after an ending, of calls that are not open, twice.
    /// Whatever comes, what goes out is a legal stream with one ending, and ends badly
    /// when nothing ended it.
    #[test]
    fn any_events_give_a_legal_stream(
        events in any_events(),
        silences in prop::collection::vec(0_usize..50, 0..4),
    ) {
        let ending = events.iter().find(|event| event.is_terminal());
        for dialect in ALL {
            match (read(dialect, &events, &silences), ending) {
                (Ending::Whole(_), Some(TurnEvent::Finished(_))) => {}
                (Ending::Failed(told), Some(TurnEvent::Failed(error))) => {
                    prop_assert!((dialect.tells)(&told, error), "{}: {}", dialect.name, told);
                }
                (Ending::Failed(told), None) => {
                    prop_assert!((dialect.tells)(&told, &cut_off()), "{}: {told}", dialect.name);
                }
                (told, _) => prop_assert!(false, "{}: {told:?}", dialect.name),
            }
        }
    }
}
