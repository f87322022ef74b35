//! The turns that the bench asks the simulator for. Every event carries one `@`,
//! which is what the client counts, whatever else is around it. The turns are
//! terse: nothing that a relay, which reads nothing, would have to answer.

use std::fmt::Write as _;

/// The mark of an event.
pub(crate) const MARK: u8 = b'@';

/// How much is asked for.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Size {
    /// Events of a stream at full speed
    #[arg(long, default_value_t = 2_000)]
    pub(crate) fast_events: u64,
    /// Events of a paced stream
    #[arg(long, default_value_t = 60)]
    pub(crate) paced_events: u64,
    /// The pace, in milliseconds
    #[arg(long, default_value_t = 100)]
    pub(crate) pace_ms: u64,
    /// How long a held stream stays silent, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    pub(crate) hold_ms: u64,
}

/// One kind of turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// As fast as it goes.
    Fast,
    /// At a steady pace; every event carries the simulator's clock.
    Paced,
    /// One event, a silence, one more.
    Hold,
    /// One event.
    One,
}

pub(crate) const ALL: [Rule; 4] = [Rule::Fast, Rule::Paced, Rule::Hold, Rule::One];

impl Rule {
    /// The words in the user's message that pick the rule.
    pub(crate) fn prompt(self) -> &'static str {
        match self {
            Self::Fast => "bench fast",
            Self::Paced => "bench paced",
            Self::Hold => "bench hold",
            Self::One => "bench one",
        }
    }

    pub(crate) fn events(self, size: Size) -> u64 {
        match self {
            Self::Fast => size.fast_events,
            Self::Paced => size.paced_events,
            Self::Hold => 2,
            Self::One => 1,
        }
    }

    /// At full speed four events share a DATA frame. With one to a frame the cost of
    /// frames hides that of events, and the simulator is not twice as fast as ibeam.
    fn frames_per_chunk(self) -> usize {
        if self == Self::Fast { 4 } else { 1 }
    }

    fn steps(self, size: Size) -> String {
        let Size { fast_events, paced_events, pace_ms, hold_ms } = size;
        match self {
            Self::Fast => format!(
                r#"{{ text = {{ text = "lorem ipsum dolor @", pace_ms = 0, repeat = {fast_events} }} }}"#
            ),
            Self::Paced => format!(
                r#"{{ text = {{ text = "{{uptime_us}}@", pace_ms = {pace_ms}, repeat = {paced_events} }} }}"#
            ),
            Self::Hold => {
                format!(
                    r#"{{ text = {{ text = "a@" }} }}, {{ wait_ms = {hold_ms} }}, {{ text = {{ text = "b@" }} }}"#
                )
            }
            Self::One => r#"{ text = { text = "one@" } }"#.to_owned(),
        }
    }
}

/// The scenario file.
pub(crate) fn scenario(size: Size) -> String {
    let mut out = String::from("name = \"bench\"\n");
    for rule in ALL {
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "\n[[rule]]\nwhen = {{ contains = \"{}\" }}\nquirks = [\"terse\"]\n\
             frames_per_chunk = {}\nsteps = [{}]\n",
            rule.prompt(),
            rule.frames_per_chunk(),
            rule.steps(size)
        );
    }
    out
}
