//! Foreign code that may panic where a panic must not travel: a future's or
//! an output's destructor, a waker.

pub(crate) use blitzen_util::quiet::{catch, quietly};
