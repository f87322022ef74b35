//! The one place that keeps secrets out of logs.
