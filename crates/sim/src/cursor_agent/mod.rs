//! A stand-in for Cursor's CLI: the same flags, the same lines, the same quirks.
