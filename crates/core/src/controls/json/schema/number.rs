//! Numbers as they are written: 0.3 is three tenths, which no binary fraction is.

use std::cmp::Ordering;

use serde_json::Number;

/// `digits × 10^exponent`, without zeros at the end of `digits`: equal numbers are equal here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    negative: bool,
    digits: u64,
    exponent: i32,
}

impl Decimal {
    /// The number. One that is neither an integer of 64 bits nor exact in a double is taken
    /// for the shortest decimal that reads as the same double.
    pub(super) fn of(number: &Number) -> Self {
        if let Some(digits) = number.as_u64() {
            return Self::new(false, digits, 0);
        }
        if let Some(value) = number.as_i64() {
            return Self::new(true, value.unsigned_abs(), 0);
        }
        let value = number.as_f64().unwrap_or_default();
        let written = format!("{:e}", value.abs());
        let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}").parse().unwrap_or_default();
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let fraction = i32::try_from(fraction.len()).unwrap_or_default();
        Self::new(value.is_sign_negative(), digits, exponent - fraction)
    }

    fn new(negative: bool, mut digits: u64, mut exponent: i32) -> Self {
        if digits == 0 {
            return Self::default();
        }
        while digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        Self { negative, digits, exponent }
    }

    pub(super) fn is_integer(self) -> bool {
        self.exponent >= 0
    }

    pub(super) fn is_positive(self) -> bool {
        self.digits > 0 && !self.negative
    }

    /// As a count. `None`: it is negative or has a fraction.
    pub(super) fn count(self) -> Option<u64> {
        if self.negative || !self.is_integer() {
            return None;
        }
        let scale = 10_u64.checked_pow(self.exponent.unsigned_abs());
        Some(scale.and_then(|scale| scale.checked_mul(self.digits)).unwrap_or(u64::MAX))
    }

    /// Exact, however far the exponents are apart. Nothing is a multiple of zero.
    pub(super) fn is_multiple_of(self, divisor: Self) -> bool {
        if divisor.digits == 0 {
            return false;
        }
        let by = u128::from(divisor.digits);
        let apart = self.exponent.abs_diff(divisor.exponent);
        if self.exponent >= divisor.exponent {
            // digits × 10^apart modulo the divisor, by repeated squaring.
            let (mut rest, mut power, mut left) = (u128::from(self.digits) % by, 10 % by, apart);
            while left > 0 {
                if left % 2 == 1 {
                    rest = rest * power % by;
                }
                power = power * power % by;
                left /= 2;
            }
            return rest == 0;
        }
        // The divisor is a multiple of ten at a place where this number's last digit is not zero.
        self.digits == 0
    }

    /// How many digits there are before the point; negative for zeros behind it.
    fn magnitude(self) -> i64 {
        i64::from(self.digits.checked_ilog10().unwrap_or_default()) + i64::from(self.exponent)
    }

    fn cmp_absolute(self, other: Self) -> Ordering {
        if self.digits == 0 || other.digits == 0 {
            return self.digits.cmp(&other.digits);
        }
        // Both start at the same place, so the one with more digits only has more behind.
        let scaled = |digits: u64, by: u32| u128::from(digits) * 10_u128.pow(by);
        self.magnitude().cmp(&other.magnitude()).then_with(|| {
            let apart = self.exponent.abs_diff(other.exponent);
            if self.exponent > other.exponent {
                scaled(self.digits, apart).cmp(&u128::from(other.digits))
            } else {
                u128::from(self.digits).cmp(&scaled(other.digits, apart))
            }
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.cmp_absolute(*other),
            (true, true) => other.cmp_absolute(*self),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn multiple_of_is_exact_for_decimals() {
        for (value, divisor, want) in [
            ("0.3", "0.1", true),
            ("19.99", "0.01", true),
            ("19.995", "0.01", false),
            ("4.5", "1.5", true),
            ("35", "1.5", false),
            ("0.0075", "0.0001", true),
            ("0.00751", "0.0001", false),
            ("1e308", "0.5", true),
            ("1e308", "0.123456789", false),
            ("12391239123", "1e-8", true),
            ("-6", "3", true),
            ("0", "7", true),
            ("5", "10", false),
            ("18446744073709551615", "5", true),
            ("18446744073709551615", "2", false),
            ("1e-300", "1e300", false),
        ] {
            assert_eq!(number(value).is_multiple_of(number(divisor)), want, "{value} / {divisor}");
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let ordered = [
            "-1e300",
            "-9223372036854775808",
            "-2.5",
            "-2",
            "-1e-300",
            "0",
            "1e-300",
            "0.1",
            "0.30000000000000004",
            "1",
            "9007199254740993",
            "18446744073709551614",
            "18446744073709551615",
            "1e20",
            "1e300",
        ];
        for (at, low) in ordered.iter().enumerate() {
            for high in ordered.get(at + 1..).unwrap_or_default() {
                assert!(number(low) < number(high), "{low} < {high}");
                assert!(number(high) > number(low), "{high} > {low}");
            }
        }
        assert_eq!(number("100"), number("1e2"));
        assert_eq!(number("-0.0"), number("0"));
        assert_eq!(number("1.0"), number("1"));
        assert!(number("0.5").count().is_none() && number("-1").count().is_none());
        assert_eq!(number("2.0").count(), Some(2));
        assert_eq!(number("1e300").count(), Some(u64::MAX));
    }
}
