//! The macros `select!`, `select_owned!`, `join!`, `try_join!` and `pin!`.
//!
//! Each is a `macro_rules!` that adds the path of this crate. The expansion is written in
//! `blitzen-macros` and uses [`support`] only.

mod join;
mod pin;
mod select;
pub mod support;
