//! What lints are about.

use std::fmt;

/// What a [`Lint`](https://docs.rs/blitzen/latest/blitzen/runtime/lint/struct.Lint.html) is about.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::lint::LintKind;
///
/// assert_eq!(LintKind::SlowPoll.to_string(), "slow poll");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LintKind {
    /// A poll has not ended for the time given to `Builder::slow_poll`: the task computes for long,
    /// or calls something that blocks. Without a task if the worker is stuck elsewhere, in a waker
    /// for instance, or in the future of `block_on`.
    SlowPoll,
    /// A poll is slow, and waits in `futex(2)`: for a lock, a condition variable or a channel of
    /// `std`, which block the whole worker. Found on Linux.
    BlockingLock,
    /// A task waits, and nobody has a waker for it: it will never run again. Its last poll has
    /// returned `Pending` without keeping the waker, or what kept it was dropped without waking.
    LostWaker,
    /// A task wakes itself or yields in nearly every poll, and keeps its worker busy with that.
    SelfWake,
    /// The future of a task takes 16 KiB or more. Reported once for each line that spawns such a
    /// task.
    LargeFuture,
    /// Tasks are queued, and no thread has polled any for the time given to `Builder::slow_poll`.
    Starved,
    /// All threads of the blocking pool are busy, and jobs wait for one: for a second at least,
    /// and none fewer than before.
    PoolFull,
    /// Tasks wait for each other's locks. Found if locks note their owner, by
    /// `dump::note_lock_owners`.
    Deadlock,
    /// A task waits for a lock that it holds itself. Found like `Deadlock`.
    Futurelock,
}

impl LintKind {
    /// All kinds.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::LintKind;
    ///
    /// assert!(LintKind::ALL.contains(&LintKind::Starved));
    /// ```
    pub const ALL: &'static [Self] = &[
        Self::SlowPoll,
        Self::BlockingLock,
        Self::LostWaker,
        Self::SelfWake,
        Self::LargeFuture,
        Self::Starved,
        Self::PoolFull,
        Self::Deadlock,
        Self::Futurelock,
    ];

    /// Returns the name of the kind, in lower case.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::lint::LintKind;
    ///
    /// assert_eq!(LintKind::LostWaker.name(), "lost waker");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::SlowPoll => "slow poll",
            Self::BlockingLock => "blocking lock",
            Self::LostWaker => "lost waker",
            Self::SelfWake => "self-wake",
            Self::LargeFuture => "large future",
            Self::Starved => "starved",
            Self::PoolFull => "pool full",
            Self::Deadlock => "deadlock",
            Self::Futurelock => "futurelock",
        }
    }
}

impl fmt::Display for LintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_number() {
        for (number, kind) in LintKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
        let last = LintKind::Futurelock as usize;
        assert_eq!(LintKind::ALL.len(), last + 1);
    }
}
