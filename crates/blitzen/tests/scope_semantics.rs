//! What a scope promises when all goes as planned.

mod scope_common;

use std::future::pending;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use blitzen::channel::oneshot;
use blitzen::dispatch::Dispatcher;
use blitzen::runtime::{Builder, Handle};
use blitzen::scope::{Failure, Scope, Stopped, scope};
use blitzen::task;
use blitzen::time::{Instant, sleep};
use scope_common::{Alive, FOREVER, on_both, one_thread, paused, workers};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_scope_returns_when_all_children_have_ended() {
    on_both(|| async {
        let alive = Alive::default();
        let value = scope(|s| {
            let alive = alive.clone();
            async move {
                for _ in 0..100 {
                    let guard = alive.guard();
                    s.spawn(async move {
                        task::yield_now().await;
                        drop(guard);
                        Ok(())
                    });
                }
                Ok::<_, Stopped>(7)
            }
        });
        assert_eq!(value.await, Ok(7));
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn children_spawn_siblings_and_hand_over_values() {
    on_both(|| async {
        let sum = scope(|s: Scope<Stopped>| async move {
            let parts: Vec<_> = (0..10).map(|n| s.spawn(async move { Ok(n) })).collect();
            let sibling = s.clone();
            let last = s.spawn(async move { sibling.spawn(async { Ok(100) }).await });
            let mut sum = last.await?;
            for part in parts {
                sum += part.await?;
            }
            Ok(sum)
        });
        assert_eq!(sum.await, Ok(145));
    });
}

#[test]
fn the_first_error_cancels_all_others_and_is_returned() {
    on_both(|| async {
        let alive = Alive::default();
        let failed: io::Result<()> = scope(|s| {
            let alive = alive.clone();
            async move {
                for _ in 0..10 {
                    s.spawn(alive.forever::<io::Error>());
                }
                s.spawn(async { Err::<(), _>(io::Error::other("first")) });
                alive.forever().await
            }
        })
        .await;
        assert_eq!(failed.unwrap_err().to_string(), "first");
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn an_error_of_the_body_cancels_the_children() {
    on_both(|| async {
        let alive = Alive::default();
        let failed: io::Result<()> = scope(|s| {
            let child = alive.forever::<io::Error>();
            async move {
                s.spawn(child);
                Err(io::Error::other("body"))
            }
        })
        .await;
        assert_eq!(failed.unwrap_err().to_string(), "body");
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn later_errors_are_counted() {
    on_both(|| async {
        let kept = Arc::new(Mutex::new(None));
        let failed: io::Result<()> = Scope::builder()
            .grace(FOREVER)
            .run(|s: Scope<io::Error>| {
                *kept.lock().unwrap() = Some(s.clone());
                async move {
                    for n in 0..3 {
                        s.spawn(async move {
                            if n > 0 {
                                task::cancelled().await;
                            }
                            Err::<(), _>(io::Error::other(n.to_string()))
                        });
                    }
                    Ok(())
                }
            })
            .await;
        assert_eq!(failed.unwrap_err().to_string(), "0");
        let scope = kept.lock().unwrap().take().unwrap();
        assert_eq!(scope.later_failures(), 2);
    });
}

#[test]
fn a_panic_resumes_in_the_parent_after_all_have_ended() {
    for is_body in [false, true] {
        on_both(|| async {
            let alive = Alive::default();
            let panicking = task::spawn({
                let alive = alive.clone();
                async move {
                    scope(|s: Scope<Stopped>| {
                        let (child, body) = (alive.forever(), alive.forever());
                        async move {
                            s.spawn(child);
                            if is_body {
                                panic!("the news");
                            }
                            s.spawn::<(), _>(async { panic!("the news") });
                            body.await
                        }
                    })
                    .await
                }
            });
            let panic = panicking.await.unwrap_err().into_panic();
            assert_eq!(*panic.downcast::<&str>().unwrap(), "the news");
            assert_eq!(alive.count(), 0);
        });
    }
}

#[test]
fn a_supervised_failure_disturbs_nobody() {
    on_both(|| async {
        let failures = Arc::new(Mutex::new(Vec::new()));
        let value = Scope::builder()
            .supervise({
                let failures = failures.clone();
                move |failure: Failure<io::Error>| {
                    failures.lock().unwrap().push(match failure {
                        Failure::Error(error) => error.to_string(),
                        Failure::Panic(payload) => payload.downcast::<&str>().unwrap().to_string(),
                    });
                }
            })
            .run(|s| async move {
                let failing = s.spawn(async { Err::<(), _>(io::Error::other("no luck")) });
                assert_eq!(failing.await, Err(Stopped::Failed));
                let panicking = s.spawn::<(), _>(async { panic!("worse") });
                assert_eq!(panicking.await, Err(Stopped::Panicked));
                assert!(!s.is_cancelled());
                Ok(s.spawn(async { Ok(5) }).await?)
            })
            .await;
        assert_eq!(value.unwrap(), 5);
        assert_eq!(*failures.lock().unwrap(), ["no luck", "worse"]);
    });
}

#[test]
fn a_deadline_cancels_and_is_inherited_by_minimum() {
    paused().block_on(async {
        let start = Instant::now();
        let late = Scope::builder().within(2 * SECOND).run(|s| async move {
            s.spawn(async move {
                let inner = Scope::builder()
                    .within(5 * SECOND)
                    .run(|_| async { Ok::<_, Stopped>(task::deadline()) });
                assert_eq!(inner.await?, Some(start + 2 * SECOND), "the earlier one");
                let nearer = Scope::builder()
                    .within(SECOND)
                    .run(|_| pending::<Result<(), _>>());
                assert_eq!(nearer.await, Err(Stopped::Deadline));
                pending::<Result<(), Stopped>>().await
            });
            Ok(())
        });
        assert_eq!(late.await, Err(Stopped::Deadline));
        assert_eq!(start.elapsed(), 2 * SECOND);
        assert_eq!(task::deadline(), None);
    });
}

#[test]
fn a_deadline_can_be_moved_from_another_task() {
    paused().block_on(async {
        let start = Instant::now();
        let late = Scope::builder().within(100 * SECOND).run(|s| async move {
            let other = s.clone();
            s.spawn(async move {
                sleep(SECOND).await;
                other.set_deadline(Instant::now() + SECOND);
                pending::<Result<(), Stopped>>().await
            });
            Ok(())
        });
        assert_eq!(late.await, Err(Stopped::Deadline));
        assert_eq!(start.elapsed(), 2 * SECOND);
    });
}

#[test]
fn grace_lets_members_end_and_then_aborts() {
    paused().block_on(async {
        let start = Instant::now();
        let alive = Alive::default();
        let polite = Arc::new(AtomicBool::new(false));
        let done = Scope::builder().grace(3 * SECOND).run(|s| {
            let (stubborn, polite) = (alive.forever(), polite.clone());
            async move {
                s.spawn(async move {
                    assert!(task::unless_cancelled(pending::<()>()).await.is_none());
                    sleep(SECOND).await;
                    polite.store(true, SeqCst);
                    Ok(())
                });
                s.spawn(stubborn);
                sleep(SECOND).await;
                s.cancel();
                Ok::<_, Stopped>(())
            }
        });
        assert_eq!(done.await, Ok(()));
        assert_eq!(start.elapsed(), 4 * SECOND);
        assert!(polite.load(SeqCst));
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn a_scope_inside_cannot_outlast_the_grace_around_it() {
    paused().block_on(async {
        let start = Instant::now();
        let alive = Alive::default();
        let outer = Scope::builder().grace(2 * SECOND).run(|s| {
            let stubborn = alive.forever();
            async move {
                s.spawn(
                    Scope::builder()
                        .grace(100 * SECOND)
                        .run(|inner| async move {
                            inner.spawn(stubborn);
                            pending::<Result<(), Stopped>>().await
                        }),
                );
                sleep(SECOND).await;
                s.cancel();
                Ok::<_, Stopped>(())
            }
        });
        assert_eq!(outer.await, Ok(()));
        assert_eq!(start.elapsed(), 3 * SECOND);
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn a_scope_inside_with_less_grace_uses_its_own() {
    paused().block_on(async {
        let start = Instant::now();
        let outer = Scope::builder().grace(100 * SECOND).run(|s| async move {
            let inner = Scope::builder().grace(SECOND);
            s.spawn(inner.run(|inner| async move {
                inner.spawn(pending::<Result<(), Stopped>>());
                Ok(())
            }));
            sleep(SECOND).await;
            s.cancel();
            Ok::<_, Stopped>(())
        });
        assert_eq!(outer.await, Ok(()));
        assert_eq!(start.elapsed(), 2 * SECOND);
    });
}

#[test]
fn cancelling_a_scope_is_seen_inside_and_not_outside() {
    on_both(|| async {
        let done = Scope::builder().grace(FOREVER).run(|outer| async move {
            let inner = scope(|inner| async move {
                inner.spawn(async {
                    task::cancelled().await;
                    Ok::<_, Stopped>(())
                });
                inner.cancel();
                assert!(task::is_cancelled());
                Ok(())
            });
            inner.await?;
            assert!(!task::is_cancelled() && !outer.is_cancelled());
            let deep = outer.spawn(scope(|inner| async move {
                let token = inner.token();
                inner
                    .spawn(async move {
                        task::cancelled().await;
                        token.cancelled().await;
                        Ok::<_, Stopped>(task::is_cancelled())
                    })
                    .await
            }));
            outer.cancel();
            assert_eq!(deep.await, Ok(true));
            Ok::<_, Stopped>(())
        });
        done.await.unwrap();
    });
}

/// Runs a hundred children in a scope with a limit of three, and returns the most that were alive
/// at a time.
async fn most_alive_of_three() -> usize {
    let alive = Alive::default();
    let most = Scope::builder().at_most(3).run(|s| async move {
        let mut most = 0;
        for _ in 0..100 {
            s.ready().await;
            let guard = alive.guard();
            most = most.max(alive.count());
            s.spawn(async move {
                for _ in 0..3 {
                    task::yield_now().await;
                }
                drop(guard);
                Ok(())
            });
        }
        Ok::<_, Stopped>(most)
    });
    most.await.unwrap()
}

#[test]
fn a_limit_holds_if_the_body_waits_until_ready() {
    assert_eq!(one_thread().block_on(most_alive_of_three()), 3);
    // Here children may end faster than they are spawned.
    assert!(workers(2).block_on(most_alive_of_three()) <= 3);
}

#[test]
fn waiting_for_room_ends_when_the_scope_is_cancelled() {
    on_both(|| async {
        let done = Scope::builder()
            .at_most(1)
            .grace(FOREVER)
            .run(|s| async move {
                let (release, wait) = oneshot::channel::<()>();
                s.spawn(async move {
                    wait.await.unwrap_or(());
                    Ok(())
                });
                let canceller = s.clone();
                s.spawn(async move {
                    canceller.cancel();
                    Ok(())
                });
                s.ready().await;
                assert!(s.is_cancelled());
                release.send(()).unwrap();
                Ok::<_, Stopped>(())
            });
        done.await.unwrap();
    });
}

#[test]
fn daemons_are_cancelled_when_all_others_have_ended() {
    on_both(|| async {
        let alive = Alive::default();
        let done = scope(|s| {
            let alive = alive.clone();
            async move {
                s.spawn_daemon(alive.forever());
                s.spawn_daemon(alive.forever());
                s.spawn(async {
                    task::yield_now().await;
                    Ok(())
                });
                while s.children() > 0 {
                    task::yield_now().await; // daemons do not count
                }
                Ok::<_, Stopped>(alive.count())
            }
        });
        assert_eq!(done.await, Ok(2));
        assert_eq!(alive.count(), 0);
    });
}

#[test]
fn an_abort_of_the_parent_waits_until_the_scope_is_empty() {
    for runtime in [workers(2), one_thread()] {
        runtime.block_on(async {
            let (started, starting) = oneshot::channel();
            let (release, wait) = oneshot::channel::<()>();
            let ended = Arc::new(AtomicBool::new(false));
            let is_over = ended.clone();
            let parent = task::spawn(async move {
                scope(|s| async move {
                    s.spawn(task::shield(async move {
                        started.send(()).unwrap();
                        wait.await.unwrap();
                        ended.store(true, SeqCst);
                        Ok(())
                    }));
                    Ok::<_, Stopped>(())
                })
                .await
                .unwrap();
                pending::<()>().await; // where the abort takes effect, if it has not before
            });
            starting.await.unwrap();
            parent.abort();
            for _ in 0..100 {
                task::yield_now().await;
            }
            assert!(!parent.is_finished(), "a child is left");
            release.send(()).unwrap();
            assert!(parent.await.unwrap_err().is_cancelled());
            assert!(is_over.load(SeqCst));
        });
    }
}

#[test]
fn a_dropped_scope_is_waited_for_by_the_scope_around_it() {
    on_both(|| async {
        let (release, wait) = oneshot::channel::<()>();
        let (started, starting) = oneshot::channel::<()>();
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = ended.clone();
        let outer = task::spawn(scope(|_| async move {
            let inner = scope(|s| async move {
                s.spawn(task::shield(async move {
                    started.send(()).unwrap();
                    wait.await.unwrap();
                    ended.store(true, SeqCst);
                    Ok(())
                }));
                pending::<Result<(), Stopped>>().await
            });
            blitzen::select! {
                _ = inner => unreachable!("its body waits for ever"),
                started = starting => started.unwrap(),
            }
            Ok::<_, Stopped>(())
        }));
        for _ in 0..100 {
            task::yield_now().await;
        }
        assert!(!outer.is_finished(), "a child of the dropped scope is left");
        release.send(()).unwrap();
        outer.await.unwrap().unwrap();
        assert!(is_over.load(SeqCst));
    });
}

#[test]
fn the_debug_form_names_the_scope() {
    on_both(|| async {
        let done = Scope::builder().name("import").run(|s| async move {
            s.spawn_named("reader", pending::<Result<(), Stopped>>());
            let shown = format!("{s:?}");
            assert!(
                shown.contains("import") && shown.contains("children: 1"),
                "{shown}"
            );
            s.cancel();
            Ok(())
        });
        done.await.unwrap();
    });
}

#[test]
fn an_empty_scope_needs_no_runtime() {
    let mut scope = Box::pin(scope(|_| async { Ok::<_, Stopped>(1) }));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = scope.as_mut().poll(&mut cx);
    assert_eq!(polled, std::task::Poll::Ready(Ok(1)));
    let again = std::panic::catch_unwind(AssertUnwindSafe(|| scope.as_mut().poll(&mut cx)));
    assert!(again.is_err(), "polled after completion");
}

#[test]
fn however_many_children_there_are_they_are_counted_and_cancelled() {
    on_both(|| async {
        let alive = Alive::default();
        let done = scope(|s| {
            let alive = alive.clone();
            async move {
                for count in 1..=1_000 {
                    s.spawn(alive.forever::<Stopped>());
                    assert_eq!(s.children(), count);
                }
                let spawners: Vec<_> = (0..4)
                    .map(|_| {
                        let (s, alive) = (s.clone(), alive.clone());
                        blitzen::spawn(async move {
                            for _ in 0..500 {
                                s.spawn(alive.forever::<Stopped>());
                            }
                        })
                    })
                    .collect();
                for spawner in spawners {
                    spawner.await.unwrap();
                }
                assert_eq!(s.children(), 3_000);
                s.cancel();
                Ok::<_, Stopped>(())
            }
        });
        done.await.unwrap();
        assert_eq!(alive.count(), 0);
    });
}

fn is_on(thread: &str) -> bool {
    std::thread::current().name() == Some(thread)
}

#[test]
fn children_run_on_the_dispatcher_of_their_scope_and_so_do_those_of_scopes_inside() {
    on_both(|| async {
        let single = Dispatcher::single("scoped").unwrap();
        let done = Scope::builder().dispatcher(&single).run(|s| async move {
            assert!(!is_on("scoped"), "the body stays");
            s.spawn_daemon(async {
                assert!(is_on("scoped"));
                pending().await
            });
            let child = s.spawn(async {
                task::yield_now().await;
                assert!(is_on("scoped"));
                let inside = scope(|s| async move { s.spawn(async { Ok(is_on("scoped")) }).await });
                let elsewhere = Scope::builder()
                    .dispatcher(&Dispatcher::default())
                    .run(|s| async move { s.spawn(async { Ok(is_on("scoped")) }).await });
                Ok::<_, Stopped>((inside.await?, elsewhere.await?))
            });
            child.await
        });
        assert_eq!(done.await, Ok((true, false)));
        assert_eq!(single.metrics().submitted, 3);
    });
}

#[test]
fn children_on_an_unconfined_dispatcher_run_in_place_and_are_waited_for() {
    on_both(|| async {
        let unconfined = Dispatcher::unconfined();
        let done = Scope::builder()
            .dispatcher(&unconfined)
            .run(|s| async move {
                let here = std::thread::current().id();
                let (sender, receiver) = oneshot::channel();
                s.spawn(async move {
                    sender.send(std::thread::current().id()).unwrap();
                    task::yield_now().await;
                    Ok(())
                });
                assert_eq!(receiver.await.unwrap(), here);
                s.spawn(async { Err::<(), _>(Stopped::Refused) });
                assert!(s.is_cancelled(), "it has run, and failed");
                Ok(())
            });
        assert_eq!(done.await, Err(Stopped::Refused));
    });
}

#[test]
fn closing_the_dispatcher_of_a_scope_aborts_its_children_and_the_scope_ends() {
    on_both(|| async {
        let alive = Alive::default();
        let view = Dispatcher::default().limited(2);
        let done = Scope::builder().dispatcher(&view).run(|s| {
            let (alive, view) = (alive.clone(), view.clone());
            async move {
                let children = [(); 3].map(|()| s.spawn(alive.forever()));
                view.close();
                for child in children {
                    assert_eq!(child.await, Err(Stopped::Cancelled));
                }
                Ok::<_, Stopped>("nobody has failed")
            }
        });
        assert!(done.await.is_ok());
        assert_eq!(alive.count(), 0);
    });
}

/// A scope that ends at once, after which its thread may keep its memory.
async fn nothing() {
    scope(|_| async { Ok::<_, Stopped>(()) }).await.unwrap();
}

#[test]
fn a_scope_has_nothing_of_the_one_that_ended_before_it() {
    one_thread().block_on(async {
        let single = Dispatcher::single("before").unwrap();
        let before = Scope::builder()
            .dispatcher(&single)
            .within(FOREVER)
            .run(|s| async move {
                nothing().await; // inside a scope with a deadline and a dispatcher
                task::shield_within(FOREVER, nothing()).await.unwrap();
                s.cancel();
                Ok::<_, Stopped>(())
            });
        before.await.unwrap();
        task::shield_within(FOREVER, nothing()).await.unwrap();
        let after = scope(|s| async move {
            assert_eq!(task::deadline(), None);
            assert!(!task::is_cancelled());
            let child = s.spawn(async {
                let thread = std::thread::current();
                Ok::<_, Stopped>((task::is_cancelled(), thread.name() == Some("before")))
            });
            child.await
        });
        assert_eq!(after.await, Ok((false, false)));
    });
}

#[test]
fn a_scope_whose_handle_is_kept_does_not_become_another_one() {
    one_thread().block_on(async {
        let first = scope(|s: Scope<Stopped>| async move { Ok::<_, Stopped>(s) });
        let kept = first.await.unwrap();
        let second = scope(|s| async move {
            kept.cancel();
            assert_eq!(kept.spawn(async { Ok(()) }).await, Err(Stopped::Refused));
            assert_eq!(s.spawn(async { Ok(1) }).await, Ok(1));
            Ok::<_, Stopped>(s.is_cancelled())
        });
        assert_eq!(second.await, Ok(false));
    });
}

#[test]
fn scopes_of_two_runtimes_on_one_thread_spawn_on_their_own() {
    let runtimes = [workers(1), one_thread(), workers(1)];
    for _ in 0..2 {
        for runtime in &runtimes {
            let child_of = |s: Scope<Stopped>| async move {
                let child = s.spawn(async { Ok(Handle::current().id()) });
                child.await
            };
            // In the body of `block_on`, on this thread.
            let id = runtime.block_on(async {
                let id = scope(child_of).await;
                nothing().await;
                id
            });
            assert_eq!(id, Ok(runtime.handle().id()));
        }
    }
}

#[test]
fn the_memory_of_a_scope_does_not_keep_a_runtime_alive() {
    let alive = Arc::new(());
    let runtime = {
        let alive = alive.clone();
        let mut builder = Builder::new_current_thread();
        builder.on_task_spawn(move |_| drop(alive.clone()));
        builder.build().unwrap()
    };
    runtime.block_on(nothing());
    let handle = runtime.handle().clone();
    let entered = handle.enter();
    // Outside `block_on` too.
    assert!(
        pin!(nothing())
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
    drop(entered);
    drop((runtime, handle));
    assert_eq!(Arc::strong_count(&alive), 1);
}
