//! Systems on which a pipe is closed at once.

use std::time::Duration;

use mio::Registry;

use super::Waker;
use crate::Ready;

#[derive(Debug)]
pub(super) struct ClosingPipes;

impl ClosingPipes {
    pub(super) fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(super) fn post(&mut self, _token: usize, _ready: Ready) -> bool {
        false
    }

    #[inline(always)]
    pub(super) fn advance(&mut self, _registry: &Registry, _waker: &Waker) {}

    #[inline(always)]
    pub(super) fn timeout_of_wait(&self, timeout: Option<Duration>) -> Option<Duration> {
        timeout
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        0
    }
}
