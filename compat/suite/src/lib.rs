//! Nothing: this package exists for the published tests that are built in its name.
