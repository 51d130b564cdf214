//! Knows when every other thread of the process sleeps in the kernel.
//!
//! A wake is only measured as one if its target was asleep; a pause of some
//! microseconds does not show that. The kernel does.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Sleeping twice in a row, this far apart: not merely waiting for a lock.
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Waits, without sleeping, until all threads but this one have gone to sleep.
pub(crate) fn wait_until_others_sleep() {
    let started = Instant::now();
    let mut looks = 0;
    while looks < 2 {
        looks = if others_sleep() { looks + 1 } else { 0 };
        let pause = Instant::now();
        while pause.elapsed() < BETWEEN_LOOKS {
            thread::yield_now();
        }
        assert!(
            started.elapsed() < LONGEST_WAIT,
            "the runtime's threads never went to sleep"
        );
    }
}

fn others_sleep() -> bool {
    // SAFETY: no arguments, no memory.
    let own = unsafe { libc::gettid() }.to_string();
    let threads = fs::read_dir("/proc/self/task").expect("the kernel lists threads");
    threads
        .map(|entry| entry.expect("the kernel lists threads"))
        .filter(|entry| entry.file_name().to_str() != Some(&own))
        // A thread may end between the listing and the look.
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .all(|stat| is_sleeping(&stat))
}

/// The state is the field after the name, which is in parentheses and may hold
/// anything, parentheses included.
fn is_sleeping(stat: &str) -> bool {
    let (_, after_name) = stat
        .rsplit_once(") ")
        .expect("a stat line names its thread");
    after_name.starts_with('S')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_behind_any_name() {
        assert!(is_sleeping("12 (worker) S 1 2"));
        assert!(is_sleeping("12 (a) R) S 1 2"));
        assert!(!is_sleeping("12 (worker) R 1 2"));
    }
}
