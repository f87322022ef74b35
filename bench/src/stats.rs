//! Medians, spreads and verdicts: what the rounds of a race allow to be said.

/// With fewer rounds even the whole range holds the true median too rarely.
const MIN_ROUNDS: usize = 8;
/// How often a spread has to hold the true median. With 95 % nearly every comparison of a binary
/// with itself would find a difference in one of its rows.
const CONFIDENCE: f64 = 0.99;
/// A spread wider than this share of its median says next to nothing about the median.
const WIDE: f64 = 0.5;
/// Two processes of one binary differ by about as much, since they are laid out differently in
/// memory. Rounds do not even that out.
const ALIKE: f64 = 0.02;

/// One value for each counted round, in order; `None` where the round failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series(Vec<Option<f64>>);

impl Series {
    pub(crate) fn push(&mut self, value: Option<f64>) {
        self.0.push(value.filter(|value| value.is_finite()));
    }

    /// This divided by the other, round by round. Slow drifts of the machine hit both values of a
    /// round and cancel out, which they would not in a ratio of two medians.
    pub(crate) fn ratio(&self, below: &Self) -> Self {
        let pairs = self.0.iter().zip(&below.0);
        Self(pairs.map(|(above, below)| divide((*above)?, (*below)?)).collect())
    }

    pub(crate) fn spread(&self) -> Option<Spread> {
        let mut values: Vec<f64> = self.0.iter().copied().flatten().collect();
        values.sort_by(f64::total_cmp);
        let cut = cut(values.len());
        Some(Spread {
            median: median(&values)?,
            low: *values.get(cut)?,
            high: *values.iter().rev().nth(cut)?,
            rounds: values.len(),
        })
    }
}

impl FromIterator<f64> for Series {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().map(Some).collect())
    }
}

fn divide(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

/// A median, and the interval between two of the sorted values that holds the true median with
/// at least 99 % confidence, whatever the distribution. Of twelve values these are the second
/// lowest and the second highest, of fewer the lowest and the highest; with fewer than eight the
/// confidence is lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) rounds: usize,
}

impl Spread {
    /// Too wide for the median to be relied on.
    pub(crate) fn is_wide(&self) -> bool {
        self.high - self.low > WIDE * self.median.abs()
    }

    fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// How many values are left out at each end. Each value is below the true median with the chance
/// of a coin, so at most `cut` of them are as often as `count` tosses show at most `cut` heads.
fn cut(count: usize) -> usize {
    let count = float(count);
    let mut cut = 0;
    let mut exactly = 0.5_f64.powf(count);
    let mut at_most = exactly;
    loop {
        let tosses = float(cut);
        exactly *= (count - tosses) / (tosses + 1.0);
        at_most += exactly;
        if 1.0 - 2.0 * at_most < CONFIDENCE {
            return cut;
        }
        cut += 1;
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The value below which this share of them lies.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index into a list that fits into memory"
)]
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = (float(sorted.len().saturating_sub(1)) * share).round() as usize;
    sorted.get(at).copied()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

/// The order in which `count` racers run in a round. Odd rounds reverse the round before them and
/// each pair of rounds starts with another racer: two racers go AB BA BA AB, and three
/// go through all six orders.
pub(crate) fn order(count: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).map(|at| (at + round / 2) % count).collect();
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// What is asked of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Which way a number should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// The last column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowVerdict {
    /// The row has no target and its spread is fine.
    Open,
    Met,
    Missed,
    Same,
    Better,
    Worse,
    /// The spread is too wide for what the row would claim.
    Noise,
    TooFewRounds,
    NotMeasured,
    /// The simulator was too slow to measure anything else.
    SimulatorTooSlow,
}

impl RowVerdict {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Open => "",
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Same => "same within the spread",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::Noise => "noise",
            Self::TooFewRounds => "too few rounds",
            Self::NotMeasured => "not measured",
            Self::SimulatorTooSlow => "does not count",
        }
    }
}

/// Whether a target is met. It is only when the whole spread is on one side of it.
pub(crate) fn judge(spread: Option<Spread>, bound: Bound) -> RowVerdict {
    let spread = match enough(spread) {
        Ok(spread) => spread,
        Err(verdict) => return verdict,
    };
    let (met, missed) = match bound {
        Bound::AtLeast(target) => (spread.low >= target, spread.high < target),
        Bound::AtMost(target) => (spread.high <= target, spread.low > target),
    };
    match (met, missed) {
        (true, _) => RowVerdict::Met,
        (_, true) => RowVerdict::Missed,
        (false, false) => RowVerdict::Noise,
    }
}

/// Whether the number of a row without a target can be relied on.
pub(crate) fn judge_open(spread: Option<Spread>) -> RowVerdict {
    match enough(spread) {
        Ok(spread) if spread.is_wide() => RowVerdict::Noise,
        Ok(_) => RowVerdict::Open,
        Err(verdict) => verdict,
    }
}

/// What the ratio of this build to an earlier one shows. A difference is one only when 1 lies
/// outside the spread, and when it is larger than that of two processes of one binary.
pub(crate) fn compare(ratio: Option<Spread>, better: Better) -> RowVerdict {
    let ratio = match enough(ratio) {
        Ok(ratio) => ratio,
        Err(verdict) => return verdict,
    };
    if ratio.holds(1.0) || (ratio.median - 1.0).abs() < ALIKE {
        return if ratio.is_wide() { RowVerdict::Noise } else { RowVerdict::Same };
    }
    if (ratio.median > 1.0) == (better == Better::Higher) {
        RowVerdict::Better
    } else {
        RowVerdict::Worse
    }
}

fn enough(spread: Option<Spread>) -> Result<Spread, RowVerdict> {
    match spread {
        None => Err(RowVerdict::NotMeasured),
        Some(spread) if spread.rounds < MIN_ROUNDS => Err(RowVerdict::TooFewRounds),
        Some(spread) => Ok(spread),
    }
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
