//! docs/doctor.md describes every code, and its table of faults is the one that is tested.

use std::collections::BTreeSet;

use ibeam::doctor::Code;

use super::faults::FAULTS;

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_code_has_a_section() {
    let page = page();
    let sections: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(sections.iter().copied().collect::<BTreeSet<_>>(), codes);
    assert_eq!(sections.len(), codes.len(), "a code has two sections");
}

#[test]
fn table_of_faults_matches_the_tests() {
    let page = page();
    let rows: BTreeSet<(String, String)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
            let (name, code) = (cells.next()?, cells.next()?);
            let code = code.strip_prefix("[`")?.split('`').next()?;
            Some((name.to_owned(), code.to_owned()))
        })
        .collect();
    let tested = FAULTS.iter().map(|fault| (fault.name.to_owned(), fault.code.to_owned()));
    assert_eq!(rows, tested.collect());
}
