//! The rows of a race: what is measured of a racer, and what the project asks of it.

use crate::stats::{Better, Bound};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    Events,
    LatencyP50,
    LatencyP99,
    FirstEvent,
    Cpu,
    RssIdle,
    RssStream,
    ColdStart,
}

/// What ibeam has to reach.
#[derive(Clone, Copy)]
pub(crate) struct MetricTarget {
    pub(crate) words: &'static str,
    pub(crate) bound: Bound,
    pub(crate) of: TargetBasis,
}

/// Which number a target is for.
#[derive(Clone, Copy)]
pub(crate) enum TargetBasis {
    /// The ratio to the relay.
    Relay,
    /// ibeam's own number.
    Ibeam,
}

impl Metric {
    pub(crate) const ALL: [Self; 8] = [
        Self::Events,
        Self::LatencyP50,
        Self::LatencyP99,
        Self::FirstEvent,
        Self::Cpu,
        Self::RssIdle,
        Self::RssStream,
        Self::ColdStart,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Events => "events/s",
            Self::LatencyP50 => "added latency p50, µs",
            Self::LatencyP99 => "added latency p99, µs",
            Self::FirstEvent => "time to first event, µs",
            Self::Cpu => "CPU s per million events",
            Self::RssIdle => "RSS idle, MB",
            Self::RssStream => "RSS per open stream, MB",
            Self::ColdStart => "cold start to first answer, ms",
        }
    }

    pub(crate) fn better(self) -> Better {
        match self {
            Self::Events => Better::Higher,
            Self::LatencyP50
            | Self::LatencyP99
            | Self::FirstEvent
            | Self::Cpu
            | Self::RssIdle
            | Self::RssStream
            | Self::ColdStart => Better::Lower,
        }
    }

    pub(crate) fn target(self) -> Option<MetricTarget> {
        let (words, bound, of) = match self {
            Self::Events => ("at least 0.5 of the relay", Bound::AtLeast(0.5), TargetBasis::Relay),
            Self::LatencyP99 => ("at most 2 of the relay", Bound::AtMost(2.0), TargetBasis::Relay),
            Self::RssIdle => ("at most 10 MB", Bound::AtMost(10.0), TargetBasis::Ibeam),
            Self::ColdStart => ("at most 50 ms", Bound::AtMost(50.0), TargetBasis::Ibeam),
            Self::LatencyP50 | Self::FirstEvent | Self::Cpu | Self::RssStream => return None,
        };
        Some(MetricTarget { words, bound, of })
    }
}
