//! Dispatchers on a bad day: closed too early, dropped too late, given to the wrong runtime.

mod engine_common;

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use blitzen::dispatch::{Dispatcher, PollJob, Shares, with_dispatcher};
use blitzen::runtime::{Builder, Handle, LocalRuntime, Runtime};
use blitzen::sync::{Notify, Semaphore};
use blitzen::task::{block_in_place, yield_now};
use engine_common::{current_thread, multi_thread, must_end};

/// One of each kind that has a queue of its own, in the current runtime.
fn each_kind() -> Vec<Dispatcher> {
    vec![
        Dispatcher::default().limited(1),
        Dispatcher::default().limited(3),
        Dispatcher::io().limited(2),
        Dispatcher::single("single").unwrap(),
        Dispatcher::builder().threads(2).build().unwrap(),
        Dispatcher::single("base").unwrap().limited(1),
        Dispatcher::group("group", Shares(1)),
        Dispatcher::from_fn(|job| drop(thread::spawn(|| job.run()))),
        Dispatcher::from_fn(PollJob::run),
    ]
}

fn each_flavor() -> [Runtime; 3] {
    [current_thread(), multi_thread(1), multi_thread(3)]
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn closing_aborts_the_tasks_that_were_spawned_there_and_loses_none() {
    must_end(|| {
        for runtime in each_flavor() {
            runtime.block_on(async {
                for kind in each_kind() {
                    let drops = Arc::new(AtomicUsize::new(0));
                    let waiting: Vec<_> = (0..20)
                        .map(|n| {
                            let dropped = Dropped(drops.clone());
                            kind.spawn(async move {
                                let _dropped = dropped;
                                for _ in 0..n % 3 {
                                    yield_now().await;
                                }
                                pending::<()>().await;
                            })
                        })
                        .collect();
                    yield_now().await;
                    kind.close();
                    for task in waiting {
                        assert!(task.await.unwrap_err().is_cancelled());
                    }
                    assert_eq!(drops.load(SeqCst), 20);
                    // What is spawned later ends too.
                    assert_eq!(kind.spawn(async { 1 }).await.unwrap(), 1);
                    kind.close();
                }
            });
        }
    });
}

#[test]
fn a_shielded_task_of_a_closed_dispatcher_goes_on_until_its_shield_ends() {
    must_end(|| {
        for runtime in each_flavor() {
            runtime.block_on(async {
                for kind in each_kind() {
                    let (begun, has_begun) = blitzen::sync::oneshot::channel();
                    let notify = Arc::new(Notify::new());
                    let ended = Arc::new(AtomicBool::new(false));
                    let task = kind.spawn({
                        let (notify, ended) = (notify.clone(), ended.clone());
                        async move {
                            blitzen::task::shield(async {
                                begun.send(()).unwrap();
                                notify.notified().await;
                                yield_now().await;
                                ended.store(true, SeqCst);
                            })
                            .await;
                            pending::<()>().await;
                        }
                    });
                    has_begun.await.unwrap();
                    kind.close();
                    notify.notify_one();
                    assert!(task.await.unwrap_err().is_cancelled());
                    assert!(ended.load(SeqCst));
                }
            });
        }
    });
}

#[test]
fn tasks_that_visit_a_closed_dispatcher_finish_what_they_do_there() {
    must_end(|| {
        for runtime in each_flavor() {
            runtime.block_on(async {
                for kind in each_kind() {
                    let notify = Arc::new(Notify::new());
                    let (begun, has_begun) = blitzen::sync::oneshot::channel();
                    let task = blitzen::spawn({
                        let (kind, notify) = (kind.clone(), notify.clone());
                        async move {
                            with_dispatcher(&kind, async {
                                begun.send(()).unwrap();
                                notify.notified().await;
                                yield_now().await;
                                5
                            })
                            .await
                        }
                    });
                    has_begun.await.unwrap();
                    kind.close();
                    notify.notify_one();
                    assert_eq!(task.await.unwrap(), 5);
                    let late =
                        blitzen::spawn(async move { with_dispatcher(&kind, async { 6 }).await });
                    assert_eq!(late.await.unwrap(), 6);
                }
            });
        }
    });
}

#[test]
fn closing_against_moves_and_wakes_loses_nothing() {
    must_end(|| {
        let runtime = multi_thread(3);
        runtime.block_on(async {
            for round in 0..20 {
                for kind in each_kind() {
                    let semaphore = Arc::new(Semaphore::new(0));
                    let tasks: Vec<_> = (0..20)
                        .map(|_| {
                            let (kind, semaphore) = (kind.clone(), semaphore.clone());
                            blitzen::spawn(async move {
                                with_dispatcher(&kind, async {
                                    semaphore.acquire().await.unwrap().forget();
                                    yield_now().await;
                                })
                                .await;
                            })
                        })
                        .collect();
                    for _ in 0..round {
                        yield_now().await;
                    }
                    let closer = thread::spawn(move || kind.close());
                    semaphore.add_permits(20);
                    for task in tasks {
                        task.await.unwrap();
                    }
                    closer.join().unwrap();
                }
            }
        });
    });
}

#[test]
fn a_nested_block_on_in_a_view_of_one_keeps_others_out_and_ends() {
    must_end(|| {
        let runtime = multi_thread(2);
        let handle = runtime.handle().clone();
        runtime.block_on(async {
            let one = Dispatcher::default().limited(1);
            let inside = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..10)
                .map(|_| {
                    let (handle, inside) = (handle.clone(), inside.clone());
                    one.spawn(async move {
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "alone");
                        block_in_place(|| {
                            handle.block_on(async {
                                blitzen::spawn(yield_now()).await.unwrap();
                                blitzen::time::sleep(Duration::from_millis(1)).await;
                            });
                        });
                        inside.fetch_sub(1, SeqCst);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn nested_block_ons_that_wait_for_their_own_view_do_not_starve() {
    must_end(|| {
        let runtime = multi_thread(2);
        let handle = runtime.handle().clone();
        runtime.block_on(async {
            let two = Dispatcher::default().limited(2);
            let outer = two.limited(2);
            let tasks: Vec<_> = (0..4)
                .map(|n| {
                    let (handle, two) = (handle.clone(), two.clone());
                    let from = if n % 2 == 0 { &two } else { &outer };
                    let inner = two.clone();
                    from.spawn(async move {
                        block_in_place(|| {
                            handle.block_on(async { inner.spawn(async { 1 }).await.unwrap() })
                        })
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap(), 1);
            }
        });
    });
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_a_bound_thread_starts_are_not_bound() {
    fn allowed_cores() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    }
    let runtime = multi_thread(1);
    runtime.block_on(async {
        let everywhere = allowed_cores();
        let first = everywhere.split([',', '-']).next().unwrap().to_owned();
        let core = first.parse().unwrap();
        let bound = Dispatcher::builder().cores([core]).build().unwrap();
        let seen = bound.run(async {
            let pool = blitzen::task::spawn_blocking(allowed_cores);
            (allowed_cores(), pool.await.unwrap())
        });
        assert_eq!(seen.await.unwrap(), (first, everywhere));
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_core_outside_the_allowed_set_is_an_error_that_names_it() {
    let runtime = multi_thread(1);
    let _entered = runtime.enter();
    let error = Dispatcher::builder().cores([1023]).build().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("core 1023"), "{error}");
    let error = Dispatcher::builder().cores(900..904).threads(2).build();
    assert!(error.unwrap_err().to_string().contains("core 900"));
    // The first core that is allowed works.
    let allowed = (0..1024)
        .find_map(|core| {
            Dispatcher::builder()
                .cores([core])
                .name("pinned")
                .build()
                .ok()
        })
        .expect("some core is allowed");
    assert_eq!(runtime.block_on(allowed.run(async { 1 })).unwrap(), 1);
}

#[test]
fn a_foreign_executor_that_drops_every_job_loses_no_task() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            let careless = Dispatcher::from_fn(drop);
            let tasks: Vec<_> = (0..50)
                .map(|n| {
                    careless.spawn(async move {
                        yield_now().await;
                        blitzen::time::sleep(Duration::from_micros(100)).await;
                        n
                    })
                })
                .collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), n);
            }
        });
    }
}

#[test]
fn a_foreign_executor_that_panics_loses_no_task() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            let calls = Arc::new(AtomicUsize::new(0));
            let counted = calls.clone();
            let angry = Dispatcher::from_fn(move |job| {
                if counted.fetch_add(1, SeqCst).is_multiple_of(2) {
                    panic!("no more jobs");
                }
                job.run();
                panic!("after the job");
            });
            let tasks: Vec<_> = (0..20)
                .map(|n| {
                    angry.spawn(async move {
                        yield_now().await;
                        blitzen::time::sleep(Duration::from_micros(100)).await;
                        n
                    })
                })
                .collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), n);
            }
            assert!(calls.load(SeqCst) >= 20);
        });
    }
}

#[test]
fn a_foreign_executor_may_keep_jobs_for_ever() {
    must_end(|| {
        for runtime in each_flavor() {
            let kept = Arc::new(Mutex::new(Vec::new()));
            let drops = Arc::new(AtomicUsize::new(0));
            let (waiting, hoarder) = runtime.block_on(async {
                let jobs = kept.clone();
                let hoarder = Dispatcher::from_fn(move |job| jobs.lock().unwrap().push(job));
                let waiting: Vec<_> = (0..10)
                    .map(|_| {
                        let dropped = Dropped(drops.clone());
                        hoarder.spawn(async move { drop(dropped) })
                    })
                    .collect();
                (waiting, hoarder)
            });
            drop(runtime);
            assert_eq!(drops.load(SeqCst), 10, "the runtime's end drops the tasks");
            // Jobs that come after the runtime's end do nothing, run or not.
            let mut jobs = std::mem::take(&mut *kept.lock().unwrap());
            assert_eq!(jobs.len(), 10);
            jobs.drain(..5).for_each(PollJob::run);
            drop(jobs);
            drop((waiting, hoarder));
        }
    });
}

#[test]
fn closing_frees_the_tasks_that_a_foreign_executor_keeps() {
    must_end(|| {
        let runtime = multi_thread(2);
        runtime.block_on(async {
            let kept = Arc::new(Mutex::new(Vec::new()));
            let jobs = kept.clone();
            let hoarder = Dispatcher::from_fn(move |job| jobs.lock().unwrap().push(job));
            let visitor = {
                let hoarder = hoarder.clone();
                blitzen::spawn(async move { with_dispatcher(&hoarder, async { 5 }).await })
            };
            let own = hoarder.spawn(pending::<()>());
            while kept.lock().unwrap().len() < 2 {
                yield_now().await;
            }
            hoarder.close();
            assert!(own.await.unwrap_err().is_cancelled());
            assert_eq!(visitor.await.unwrap(), 5);
            // The jobs hold the dispatcher, and so the closure that holds them.
            drop(std::mem::take(&mut *kept.lock().unwrap()));
        });
    });
}

#[test]
fn a_job_may_run_on_a_thread_of_another_runtime() {
    must_end(|| {
        for runtime in each_flavor() {
            let other = multi_thread(2);
            let handle = other.handle().clone();
            let id = runtime.handle().id();
            runtime.block_on(async {
                let guest = Dispatcher::from_fn(move |job| drop(handle.spawn(async { job.run() })));
                for _ in 0..20 {
                    let task = guest.spawn(async move {
                        assert_eq!(Handle::current().id(), id);
                        yield_now().await;
                        blitzen::time::sleep(Duration::from_micros(100)).await;
                        assert_eq!(Handle::current().id(), id);
                        blitzen::spawn(async { 4 }).await.unwrap()
                    });
                    assert_eq!(task.await.unwrap(), 4);
                }
            });
        }
    });
}

#[test]
fn jobs_that_are_run_by_what_wakes_their_tasks_do_not_fill_the_stack() {
    must_end(|| {
        let runtime = multi_thread(2);
        runtime.block_on(async {
            let inline = Dispatcher::from_fn(PollJob::run);
            let notifies: Vec<_> = (0..2_000).map(|_| Arc::new(Notify::new())).collect();
            let tasks: Vec<_> = notifies
                .windows(2)
                .map(|pair| {
                    let (own, next) = (pair[0].clone(), pair[1].clone());
                    inline.spawn(async move {
                        own.notified().await;
                        next.notify_one();
                    })
                })
                .collect();
            notifies[0].notify_one();
            for task in tasks {
                task.await.unwrap();
            }
            // One that yields all the time.
            let task = inline.spawn(async {
                for _ in 0..10_000 {
                    yield_now().await;
                }
            });
            task.await.unwrap();
        });
    });
}

#[test]
fn a_runtime_that_ends_takes_the_tasks_of_its_dispatchers_along() {
    must_end(|| {
        for runtime in each_flavor() {
            let drops = Arc::new(AtomicUsize::new(0));
            let kinds = {
                let _entered = runtime.enter();
                each_kind()
            };
            let mut tasks = Vec::new();
            for kind in &kinds {
                for n in 0..10 {
                    let dropped = Dropped(drops.clone());
                    tasks.push(kind.spawn(async move {
                        let _dropped = dropped;
                        for _ in 0..n {
                            yield_now().await;
                        }
                        pending::<()>().await;
                    }));
                    let (dropped, kind) = (Dropped(drops.clone()), kind.clone());
                    tasks.push(runtime.spawn(async move {
                        let _dropped = dropped;
                        with_dispatcher(&kind, async {
                            yield_now().await;
                            pending::<()>().await;
                        })
                        .await;
                    }));
                }
            }
            runtime.block_on(async {
                for _ in 0..5 {
                    yield_now().await;
                }
            });
            drop(runtime);
            assert_eq!(drops.load(SeqCst), tasks.len());
            for kind in &kinds {
                // A handle that outlives its runtime.
                let late = kind.spawn(async {});
                assert!(late.is_finished());
                let _ = kind.metrics();
                kind.close();
            }
            let failed = kinds[0].clone();
            let view = Dispatcher::builder().build_limited(&failed, 1);
            assert!(view.unwrap_err().to_string().contains("shut down"));
        }
    });
}

#[test]
fn a_runtime_that_ends_while_its_dispatchers_work_waits_for_their_polls() {
    must_end(|| {
        for _ in 0..20 {
            let runtime = multi_thread(2);
            let polls = Arc::new(AtomicUsize::new(0));
            {
                let _entered = runtime.enter();
                for kind in each_kind() {
                    for _ in 0..4 {
                        let polls = polls.clone();
                        kind.spawn(async move {
                            loop {
                                polls.fetch_add(1, SeqCst);
                                yield_now().await;
                            }
                        });
                    }
                }
            }
            while polls.load(SeqCst) < 100 {
                thread::yield_now();
            }
            drop(runtime);
            let after = polls.load(SeqCst);
            thread::yield_now();
            assert_eq!(polls.load(SeqCst), after, "nothing runs any more");
        }
    });
}

#[test]
fn a_task_on_a_dispatcher_may_end_its_own_runtime() {
    must_end(|| {
        for kind in 0..9 {
            let runtime = multi_thread(2);
            let dispatcher = {
                let _entered = runtime.enter();
                each_kind().swap_remove(kind)
            };
            let (ended, has_ended) = mpsc::channel();
            drop(dispatcher.spawn(async move {
                block_in_place(|| drop(runtime));
                ended.send(()).unwrap();
                yield_now().await;
            }));
            has_ended.recv().unwrap();
        }
    });
}

#[test]
fn dispatchers_run_out_with_a_clear_error_and_come_back() {
    must_end(|| {
        let runtime = multi_thread(2);
        let _entered = runtime.enter();
        let workers = Dispatcher::default();
        let mut views: Vec<_> = (0..1_023).map(|_| workers.limited(1)).collect();
        let error = Dispatcher::builder()
            .build_limited(&workers, 1)
            .unwrap_err();
        assert!(error.to_string().contains("1023 dispatchers"), "{error}");
        let error = Dispatcher::single("one more").unwrap_err();
        assert!(error.to_string().contains("1023 dispatchers"), "{error}");
        // All of them work.
        let tasks: Vec<_> = views.iter().map(|view| view.spawn(async {})).collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        views.truncate(1_000);
        while Dispatcher::builder().build_limited(&workers, 1).is_err() {
            thread::yield_now(); // until the tasks are gone
        }
        let last = workers.limited(1);
        assert_eq!(runtime.block_on(last.run(async { 1 })).unwrap(), 1);
    });
}

#[test]
fn a_handle_of_another_runtime_spawns_there() {
    let (own, other) = (multi_thread(1), multi_thread(1));
    let foreign = {
        let _entered = other.enter();
        each_kind()
    };
    own.block_on(async {
        for kind in foreign {
            let id = kind.spawn(async { Handle::current().id() });
            assert_eq!(id.await.unwrap(), other.handle().id());
        }
    });
}

#[test]
fn a_local_runtime_has_no_other_dispatchers() {
    let runtime = LocalRuntime::new().unwrap();
    runtime.block_on(async {
        let workers = Dispatcher::default();
        assert_eq!(workers.run(async { 1 }).await.unwrap(), 1);
        assert_eq!(Dispatcher::unconfined().run(async { 1 }).await.unwrap(), 1);
        for error in [
            Dispatcher::single("one").unwrap_err(),
            Dispatcher::builder()
                .build_limited(&workers, 1)
                .unwrap_err(),
            Dispatcher::builder().build_group(Shares(1)).unwrap_err(),
        ] {
            assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        }
        assert!(std::panic::catch_unwind(Dispatcher::io).is_err());
        assert!(std::panic::catch_unwind(|| Dispatcher::from_fn(drop)).is_err());
    });
}

#[test]
fn limits_and_shares_of_nothing_are_errors() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let builder = Dispatcher::builder();
    let error = builder.clone().build_limited(&Dispatcher::default(), 0);
    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    let error = builder.build_group(Shares(0));
    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn threads_of_a_dispatcher_end_with_it() {
    must_end(|| {
        let runtime = multi_thread(1);
        let _entered = runtime.enter();
        let alive = Arc::new(());
        thread_local!(static HELD: std::cell::RefCell<Option<Arc<()>>> = const { std::cell::RefCell::new(None) });
        let single = Dispatcher::single("short-lived").unwrap();
        let held = alive.clone();
        let set = single.run(async move { HELD.set(Some(held)) });
        runtime.block_on(set).unwrap();
        drop(single);
        while Arc::strong_count(&alive) > 1 {
            thread::yield_now(); // the thread's own values go with the thread
        }
    });
}

#[test]
fn a_view_goes_on_when_its_base_is_closed() {
    must_end(|| {
        for runtime in each_flavor() {
            runtime.block_on(async {
                let base = Dispatcher::single("base").unwrap();
                let view = base.limited(1);
                assert_eq!(view.spawn(async { 1 }).await.unwrap(), 1);
                let notify = Arc::new(Notify::new());
                let waiting = {
                    let notify = notify.clone();
                    view.spawn(async move { notify.notified().await })
                };
                base.close();
                notify.notify_one();
                waiting.await.unwrap();
                for n in 0..100 {
                    assert_eq!(view.spawn(async move { n }).await.unwrap(), n);
                }
            });
        }
    });
}

#[test]
fn a_dump_polls_runners_that_wait_and_gives_them_no_permit() {
    must_end(|| {
        for runtime in [multi_thread(1), multi_thread(3)] {
            runtime.block_on(async {
                for kind in each_kind() {
                    for n in 0..3 {
                        assert_eq!(kind.spawn(async move { n }).await.unwrap(), n);
                        drop(Handle::current().dump().await);
                    }
                    let tasks: Vec<_> = (0..20)
                        .map(|n| {
                            kind.spawn(async move {
                                yield_now().await;
                                n
                            })
                        })
                        .collect();
                    for (n, task) in tasks.into_iter().enumerate() {
                        assert_eq!(task.await.unwrap(), n);
                    }
                    kind.close(); // which wakes the runners to end
                }
            });
        }
    });
}

#[test]
fn random_moves_between_many_dispatchers_lose_nothing() {
    must_end(|| {
        let runtime = multi_thread(3);
        runtime.block_on(async {
            let kinds = Arc::new(each_kind());
            let seen = Arc::new(Mutex::new(HashMap::new()));
            let tasks: Vec<_> = (0..40u32)
                .map(|n| {
                    let (kinds, seen) = (kinds.clone(), seen.clone());
                    let own = kinds[n as usize % kinds.len()].clone();
                    own.spawn(async move {
                        let mut random = n.wrapping_mul(2_654_435_761) | 1;
                        let mut next = || {
                            random ^= random << 13;
                            random ^= random >> 17;
                            random ^= random << 5;
                            random as usize
                        };
                        for _ in 0..30 {
                            let kind = next() % kinds.len();
                            let yields = next() % 3;
                            with_dispatcher(&kinds[kind], async {
                                for _ in 0..yields {
                                    yield_now().await;
                                }
                                *seen.lock().unwrap().entry(kind).or_insert(0) += 1;
                            })
                            .await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let visits: i32 = seen.lock().unwrap().values().sum();
            assert_eq!(visits, 40 * 30);
        });
    });
}

#[test]
fn a_task_may_drop_the_last_handle_of_its_own_dispatcher() {
    must_end(|| {
        for runtime in each_flavor() {
            runtime.block_on(async {
                for own in each_kind() {
                    let task = own.clone();
                    let task = task.spawn(async move {
                        yield_now().await;
                        drop(own);
                        yield_now().await;
                        5
                    });
                    assert_eq!(task.await.unwrap(), 5);
                }
            });
        }
    });
}

#[test]
fn a_runtime_that_ends_while_tasks_move_and_lose_selects_drops_them_all() {
    must_end(|| {
        for seed in 0..60 {
            let runtime = multi_thread(2);
            let alive = Arc::new(());
            let kinds = Arc::new({
                let _inside = runtime.enter();
                each_kind()
            });
            for n in 0..20 {
                let (kinds, alive) = (kinds.clone(), alive.clone());
                drop(kinds[n % kinds.len()].clone().spawn(async move {
                    for step in 0.. {
                        let [one, other] = [step + n, step * 3 + seed].map(|at| at % kinds.len());
                        let alive = alive.clone();
                        blitzen::select! {
                            () = with_dispatcher(&kinds[one], async { yield_now().await }) => {}
                            () = with_dispatcher(&kinds[other], async {
                                yield_now().await;
                                yield_now().await;
                            }) => {}
                        }
                        drop(alive);
                    }
                }));
            }
            runtime.block_on(async {
                for _ in 0..seed {
                    yield_now().await;
                }
            });
            drop(runtime);
            drop(kinds);
            while Arc::strong_count(&alive) > 1 {
                thread::yield_now(); // a foreign executor may still have a job
            }
        }
    });
}

#[test]
fn nested_block_ons_in_polls_in_place_give_their_permits_back() {
    must_end(|| {
        let runtime = multi_thread(3);
        let handle = runtime.handle().clone();
        runtime.block_on(async {
            // Not each of them is in place: the last poll may have seemed to block.
            for _ in 0..50 {
                let two = Dispatcher::io().limited(2);
                let both = Arc::new(Barrier::new(2));
                let block = || {
                    let (handle, two, both) = (handle.clone(), two.clone(), both.clone());
                    blitzen::spawn(async move {
                        with_dispatcher(&two, async {
                            both.wait();
                            let other = two.spawn(async {});
                            block_in_place(|| handle.block_on(other)).unwrap();
                        })
                        .await;
                    })
                };
                let tasks = [block(), block()];
                for task in tasks {
                    task.await.unwrap();
                }
            }
        });
    });
}

#[test]
fn io_cannot_be_closed_for_the_whole_runtime_but_a_view_of_it_can() {
    must_end(|| {
        for runtime in each_flavor() {
            runtime.block_on(async {
                let (io, view) = (Dispatcher::io(), Dispatcher::io().limited(2));
                let (finish, finished) = blitzen::sync::oneshot::channel();
                let task = io.spawn(finished);
                let aborted = view.spawn(pending::<()>());
                io.close();
                view.close();
                assert!(aborted.await.unwrap_err().is_cancelled());
                finish.send(5).unwrap();
                assert_eq!(task.await.unwrap().unwrap(), 5);
                Dispatcher::io().spawn(async {}).await.unwrap();
                assert_eq!(io.metrics().submitted, 2);
            });
        }
    });
}

#[test]
fn spawns_against_a_close_are_each_ended() {
    must_end(|| {
        let runtime = multi_thread(3);
        runtime.block_on(async {
            for round in 0..20 {
                for kind in each_kind() {
                    let drops = Arc::new(AtomicUsize::new(0));
                    let all = Arc::new(Barrier::new(3));
                    let spawners: Vec<_> = (0..2)
                        .map(|_| {
                            let (kind, all, drops) = (kind.clone(), all.clone(), drops.clone());
                            let runtime = Handle::current();
                            thread::spawn(move || {
                                let _inside = runtime.enter();
                                all.wait();
                                let spawn = |n: usize| {
                                    let dropped = Dropped(drops.clone());
                                    kind.spawn(async move {
                                        let _dropped = dropped;
                                        for _ in 0..n % 3 {
                                            yield_now().await;
                                        }
                                        n
                                    })
                                };
                                (0..20).map(spawn).collect::<Vec<_>>()
                            })
                        })
                        .collect();
                    all.wait();
                    (0..round).for_each(|_| thread::yield_now());
                    kind.close();
                    for spawner in spawners {
                        for (n, task) in spawner.join().unwrap().into_iter().enumerate() {
                            match task.await {
                                Ok(output) => assert_eq!(output, n),
                                Err(error) => assert!(error.is_cancelled()),
                            }
                        }
                    }
                    assert_eq!(drops.load(SeqCst), 40, "each was dropped once");
                }
            }
        });
    });
}
