//! `with_dispatcher`: where its future is polled, and where the task goes on.

mod engine_common;

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use blitzen::dispatch::{Dispatcher, PollJob, with_dispatcher};
use blitzen::runtime::{Builder, Handle, Runtime};
use blitzen::scope::{Stopped, scope};
use blitzen::sync::{Notify, oneshot};
use blitzen::task::yield_now;
use engine_common::{current_thread, multi_thread, must_end};

fn single(name: &str) -> Dispatcher {
    Dispatcher::single(name).unwrap()
}

fn is_on(name: &str) -> bool {
    thread::current().name() == Some(name)
}

/// Runs `test` as a task on each flavor of runtime.
fn on_each_flavor<F>(test: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for runtime in [current_thread(), multi_thread(1), multi_thread(3)] {
        runtime.block_on(async { blitzen::spawn(test()).await.unwrap() });
    }
}

/// A `with_dispatcher` that has its dispatcher, and so can be moved anywhere.
async fn with_owned<F: Future>(dispatcher: Dispatcher, future: F) -> F::Output {
    with_dispatcher(&dispatcher, future).await
}

#[test]
fn a_task_moves_there_and_back_and_may_borrow() {
    on_each_flavor(|| async {
        let there = single("there");
        let mut names = Vec::new();
        for _ in 0..10 {
            with_dispatcher(&there, async {
                assert!(is_on("there"));
                yield_now().await;
                assert!(is_on("there"), "after a yield");
                blitzen::time::sleep(Duration::from_millis(1)).await;
                assert!(is_on("there"), "after a timer");
                names.push(thread::current().name().map(str::to_owned));
            })
            .await;
            assert!(!is_on("there"));
            yield_now().await;
            assert!(!is_on("there"));
        }
        assert_eq!(names.len(), 10);
    });
}

#[test]
fn going_there_and_back_takes_two_wakes() {
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .on_before_task_poll(move |_| {
            counted.fetch_add(1, SeqCst);
        })
        .build()
        .unwrap();
    runtime.block_on(async {
        let there = single("there");
        let task = blitzen::spawn(async move {
            let before = polls.load(SeqCst);
            for _ in 0..10 {
                with_dispatcher(&there, async { assert!(is_on("there")) }).await;
            }
            polls.load(SeqCst) - before
        });
        // One poll there and one back, each time.
        assert_eq!(task.await.unwrap(), 20);
    });
}

#[test]
fn a_task_of_a_dispatcher_visits_another_and_comes_back_to_its_own() {
    on_each_flavor(|| async {
        let (own, other) = (single("own"), single("other"));
        let task = own.spawn(async move {
            for _ in 0..10 {
                assert!(is_on("own"));
                with_dispatcher(&other, async {
                    assert!(is_on("other"));
                    yield_now().await;
                    assert!(is_on("other"));
                })
                .await;
                assert!(is_on("own"));
                with_dispatcher(&Dispatcher::default(), async {
                    assert!(!is_on("own") && !is_on("other"));
                })
                .await;
            }
        });
        task.await.unwrap();
    });
}

#[test]
fn two_of_them_in_one_join_each_run_on_their_own() {
    on_each_flavor(|| async {
        let (one, two) = (single("one"), single("two"));
        let visit = async |dispatcher: &Dispatcher, name: &'static str| {
            with_dispatcher(dispatcher, async {
                for _ in 0..50 {
                    assert!(is_on(name));
                    yield_now().await;
                }
                for _ in 0..5 {
                    blitzen::time::sleep(Duration::from_millis(1)).await;
                    assert!(is_on(name));
                }
            })
            .await;
        };
        blitzen::join!(visit(&one, "one"), visit(&two, "two"), visit(&one, "one"));
    });
}

#[test]
fn one_that_waits_does_not_keep_the_task_from_the_other() {
    on_each_flavor(|| async {
        let (one, two) = (single("one"), single("two"));
        let notify = Notify::new();
        let waits = with_dispatcher(&one, async {
            assert!(is_on("one"));
            notify.notified().await;
            assert!(is_on("one"));
        });
        let works = with_dispatcher(&two, async {
            for _ in 0..20 {
                blitzen::time::sleep(Duration::from_micros(100)).await;
                assert!(is_on("two"));
            }
            notify.notify_one();
        });
        blitzen::join!(waits, works);
    });
}

#[test]
fn nested_ones_run_on_the_inner_and_then_on_the_outer() {
    on_each_flavor(|| async {
        let (outer, inner) = (single("outer"), single("inner"));
        for _ in 0..10 {
            with_dispatcher(&outer, async {
                assert!(is_on("outer"));
                with_dispatcher(&inner, async {
                    assert!(is_on("inner"));
                    yield_now().await;
                    assert!(is_on("inner"));
                    blitzen::time::sleep(Duration::from_micros(100)).await;
                    assert!(is_on("inner"));
                })
                .await;
                assert!(is_on("outer"));
                yield_now().await;
                assert!(is_on("outer"));
            })
            .await;
            assert!(!is_on("outer") && !is_on("inner"));
        }
    });
}

#[test]
fn it_works_inside_a_set_of_futures_that_has_wakers_of_its_own() {
    on_each_flavor(|| async {
        let (one, two) = (single("one"), single("two"));
        let visits = (0..20).map(|n| {
            let (dispatcher, name) = if n % 2 == 0 {
                (&one, "one")
            } else {
                (&two, "two")
            };
            with_dispatcher(dispatcher, async move {
                for _ in 0..5 {
                    assert!(is_on(name));
                    yield_now().await;
                    blitzen::time::sleep(Duration::from_micros(50)).await;
                    assert!(is_on(name));
                }
                n
            })
        });
        let visits: Vec<_> = visits.map(Box::pin).collect();
        let done = blitzen::future::join_all(visits).await;
        assert_eq!(done, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn every_kind_can_be_visited() {
    use blitzen::dispatch::Shares;
    on_each_flavor(|| async {
        let kinds = [
            Dispatcher::default(),
            Dispatcher::default().limited(1),
            Dispatcher::io(),
            Dispatcher::io().limited(1),
            single("single"),
            Dispatcher::builder().threads(2).build().unwrap(),
            single("base").limited(1),
            Dispatcher::group("group", Shares(1)),
            Dispatcher::unconfined(),
            Dispatcher::from_fn(|job| drop(thread::spawn(|| job.run()))),
            Dispatcher::from_fn(|job| job.run()),
            Dispatcher::from_fn(drop),
        ];
        let mut sum = 0;
        for kind in &kinds {
            for _ in 0..3 {
                with_dispatcher(kind, async {
                    yield_now().await;
                    blitzen::time::sleep(Duration::from_micros(100)).await;
                    sum += 1;
                })
                .await;
            }
            sum += with_dispatcher(kind, async { 1 }).await;
            sum += kind.run(async { 1 }).await.unwrap();
        }
        assert_eq!(sum, kinds.len() * 5);
    });
}

#[test]
fn one_dropped_half_way_leaves_the_task_where_it_belongs() {
    on_each_flavor(|| async {
        let there = single("there");
        for polls in 0..4 {
            let mut moved = Box::pin(with_dispatcher(&there, async {
                loop {
                    assert!(is_on("there"));
                    yield_now().await;
                }
            }));
            let mut left = polls;
            poll_fn(|cx| {
                assert!(moved.as_mut().poll(cx).is_pending());
                if left == 0 {
                    return Poll::Ready(());
                }
                left -= 1;
                Poll::Pending
            })
            .await;
            drop(moved);
            yield_now().await; // a poll that was asked for may still be made there
            yield_now().await;
            assert!(!is_on("there"));
        }
        // The dispatcher goes while the task may still be on its way to it.
        let gone = single("gone");
        let mut moved = Box::pin(with_owned(gone, pending::<()>()));
        poll_fn(|cx| {
            assert!(moved.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(moved);
        for _ in 0..10 {
            yield_now().await;
            blitzen::time::sleep(Duration::from_micros(100)).await;
        }
    });
}

#[test]
fn one_that_is_leaked_harms_nobody() {
    on_each_flavor(|| async {
        let there = single("there");
        let mut moved = Box::pin(with_owned(there.clone(), pending::<()>()));
        let mut left = 3;
        poll_fn(|cx| {
            let _ = moved.as_mut().poll(cx);
            cx.waker().wake_by_ref();
            left -= 1;
            if left == 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        // Still reachable, so that leak detection has nothing to say.
        static LEAKED: Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>> =
            Mutex::new(Vec::new());
        LEAKED.lock().unwrap().push(moved);
        there.close();
        drop(there);
        for _ in 0..10 {
            yield_now().await;
        }
    });
}

#[test]
fn one_that_is_moved_to_another_task_goes_on_there() {
    on_each_flavor(|| async {
        for polls in 1..4 {
            let there = single("there");
            let notify = Arc::new(Notify::new());
            let content = {
                let notify = notify.clone();
                async move {
                    assert!(is_on("there"));
                    notify.notified().await;
                    assert!(is_on("there"));
                    5_u32
                }
            };
            let mut moved = Box::pin(with_owned(there, content));
            let mut left = polls;
            poll_fn(|cx| {
                assert!(moved.as_mut().poll(cx).is_pending());
                left -= 1;
                cx.waker().wake_by_ref();
                if left == 0 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            let other = blitzen::spawn(moved);
            notify.notify_one();
            assert_eq!(other.await.unwrap(), 5);
        }
    });
}

fn panics(runtime: &Runtime, future: impl Future<Output = ()>) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(future);
    }));
    let payload = outcome.expect_err("it panics");
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[test]
fn what_cannot_move_is_told_so() {
    let runtime = multi_thread(2);
    let dispatchers = {
        let _entered = runtime.enter();
        [
            Dispatcher::default(),
            Dispatcher::io(),
            Dispatcher::default().limited(1),
            single("single"),
        ]
    };
    for dispatcher in &dispatchers {
        let message = panics(&runtime, with_dispatcher(dispatcher, async {}));
        assert!(message.contains("use `Dispatcher::run`"), "{message}");
        let local = blitzen::task::LocalSet::new();
        let message = panics(
            &runtime,
            local.run_until(async {
                let task = blitzen::task::spawn_local(with_owned(dispatcher.clone(), async {}));
                std::panic::resume_unwind(task.await.unwrap_err().into_panic());
            }),
        );
        assert!(message.contains("use `Dispatcher::run`"), "{message}");
        // Outside any runtime.
        let mut outside = Box::pin(with_dispatcher(dispatcher, async {}));
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = outside
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
        }));
        assert!(polled.is_err());
        // In another runtime.
        let other = multi_thread(1);
        let task = other.spawn(with_owned(dispatcher.clone(), async {}));
        assert!(other.block_on(task).unwrap_err().is_panic());
        // `run` works in all of these.
        assert_eq!(runtime.block_on(dispatcher.run(async { 1 })).unwrap(), 1);
        assert_eq!(other.block_on(dispatcher.run(async { 1 })).unwrap(), 1);
        let local = blitzen::task::LocalSet::new();
        let run = local.run_until(dispatcher.run(async { 1 }));
        assert_eq!(runtime.block_on(run).unwrap(), 1);
        let outside = blitzen_util::block_on::block_on(dispatcher.run(async { 1 }));
        assert_eq!(outside.unwrap(), 1);
    }
}

#[test]
fn an_executor_inside_a_task_is_told_that_it_cannot_move_it() {
    must_end(|| {
        let runtime = multi_thread(2);
        let task = runtime.spawn(async {
            let there = single("there");
            let mut moved = pin!(with_dispatcher(&there, async {}));
            loop {
                // Polls again and again, within one poll of the task.
                let mut cx = Context::from_waker(Waker::noop());
                if moved.as_mut().poll(&mut cx).is_ready() {
                    return;
                }
            }
        });
        assert!(runtime.block_on(task).unwrap_err().is_panic());
    });
}

#[test]
fn a_panic_inside_reaches_the_task_and_leaves_the_dispatcher_usable() {
    on_each_flavor(|| async {
        for there in [
            single("there"),
            Dispatcher::io(),
            Dispatcher::default().limited(1),
        ] {
            let moved = there.clone();
            let task =
                blitzen::spawn(
                    async move { with_dispatcher(&moved, async { panic!("inside") }).await },
                );
            assert!(task.await.unwrap_err().is_panic());
            assert_eq!(with_dispatcher(&there, async { 3 }).await, 3);
        }
    });
}

#[test]
fn an_abort_reaches_a_task_on_its_way_and_there() {
    on_each_flavor(|| async {
        for yields in 0..20 {
            let there = single("there");
            let task = blitzen::spawn(async move {
                with_dispatcher(&there, async {
                    yield_now().await;
                    pending::<()>().await;
                })
                .await;
            });
            for _ in 0..yields {
                yield_now().await;
            }
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
    });
}

#[test]
fn a_child_of_a_scope_moves_and_the_scope_waits_for_it() {
    on_each_flavor(|| async {
        let there = single("there");
        let (wake, has_begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let ended = Arc::new(Mutex::new(Vec::new()));
        let scoped = scope(|s| {
            let (there, ended, wake) = (there.clone(), ended.clone(), wake.clone());
            let has_begun = has_begun.clone();
            async move {
                for number in 0..3 {
                    let (there, ended) = (there.clone(), ended.clone());
                    let (wake, begins) = (wake.clone(), has_begun.clone());
                    s.spawn(async move {
                        with_dispatcher(&there, async {
                            let woken = wake.notified(); // from here on
                            begins.notify_one();
                            woken.await;
                            assert!(is_on("there"));
                        })
                        .await;
                        assert!(!is_on("there"));
                        ended.lock().unwrap().push(number);
                        Ok::<_, Stopped>(())
                    });
                    has_begun.notified().await;
                }
                wake.notify_waiters();
                Ok::<_, Stopped>(())
            }
        });
        scoped.await.unwrap();
        assert_eq!(ended.lock().unwrap().len(), 3);
        // One that fails has its siblings aborted where they are.
        let failed = scope(|s| {
            let (there, has_begun) = (there.clone(), has_begun.clone());
            async move {
                s.spawn({
                    let has_begun = has_begun.clone();
                    async move {
                        let wait = async {
                            has_begun.notify_one();
                            pending::<()>().await;
                        };
                        with_dispatcher(&there, wait).await;
                        Ok::<_, Stopped>(())
                    }
                });
                has_begun.notified().await;
                Err::<(), _>(Stopped::Cancelled)
            }
        });
        assert_eq!(failed.await, Err(Stopped::Cancelled));
    });
}

#[test]
fn a_dump_polls_a_task_where_it_belongs() {
    on_each_flavor(|| async {
        let there = single("there");
        let polls = Arc::new(Mutex::new(Vec::new()));
        let waits = |polls: Arc<Mutex<Vec<bool>>>| {
            poll_fn(move |_| {
                polls.lock().unwrap().push(is_on("there"));
                Poll::<()>::Pending
            })
        };
        let first = there.spawn(waits(polls.clone()));
        let second = blitzen::spawn({
            let (there, wait) = (there.clone(), waits(polls.clone()));
            async move { with_dispatcher(&there, wait).await }
        });
        while polls.lock().unwrap().len() < 2 {
            yield_now().await;
        }
        let dump = Handle::current().dump().await;
        for task in [first.id(), second.id()] {
            assert!(dump.iter().any(|dumped| dumped.listed().id() == task));
        }
        assert!(polls.lock().unwrap().iter().all(|is_there| *is_there));
        first.abort();
        second.abort();
    });
}

#[cfg(feature = "coro")]
#[test]
fn a_coroutine_stays_where_it_is_and_can_have_work_done_elsewhere() {
    use blitzen::coro;
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let there = single("there");
        // SAFETY: no frame here relies on the nesting of calls on its thread.
        let coroutine = unsafe {
            coro::spawn({
                let there = there.clone();
                move || coro::block_on(with_dispatcher(&there, async {}))
            })
        };
        assert!(coroutine.await.unwrap_err().is_panic());
        // SAFETY: as above.
        let coroutine = unsafe {
            coro::spawn(move || {
                let before = thread::current().id();
                let moved = coro::block_on(there.run(async { is_on("there") }));
                assert_eq!(thread::current().id(), before);
                moved.unwrap()
            })
        };
        assert!(coroutine.await.unwrap());
    });
}

#[test]
fn a_task_polled_in_the_middle_of_another_does_not_come_back_to_where_that_one_is() {
    on_each_flavor(|| async {
        let there = single("there");
        let is_spawned = Arc::new(AtomicBool::new(false));
        let moved = with_dispatcher(&there, async {
            let seen = is_spawned.clone();
            let other = Dispatcher::unconfined().spawn(async move {
                with_dispatcher(&Dispatcher::default(), async {}).await;
                seen.load(SeqCst)
            });
            is_spawned.store(true, SeqCst);
            other.await.unwrap()
        });
        assert!(!moved.await, "it has not moved at all");
    });
}

#[test]
fn where_a_task_polled_in_the_middle_of_another_goes_is_nothing_to_the_other() {
    on_each_flavor(|| async {
        let there = single("there");
        let inline = Dispatcher::from_fn(PollJob::run);
        let notify = Notify::new();
        let mut content = pin!(async {
            inline.spawn(with_owned(Dispatcher::default(), pending::<()>()));
            notify.notified().await;
        });
        let content = poll_fn(|cx| {
            assert!(is_on("there"));
            content.as_mut().poll(cx)
        });
        let beside = async {
            for _ in 0..10 {
                yield_now().await;
            }
            notify.notify_one();
        };
        blitzen::join!(with_dispatcher(&there, content), beside);
    });
}

/// A scope with a child that an abort does not end before `finish`.
async fn scope_with_shield(
    begun: oneshot::Sender<()>,
    finish: oneshot::Receiver<()>,
    has_ended: Arc<AtomicBool>,
) -> Result<(), Stopped> {
    scope(|s| async move {
        s.spawn(blitzen::task::shield(async move {
            begun.send(()).unwrap();
            finish.await.unwrap();
            yield_now().await;
            has_ended.store(true, SeqCst);
            Ok(())
        }));
        pending().await
    })
    .await
}

#[test]
fn an_abort_waits_for_a_scope_on_another_dispatcher() {
    must_end(|| {
        on_each_flavor(|| async {
            let single = single("there");
            let kinds = [
                single.clone(),
                Dispatcher::default().limited(1),
                Dispatcher::io(),
                Dispatcher::unconfined(),
                Dispatcher::from_fn(PollJob::run),
            ];
            let ways = [(false, false), (false, true), (true, false), (true, true)];
            let cases = kinds.iter().flat_map(|kind| ways.map(|way| (kind, way)));
            for (kind, (is_nested, is_busy)) in cases {
                let (begun, has_begun) = oneshot::channel();
                let (finish, finished) = oneshot::channel();
                let has_ended = Arc::new(AtomicBool::new(false));
                let content = scope_with_shield(begun, finished, has_ended.clone());
                let case = format!("{kind:?}, nested: {is_nested}, busy: {is_busy}");
                let (kind, single) = (kind.clone(), single.clone());
                let task = blitzen::spawn(async move {
                    // Beside it, something has the task polled elsewhere.
                    let beside = async {
                        loop {
                            match is_busy {
                                true => yield_now().await,
                                false => pending().await,
                            }
                        }
                    };
                    let moved = async {
                        match is_nested {
                            true => {
                                let moved = with_dispatcher(&kind, content);
                                with_dispatcher(&single, moved).await
                            }
                            false => with_dispatcher(&kind, content).await,
                        }
                    };
                    blitzen::join!(moved, beside)
                });
                has_begun.await.unwrap();
                task.abort();
                for _ in 0..10 {
                    yield_now().await;
                }
                finish.send(()).unwrap();
                assert!(task.await.unwrap_err().is_cancelled());
                assert!(has_ended.load(SeqCst), "{case}");
            }
        });
    });
}
