use std::collections::BTreeSet;

use super::*;

/// The rows of a switch: `3-6` is four of them, a section is not a row.
fn rows(quirk: Quirk) -> Vec<u32> {
    let numbers = |part: &str| -> Option<Vec<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?..=last.parse().ok()?).collect())
    };
    quirk.row().split(", ").filter_map(numbers).flatten().collect()
}

#[test]
fn every_row_of_the_table_has_a_switch() {
    let named: BTreeSet<u32> = Quirk::ALL.iter().copied().flat_map(rows).collect();
    assert_eq!(named, (1..=28).collect());
    assert_eq!(rows(Quirk::NativeToolsFirst), [3, 4, 5, 6]);
    assert!(rows(Quirk::HalfCloseOk).is_empty());
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = Quirk::ALL.iter().map(|quirk| quirk.name()).collect();
    assert_eq!(names.len(), Quirk::ALL.len());
}
