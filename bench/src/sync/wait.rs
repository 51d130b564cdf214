//! Allocations of a task that has to wait for a lock.
//!
//! A waiter can live inside the future that waits, so the right number is none. It
//! would lie if nobody waited: each operation polls once while the lock is held, and
//! must find it so, then once after its release.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::leak;
use super::mutex::Lock;
use super::rwlock::SharedLock;
use super::semaphore::Permits;
use crate::alloc::{self, Counts};
use crate::probe::{Cost, Probe};
use crate::row::{Contender, Row, Target::AtMost, Unit};

pub(crate) fn rows() -> Vec<Row> {
    let row = |name, what, contenders| {
        Row::new(name, what, (1_000, 100), contenders)
            .unit(Unit::Allocations)
            .target(AtMost(0.0))
    };
    vec![
        row(
            "mutex_wait_allocations",
            "allocations of a Mutex::lock that waits",
            vec![
                Contender::named("blitzen", mutex::<blitzen::sync::Mutex<u64>>),
                Contender::named("tokio", mutex::<tokio::sync::Mutex<u64>>),
                Contender::named("smol", mutex::<async_lock::Mutex<u64>>),
            ],
        ),
        row(
            "rwlock_wait_allocations",
            "allocations of a RwLock::write that waits",
            vec![
                Contender::named("blitzen", rwlock::<blitzen::sync::RwLock<u64>>),
                Contender::named("tokio", rwlock::<tokio::sync::RwLock<u64>>),
                Contender::named("smol", rwlock::<async_lock::RwLock<u64>>),
            ],
        ),
        row(
            "semaphore_wait_allocations",
            "allocations of a Semaphore::acquire that waits",
            vec![
                Contender::named("blitzen", semaphore::<blitzen::sync::Semaphore>),
                Contender::named("tokio", semaphore::<tokio::sync::Semaphore>),
                Contender::named("smol", semaphore::<async_lock::Semaphore>),
            ],
        ),
    ]
}

fn mutex<M: Lock>(probe: &mut Probe) {
    let mutex = leak(M::new());
    waits(
        probe,
        || mutex.try_lock().expect("nobody holds it"),
        || mutex.lock(),
    );
}

fn rwlock<L: SharedLock>(probe: &mut Probe) {
    let lock = leak(L::new());
    waits(
        probe,
        || lock.try_write().expect("nobody holds it"),
        || lock.write(),
    );
}

fn semaphore<S: Permits>(probe: &mut Probe) {
    let semaphore = leak(S::new(1));
    waits(
        probe,
        || semaphore.try_acquire().expect("nobody holds it"),
        || semaphore.acquire(),
    );
}

/// Lets a future of `wait` wait for the guard of `hold`, again and again.
fn waits<G, F: Future>(probe: &mut Probe, hold: impl Fn() -> G, wait: impl Fn() -> F) {
    let was_counting = alloc::is_counting();
    probe.derive(|n| {
        let mut cx = Context::from_waker(Waker::noop());
        let mut waited = 0;
        alloc::count(true);
        let before = Counts::now();
        for _ in 0..n {
            let guard = hold();
            let mut waiter = pin!(wait());
            assert!(waiter.as_mut().poll(&mut cx).is_pending(), "it is held");
            drop(guard);
            assert!(
                matches!(waiter.as_mut().poll(&mut cx), Poll::Ready(_)),
                "it was released"
            );
            waited += 1;
        }
        let made = Counts::now().since(before);
        alloc::count(was_counting);
        (Cost::of_count(waited), made.allocations as f64 / n as f64)
    });
}
