//! The procedural macros of blitzen.
