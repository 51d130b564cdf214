//! Cost of a lock that waits without blocking a thread.
//!
//! Uncontended, it is the fast path and nothing else. Contended, it is whatever
//! policy the lock has: Tokio's and blitzen's hand the lock over in order, the others
//! let a running task take it first, and part of a difference is that. It would lie
//! if the tasks ran one after another: each sample lasts many times a time slice of
//! a runtime, and the guarded count shows that every lock was taken.
//!
//! The floors are locks that block their thread, on a thread without a runtime: what an
//! awaited lock adds to them is the price of not blocking. Where tasks contend, two threads
//! do: their locks keep no order, so that one thread takes the lock many times in a row.

use std::future::Future;
use std::hint::black_box;
use std::ops::DerefMut;

use super::{leak, on_two_threads, pairs};
use crate::kit::split_evenly;
use crate::probe::{Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio, run_inside};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen blitzen::sync::Mutex<u64>,
            "tokio": Tokio tokio::sync::Mutex<u64>,
            "tokio+blitzen": Tokio blitzen::sync::Mutex<u64>,
            "smol": Smol async_lock::Mutex<u64>,
        ]
    };
}
pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "mutex_lock",
            "Mutex::lock().await, nobody else there",
            (500_000, 5_000),
            contenders!(lock),
        )
        .floor("std", thread_lock::<std::sync::Mutex<u64>>)
        .floor("parking_lot", thread_lock::<parking_lot::Mutex<u64>>)
        .counted(10_000)
        .target(OverTokio(3.5)),
        Row::new(
            "mutex_try_lock",
            "Mutex::try_lock, nobody else there",
            (1_000_000, 5_000),
            contenders!(try_lock),
        )
        .floor("std", thread_try_lock::<std::sync::Mutex<u64>>)
        .floor("parking_lot", thread_try_lock::<parking_lot::Mutex<u64>>)
        .counted(10_000)
        .target(OverTokio(1.3)),
        Row::new(
            "mutex_4_tasks",
            "4 tasks lock, add one, unlock",
            (200_000, 5_000),
            contenders!(four_tasks),
        )
        .floor("std", two_threads::<std::sync::Mutex<u64>>)
        .floor("parking_lot", two_threads::<parking_lot::Mutex<u64>>)
        .target(OverTokio(2.0)),
        Row::new(
            "mutex_4_tasks_held",
            "4 tasks lock, add one, yield once, unlock",
            (50_000, 2_000),
            contenders!(four_tasks_held),
        )
        .target(OverTokio(2.0)),
    ]
}

pub(crate) trait Lock: Send + Sync + 'static {
    type Guard: DerefMut<Target = u64> + Send;

    fn new() -> Self;
    fn lock(&'static self) -> impl Future<Output = Self::Guard> + Send;
    fn try_lock(&'static self) -> Option<Self::Guard>;
}

macro_rules! tokio_like {
    ($($library:ident)::+) => {
        impl Lock for $($library)::+::Mutex<u64> {
            type Guard = $($library)::+::MutexGuard<'static, u64>;

            fn new() -> Self {
                Self::new(0)
            }

            fn lock(&'static self) -> impl Future<Output = Self::Guard> + Send {
                self.lock()
            }

            fn try_lock(&'static self) -> Option<Self::Guard> {
                self.try_lock().ok()
            }
        }
    };
}

tokio_like!(tokio::sync);
tokio_like!(blitzen::sync);

impl Lock for async_lock::Mutex<u64> {
    type Guard = async_lock::MutexGuard<'static, u64>;

    fn new() -> Self {
        Self::new(0)
    }

    fn lock(&'static self) -> impl Future<Output = Self::Guard> + Send {
        self.lock()
    }

    fn try_lock(&'static self) -> Option<Self::Guard> {
        self.try_lock()
    }
}

fn lock<R: Rt, M: Lock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mutex = leak(M::new());
            let region = Region::begin();
            for _ in 0..n {
                *mutex.lock().await += 1;
            }
            region.stop().counted(*mutex.lock().await)
        })
    });
}

fn try_lock<R: Rt, M: Lock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let mutex = leak(M::new());
            let region = Region::begin();
            for _ in 0..n {
                *mutex.try_lock().expect("nobody else there") += 1;
            }
            region.stop().counted(*mutex.lock().await)
        })
    });
}

fn four_tasks<R: Rt, M: Lock>(probe: &mut Probe) {
    contended::<R, M, false>(probe);
}

fn four_tasks_held<R: Rt, M: Lock>(probe: &mut Probe) {
    contended::<R, M, true>(probe);
}

fn contended<R: Rt, M: Lock, const HELD: bool>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let mutex = leak(M::new());
            let region = Region::begin();
            let tasks: Vec<_> = split_evenly(n, 4)
                .map(|times| {
                    R::spawn(async move {
                        for _ in 0..times {
                            let mut guard = mutex.lock().await;
                            *guard += 1;
                            if HELD {
                                R::yield_now().await;
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            region.stop().counted(*mutex.lock().await)
        })
    });
}

/// A lock that blocks its thread.
trait ThreadLock {
    fn new() -> Self;
    fn lock(&self) -> impl DerefMut<Target = u64>;
    fn try_lock(&self) -> Option<impl DerefMut<Target = u64>>;
}

impl ThreadLock for std::sync::Mutex<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    fn lock(&self) -> impl DerefMut<Target = u64> {
        self.lock().expect("nobody panics under it")
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = u64>> {
        self.try_lock().ok()
    }
}

impl ThreadLock for parking_lot::Mutex<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    fn lock(&self) -> impl DerefMut<Target = u64> {
        self.lock()
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = u64>> {
        self.try_lock()
    }
}

fn thread_lock<M: ThreadLock>(probe: &mut Probe) {
    probe.time(|n| {
        let mutex = black_box(M::new());
        let region = Region::begin();
        for _ in 0..n {
            *mutex.lock() += 1;
        }
        let cost = region.stop();
        let done = *mutex.lock();
        cost.counted(done)
    });
}

fn two_threads<M: ThreadLock + Sync>(probe: &mut Probe) {
    probe.time(|n| {
        let mutex = M::new();
        let region = Region::begin();
        on_two_threads(n, |times| {
            for _ in 0..times {
                *mutex.lock() += 1;
            }
        });
        let cost = region.stop();
        let done = *mutex.lock();
        cost.counted(done)
    });
}

fn thread_try_lock<M: ThreadLock>(probe: &mut Probe) {
    probe.time(|n| {
        let mutex = black_box(M::new());
        let region = Region::begin();
        for _ in 0..n {
            *mutex.try_lock().expect("nobody else there") += 1;
        }
        let cost = region.stop();
        let done = *mutex.lock();
        cost.counted(done)
    });
}
