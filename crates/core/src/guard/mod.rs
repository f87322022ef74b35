//! Guards over what a model says.
