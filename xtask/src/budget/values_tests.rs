use super::*;

const FILE: &str = "\
# Above.

# Seconds.
[test-warm]
budget = 720

[binary]
earlier = 45.4
budget = 20

[crates]
earlier = 229
";

fn values(all: &[(BudgetMeasure, f64)]) -> MeasuredValues {
    let mut values = MeasuredValues::default();
    all.iter().for_each(|(measure, value)| values.set(*measure, *value));
    values
}

#[test]
fn each_value_stands_beside_the_earlier_one_and_its_budget() {
    let now = values(&[
        (BudgetMeasure::Binary, 19.64),
        (BudgetMeasure::TestWarm, 800.0),
        (BudgetMeasure::Crates, 3.0),
    ]);
    let text = table(FILE, &now).unwrap();
    let words = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words("release binary"), "release binary 19.6 MB 45.4 MB 20 MB ok");
    assert_eq!(words("cargo xtask test, warm"), "cargo xtask test, warm 800 s - 720 s OVER");
    assert_eq!(words("crates"), "crates in the program 3 229 -");
    assert_eq!(words("idle memory"), "idle memory - - -");
}

#[test]
fn exceeded_budget_is_a_fault() {
    let faults = |measure, value| over(FILE, &values(&[(measure, value)])).unwrap().len();
    assert_eq!(faults(BudgetMeasure::Binary, 20.0), 0);
    assert_eq!(faults(BudgetMeasure::Binary, 20.1), 1);
    assert_eq!(faults(BudgetMeasure::Crates, 229.0), 0);
    assert_eq!(faults(BudgetMeasure::Crates, 230.0), 1);
    assert_eq!(faults(BudgetMeasure::IdleMemory, 1000.0), 0, "it has no budget here");
}

#[test]
fn writing_changes_only_earlier_values() {
    let now = values(&[(BudgetMeasure::Binary, 19.0), (BudgetMeasure::TestWarm, 700.0)]);
    let text = written(FILE, &now);
    let wanted = FILE
        .replace("[test-warm]\n", "[test-warm]\nearlier = 700\n")
        .replace("earlier = 45.4", "earlier = 19");
    assert_eq!(text, wanted);
    assert_eq!(written(&text, &now), text);
}

#[test]
fn committed_file_has_every_measure() {
    let text = std::fs::read_to_string(crate::root().join("docs/budget.toml")).unwrap();
    for (measure, RecordedMeasure { earlier, budget, .. }) in recorded(&text).unwrap() {
        assert!(earlier.or(budget).is_some(), "{measure:?}");
    }
}
