//! Ends the program when a sample does not: a lost wake would otherwise look like
//! a slow machine.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

static SAMPLE_TIMEOUT_S: AtomicU64 = AtomicU64::new(120);
static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

struct Watched {
    what: String,
    deadline: Instant,
}

/// While it lives, the sample is expected to end in time.
#[must_use]
pub(crate) struct Watch(());

/// How long a sample may take from now on.
pub(crate) fn set_sample_timeout(seconds: u64) {
    SAMPLE_TIMEOUT_S.store(seconds, Relaxed);
}

/// Starts to wait for `what`. One at a time.
pub(crate) fn watch(what: String) -> Watch {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        thread::Builder::new()
            .name("watchdog".into())
            .spawn(guard)
            .expect("a thread can be started");
    });
    let deadline = Instant::now() + Duration::from_secs(SAMPLE_TIMEOUT_S.load(Relaxed));
    let earlier = WATCHED
        .lock()
        .expect("no panic under the lock")
        .replace(Watched { what, deadline });
    assert!(earlier.is_none(), "samples are taken one at a time");
    // If it sleeps towards an earlier deadline it would look in time anyway, but it
    // may sleep without one.
    CHANGED.notify_one();
    Watch(())
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The watchdog is not told: it wakes at the old deadline and finds what there
        // is then.
        *WATCHED.lock().expect("no panic under the lock") = None;
    }
}

fn guard() {
    let mut watched = WATCHED.lock().expect("no panic under the lock");
    loop {
        watched = match &*watched {
            None => CHANGED.wait(watched).expect("no panic under the lock"),
            Some(Watched { what, deadline }) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    eprintln!("{what} did not finish in time");
                    process::exit(3);
                }
                CHANGED
                    .wait_timeout(watched, left)
                    .expect("no panic under the lock")
                    .0
            }
        };
    }
}
