//! Many threads at once: nothing lost, nothing given twice, nobody forgotten.

#![cfg(not(blitzen_loom))]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use blitzen_sync::{Barrier, CancelToken, Mutex, Notify, OnceCell, RwLock, Semaphore, SetOnce};
use blitzen_util::rng::Rng;
use futures::executor::block_on;

const THREADS: usize = 4;
const ROUNDS: usize = 2_000;

fn on_threads(work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    let threads: Vec<_> = (0..THREADS)
        .map(|index| {
            let work = work.clone();
            thread::spawn(move || work(index))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Polls a future once or twice, then gives it up unless it was ready.
async fn try_briefly<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(move |cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

#[test]
fn a_mutex_counts_right_with_waiters_that_give_up() {
    let shared = Arc::new((Mutex::new(0usize), AtomicUsize::new(0)));
    let all = shared.clone();
    on_threads(move |index| {
        let mut rng = Rng::new(index as u64 + 1);
        block_on(async {
            for _ in 0..ROUNDS {
                let guard = match rng.below(3) {
                    0 => try_briefly(shared.0.lock(), rng.below(3) as usize).await,
                    _ => Some(shared.0.lock().await),
                };
                if let Some(mut guard) = guard {
                    *guard += 1;
                    shared.1.fetch_add(1, SeqCst);
                }
            }
        });
    });
    assert_eq!(*all.0.try_lock().unwrap(), all.1.load(SeqCst));
    assert!(all.1.load(SeqCst) > THREADS * ROUNDS / 2);
}

#[test]
fn a_semaphore_never_gives_more_than_it_has_and_gets_all_back() {
    const PERMITS: usize = 5;
    let shared = Arc::new((Semaphore::new(PERMITS), AtomicUsize::new(0)));
    let all = shared.clone();
    on_threads(move |index| {
        let mut rng = Rng::new(index as u64 + 1);
        block_on(async {
            for _ in 0..ROUNDS {
                let count = rng.below(PERMITS as u32 + 1);
                let permit = match rng.below(3) {
                    0 => try_briefly(shared.0.acquire_many(count), rng.below(3) as usize).await,
                    _ => Some(shared.0.acquire_many(count).await),
                };
                if let Some(Ok(permit)) = permit {
                    let out = shared.1.fetch_add(permit.num_permits(), SeqCst);
                    assert!(out + permit.num_permits() <= PERMITS);
                    shared.1.fetch_sub(permit.num_permits(), SeqCst);
                }
            }
        });
    });
    assert_eq!(all.0.available_permits(), PERMITS);
}

#[test]
fn a_rwlock_keeps_two_words_equal() {
    let lock = Arc::new(RwLock::new((0usize, 0usize)));
    let all = lock.clone();
    on_threads(move |index| {
        let mut rng = Rng::new(index as u64 + 1);
        block_on(async {
            for _ in 0..ROUNDS {
                match rng.below(4) {
                    0 => {
                        let mut guard = lock.write().await;
                        guard.0 += 1;
                        std::hint::spin_loop();
                        guard.1 += 1;
                        let guard = guard.downgrade();
                        assert_eq!(guard.0, guard.1);
                    }
                    1 => {
                        if let Some(mut guard) = try_briefly(lock.write(), 1).await {
                            guard.0 += 1;
                            guard.1 += 1;
                        }
                    }
                    _ => {
                        let guard = lock.read().await;
                        assert_eq!(guard.0, guard.1);
                    }
                }
            }
        });
    });
    let guard = all.try_write().unwrap();
    assert_eq!(guard.0, guard.1);
}

#[test]
fn every_notification_ends_one_wait() {
    // As many waits as notifications, one at a time, so that none is merged.
    let shared = Arc::new((Notify::new(), Notify::new(), AtomicUsize::new(0)));
    let waiter = thread::spawn({
        let shared = shared.clone();
        move || {
            let mut rng = Rng::new(7);
            block_on(async {
                for _ in 0..ROUNDS {
                    loop {
                        match rng.below(2) {
                            0 if try_briefly(shared.0.notified(), 1).await.is_none() => continue,
                            0 => break,
                            _ => break shared.0.notified().await,
                        }
                    }
                    shared.2.fetch_add(1, SeqCst);
                    shared.1.notify_one();
                }
            });
        }
    });
    block_on(async {
        for round in 0..ROUNDS {
            shared.0.notify_one();
            shared.1.notified().await;
            assert_eq!(shared.2.load(SeqCst), round + 1);
        }
    });
    waiter.join().unwrap();
}

#[test]
fn notify_waiters_reaches_all_who_listen() {
    let shared = Arc::new((Notify::new(), Barrier::new(THREADS + 1)));
    let all = shared.clone();
    let caller = thread::spawn(move || {
        for _ in 0..200 {
            block_on(all.1.wait());
            all.0.notify_waiters();
            block_on(all.1.wait());
        }
    });
    on_threads(move |_| {
        for _ in 0..200 {
            let listening = shared.0.notified();
            block_on(shared.1.wait());
            block_on(listening);
            block_on(shared.1.wait());
        }
    });
    caller.join().unwrap();
}

#[test]
fn a_barrier_has_one_leader_a_round() {
    let shared = Arc::new((Barrier::new(THREADS), AtomicUsize::new(0)));
    let all = shared.clone();
    on_threads(move |_| {
        for _ in 0..ROUNDS {
            if block_on(shared.0.wait()).is_leader() {
                shared.1.fetch_add(1, SeqCst);
            }
        }
    });
    assert_eq!(all.1.load(SeqCst), ROUNDS);
}

#[test]
fn a_cell_is_filled_once_though_fillers_give_up() {
    for _ in 0..200 {
        let shared = Arc::new((OnceCell::new(), AtomicUsize::new(0)));
        let all = shared.clone();
        on_threads(move |index| {
            block_on(async {
                let _ = try_briefly(shared.0.get_or_init(std::future::pending), index % 2).await;
                let value = shared.0.get_or_init(|| async {
                    shared.1.fetch_add(1, SeqCst);
                    index
                });
                assert_eq!(Some(value.await), shared.0.get());
            });
        });
        assert_eq!(all.1.load(SeqCst), 1);
    }
}

#[test]
fn one_sets_and_all_see_it() {
    for _ in 0..200 {
        let shared = Arc::new((SetOnce::new(), AtomicUsize::new(0)));
        let all = shared.clone();
        on_threads(move |index| {
            if index % 2 == 0 && shared.0.set(index).is_ok() {
                shared.1.fetch_add(1, SeqCst);
            }
            assert_eq!(Some(block_on(shared.0.wait())), shared.0.get());
        });
        assert_eq!(all.1.load(SeqCst), 1);
    }
}

#[test]
fn a_tree_of_tokens_grows_and_falls() {
    for _ in 0..100 {
        let root = CancelToken::new();
        let canceller = root.clone();
        on_threads(move |index| {
            if index == 0 {
                canceller.cancel();
                return;
            }
            let mut rng = Rng::new(index as u64);
            let mut tokens = vec![canceller.child_token()];
            for _ in 0..50 {
                let place = rng.below(tokens.len() as u32) as usize;
                match rng.below(3) {
                    0 if tokens.len() > 1 => drop(tokens.swap_remove(place)),
                    1 => tokens[place].cancel(),
                    _ => tokens.push(tokens[place].child_token()),
                }
            }
            for token in tokens {
                block_on(token.cancelled());
            }
        });
        assert!(root.is_cancelled());
    }
}

#[test]
fn a_long_chain_of_tokens_is_neither_a_leak_nor_a_deep_recursion() {
    let root = CancelToken::new();
    let mut last = root.child_token();
    for _ in 0..100_000 {
        last = last.child_token();
    }
    root.cancel();
    assert!(last.is_cancelled());

    let chain: Vec<_> =
        std::iter::successors(Some(CancelToken::new()), |token| Some(token.child_token()))
            .take(100_000)
            .collect();
    chain[0].cancel();
    assert!(chain.iter().all(CancelToken::is_cancelled));
}
