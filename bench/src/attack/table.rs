//! What an attack cost, and whether that is too much.

use std::{fmt, fmt::Write as _, time::Duration};

/// What an attack may cost.
pub(super) struct AttackLimits {
    pub(super) gap: Duration,
    /// Memory while it runs, in MB more than before.
    pub(super) growth: f64,
    /// Memory after it.
    pub(super) kept: f64,
    /// An honest request.
    pub(super) probe: Duration,
    /// Connections of the attacker that the gateway may still have at the end.
    pub(super) left: Option<usize>,
    /// CPU seconds in the second half of it.
    pub(super) cpu: Option<f64>,
}

/// One attack.
#[derive(Debug)]
pub(super) struct AttackRow {
    pub(super) name: &'static str,
    /// Bytes of the attacker.
    pub(super) sent: usize,
    /// In MB: before, the most during it, and after it.
    pub(super) memory: [f64; 3],
    /// None: the honest stream has ended.
    pub(super) gap: Option<Duration>,
    /// How long an honest request took during the attack. None: it was not answered with 200.
    pub(super) honest: Option<Duration>,
    /// How long it took after the attack.
    pub(super) later: Option<Duration>,
    pub(super) left: usize,
    /// Turns that the gateway holds at the end.
    pub(super) turns: u64,
    pub(super) cpu: f64,
    pub(super) note: String,
    pub(super) problems: Vec<String>,
}

impl AttackRow {
    pub(super) fn judged(mut self, limits: &AttackLimits) -> Self {
        let mut problems = Vec::new();
        match self.gap {
            None => problems.push("the honest stream ended".to_owned()),
            Some(gap) if gap > limits.gap => {
                problems.push(format!("gap above {} ms", limits.gap.as_millis()));
            }
            Some(_) => {}
        }
        let [before, peak, after] = self.memory;
        if peak > before + limits.growth {
            problems.push(format!("more than {:.0} MB", limits.growth));
        }
        if after > before + limits.kept {
            problems.push("memory does not return".to_owned());
        }
        for (took, when) in [(self.honest, "during it"), (self.later, "after it")] {
            match took {
                None => problems.push(format!("an honest request is not answered {when}")),
                Some(took) if took > limits.probe => {
                    problems.push(format!("an honest request is slow {when}"));
                }
                Some(_) => {}
            }
        }
        if limits.left.is_some_and(|limit| self.left > limit) {
            problems.push(format!("{} connections are not closed", self.left));
        }
        if limits.cpu.is_some_and(|limit| self.cpu > limit) {
            problems.push(format!("{:.1} s of CPU after its clients left", self.cpu));
        }
        self.problems = problems;
        self
    }

    fn verdict(&self) -> String {
        if self.problems.is_empty() { "ok".to_owned() } else { self.problems.join("; ") }
    }
}

pub(super) fn ms(time: Option<Duration>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| format!("{} ms", time.as_millis()))
}

impl fmt::Display for AttackRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, peak, after] = self.memory;
        write!(
            f,
            "{}: {before:.0} → {peak:.0} → {after:.0} MB, gap {}, honest request {}: {}",
            self.name,
            ms(self.gap),
            ms(self.honest),
            self.verdict()
        )
    }
}

/// Running turns; one of them is the honest stream.
const TURNS: u64 = 32 - 1;

/// All results as a table in Markdown.
pub(super) fn page(rows: &[AttackRow]) -> String {
    let mut page = String::from(
        "| attack | sent | memory: before, most, after | longest gap | honest request | \
         connections left | turns left | CPU | | verdict |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let [before, peak, after] = row.memory;
        let (gap, honest) = (ms(row.gap), ms(row.honest));
        let kib = row.sent >> 10;
        let AttackRow { name, left, cpu, .. } = row;
        let turns = TURNS.saturating_sub(row.turns);
        let (note, verdict) = (&row.note, row.verdict());
        let _ = writeln!(
            page,
            "| {name} | {kib} KiB | {before:.0}, {peak:.0}, {after:.0} MB | {gap} | {honest} | \
             {left} | {turns} | {cpu:.1} s | {note} | {verdict} |"
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AttackLimits = AttackLimits {
        gap: Duration::from_millis(100),
        growth: 50.0,
        kept: 10.0,
        probe: Duration::from_secs(1),
        left: Some(0),
        cpu: Some(1.0),
    };

    fn row() -> AttackRow {
        AttackRow {
            name: "nothing",
            sent: 2048,
            memory: [20.0, 21.0, 20.0],
            gap: Some(Duration::from_millis(12)),
            honest: Some(Duration::from_millis(3)),
            later: Some(Duration::from_millis(3)),
            left: 0,
            turns: 0,
            cpu: 0.5,
            note: String::new(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn attack_within_its_limits_passes() {
        let row = row().judged(&LIMITS);
        assert_eq!((row.verdict().as_str(), row.problems.len()), ("ok", 0));
        let page = page(&[row]);
        assert!(page.contains(
            "| nothing | 2 KiB | 20, 21, 20 MB | 12 ms | 3 ms | 0 | 31 | 0.5 s |  | ok |"
        ));
    }

    #[test]
    fn each_exceeded_limit_is_reported() {
        let second = Some(Duration::from_secs(2));
        for (broken, problem) in [
            (AttackRow { gap: second, ..row() }, "gap above 100 ms"),
            (AttackRow { gap: None, ..row() }, "the honest stream ended"),
            (AttackRow { memory: [20.0, 71.0, 20.0], ..row() }, "more than 50 MB"),
            (AttackRow { memory: [20.0, 40.0, 31.0], ..row() }, "memory does not return"),
            (AttackRow { honest: None, ..row() }, "an honest request is not answered during it"),
            (AttackRow { later: second, ..row() }, "an honest request is slow after it"),
            (AttackRow { left: 3, ..row() }, "3 connections are not closed"),
            (AttackRow { cpu: 1.5, ..row() }, "1.5 s of CPU after its clients left"),
        ] {
            assert_eq!(broken.judged(&LIMITS).verdict(), problem);
        }
        let patient = AttackLimits { left: None, cpu: None, ..LIMITS };
        assert_eq!(AttackRow { left: 3, cpu: 9.0, ..row() }.judged(&patient).verdict(), "ok");
    }
}
