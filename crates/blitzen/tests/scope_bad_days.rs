//! What a scope promises when much goes wrong at once.

mod scope_common;

use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use blitzen::channel::oneshot;
use blitzen::dispatch::{Dispatcher, PollJob};
use blitzen::scope::{Scope, Stopped, scope};
use blitzen::task;
use blitzen::time::{Instant, sleep};
use scope_common::{Alive, FOREVER, on_both, one_thread, paused, poll_once, workers};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_child_may_fail_while_the_body_spawns() {
    on_both(|| async {
        for round in 0..50 {
            let alive = Alive::default();
            let failed: io::Result<()> = scope(|s| {
                let alive = alive.clone();
                async move {
                    for n in 0.. {
                        match n == round {
                            true => s.spawn(async { Err(io::Error::other("no luck")) }),
                            false => s.spawn(alive.forever::<io::Error>()),
                        };
                        if n % 8 == 0 {
                            task::yield_now().await;
                        }
                    }
                    Ok(())
                }
            })
            .await;
            assert_eq!(failed.unwrap_err().to_string(), "no luck");
            assert_eq!(alive.count(), 0);
        }
    });
}

#[test]
fn a_scope_dropped_outside_any_other_cancels_its_children() {
    on_both(|| async {
        let alive = Alive::default();
        let mut dropped = Box::pin(scope(|s| {
            let (child, body) = (alive.forever(), alive.forever());
            async move {
                s.spawn(child);
                body.await as Result<(), Stopped>
            }
        }));
        assert!(poll_once(&mut dropped).await.is_pending());
        drop(dropped);
        alive.reaches(0).await;
    });
}

#[test]
fn an_abort_during_the_grace_waits_for_its_end() {
    paused().block_on(async {
        let start = Instant::now();
        let alive = Alive::default();
        let stubborn = alive.forever();
        let parent = task::spawn(Scope::builder().grace(3 * SECOND).run(|s| async move {
            s.spawn(stubborn);
            s.cancel();
            pending::<Result<(), Stopped>>().await
        }));
        sleep(SECOND).await;
        parent.abort();
        assert!(parent.await.unwrap_err().is_cancelled());
        assert_eq!(start.elapsed(), 3 * SECOND);
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn an_abort_begins_the_grace() {
    paused().block_on(async {
        let start = Instant::now();
        let polite = Arc::new(AtomicBool::new(false));
        let was_polite = polite.clone();
        let parent = task::spawn(Scope::builder().grace(5 * SECOND).run(|_| async move {
            task::cancelled().await; // the body, and nobody else
            sleep(SECOND).await;
            polite.store(true, SeqCst);
            Ok::<_, Stopped>(())
        }));
        sleep(SECOND).await;
        parent.abort();
        assert!(parent.await.unwrap_err().is_cancelled());
        assert_eq!(start.elapsed(), 2 * SECOND);
        assert!(was_polite.load(SeqCst));
    });
}

#[test]
fn an_abort_leaves_a_scope_in_a_body_the_grace_of_the_scope_around_it() {
    paused().block_on(async {
        let start = Instant::now();
        let steps = Arc::new(AtomicUsize::new(0));
        let taken = steps.clone();
        let parent = task::spawn(Scope::builder().grace(5 * SECOND).run(|_| async move {
            let child_steps = steps.clone();
            // Two levels, so that the scope in the middle is not cancelled itself.
            let inner = scope(|_| {
                scope(|s| async move {
                    s.spawn(async move {
                        task::cancelled().await;
                        sleep(SECOND).await;
                        child_steps.fetch_add(1, SeqCst);
                        Ok(())
                    });
                    Ok::<_, Stopped>(())
                })
            });
            inner.await?;
            steps.fetch_add(10, SeqCst); // the body goes on
            Ok::<_, Stopped>(())
        }));
        sleep(SECOND).await;
        parent.abort();
        assert!(parent.await.unwrap_err().is_cancelled());
        assert_eq!(start.elapsed(), 2 * SECOND);
        assert_eq!(taken.load(SeqCst), 11);
    });
}

#[test]
fn a_body_that_panics_after_the_cancel_is_counted() {
    on_both(|| async {
        let mut kept = None;
        let cancelled = scope(|s: Scope<Stopped>| {
            kept = Some(s.clone());
            async move {
                s.cancel();
                assert!(!s.is_cancelled(), "too late");
                Ok(())
            }
        });
        assert_eq!(cancelled.await, Err(Stopped::Cancelled));
        assert_eq!(kept.unwrap().later_failures(), 1);
    });
}

#[test]
fn a_shield_inside_a_cancelled_scope_sees_nothing_of_it() {
    on_both(|| async {
        let done = scope(|s| async move {
            let (release, wait) = oneshot::channel::<()>();
            let (entered, entering) = oneshot::channel();
            let cleaned = s.spawn(async move {
                let cleanup = task::shield(async move {
                    entered.send(()).unwrap();
                    wait.await.unwrap();
                    assert!(!task::is_cancelled());
                    // A scope opened here is not cancelled either.
                    let inner = scope(|inner| async move {
                        assert!(!inner.is_cancelled() && !task::is_cancelled());
                        inner
                            .spawn(async { Ok::<_, Stopped>(task::is_cancelled()) })
                            .await
                    });
                    inner.await
                });
                let inside = cleanup.await?;
                Ok::<_, Stopped>((inside, task::is_cancelled()))
            });
            entering.await.unwrap();
            s.cancel();
            release.send(()).unwrap();
            // The abort lands where the child next waits, which it does not.
            task::shield(async {
                assert_eq!(cleaned.await, Ok((false, true)));
            })
            .await;
            Ok(())
        });
        done.await.unwrap();
    });
}

#[test]
fn a_body_under_a_shield_is_dropped_when_the_shield_has_ended() {
    on_both(|| async {
        let reached = Arc::new(AtomicUsize::new(0));
        let stopped = scope(|s| {
            let reached = reached.clone();
            async move {
                task::shield(async {
                    s.cancel();
                    task::yield_now().await;
                    reached.fetch_add(1, SeqCst);
                })
                .await;
                task::yield_now().await;
                reached.fetch_add(10, SeqCst);
                Ok::<_, Stopped>(())
            }
        });
        assert_eq!(stopped.await, Err(Stopped::Cancelled));
        assert_eq!(reached.load(SeqCst), 1);
    });
}

#[test]
fn a_bounded_shield_has_a_deadline_of_its_own() {
    paused().block_on(async {
        let start = Instant::now();
        let done = Scope::builder().within(SECOND).run(|s| async move {
            s.spawn(async move {
                let cleanup = task::shield_within(3 * SECOND, async {
                    assert_eq!(task::deadline(), Some(Instant::now() + 3 * SECOND));
                    let inner = scope(|_| async { Ok::<_, Stopped>(task::deadline()) });
                    assert_eq!(inner.await.unwrap(), task::deadline());
                    pending::<()>().await
                });
                assert!(cleanup.await.is_err());
                Ok(())
            });
            Ok::<_, Stopped>(())
        });
        assert_eq!(done.await, Err(Stopped::Deadline));
        assert_eq!(start.elapsed(), 3 * SECOND);
    });
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("in a destructor");
        }
    }
}

#[test]
fn a_panic_in_the_destructor_of_a_child_or_body_is_a_panic_of_the_scope() {
    for is_body in [false, true] {
        on_both(move || async move {
            let alive = Alive::default();
            let other = alive.forever();
            let parent = task::spawn(scope(move |s| async move {
                s.spawn(other);
                let bomb = Bomb;
                let bombed = async move {
                    let _bomb = bomb;
                    pending::<Result<(), Stopped>>().await
                };
                match is_body {
                    true => {
                        s.spawn(async { Err::<(), _>(Stopped::Cancelled) });
                        bombed.await
                    }
                    false => {
                        s.spawn(bombed).abort();
                        pending().await
                    }
                }
            }));
            let ended = parent.await;
            match is_body {
                // The error was first.
                true => assert_eq!(ended.unwrap(), Err(Stopped::Cancelled)),
                false => assert!(ended.unwrap_err().is_panic()),
            }
            assert_eq!(alive.count(), 0);
        });
    }
}

#[test]
fn a_scope_dropped_with_a_body_that_panics_is_still_waited_for() {
    on_both(|| async {
        let alive = Alive::default();
        let child = alive.forever();
        let parent = task::spawn(scope(|_| async move {
            let mut inner = Box::pin(scope(|s| async move {
                s.spawn(child);
                let _bomb = Bomb;
                pending::<Result<(), Stopped>>().await
            }));
            assert!(poll_once(&mut inner).await.is_pending());
            drop(inner);
            Ok::<_, Stopped>(())
        }));
        assert!(parent.await.unwrap_err().is_panic());
        assert_eq!(alive.count(), 0, "the scope around it has waited");
    });
}

#[test]
fn a_million_children_leave_no_memory_behind() {
    let count = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    let runtime = workers(2);
    let metrics = runtime.handle().metrics();
    runtime.block_on(async {
        let ended = Arc::new(AtomicUsize::new(0));
        let most = Scope::builder().at_most(1_000).run(|s| {
            let ended = ended.clone();
            async move {
                let mut most = 0;
                for _ in 0..count {
                    s.ready().await;
                    let ended = ended.clone();
                    s.spawn(async move {
                        ended.fetch_add(1, SeqCst);
                        Ok(())
                    });
                    most = most.max(metrics.num_alive_tasks());
                }
                Ok::<_, Stopped>(most)
            }
        });
        assert!(most.await.unwrap() <= 1_001);
        assert_eq!(ended.load(SeqCst), count);
        assert_eq!(Arc::strong_count(&ended), 1, "no future is left");
    });
}

/// Scopes in tasks, each the child of the one before.
fn tasks_deep(depth: usize) -> Pin<Box<dyn Future<Output = Result<usize, Stopped>> + Send>> {
    Box::pin(async move {
        scope(|s| async move {
            match depth {
                0 => Ok(0),
                _ => Ok(s.spawn(tasks_deep(depth - 1)).await? + 1),
            }
        })
        .await
    })
}

/// Scopes in the bodies of scopes.
fn bodies_deep(
    depth: usize,
    alive: Alive,
) -> Pin<Box<dyn Future<Output = Result<usize, Stopped>> + Send>> {
    Box::pin(scope(move |s| async move {
        s.spawn(alive.forever::<Stopped>());
        match depth {
            0 => pending().await,
            _ => bodies_deep(depth - 1, alive).await,
        }
    }))
}

#[test]
fn scopes_nest_a_thousand_deep() {
    on_both(|| async {
        assert_eq!(tasks_deep(1_000).await, Ok(1_000));
    });
    let deep = thread::Builder::new().stack_size(256 << 20).spawn(|| {
        let runtime = one_thread();
        let alive = Alive::default();
        let parent = runtime.spawn(bodies_deep(999, alive.clone()));
        runtime.block_on(async {
            alive.reaches(1_000).await;
            parent.abort();
            assert!(parent.await.unwrap_err().is_cancelled());
            assert_eq!(alive.count(), 0, "the abort waited for all of them");
            // And cancelled from the outside.
            let mut dropped = bodies_deep(999, alive.clone());
            assert!(poll_once(&mut dropped).await.is_pending());
            drop(dropped);
            alive.reaches(0).await;
        });
    });
    deep.unwrap().join().unwrap();
}

#[test]
fn a_kept_handle_of_a_deep_scope_is_dropped_without_recursion() {
    let runtime = one_thread();
    runtime.block_on(async {
        // Each scope is opened in a child of the one before, whose handle is kept.
        let (keep, kept) = mpsc::channel();
        let done = scope(|s: Scope<Stopped>| async move {
            fn open(
                depth: usize,
                keep: mpsc::Sender<Scope<Stopped>>,
            ) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send>> {
                Box::pin(scope(move |s: Scope<Stopped>| async move {
                    match depth {
                        0 => {
                            keep.send(s).unwrap();
                            Ok(())
                        }
                        _ => s.spawn(open(depth - 1, keep)).await,
                    }
                }))
            }
            s.spawn(open(100_000, keep)).await
        });
        done.await.unwrap();
        let small = thread::Builder::new().stack_size(64 << 10);
        let dropper = small.spawn(move || drop(kept.recv().unwrap()));
        dropper.unwrap().join().unwrap();
    });
}

#[test]
fn a_runtime_is_shut_down_with_scopes_alive() {
    for runtime in [one_thread(), workers(2)] {
        let alive = Alive::default();
        let (nested, child, shielded) = (alive.clone(), alive.forever(), alive.forever());
        runtime.spawn(Scope::builder().grace(FOREVER).run(|s| async move {
            s.spawn(child);
            s.spawn(task::shield(shielded));
            s.spawn(bodies_deep(5, nested).map_ok());
            pending::<Result<(), Stopped>>().await
        }));
        runtime.block_on(alive.reaches(8));
        drop(runtime);
        assert_eq!(alive.count(), 0);
    }
}

trait MapOk: Future<Output = Result<usize, Stopped>> + Sized {
    fn map_ok(self) -> impl Future<Output = Result<(), Stopped>> {
        async { self.await.map(drop) }
    }
}

impl<F: Future<Output = Result<usize, Stopped>>> MapOk for F {}

#[test]
fn a_scope_survives_the_runtime_of_its_children() {
    let (first, second) = (workers(1), one_thread());
    let alive = Alive::default();
    let child = alive.forever();
    let mut moved = Box::pin(scope(|s| async move {
        let stopped = s.spawn(child).await;
        Ok::<Result<(), Stopped>, Stopped>(stopped)
    }));
    first.block_on(async { assert!(poll_once(&mut moved).await.is_pending()) });
    drop(first);
    assert_eq!(alive.count(), 0);
    // On another runtime: the child was cancelled with its own.
    assert_eq!(second.block_on(moved), Ok(Err(Stopped::Cancelled)));
}

#[test]
fn a_leaked_handle_is_refused_once_the_scope_has_ended() {
    on_both(|| async {
        let kept = scope(|s: Scope<Stopped>| async move { Ok::<_, Stopped>(s) });
        let kept = kept.await.unwrap();
        let alive = Alive::default();
        let refused = kept.spawn(alive.forever::<Stopped>());
        assert_eq!(alive.count(), 0, "the future is dropped at once");
        assert!(refused.is_finished() && refused.id().is_none());
        assert_eq!(refused.await, Err(Stopped::Refused));
        kept.spawn_daemon(alive.forever());
        kept.cancel();
        kept.set_deadline(Instant::now());
        kept.ready().await;
        assert_eq!((alive.count(), kept.children()), (0, 0));
        assert!(!kept.is_cancelled(), "it had ended before");
    });
}

#[test]
fn a_forgotten_scope_harms_nobody() {
    on_both(|| async {
        let alive = Alive::default();
        let child = alive.forever::<Stopped>();
        let (sender, mut handles) = blitzen::channel::mpsc::unbounded_channel();
        let mut forgotten = Box::pin(scope(|s: Scope<Stopped>| async move {
            sender.send(s.clone()).unwrap();
            s.spawn(child);
            pending::<Result<(), Stopped>>().await
        }));
        assert!(poll_once(&mut forgotten).await.is_pending());
        // The test must not leak: what is forgotten stays reachable.
        let forgotten = std::mem::ManuallyDrop::new(forgotten);
        let scope = handles.recv().await.unwrap();
        assert_eq!(
            scope.spawn(async { Ok(1) }).await,
            Ok(1),
            "its children run"
        );
        scope.cancel();
        alive.reaches(0).await;
        drop(std::mem::ManuallyDrop::into_inner(forgotten));
    });
}

/// An executor that knows nothing of blitzen.
fn foreign_block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_scope_is_awaited_by_a_foreign_executor() {
    let runtime = workers(2);
    let mut opened = Box::pin(
        Scope::builder()
            .within(Duration::from_millis(50))
            .grace(Duration::from_millis(50))
            .run(|s| async move {
                let one = s.spawn(async { Ok(1) });
                assert_eq!(one.await, Ok(1));
                task::cancelled().await;
                // Another child, where no runtime is entered.
                let two = s.spawn(async { Ok(2) });
                assert_eq!(two.await, Ok(2));
                pending::<Result<(), Stopped>>().await
            }),
    );
    {
        let _inside = runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(opened.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(foreign_block_on(opened), Err(Stopped::Deadline));
}

#[test]
fn a_scope_outside_any_runtime_can_spawn_nothing() {
    let refused = std::panic::catch_unwind(|| {
        foreign_block_on(scope(|s| async move {
            s.spawn(async { Ok::<_, Stopped>(()) });
            Ok(())
        }))
    });
    assert_eq!(refused.is_err(), cfg!(not(feature = "global")));
}

/// Panics when it is woken.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("in a waker");
    }
}

#[test]
fn wakers_that_panic_take_nobody_along() {
    on_both(|| async {
        let alive = Alive::default();
        let waker = Waker::from(Arc::new(PanickingWaker));
        let (release, wait) = oneshot::channel::<()>();
        let mut awaited = Box::pin(Scope::builder().at_most(1).grace(FOREVER).run(|s| {
            let guard = alive.guard();
            async move {
                s.spawn(async move {
                    let _guard = guard;
                    // A child whose own waker panics when its scope is cancelled.
                    let waker = Waker::from(Arc::new(PanickingWaker));
                    let mut cancelled = Box::pin(task::cancelled());
                    let _ = poll_fn(|_| {
                        Poll::Ready(cancelled.as_mut().poll(&mut Context::from_waker(&waker)))
                    })
                    .await;
                    wait.await.unwrap();
                    drop(cancelled);
                    Ok(())
                });
                let canceller = s.clone();
                s.spawn(async move {
                    canceller.cancel();
                    Ok(())
                });
                Ok::<_, Stopped>(())
            }
        }));
        let mut cx = Context::from_waker(&waker);
        let first = poll_fn(|_| Poll::Ready(awaited.as_mut().poll(&mut cx))).await;
        assert!(first.is_pending());
        release.send(()).unwrap();
        alive.reaches(0).await;
        // Whoever awaits it next gets the result.
        awaited.await.unwrap();
    });
}

#[test]
fn a_scope_is_used_by_a_thread_outside() {
    let runtime = workers(2);
    let outside = runtime.block_on(scope(|s: Scope<Stopped>| async move {
        let (sent, mut received) = blitzen::channel::mpsc::unbounded_channel();
        let thread = thread::spawn({
            let s = s.clone();
            move || {
                for n in 0..100 {
                    let sent = sent.clone();
                    s.spawn(async move {
                        sent.send(n).unwrap();
                        Ok(())
                    });
                }
                foreign_block_on(s.spawn(async { Ok(1) })).unwrap();
                s.token()
            }
        });
        let mut sum = 0;
        while let Some(n) = received.recv().await {
            sum += n;
        }
        assert_eq!(sum, 4_950);
        Ok::<_, Stopped>(thread)
    }));
    let token = outside.unwrap().join().unwrap();
    assert!(!token.is_cancelled());
}

#[test]
fn a_scope_that_is_not_polled_any_more_does_not_defer_an_abort_for_ever() {
    on_both(|| async {
        let alive = Alive::default();
        let child = alive.forever::<Stopped>();
        let (stalled, stalling) = oneshot::channel();
        let parent = task::spawn(async move {
            let mut left_alone = Box::pin(scope(|s| async move {
                s.spawn(child);
                Ok(())
            }));
            assert!(poll_once(&mut left_alone).await.is_pending());
            stalled.send(()).unwrap();
            pending::<()>().await;
            drop(left_alone);
        });
        stalling.await.unwrap();
        parent.abort();
        assert!(parent.await.unwrap_err().is_cancelled());
        alive.reaches(0).await;
    });
}

#[test]
fn an_abort_reaches_scopes_behind_wakers_of_their_own() {
    on_both(|| async {
        let alive = Alive::default();
        let nested = alive.clone();
        // So many that each is polled with its own waker.
        let parent = task::spawn(async move {
            let scopes = (0..100).map(|_| {
                let child = nested.forever::<Stopped>();
                Box::pin(scope(|s| async move {
                    s.spawn(child);
                    Ok(())
                }))
            });
            blitzen::future::join_all(scopes.collect::<Vec<_>>()).await
        });
        alive.reaches(100).await;
        for _ in 0..10 {
            task::yield_now().await;
        }
        parent.abort();
        assert!(parent.await.unwrap_err().is_cancelled());
        alive.reaches(0).await;
    });
}

#[test]
fn a_scope_moves_between_tasks() {
    let runtime = workers(2);
    runtime.block_on(async {
        let (release, wait) = oneshot::channel::<()>();
        let mut moved = Box::pin(scope(|s| async move {
            s.spawn(async move {
                wait.await.unwrap();
                Ok(())
            });
            Ok::<_, Stopped>(1)
        }));
        let polled = task::spawn(async move {
            let is_pending = poll_once(&mut moved).await.is_pending();
            (is_pending, moved)
        });
        let (is_pending, moved) = polled.await.unwrap();
        assert!(is_pending);
        let other = task::spawn(moved);
        release.send(()).unwrap();
        assert_eq!(other.await.unwrap(), Ok(1));
    });
}

#[test]
fn random_programs_of_scopes_end_with_nobody_left() {
    let runtime = workers(2);
    runtime.block_on(async {
        for seed in 1..=200_u64 {
            let alive = Alive::default();
            let program = random_program(seed, 4, alive.clone());
            let outer = task::spawn(scope(move |_| program));
            for _ in 0..seed % 13 {
                task::yield_now().await;
            }
            if seed % 3 == 0 {
                outer.abort();
            }
            // However it ends.
            let _ = outer.await;
            assert_eq!(alive.count(), 0, "seed {seed}");
        }
    });
}

/// A scope that spawns, fails, cancels, drops and shields as `seed` says.
fn random_program(
    seed: u64,
    depth: usize,
    alive: Alive,
) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send>> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let mut builder = Scope::builder();
    if next(3) == 0 {
        builder = builder.grace(Duration::from_micros(next(500)));
    }
    if next(4) == 0 {
        builder = builder.within(Duration::from_micros(next(2_000)));
    }
    Box::pin(builder.run(move |s| async move {
        let _alive = alive.guard();
        for _ in 0..next(6) {
            let guard = alive.guard();
            match next(9) {
                0 => drop(s.spawn::<(), _>(async move {
                    drop(guard);
                    Err(Stopped::Failed)
                })),
                1 => s.spawn_daemon(alive.forever()),
                2 if depth > 0 => {
                    drop(s.spawn(random_program(next(u64::MAX), depth - 1, alive.clone())));
                }
                3 if depth > 0 => {
                    let _ = random_program(next(u64::MAX), depth - 1, alive.clone()).await;
                }
                4 if depth > 0 => {
                    let mut dropped = random_program(next(u64::MAX), depth - 1, alive.clone());
                    let _ = poll_once(&mut dropped).await;
                }
                5 => drop(s.spawn(task::shield(async move {
                    task::yield_now().await;
                    drop(guard);
                    Ok(())
                }))),
                6 => s.cancel(),
                7 => drop(s.spawn(async move {
                    let _guard = guard;
                    task::unless_cancelled(sleep(Duration::from_micros(200))).await;
                    Ok(())
                })),
                _ => task::yield_now().await,
            }
        }
        Ok(())
    }))
}

/// Dispatchers that poll a task in the middle of the code that spawns or wakes it.
fn inline_dispatchers() -> [Dispatcher; 2] {
    [Dispatcher::unconfined(), Dispatcher::from_fn(PollJob::run)]
}

#[test]
fn a_shield_of_a_task_polled_in_the_middle_of_a_body_does_not_hold_the_body() {
    on_both(|| async {
        for inline in inline_dispatchers() {
            let stopped = Scope::builder()
                .within(Duration::from_millis(1))
                .run(|_| async move {
                    inline.spawn(task::shield(pending::<()>()));
                    pending::<Result<(), Stopped>>().await
                })
                .await;
            assert_eq!(stopped, Err(Stopped::Deadline));
        }
    });
}

#[test]
fn a_shield_of_a_local_task_does_not_hold_a_body_that_runs_its_set() {
    one_thread().block_on(async {
        let local = task::LocalSet::new();
        local.spawn_local(task::shield(pending::<()>()));
        let stopped = Scope::builder()
            .within(Duration::from_millis(1))
            .run(|_| local.run_until(pending::<Result<(), Stopped>>()))
            .await;
        assert_eq!(stopped, Err(Stopped::Deadline));
    });
}

#[test]
fn a_shield_that_ends_in_a_task_polled_in_the_middle_of_a_body_takes_none_from_the_body() {
    on_both(|| async {
        let inline = Dispatcher::from_fn(PollJob::run);
        let (wake, woken) = oneshot::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let other = inline.spawn(task::shield(async move {
            begun.send(()).unwrap();
            woken.await
        }));
        has_begun.await.unwrap();
        let is_cleaned = Arc::new(AtomicBool::new(false));
        let cleaned = is_cleaned.clone();
        let stopped = scope(|s| async move {
            task::shield(async {
                wake.send(()).unwrap(); // which polls the other one
                s.cancel();
                task::yield_now().await;
                cleaned.store(true, SeqCst);
            })
            .await;
            pending::<Result<(), Stopped>>().await
        })
        .await;
        assert_eq!(stopped, Err(Stopped::Cancelled));
        assert!(is_cleaned.load(SeqCst));
        other.await.unwrap().unwrap();
    });
}

/// A scope with a long grace that was cancelled by itself, and with a child that never ends.
async fn cancelled_with_a_long_grace(alive: Alive) -> Result<(), Stopped> {
    let inner = Scope::builder().grace(100 * SECOND);
    inner
        .run(|s| async move {
            s.spawn(alive.forever());
            s.cancel();
            pending().await
        })
        .await
}

#[test]
fn a_scope_in_its_grace_ends_with_the_grace_of_a_scope_around_it_that_is_cancelled_later() {
    for grace in [Duration::ZERO, 2 * SECOND] {
        for is_dropped in [false, true] {
            paused().block_on(async {
                let (start, alive) = (Instant::now(), Alive::default());
                let members = alive.clone();
                let outer = Scope::builder().grace(grace);
                let ended = outer.run(|s| async move {
                    s.spawn(async move {
                        let mut inner = Box::pin(cancelled_with_a_long_grace(members));
                        assert!(poll_once(&mut inner).await.is_pending());
                        match is_dropped {
                            true => drop(inner),
                            false => return inner.await,
                        }
                        pending().await
                    });
                    sleep(SECOND).await;
                    s.cancel();
                    Ok::<_, Stopped>(())
                });
                ended.await.unwrap();
                assert_eq!(start.elapsed(), SECOND + grace);
                assert_eq!(alive.count(), 0);
            });
        }
    }
}

#[test]
fn a_scope_with_a_dispatcher_needs_no_runtime_around_it_for_its_times() {
    let runtime = workers(2);
    let limited = runtime.block_on(async { Dispatcher::default().limited(2) });
    let ended = thread::spawn(move || {
        let short = Duration::from_millis(1);
        let alive = Alive::default();
        let stubborn = || (alive.forever(), alive.forever::<Stopped>());
        // In turn: the end of its grace, the same if nobody polls it any more, and a deadline.
        for (is_dropped, within) in [(false, None), (true, None), (false, Some(short))] {
            let mut scope = Scope::builder().grace(short).dispatcher(&limited);
            if let Some(within) = within {
                scope = scope.within(within);
            }
            let (child, body) = stubborn();
            let mut future = Box::pin(scope.run(|s| async move {
                s.spawn(child);
                if within.is_none() {
                    s.cancel();
                }
                body.await
            }));
            let parked = Arc::new(Parked(thread::current()));
            let (waker, mut polled) = (Waker::from(parked), Poll::Pending);
            let mut cx = Context::from_waker(&waker);
            while !is_dropped && polled.is_pending() {
                polled = future.as_mut().poll(&mut cx);
                if polled.is_pending() {
                    thread::park();
                }
            }
            if is_dropped {
                assert!(future.as_mut().poll(&mut cx).is_pending());
            }
            drop(future);
            while alive.count() != 0 {
                thread::yield_now();
            }
        }
    });
    ended.join().unwrap();
}

/// Wakes a thread.
struct Parked(thread::Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
