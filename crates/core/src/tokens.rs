//! Token counts for what the backend does not report.
