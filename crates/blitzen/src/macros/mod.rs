//! The macros: `select!` and its safer twin, `join!`, `try_join!`, `pin!`.
//!
//! Each is a thin `macro_rules!` that adds the path of this crate; what it
//! expands to is written in `blitzen-macros` and uses [`support`] only.

mod join;
mod pin;
mod select;
pub mod support;
