//! Random programs for the locks: whatever is given up or panics, every permit comes
//! back, a lock excludes, and nobody is stranded.

#![cfg(not(blitzen_loom))]

mod support;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use blitzen_sync::{Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore, SetOnce};
use blitzen_util::rng::Rng;
use support::random_program::{Actor, Choices, calmly, run};

const PROGRAMS: u64 = 300;

type MakeChoices<'a> = &'a mut dyn FnMut(&mut Rng) -> Choices;

#[test]
fn a_mutex_excludes_and_is_unlocked_in_the_end() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let mutex = Arc::new(Mutex::new(0_u32));
        let inside = Arc::new(AtomicU32::new(0));
        let actors = (0..2 + rng.below(4)).map(|_| -> Actor {
            let (mutex, inside) = (mutex.clone(), inside.clone());
            let mut choices = choices(rng);
            Box::pin(async move {
                for _ in 0..8 {
                    let guard = match choices.below(3) {
                        0 => mutex.clone().try_lock_owned().ok(),
                        1 => choices.attempt(mutex.clone().lock_owned()).await,
                        _ => {
                            if let Some(mut guard) = choices.attempt(mutex.lock()).await {
                                *guard += 1;
                                calmly(|| drop(guard));
                            }
                            None
                        }
                    };
                    if let Some(guard) = guard {
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are inside");
                        choices.pause().await;
                        inside.fetch_sub(1, SeqCst);
                        calmly(|| drop(guard));
                    }
                    choices.pause().await;
                }
            })
        });
        (actors.collect(), mutex)
    };
    run(PROGRAMS, actors, |mutex, _| {
        assert!(mutex.try_lock().is_ok());
    });
}

#[test]
fn readers_and_writers_exclude_each_other_and_leave() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let lock = Arc::new(RwLock::with_max_readers((), 1 + rng.below(3)));
        let inside = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let actors = (0..2 + rng.below(4)).map(|_| -> Actor {
            let (lock, inside) = (lock.clone(), inside.clone());
            let mut choices = choices(rng);
            Box::pin(async move {
                for _ in 0..8 {
                    if choices.below(2) == 0 {
                        if let Some(guard) = choices.attempt(lock.clone().read_owned()).await {
                            inside.0.fetch_add(1, SeqCst);
                            assert_eq!(inside.1.load(SeqCst), 0, "a writer is inside");
                            choices.pause().await;
                            inside.0.fetch_sub(1, SeqCst);
                            calmly(|| drop(guard));
                        }
                    } else if let Some(guard) = choices.attempt(lock.clone().write_owned()).await {
                        assert_eq!(inside.1.fetch_add(1, SeqCst), 0, "two writers");
                        assert_eq!(inside.0.load(SeqCst), 0, "readers are inside");
                        choices.pause().await;
                        inside.1.fetch_sub(1, SeqCst);
                        match choices.below(2) {
                            0 => drop(calmly(|| drop(guard.downgrade()))),
                            _ => drop(calmly(|| drop(guard))),
                        }
                    }
                }
            })
        });
        (actors.collect(), lock)
    };
    run(PROGRAMS, actors, |lock, _| {
        assert!(lock.try_write().is_ok());
    });
}

#[test]
fn every_permit_comes_back() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let permits = 1 + rng.below(4);
        let semaphore = Arc::new(Semaphore::new(permits as usize));
        let actors = (0..2 + rng.below(4)).map(|_| -> Actor {
            let semaphore = semaphore.clone();
            let mut choices = choices(rng);
            Box::pin(async move {
                for _ in 0..8 {
                    let count = choices.below(permits + 1);
                    let acquired = match choices.below(3) {
                        0 => semaphore.clone().try_acquire_many_owned(count).ok(),
                        _ => {
                            let acquire = semaphore.clone().acquire_many_owned(count);
                            choices.attempt(acquire).await.map(|permit| permit.unwrap())
                        }
                    };
                    let Some(mut permit) = acquired else { continue };
                    assert_eq!(permit.num_permits(), count as usize);
                    choices.pause().await;
                    if let Some(part) = permit.split(choices.below(2) as usize) {
                        calmly(|| drop(part));
                    }
                    calmly(|| drop(permit));
                }
            })
        });
        (actors.collect(), (semaphore, permits as usize))
    };
    run(PROGRAMS, actors, |(semaphore, permits), _| {
        assert_eq!(semaphore.available_permits(), permits);
    });
}

#[test]
fn a_closed_semaphore_strands_nobody() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let semaphore = Arc::new(Semaphore::new(1));
        let count = 2 + rng.below(4);
        let mut actors: Vec<_> = (0..count)
            .map(|_| -> Actor {
                let semaphore = semaphore.clone();
                let mut choices = choices(rng);
                Box::pin(async move {
                    loop {
                        match choices.attempt(semaphore.acquire()).await {
                            Some(Err(_closed)) => return,
                            Some(Ok(permit)) => drop(calmly(|| drop(permit))),
                            None => {}
                        }
                        choices.pause().await;
                    }
                })
            })
            .collect();
        let mut last = choices(rng);
        let closing = semaphore.clone();
        actors.push(Box::pin(async move {
            last.pause().await;
            calmly(|| closing.close());
        }));
        (actors, semaphore)
    };
    run(PROGRAMS, actors, |semaphore, _| {
        assert!(semaphore.is_closed());
    });
}

#[test]
fn no_notification_is_lost() {
    const EACH: usize = 6;
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        // Items, of which each producer adds some and announces each.
        let shared = Arc::new((AtomicUsize::new(0), Notify::new(), AtomicBool::new(false)));
        let producers = 1 + rng.below(3) as usize;
        let left = Arc::new(AtomicUsize::new(producers * EACH));
        let mut actors: Vec<Actor> = Vec::new();
        for _ in 0..producers {
            let shared = shared.clone();
            let mut choices = choices(rng);
            actors.push(Box::pin(async move {
                for _ in 0..EACH {
                    shared.0.fetch_add(1, SeqCst);
                    match choices.below(4) {
                        0 => drop(calmly(|| shared.1.notify_last())),
                        _ => drop(calmly(|| shared.1.notify_one())),
                    }
                    choices.pause().await;
                }
            }));
        }
        for index in 0..1 + rng.below(3) {
            let (shared, left) = (shared.clone(), left.clone());
            let mut choices = choices(rng);
            actors.push(Box::pin(async move {
                while !shared.2.load(SeqCst) {
                    let taken = shared
                        .0
                        .fetch_update(SeqCst, SeqCst, |items| items.checked_sub(1));
                    if taken.is_ok() {
                        if left.fetch_sub(1, SeqCst) == 1 {
                            shared.2.store(true, SeqCst);
                            calmly(|| shared.1.notify_waiters());
                        }
                        continue;
                    }
                    let mut notified = Box::pin(shared.1.notified());
                    notified.as_mut().enable();
                    if shared.2.load(SeqCst) || shared.0.load(SeqCst) != 0 {
                        calmly(|| drop(notified));
                        continue;
                    }
                    let given_up = choices.attempt(notified).await.is_none();
                    if given_up && index != 0 {
                        return; // for good: its notification goes on
                    }
                }
            }));
        }
        (actors, left)
    };
    run(PROGRAMS, actors, |left, _| {
        assert_eq!(left.load(SeqCst), 0);
    });
}

#[test]
fn a_barrier_counts_nobody_who_has_left() {
    const ROUNDS: usize = 6;
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let barrier = Arc::new(Barrier::new(2));
        let busy = Arc::new(AtomicUsize::new(2));
        let mut actors: Vec<Actor> = Vec::new();
        for _ in 0..2 {
            let (barrier, busy) = (barrier.clone(), busy.clone());
            let mut choices = choices(rng);
            actors.push(Box::pin(async move {
                for _ in 0..ROUNDS {
                    barrier.wait().await;
                    choices.pause().await;
                }
                busy.fetch_sub(1, SeqCst);
            }));
        }
        // One that mostly gives up, and helps out the last one of the others.
        let mut choices = choices(rng);
        let ghost = barrier.clone();
        actors.push(Box::pin(async move {
            while busy.load(SeqCst) != 0 {
                poll_once(ghost.wait());
                choices.pause().await;
                std::thread::yield_now();
            }
        }));
        (actors, barrier)
    };
    run(PROGRAMS, actors, |barrier, _| {
        assert_eq!(format!("{barrier:?}"), "Barrier { size: 2, arrived: 0 }");
    });
}

#[test]
fn cells_have_one_value_that_everybody_gets() {
    let actors = |rng: &mut Rng, choices: MakeChoices<'_>| {
        let cells = Arc::new((OnceCell::new(), SetOnce::new()));
        let actors = (0..2 + rng.below(4)).map(|index| -> Actor {
            let cells = cells.clone();
            let mut choices = choices(rng);
            let (mut yields, sets) = (rng.below(3), index == 0 || rng.below(2) == 0);
            Box::pin(async move {
                let once = loop {
                    let init = async {
                        for _ in 0..yields {
                            yield_once().await;
                        }
                        Arc::new(index)
                    };
                    if let Some(value) = choices.attempt(cells.0.get_or_init(|| init)).await {
                        break value.clone();
                    }
                    yields /= 2;
                };
                assert!(Arc::ptr_eq(&once, cells.0.get().unwrap()));
                if sets {
                    calmly(|| drop(cells.1.set(once)));
                }
                let set = loop {
                    if let Some(value) = choices.attempt(cells.1.wait()).await {
                        break value;
                    }
                };
                assert!(Arc::ptr_eq(set, cells.0.get().unwrap()));
            })
        });
        (actors.collect(), cells)
    };
    run(PROGRAMS, actors, |cells, _| {
        assert!(cells.0.initialized() && cells.1.initialized());
    });
}

/// Returns `Pending` once.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls once, and gives up.
fn poll_once(future: impl Future) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}
