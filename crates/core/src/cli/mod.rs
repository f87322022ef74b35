//! `cursor-agent --print --output-format stream-json`: its lines, its failures, its lists.
