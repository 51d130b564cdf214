//! Whether a worker has to share its processor with other threads.
//!
//! Unparking another worker pays if a processor is free for it. Where the machine has fewer than
//! there are threads that want to run, it only takes time from somebody else, and often from the
//! very process that the tasks wait for, such as a load generator on the same machine. The kernel
//! counts how often it has taken the processor from a thread that wanted to go on.

use std::cell::Cell;

/// How often the count is read.
const PERIOD_NS: u64 = 10_000_000;

/// A thread that is preempted this often in a period shares its processor. One that is alone on it
/// is preempted by a kernel thread now and then.
const PREEMPTIONS: u64 = 2;

/// For how long a processor then counts as shared. While no other worker runs, the other threads have
/// a processor of their own, and take none from this worker: that does not mean that one is free.
const HOLD_NS: u64 = 10 * PERIOD_NS;

/// What a worker knows of the other threads on its processor.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    read_ns: Cell<u64>,
    /// `None` if the count of the thread on which the worker runs was not read yet.
    preemptions: Cell<Option<u64>>,
    held_until_ns: Cell<u64>,
    is_contended: Cell<bool>,
}

impl Contention {
    /// Reads the count of the calling thread by `preemptions`, if a period is over.
    #[inline]
    pub(crate) fn sample(&self, now_ns: u64, preemptions: impl FnOnce() -> u64) {
        if now_ns.saturating_sub(self.read_ns.get()) >= PERIOD_NS {
            self.read(now_ns, preemptions());
        }
    }

    #[cold]
    fn read(&self, now_ns: u64, preemptions: u64) {
        let periods = now_ns.saturating_sub(self.read_ns.replace(now_ns)) / PERIOD_NS;
        if let Some(before) = self.preemptions.replace(Some(preemptions)) {
            let more = preemptions.saturating_sub(before);
            if more >= PREEMPTIONS.saturating_mul(periods) {
                self.held_until_ns.set(now_ns.saturating_add(HOLD_NS));
            }
        }
        self.note_time(now_ns);
    }

    /// Ends what was held long enough. A worker that was parked calls this: it has read no count
    /// meanwhile.
    #[inline]
    pub(crate) fn note_time(&self, now_ns: u64) {
        self.is_contended.set(now_ns < self.held_until_ns.get());
    }

    /// Begins anew, since another thread runs the worker: its count says nothing of this one's.
    pub(crate) fn forget_count(&self) {
        self.preemptions.set(None);
    }

    /// Whether other threads have wanted the processor lately.
    #[inline]
    pub(crate) fn is_contended(&self) -> bool {
        self.is_contended.get()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_that_is_often_preempted_is_contended() {
        let contention = Contention::default();
        contention.sample(1_000 * MS, || 500);
        contention.sample(2_000 * MS, || 501);
        assert!(!contention.is_contended());
        contention.sample(2_010 * MS, || 503);
        assert!(contention.is_contended());
    }

    #[test]
    fn a_thread_that_is_seldom_preempted_is_not() {
        let contention = Contention::default();
        contention.sample(1_000 * MS, || 0);
        contention.sample(1_010 * MS, || 1);
        assert!(!contention.is_contended());
        contention.sample(1_060 * MS, || 4);
        assert!(!contention.is_contended(), "three in five periods");
    }

    #[test]
    fn a_processor_counts_as_shared_for_a_while() {
        let contention = Contention::default();
        contention.sample(1_000 * MS, || 0);
        contention.sample(1_010 * MS, || 2);
        for ms in (1_020..1_110).step_by(10) {
            contention.sample(ms * MS, || 2);
            assert!(contention.is_contended());
        }
        contention.sample(1_110 * MS, || 2);
        assert!(!contention.is_contended());
    }

    #[test]
    fn the_count_is_read_once_a_period() {
        let contention = Contention::default();
        contention.sample(1_000 * MS, || 0);
        contention.sample(1_009 * MS, || unreachable!("it is too early"));
        contention.sample(1_010 * MS, || 9);
        assert!(contention.is_contended());
    }

    #[test]
    fn a_worker_that_has_changed_its_thread_starts_again() {
        for other in [3, 5_000] {
            let contention = Contention::default();
            contention.sample(1_000 * MS, || 900);
            contention.forget_count();
            contention.sample(1_200 * MS, || other);
            contention.sample(1_210 * MS, || other + 1);
            assert!(!contention.is_contended());
            contention.sample(1_220 * MS, || other + 3);
            assert!(contention.is_contended());
        }
    }

    #[test]
    fn what_was_held_ends_although_the_worker_changes_its_thread_each_period() {
        let contention = Contention::default();
        contention.sample(1_000 * MS, || 0);
        contention.sample(1_010 * MS, || 2);
        for ms in (1_020..1_110).step_by(10) {
            contention.forget_count();
            contention.sample(ms * MS, || 500);
            assert!(contention.is_contended());
        }
        contention.forget_count();
        contention.sample(1_110 * MS, || 500);
        assert!(!contention.is_contended());
    }

    #[test]
    fn what_was_held_ends_while_the_worker_is_parked() {
        let contention = Contention::default();
        contention.sample(1_000 * MS, || 0);
        contention.sample(1_010 * MS, || 2);
        contention.note_time(1_109 * MS);
        assert!(contention.is_contended());
        contention.note_time(1_110 * MS);
        assert!(!contention.is_contended());
    }
}
