//! The ways to write a value: durations, sizes, switches, lists.

use std::time::Duration;

/// `500ms`, `10s`, `5m`, `2h`, `7d`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || "is not a duration such as `500ms`, `10s`, `5m`, `2h` or `7d`".to_owned();
    let (digits, unit) = split_unit(text);
    let number: f64 = digits.parse().map_err(|_| bad())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// `10485760`, `512KiB`, `64MiB`, `1GiB`; `k`, `M` and `G` mean the same.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let bad = || "is not a size such as `512KiB` or `64MiB`".to_owned();
    let (digits, unit) = split_unit(text);
    let number: usize = digits.parse().map_err(|_| bad())?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(bad()),
    };
    number.checked_mul(1 << shift).ok_or_else(bad)
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("must be `true` or `false`".to_owned()),
    }
}

pub(super) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "is not a whole number".to_owned())
}

/// For counts that 32 bits are plenty for.
pub(super) fn small_count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "is not a whole number".to_owned())
}

/// At least one.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    count(text).and_then(|n| if n == 0 { Err("must be at least 1".to_owned()) } else { Ok(n) })
}

/// Items with commas between them.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(at).unwrap_or((text, ""));
    (digits.trim(), unit.trim())
}
