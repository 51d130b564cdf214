//! Calls made by the worker's own thread, since they are likely to take some
//! microseconds.
//!
//! Another thread would cost tens of microseconds, and creating a file takes ten. It
//! cannot be known beforehand whether the call waits for a disk. So it is made in a
//! [blocking section](blitzen_sched::Scheduler::blocking_section): if it takes longer
//! than a millisecond or two, another thread goes on with the worker, and only the
//! task waits.
//!
//! S1. Only calls on local file systems: see [`sys::is_local`](super::sys::is_local).
//!     Never one that may wait for another program, such as the other end of a
//!     named pipe.
//! S2. After a long call the next ones are made on the ring or the pool, more of them
//!     each time: a disk that is slow now is likely to stay slow for a while.
//! S3. The time of a call is charged to its task, which then yields to others.

use std::time::{Duration, Instant};

use blitzen_util::backoff::Backoff;
use blitzen_util::coop;

use crate::runtime::context;

/// A call that takes longer would have been better made elsewhere.
const LONG: Duration = Duration::from_micros(150);

/// The time that costs a task one unit of its budget.
const UNIT: Duration = Duration::from_micros(2);

/// Skips inline calls after long ones (S2).
pub(super) type InlineBackoff = Backoff<1024>;

/// For calls on paths. Every open file has its own.
pub(super) static PATHS: InlineBackoff = InlineBackoff::new();

/// Calls `call` with `input` on this thread. Returns `input` if this thread is no
/// worker, or `backoff` skips the call.
pub(super) fn run<T, R>(
    backoff: &InlineBackoff,
    input: T,
    call: impl FnOnce(T) -> R,
) -> Result<R, T> {
    if !backoff.begin_attempt() {
        return Err(input);
    }
    let mut input = Some(input);
    let begun = Instant::now();
    let section = || input.take().map(call);
    let done =
        context::with_current(|handle| handle.inner.scheduler().blocking_section(section).ok());
    match (done, input) {
        (Ok(Some((Some(output), _))), None) => {
            let took = begun.elapsed();
            match took > LONG {
                true => backoff.fail(),
                false => backoff.succeed(),
            }
            charge(took);
            Ok(output)
        }
        (_, Some(input)) => Err(input),
        _ => unreachable!("the call has taken the input, or has not been made"),
    }
}

/// Charges the time to the task's budget (S3).
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

    #[test]
    fn after_a_long_call_the_next_one_is_made_elsewhere() {
        let runtime = crate::runtime::Builder::new_multi_thread().build().unwrap();
        let backoff = InlineBackoff::new();
        let task = async move {
            let wait = |time| std::thread::sleep(time);
            // Until the monitor runs, which blocking sections need.
            while run(&backoff, LONG * 2, wait).is_err() {
                crate::task::yield_now().await;
            }
            assert!(run(&backoff, LONG, wait).is_err(), "skipped");
        };
        runtime.block_on(async { crate::spawn(task).await.unwrap() });
    }
}
