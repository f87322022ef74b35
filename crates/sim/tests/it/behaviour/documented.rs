//! The documentation of the switches.

use ibeam_sim::Behaviour;

const PAGE: &str = include_str!("../../../../../docs/simulator.md");

#[test]
fn table_in_the_documentation_has_every_switch() {
    let rows: Vec<&str> = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("| switch |"))
        .skip(2)
        .take_while(|line| line.starts_with("| `"))
        .collect();
    let expected: Vec<String> = Behaviour::table()
        .iter()
        .map(|row| {
            format!(
                "| `{}` | {} | {} | {} | {} |",
                row.name, row.values, row.autumn, row.summer, row.meaning
            )
        })
        .collect();
    assert_eq!(rows, expected, "the table must be:\n{}", expected.join("\n"));
}
