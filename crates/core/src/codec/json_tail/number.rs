//! The rest of a number whose beginning is already out.

use serde_json::Number;

use super::same_number;

/// What must follow `begun` so that it reads as `whole`; the natural form is preferred,
/// an exponent is the last resort.
pub(super) fn tail(begun: &str, whole: &Number) -> Option<String> {
    let exact = begun.parse().ok().is_some_and(|value: f64| whole.as_f64() == Some(value));
    if exact && reads_as(begun, whole) {
        return Some(String::new());
    }
    let written = whole.to_string();
    let integer = written.strip_suffix(".0").map(str::to_owned);
    let fraction = (!whole.is_f64()).then(|| format!("{written}.0"));
    let plain = whole.as_f64().map(|value| format!("{value}"));
    [Some(written), integer, fraction, plain]
        .into_iter()
        .flatten()
        .filter_map(|form| form.strip_prefix(begun).map(str::to_owned))
        .chain(reads_as(begun, whole).then(String::new))
        .chain(by_exponent(begun, whole))
        .find(|tail| reads_as(&format!("{begun}{tail}"), whole))
}

fn reads_as(text: &str, whole: &Number) -> bool {
    serde_json::from_str(text).is_ok_and(|read| same_number(&read, whole))
}

/// Ways to continue with the significant digits of `whole` and then set the scale right.
fn by_exponent(begun: &str, whole: &Number) -> impl Iterator<Item = String> {
    // The shortest digits that distinguish a float from its neighbours, and its real ones.
    let forms = whole.as_f64().map(|value| [format!("{value:e}"), format!("{value:.40e}")]);
    forms.into_iter().flatten().filter_map(move |form| scaled(begun, &form))
}

/// The same for one way to write the digits, `d.ddde±x`.
fn scaled(begun: &str, form: &str) -> Option<String> {
    let (digits, magnitude) = form.trim_start_matches('-').split_once('e')?;
    let digits = digits.replace('.', "");
    let digits = digits.trim_end_matches('0');

    let (mantissa, exponent) = match begun.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (begun, None),
    };
    let unsigned = mantissa.trim_start_matches('-');
    let (integer, fraction) = match unsigned.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (unsigned, None),
    };
    let written = format!("{integer}{}", fraction.unwrap_or_default());
    let written = written.trim_start_matches('0');
    // Nothing is missing when zeros, or digits that no float can hold, were written.
    let missing = digits.strip_prefix(written).unwrap_or_default();

    let mut out = String::new();
    let mut places = fraction.map_or(0, str::len);
    match (exponent, fraction) {
        (Some(_), _) if !missing.is_empty() => return None,
        (Some(_), _) => {}
        (None, Some("")) if missing.is_empty() => {
            return scaled(&format!("{begun}0"), form).map(|rest| format!("0{rest}"));
        }
        (None, Some(_)) => places += missing.len(),
        (None, None) if integer == "0" && !missing.is_empty() => {
            out.push('.');
            places = missing.len();
        }
        (None, None) => {}
    }
    out.push_str(missing);
    let length = i64::try_from(written.len() + missing.len()).ok()?;
    let power = match digits {
        "" => 0,
        _ => magnitude.parse::<i64>().ok()? + 1 - length + i64::try_from(places).ok()?,
    };
    match exponent {
        None if power == 0 => {}
        None => out.push_str(&format!("e{power}")),
        Some(exponent) => out.push_str(&exponent_tail(exponent, power)?),
    }
    Some(out)
}

fn exponent_tail(begun: &str, power: i64) -> Option<String> {
    let (negative, digits) = match begun.as_bytes().first() {
        Some(b'-') => (Some(true), begun.get(1..)?),
        Some(b'+') => (Some(false), begun.get(1..)?),
        Some(_) => (Some(false), begun),
        None => (None, begun),
    };
    if power != 0 && negative.is_some_and(|negative| negative != (power < 0)) {
        return None;
    }
    let magnitude = power.unsigned_abs().to_string();
    let significant = digits.trim_start_matches('0');
    let rest = if power == 0 && !digits.is_empty() && significant.is_empty() {
        ""
    } else {
        magnitude.strip_prefix(significant)?
    };
    let sign = if negative.is_none() && power < 0 { "-" } else { "" };
    Some(format!("{sign}{rest}"))
}
