//! Methods and traits that several types share, each written once.
//!
//! They are macros and not a trait: users call the methods without an import,
//! and each type documents them with examples of its own. The first arguments
//! are the beginnings of those examples, from `examples.rs`.
//!
//! | file | what it gives |
//! |---|---|
//! | `readiness` | `ready`, `readable`, `writable`, `try_io`, `async_io` |
//! | `read_write` | `try_read` and `try_write`, also with several buffers |
//! | `stream` | what TCP and Unix streams share |
//! | `split` | the halves of a stream |
//! | `datagram` | `send` and `recv` of UDP and Unix sockets |
//! | `options` | socket options |
//! | `descriptor` | conversions from std, and the descriptor |

#[macro_use]
mod datagram;
#[macro_use]
mod descriptor;
#[macro_use]
mod options;
#[macro_use]
mod read_write;
#[macro_use]
mod readiness;
#[macro_use]
mod split;
#[macro_use]
mod stream;
