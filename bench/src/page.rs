//! How numbers look, and where they are written.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, bail};

use crate::stats::Spread;

pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "not measured".to_owned(), number)
}

pub(crate) fn ratio(above: Option<f64>, below: Option<f64>) -> String {
    match above.zip(below) {
        Some((above, below)) if below > 0.0 => format!("{:.2}", above / below),
        _ => String::new(),
    }
}

/// A median with its spread.
pub(crate) fn spread_cell(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "not measured".to_owned(),
        |spread| {
            let Spread { median, low, high, .. } = spread;
            format!("{} ({}–{})", number(median), number(low), number(high))
        },
    )
}

/// The same of a ratio.
pub(crate) fn ratio_cell(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| {
        let Spread { median, low, high, .. } = spread;
        format!("{median:.2} ({low:.2}–{high:.2})")
    })
}

/// A line for each racer that had errors.
pub(crate) fn error_lines<'a>(racers: impl IntoIterator<Item = (&'a str, &'a [String])>) -> String {
    let mut out = String::new();
    for (name, errors) in racers {
        if let Some(first) = errors.first() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "\nErrors of {name}: {}, the first: {first}", errors.len());
        }
    }
    out
}

/// Three significant digits, with thousands separated.
pub(crate) fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 100.0 {
        return format!("{value:.0}");
    }
    if value.abs() < 1.0 {
        return format!("{value:.3}");
    }
    if value.abs() < 10.0 {
        return format!("{value:.2}");
    }
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A counter as a number to reckon with.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) fn count(counter: u64) -> f64 {
    counter as f64
}

/// What is saved of `whole`, between 0 and 1.
pub(crate) fn share_saved(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 1.0 - part / whole } else { 0.0 }
}

/// The same in words.
pub(crate) fn saving(part: f64, whole: f64) -> String {
    format!("{:.0} %", share_saved(part, whole) * 100.0)
}

/// The last column of a row that has a target.
pub(crate) fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Prints what is being measured now.
pub(crate) fn say(what: &str) {
    eprintln!("  {what} ...");
}

/// Fails when there are errors.
pub(crate) fn complain(who: &str, errors: &[String]) -> anyhow::Result<()> {
    if let Some(first) = errors.first() {
        bail!("{who}: {} errors, the first: {first}", errors.len());
    }
    Ok(())
}

/// Replaces what stands between the two marks of this name.
pub(crate) fn write(file: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let old = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    fs::write(file, replaced(&old, name, text)?)?;
    println!("written to {}", file.display());
    Ok(())
}

fn replaced(old: &str, name: &str, text: &str) -> anyhow::Result<String> {
    let (begin, end) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
    let (head, rest) = old.split_once(&begin).context("the document has no place for the table")?;
    let (_, tail) = rest.split_once(&end).context("the document's table has no end")?;
    Ok(format!("{head}{begin}\n\n{}\n\n{end}{tail}", text.trim()))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
