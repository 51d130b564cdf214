//! Cost of a lock that lets readers in together.
//!
//! The reader rows are about the line all readers write to count themselves; with
//! writers in between they are about the policy as much as the path. They would lie
//! if the reads were optimised away: each adds what it read to a sum that is checked.
//!
//! The floors are locks that block their thread, as for [`mutex`](super::mutex). `word` is what
//! any lock whose readers count themselves in one word has to do: two threads add one, read the
//! value, and subtract one.

use std::future::Future;
use std::hint::black_box;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{leak, on_two_threads, pairs};
use crate::kit::split_evenly;
use crate::probe::{Cost, Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Blitzen, Rt, Smol, Tokio, run_inside};

macro_rules! contenders {
    ($work:ident) => {
        pairs![$work;
            "blitzen": Blitzen blitzen::sync::RwLock<u64>,
            "tokio": Tokio tokio::sync::RwLock<u64>,
            "tokio+blitzen": Tokio blitzen::sync::RwLock<u64>,
            "smol": Smol async_lock::RwLock<u64>,
        ]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "rwlock_read",
            "RwLock::read().await, nobody else there",
            (500_000, 5_000),
            contenders!(read),
        )
        .floor("std", thread_read::<std::sync::RwLock<u64>>)
        .floor("parking_lot", thread_read::<parking_lot::RwLock<u64>>)
        .counted(10_000)
        .target(OverTokio(3.5)),
        Row::new(
            "rwlock_write",
            "RwLock::write().await, nobody else there",
            (500_000, 5_000),
            contenders!(write),
        )
        .floor("std", thread_write::<std::sync::RwLock<u64>>)
        .floor("parking_lot", thread_write::<parking_lot::RwLock<u64>>)
        .counted(10_000)
        .target(OverTokio(3.5)),
        Row::new(
            "rwlock_try_read",
            "RwLock::try_read, nobody else there",
            (1_000_000, 5_000),
            contenders!(try_read),
        )
        .floor("std", thread_try_read::<std::sync::RwLock<u64>>)
        .floor("parking_lot", thread_try_read::<parking_lot::RwLock<u64>>)
        .counted(10_000)
        .target(OverTokio(1.3)),
        Row::new(
            "rwlock_try_write",
            "RwLock::try_write, nobody else there",
            (1_000_000, 5_000),
            contenders!(try_write),
        )
        .floor("std", thread_try_write::<std::sync::RwLock<u64>>)
        .floor("parking_lot", thread_try_write::<parking_lot::RwLock<u64>>)
        .counted(10_000)
        .target(OverTokio(1.3)),
        Row::new(
            "rwlock_4_readers",
            "4 tasks read",
            (400_000, 5_000),
            contenders!(readers),
        )
        .floor("word", two_threads_count)
        .floor("std", two_threads_read::<std::sync::RwLock<u64>>)
        .floor("parking_lot", two_threads_read::<parking_lot::RwLock<u64>>)
        .target(OverTokio(2.5)),
        Row::new(
            "rwlock_4_readers_2_writers",
            "4 tasks read while 2 write",
            (200_000, 5_000),
            contenders!(readers_and_writers),
        )
        .target(OverTokio(2.5)),
    ]
}

pub(crate) trait SharedLock: Send + Sync + 'static {
    type ReadGuard: Deref<Target = u64> + Send;
    type WriteGuard: DerefMut<Target = u64> + Send;

    fn new() -> Self;
    fn read(&'static self) -> impl Future<Output = Self::ReadGuard> + Send;
    fn write(&'static self) -> impl Future<Output = Self::WriteGuard> + Send;
    fn try_read(&'static self) -> Option<Self::ReadGuard>;
    fn try_write(&'static self) -> Option<Self::WriteGuard>;
}

macro_rules! tokio_like {
    ($($library:ident)::+) => {
        impl SharedLock for $($library)::+::RwLock<u64> {
            type ReadGuard = $($library)::+::RwLockReadGuard<'static, u64>;
            type WriteGuard = $($library)::+::RwLockWriteGuard<'static, u64>;

            fn new() -> Self {
                Self::new(0)
            }

            fn read(&'static self) -> impl Future<Output = Self::ReadGuard> + Send {
                self.read()
            }

            fn write(&'static self) -> impl Future<Output = Self::WriteGuard> + Send {
                self.write()
            }

            fn try_read(&'static self) -> Option<Self::ReadGuard> {
                self.try_read().ok()
            }

            fn try_write(&'static self) -> Option<Self::WriteGuard> {
                self.try_write().ok()
            }
        }
    };
}

tokio_like!(tokio::sync);
tokio_like!(blitzen::sync);

impl SharedLock for async_lock::RwLock<u64> {
    type ReadGuard = async_lock::RwLockReadGuard<'static, u64>;
    type WriteGuard = async_lock::RwLockWriteGuard<'static, u64>;

    fn new() -> Self {
        Self::new(0)
    }

    fn read(&'static self) -> impl Future<Output = Self::ReadGuard> + Send {
        self.read()
    }

    fn write(&'static self) -> impl Future<Output = Self::WriteGuard> + Send {
        self.write()
    }

    fn try_read(&'static self) -> Option<Self::ReadGuard> {
        self.try_read()
    }

    fn try_write(&'static self) -> Option<Self::WriteGuard> {
        self.try_write()
    }
}

/// A lock that holds 1, so that a sum of reads counts them.
async fn holding_one<L: SharedLock>() -> &'static L {
    let lock = leak(L::new());
    *lock.write().await = black_box(1);
    lock
}

fn read<R: Rt, L: SharedLock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let lock = holding_one::<L>().await;
            let mut sum = 0;
            let region = Region::begin();
            for _ in 0..n {
                sum += *lock.read().await;
            }
            region.end(sum)
        })
    });
}

fn write<R: Rt, L: SharedLock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let lock = leak(L::new());
            let region = Region::begin();
            for _ in 0..n {
                *lock.write().await += 1;
            }
            region.stop().counted(*lock.read().await)
        })
    });
}

fn try_read<R: Rt, L: SharedLock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let lock = holding_one::<L>().await;
            let mut sum = 0;
            let region = Region::begin();
            for _ in 0..n {
                sum += *lock.try_read().expect("nobody writes");
            }
            region.end(sum)
        })
    });
}

fn try_write<R: Rt, L: SharedLock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let lock = leak(L::new());
            let region = Region::begin();
            for _ in 0..n {
                *lock.try_write().expect("nobody else there") += 1;
            }
            region.stop().counted(*lock.read().await)
        })
    });
}

fn readers<R: Rt, L: SharedLock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let lock = holding_one::<L>().await;
            let region = Region::begin();
            let tasks: Vec<_> = split_evenly(n, 4)
                .map(|times| {
                    R::spawn(async move {
                        let mut sum = 0;
                        for _ in 0..times {
                            sum += *lock.read().await;
                        }
                        sum
                    })
                })
                .collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await;
            }
            region.end(sum)
        })
    });
}

fn readers_and_writers<R: Rt, L: SharedLock>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let lock = leak(L::new());
            let region = Region::begin();
            let tasks: Vec<_> = split_evenly(n, 6)
                .enumerate()
                .map(|(index, times)| {
                    R::spawn(async move {
                        let mut reads = 0;
                        for _ in 0..times {
                            if index % 3 == 2 {
                                *lock.write().await += 1;
                            } else {
                                black_box(*lock.read().await);
                                reads += 1;
                            }
                        }
                        reads
                    })
                })
                .collect();
            let mut reads = 0;
            for task in tasks {
                reads += task.await;
            }
            region.stop().counted(reads + *lock.read().await)
        })
    });
}

/// A lock that blocks its thread.
trait ThreadLock {
    fn new() -> Self;
    fn read(&self) -> impl Deref<Target = u64>;
    fn write(&self) -> impl DerefMut<Target = u64>;
    fn try_read(&self) -> Option<impl Deref<Target = u64>>;
    fn try_write(&self) -> Option<impl DerefMut<Target = u64>>;
}

impl ThreadLock for std::sync::RwLock<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    fn read(&self) -> impl Deref<Target = u64> {
        self.read().expect(UNPOISONED)
    }

    fn write(&self) -> impl DerefMut<Target = u64> {
        self.write().expect(UNPOISONED)
    }

    fn try_read(&self) -> Option<impl Deref<Target = u64>> {
        self.try_read().ok()
    }

    fn try_write(&self) -> Option<impl DerefMut<Target = u64>> {
        self.try_write().ok()
    }
}

impl ThreadLock for parking_lot::RwLock<u64> {
    fn new() -> Self {
        Self::new(0)
    }

    fn read(&self) -> impl Deref<Target = u64> {
        self.read()
    }

    fn write(&self) -> impl DerefMut<Target = u64> {
        self.write()
    }

    fn try_read(&self) -> Option<impl Deref<Target = u64>> {
        self.try_read()
    }

    fn try_write(&self) -> Option<impl DerefMut<Target = u64>> {
        self.try_write()
    }
}

const UNPOISONED: &str = "nobody panics under it";

fn thread_reads<L: ThreadLock>(probe: &mut Probe, read: impl Fn(&L) -> u64) {
    probe.time(|n| {
        let lock = black_box(L::new());
        *lock.write() = black_box(1);
        let mut sum = 0;
        let region = Region::begin();
        for _ in 0..n {
            sum += read(&lock);
        }
        region.end(sum)
    });
}

fn two_threads_read<L: ThreadLock + Sync>(probe: &mut Probe) {
    probe.time(|n| {
        let lock = L::new();
        *lock.write() = black_box(1);
        two_threads_sum(n, || *lock.read())
    });
}

fn two_threads_count(probe: &mut Probe) {
    probe.time(|n| {
        let (readers, value) = (Padded(AtomicU64::new(0)), Padded(black_box(1)));
        two_threads_sum(n, || {
            readers.0.fetch_add(1, Acquire);
            let seen = *black_box(&value.0);
            readers.0.fetch_sub(1, Release);
            seen
        })
    });
}

fn two_threads_sum(n: u64, read: impl Fn() -> u64 + Sync) -> Cost {
    let sum = AtomicU64::new(0);
    let region = Region::begin();
    on_two_threads(n, |times| {
        sum.fetch_add((0..times).map(|_| read()).sum(), Relaxed);
    });
    region.end(sum.load(Relaxed))
}

/// Alone on its cache lines.
#[repr(align(128))]
struct Padded<T>(T);

fn thread_writes<L: ThreadLock>(probe: &mut Probe, add_one: impl Fn(&L)) {
    probe.time(|n| {
        let lock = black_box(L::new());
        let region = Region::begin();
        for _ in 0..n {
            add_one(&lock);
        }
        let cost = region.stop();
        let done = *lock.read();
        cost.counted(done)
    });
}

fn thread_read<L: ThreadLock>(probe: &mut Probe) {
    thread_reads::<L>(probe, |lock| *lock.read());
}

fn thread_write<L: ThreadLock>(probe: &mut Probe) {
    thread_writes::<L>(probe, |lock| *lock.write() += 1);
}

fn thread_try_read<L: ThreadLock>(probe: &mut Probe) {
    thread_reads::<L>(probe, |lock| *lock.try_read().expect("nobody writes"));
}

fn thread_try_write<L: ThreadLock>(probe: &mut Probe) {
    thread_writes::<L>(probe, |lock| {
        *lock.try_write().expect("nobody else there") += 1;
    });
}
