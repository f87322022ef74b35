use proptest::prelude::*;

use super::*;

/// All the text that goes out, and what ended it.
fn run(stop: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
    let stop: Vec<String> = stop.iter().map(|text| (*text).to_owned()).collect();
    let mut stops = Stops::new(&stop).unwrap();
    let mut all = String::new();
    for piece in pieces {
        let Stopped { give, hit } = stops.push((*piece).to_owned());
        all.push_str(&give);
        if hit.is_some() {
            return (all, hit);
        }
    }
    all.push_str(&stops.release());
    (all, None)
}

#[test]
fn stop_sequence_across_chunks_is_found_and_not_shown() {
    assert_eq!(run(&["STOP"], &["go S", "TO", "P on"]), ("go ".to_owned(), Some(0)));
    assert_eq!(run(&["x", "\n\nHuman:"], &["a\n", "\nHum", "an: b"]), ("a".to_owned(), Some(1)));
}

#[test]
fn partial_stop_sequence_is_released_when_it_does_not_match() {
    assert_eq!(run(&["STOP"], &["S", "T", "O", "ON"]), ("STOON".to_owned(), None));
    assert_eq!(run(&["aab"], &["aa", "aa", "c"]), ("aaaac".to_owned(), None));
    assert_eq!(run(&["STOP"], &["end ST"]), ("end ST".to_owned(), None));
}

#[test]
fn only_a_possible_prefix_of_a_stop_sequence_is_held_back() {
    let mut stops = Stops::new(&["END".to_owned()]).unwrap();
    assert_eq!(stops.push("one E".to_owned()).give, "one ");
    assert_eq!(stops.push("N".to_owned()).give, "");
    assert_eq!(stops.push("T two".to_owned()).give, "ENT two");
}

#[test]
fn earliest_then_longest_stop_sequence_wins() {
    assert_eq!(run(&["abcd", "bc"], &["xabcd"]), ("xa".to_owned(), Some(1)));
    assert_eq!(run(&["bc", "abc"], &["xabc"]), ("x".to_owned(), Some(1)));
    assert_eq!(run(&["abc", "abc"], &["abc"]), (String::new(), Some(0)));
}

#[test]
fn empty_stop_sequences_are_ignored() {
    assert!(Stops::new(&[String::new()]).is_none());
    assert_eq!(run(&["", "b"], &["abc"]), ("a".to_owned(), Some(1)));
}

/// The plain meaning: character by character, until the text ends with a sequence.
fn oracle(stop: &[String], text: &str) -> (String, Option<usize>) {
    for (end, _) in text.char_indices().map(|(at, c)| (at + c.len_utf8(), c)) {
        let so_far = &text[..end];
        let longest = stop
            .iter()
            .enumerate()
            .filter(|(_, sequence)| !sequence.is_empty() && so_far.ends_with(sequence.as_str()))
            .max_by_key(|(place, sequence)| (sequence.len(), std::cmp::Reverse(*place)));
        if let Some((place, sequence)) = longest {
            return (so_far[..end - sequence.len()].to_owned(), Some(place));
        }
    }
    (text.to_owned(), None)
}

proptest! {
    #[test]
    fn chunking_does_not_change_stop_matching(
        text in "[abé\n]{0,40}",
        stop in prop::collection::vec("[abé\n]{1,4}", 1..4),
        cuts in prop::collection::vec(0usize..60, 0..8),
    ) {
        let mut cuts: Vec<usize> =
            cuts.into_iter().map(|at| text.floor_char_boundary(at)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let words: Vec<&str> = stop.iter().map(String::as_str).collect();
        let (given, hit) = run(&words, &pieces);
        prop_assert_eq!(&(given.clone(), hit), &oracle(&stop, &text));
        prop_assert!(text.starts_with(&given));
        prop_assert!(stop.iter().all(|sequence| !given.contains(sequence.as_str())));
    }
}
