//! Methods and traits that several types share, each written once.
//!
//! A macro, not a trait: users call these methods without importing anything,
//! and each type documents them with examples of its own. The first arguments
//! are the beginnings of those examples, from `examples.rs`.

#[macro_use]
mod descriptor;
#[macro_use]
mod readiness;
#[macro_use]
mod split;
#[macro_use]
mod stream;
