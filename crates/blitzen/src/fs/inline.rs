//! What is done on the spot, since it is likely to take some microseconds.
//!
//! To have another thread do something takes tens of microseconds; to make a file
//! takes ten. Nobody can say beforehand that a disk does not have to be waited
//! for. So the worker's own thread does it, as an
//! [errand](blitzen_sched::Scheduler::errand): if it is not back within a
//! millisecond or two, another thread goes on with the worker, and only the task
//! waits.
//!
//! S1. Only what is near: see [`sys::is_local`]. Never what may wait for another
//!     program, such as the other end of a named pipe.
//! S2. If something has taken long, the next ones are not done on the spot: the
//!     more of them, the longer it goes on so.
//! S3. What takes its time is charged to the task, which then lets others have
//!     their turn.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use blitzen_util::coop;

use crate::runtime::context;

/// What takes longer would have been better done elsewhere.
const LONG: Duration = Duration::from_micros(150);

/// So long costs a task one unit of its budget.
const UNIT: Duration = Duration::from_micros(2);

/// Whether something is worth a try on the spot: a disk that is slow now is
/// likely to be slow for a while.
pub(super) struct InlineBackoff {
    /// How many more are not tried.
    passes: AtomicU32,
    /// How many took long, one after another.
    long: AtomicU32,
}

/// Of what is done with paths. Every open file has its own.
pub(super) static PATHS: InlineBackoff = InlineBackoff::new();

impl InlineBackoff {
    pub(super) const fn new() -> Self {
        Self {
            passes: AtomicU32::new(0),
            long: AtomicU32::new(0),
        }
    }

    /// Relaxed, here and below: a guess, which others may spoil.
    fn may_try(&self) -> bool {
        match self.passes.load(Relaxed) {
            0 => true,
            passes => {
                self.passes.store(passes - 1, Relaxed);
                false
            }
        }
    }

    fn learn(&self, took: Duration) {
        if took > LONG {
            let long = self.long.load(Relaxed);
            self.long.store((long + 1).min(8), Relaxed);
            self.passes.store(4 << long, Relaxed);
        } else if self.long.load(Relaxed) != 0 {
            self.long.store(0, Relaxed);
        }
    }
}

/// Does it here, or hands it back, if this is no worker, or `backoff` is at its
/// end.
pub(super) fn run_inline<R, F: FnOnce() -> R>(backoff: &InlineBackoff, code: F) -> Result<R, F> {
    if !backoff.may_try() {
        return Err(code);
    }
    let mut code = Some(code);
    let begun = Instant::now();
    let done = context::with_current(|handle| {
        let errand = handle.inner.blocking_section(code.take()?);
        errand
            .map(|(output, _)| output)
            .map_err(|back| code = Some(back))
            .ok()
    });
    match (done, code) {
        (Ok(Some(output)), _) => {
            let took = begun.elapsed();
            backoff.learn(took);
            charge(took);
            Ok(output)
        }
        (_, Some(code)) => Err(code),
        _ => unreachable!("done, or handed back"),
    }
}

/// Takes from the task's budget what it has used up (S3).
fn charge(took: Duration) {
    let units = took.as_nanos() / UNIT.as_nanos();
    for _ in 0..units.min(coop::BUDGET.into()) {
        if !coop::try_spend() {
            return;
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    /// How many of the next ones are not tried.
    fn passes(backoff: &InlineBackoff) -> usize {
        (0..100_000).take_while(|_| !backoff.may_try()).count()
    }

    #[test]
    fn patience_with_a_slow_disk_ends_sooner_each_time() {
        let backoff = InlineBackoff::new();
        assert_eq!(passes(&backoff), 0);
        let skipped = [(); 12].map(|()| {
            backoff.learn(LONG * 2);
            passes(&backoff)
        });
        assert_eq!(skipped[..4], [4, 8, 16, 32]);
        assert_eq!(skipped[9..], [1024; 3]);
        backoff.learn(LONG);
        backoff.learn(LONG * 2);
        assert_eq!(passes(&backoff), 4, "it was quick once");
    }

    #[test]
    fn time_is_charged_to_the_task() {
        coop::with_budget(|| {
            charge(UNIT * 100);
            let left = (0..1000).filter(|_| coop::try_spend()).count();
            assert_eq!(left, usize::from(coop::BUDGET) - 100);
            charge(UNIT * 100);
            assert!(!coop::has_budget_remaining());
        });
    }
}
