//! Which models there are, and which one a name means.
