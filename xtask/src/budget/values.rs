//! The measures, and `docs/budget.toml`, where their earlier values and budgets are.

use anyhow::Context as _;
use toml::Table;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BudgetMeasure {
    ReleaseBuild,
    TestCold,
    TestWarm,
    Binary,
    IdleMemory,
    Crates,
}

impl BudgetMeasure {
    const ALL: [Self; 6] = [
        Self::ReleaseBuild,
        Self::TestCold,
        Self::TestWarm,
        Self::Binary,
        Self::IdleMemory,
        Self::Crates,
    ];

    /// Its section in the file, how it is called, and its unit.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ReleaseBuild => ("release-build", "release build, cold", "s"),
            Self::TestCold => ("test-cold", "cargo xtask test, cold", "s"),
            Self::TestWarm => ("test-warm", "cargo xtask test, warm", "s"),
            Self::Binary => ("binary", "release binary", "MB"),
            Self::IdleMemory => ("idle-memory", "idle memory", "MB"),
            Self::Crates => ("crates", "crates in the program", ""),
        }
    }
}

/// What was measured now.
#[derive(Default)]
pub(super) struct MeasuredValues(Vec<(BudgetMeasure, f64)>);

impl MeasuredValues {
    pub(super) fn set(&mut self, measure: BudgetMeasure, value: f64) {
        // As it is written.
        self.0.push((measure, (value * 10.0).round() / 10.0));
    }

    fn get(&self, measure: BudgetMeasure) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == measure).map(|(_, value)| *value)
    }
}

struct RecordedMeasure {
    earlier: Option<f64>,
    budget: Option<f64>,
}

fn recorded(text: &str) -> anyhow::Result<Vec<(BudgetMeasure, RecordedMeasure)>> {
    let file: Table = text.parse().context("docs/budget.toml")?;
    let each = BudgetMeasure::ALL.into_iter().map(|measure| {
        let (section, ..) = measure.names();
        let number = |key: &str| {
            let value = file.get(section)?.get(key)?;
            value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
        };
        (measure, RecordedMeasure { earlier: number("earlier"), budget: number("budget") })
    });
    Ok(each.collect())
}

pub(super) fn table(text: &str, present: &MeasuredValues) -> anyhow::Result<String> {
    let line = |name: &str, now: &str, earlier: &str, budget: &str, verdict: &str| {
        let line = format!("{name:<26}{now:>10}{earlier:>10}{budget:>10}  {verdict}");
        format!("{}\n", line.trim_end())
    };
    let mut out = line("", "now", "earlier", "budget", "");
    for (measure, RecordedMeasure { earlier, budget }) in recorded(text)? {
        let (_, name, unit) = measure.names();
        let shown = |value: Option<f64>| {
            value
                .map_or_else(|| "-".to_owned(), |value| format!("{value} {unit}").trim().to_owned())
        };
        let now = present.get(measure);
        let verdict = match now.zip(budget) {
            Some((now, budget)) if now > budget => "OVER",
            Some(_) => "ok",
            None => "",
        };
        out += &line(name, &shown(now), &shown(earlier), &shown(budget), verdict);
    }
    Ok(out)
}

/// What is more than it may be. Crates have no budget: a number that grew has to be written.
pub(super) fn over(text: &str, present: &MeasuredValues) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for (measure, RecordedMeasure { earlier, budget }) in recorded(text)? {
        let (_, name, unit) = measure.names();
        let Some(now) = present.get(measure) else { continue };
        if let Some(most) = budget.filter(|most| now > *most) {
            faults.push(format!("{name}: {now} {unit} of {most} {unit}"));
        }
        if let Some(earlier) =
            earlier.filter(|earlier| measure == BudgetMeasure::Crates && now > *earlier)
        {
            faults.push(format!(
                "{name}: {now}, which were {earlier}; if they are wanted, run `cargo xtask budget --quick --write`"
            ));
        }
    }
    Ok(faults)
}

/// The file with the present values in place of the earlier ones. Everything else in it stays.
pub(super) fn written(text: &str, present: &MeasuredValues) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with("earlier")) {
        out.push_str(line);
        out.push('\n');
        let section = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        let measure =
            BudgetMeasure::ALL.into_iter().find(|measure| Some(measure.names().0) == section);
        let Some(measure) = measure else { continue };
        let old = recorded(text).ok().and_then(|all| {
            all.into_iter().find(|(known, _)| *known == measure).and_then(|(_, old)| old.earlier)
        });
        if let Some(value) = present.get(measure).or(old) {
            out.push_str(&format!("earlier = {value}\n"));
        }
    }
    out
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
