use super::*;

#[test]
fn parts_of_a_package_are_added() {
    let notes = "1.5 ring 0.17.14\n2 syn 3.0.9\n3.25 ring 0.17.14\n0.1 cfg-if 1.0.5\n";
    let text = list(notes, Some(8.0), 2);
    let lines: Vec<Vec<&str>> =
        text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["CPU", "seconds", "of", "the", "release", "build,", "3", "packages"]);
    assert_eq!(lines[1], ["4.8", "ring", "0.17.14"]);
    assert_eq!(lines[2], ["2.0", "syn", "3.0.9"]);
    assert_eq!(lines[3][..2], ["6.8", "all"]);
    assert_eq!(lines[4][..2], ["8.0", "with"]);
}
