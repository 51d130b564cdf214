//! What each kind of dispatcher promises.

mod engine_common;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use blitzen::dispatch::{Dispatcher, PollJob, Shares};
use blitzen::runtime::{Budget, Builder, Runtime};
use blitzen::task::yield_now;
use engine_common::{current_thread, multi_thread};

fn each_flavor() -> [Runtime; 3] {
    [current_thread(), multi_thread(1), multi_thread(3)]
}

/// Counts how many of its guards are alive, and the most there ever were.
#[derive(Clone, Default)]
struct AtOnce(Arc<(AtomicUsize, AtomicUsize)>);

impl AtOnce {
    fn enter(&self) -> Inside {
        let now = self.0.0.fetch_add(1, SeqCst) + 1;
        self.0.1.fetch_max(now, SeqCst);
        Inside(self.clone())
    }

    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

struct Inside(AtOnce);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_limited_view_never_polls_more_tasks_at_once_than_its_limit() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            for limit in [1, 2, 5] {
                let view = Dispatcher::default().limited(limit);
                let at_once = AtOnce::default();
                let tasks: Vec<_> = (0..20)
                    .map(|_| {
                        let at_once = at_once.clone();
                        view.spawn(async move {
                            for round in 0..20 {
                                let inside = at_once.enter();
                                if round == 10 {
                                    thread::yield_now(); // others run in the middle of it
                                }
                                drop(inside);
                                yield_now().await;
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
                assert!(at_once.most() <= limit, "{} > {limit}", at_once.most());
                let metrics = view.metrics();
                assert_eq!((metrics.submitted, metrics.completed), (20, 20));
                assert!(metrics.polls >= 20 * 20, "{metrics:?}");
                assert_eq!(metrics.queued, 0);
            }
        });
    }
}

#[test]
fn a_limited_view_uses_as_many_threads_as_its_limit_and_workers_allow() {
    let runtime = multi_thread(3);
    runtime.block_on(async {
        let view = Dispatcher::default().limited(2);
        let both = Arc::new(Barrier::new(2));
        let tasks = [(); 2].map(|()| {
            let both = both.clone();
            view.spawn(async move {
                both.wait(); // comes back only if both are polled at once
            })
        });
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn a_view_of_a_view_keeps_both_limits() {
    let runtime = multi_thread(3);
    runtime.block_on(async {
        let outer = Dispatcher::default().limited(2);
        let inner = outer.limited(3);
        let at_once = AtOnce::default();
        let tasks: Vec<_> = (0..30)
            .map(|_| {
                let at_once = at_once.clone();
                inner.spawn(async move {
                    for _ in 0..10 {
                        let inside = at_once.enter();
                        thread::yield_now();
                        drop(inside);
                        yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(at_once.most() <= 2);
    });
}

#[test]
fn io_lets_sixty_four_tasks_block_at_once_on_every_flavor() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            let io = Dispatcher::io();
            let all = Arc::new(Barrier::new(64));
            let tasks: Vec<_> = (0..64)
                .map(|_| {
                    let all = all.clone();
                    io.spawn(async move {
                        all.wait();
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn a_view_of_io_may_have_a_higher_limit_than_io() {
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let view = Dispatcher::io().limited(100);
        let all = Arc::new(Barrier::new(100));
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let all = all.clone();
                view.spawn(async move {
                    all.wait();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn the_tasks_of_a_view_of_io_block_beside_those_of_io() {
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let io = Dispatcher::io();
        let view = io.limited(100);
        let all = Arc::new(Barrier::new(164));
        let tasks: Vec<_> = [(&io, 64), (&view, 100)]
            .into_iter()
            .flat_map(|(dispatcher, count)| (0..count).map(move |_| dispatcher))
            .map(|dispatcher| {
                let all = all.clone();
                dispatcher.spawn(async move {
                    all.wait();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn short_polls_on_io_stay_on_the_workers() {
    const CALLS: usize = 1_000;
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).on_before_task_poll(move |_| {
        counted.fetch_add(1, SeqCst);
    });
    builder.build().unwrap().block_on(async {
        let task = blitzen::spawn(async move {
            let io = Dispatcher::io();
            let (before, mut stayed) = (polls.load(SeqCst), 0);
            for _ in 0..CALLS {
                let before = thread::current().id();
                let during =
                    blitzen::dispatch::with_dispatcher(&io, async { thread::current().id() }).await;
                stayed += usize::from(before == during);
                yield_now().await;
            }
            (stayed, polls.load(SeqCst) - before)
        });
        let (stayed, polls) = task.await.unwrap();
        // Not all of them: on a busy machine one may seem to block, and then the next does not stay.
        assert!(stayed > CALLS / 2, "{stayed} stayed");
        // One that does not stay has two polls more, and its runner has others.
        assert!(polls < 2 * CALLS, "{polls} polls");
    });
}

#[test]
fn a_blocked_poll_on_io_holds_up_no_other_task() {
    let runtime = multi_thread(1);
    runtime.block_on(async {
        let (release, wait) = mpsc::channel::<()>();
        let blocked = Dispatcher::io().spawn(async move { wait.recv().unwrap() });
        for _ in 0..100 {
            blitzen::spawn(yield_now()).await.unwrap();
        }
        release.send(()).unwrap();
        blocked.await.unwrap();
    });
}

#[test]
fn threads_of_its_own_have_its_name_and_run_nothing_else() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            let render = Dispatcher::builder()
                .threads(3)
                .name("render")
                .build()
                .unwrap();
            let names = Arc::new(Mutex::new(HashSet::new()));
            let tasks: Vec<_> = (0..60)
                .map(|_| {
                    let names = names.clone();
                    render.spawn(async move {
                        for _ in 0..5 {
                            let name = thread::current().name().unwrap().to_owned();
                            names.lock().unwrap().insert(name);
                            yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            for name in &*names.lock().unwrap() {
                assert!(
                    ["render-0", "render-1", "render-2"].contains(&&**name),
                    "{name}"
                );
            }
            let plain = blitzen::spawn(async { thread::current().name().map(str::to_owned) });
            let plain = plain.await.unwrap().unwrap_or_default();
            assert!(!plain.starts_with("render"), "{plain}");
            let metrics = render.metrics();
            assert_eq!((metrics.submitted, metrics.completed), (60, 60));
            assert!(metrics.polls >= 60 * 5);
        });
    }
}

#[test]
fn timers_sockets_and_channels_bring_a_task_back_to_its_thread() {
    use blitzen::io::{AsyncReadExt, AsyncWriteExt};
    use blitzen::net::{TcpListener, TcpStream};

    let runtime = multi_thread(2);
    runtime.block_on(async {
        let single = Dispatcher::single("single").unwrap();
        let on_single = || thread::current().name() == Some("single");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, mut receiver) = blitzen::channel::mpsc::channel::<u32>(1);
        let task = single.spawn(async move {
            assert!(on_single());
            blitzen::time::sleep(Duration::from_millis(2)).await;
            assert!(on_single(), "after a timer");
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(on_single(), "after a connection");
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            assert!(on_single(), "after a read");
            assert_eq!(receiver.recv().await, Some(5));
            assert!(on_single(), "after a message");
            blitzen::task::spawn_blocking(|| ()).await.unwrap();
            assert!(on_single(), "after blocking code");
        });
        let (mut peer, _) = listener.accept().await.unwrap();
        peer.write_all(b"x").await.unwrap();
        sender.send(5).await.unwrap();
        task.await.unwrap();
    });
}

#[test]
fn a_paused_clock_waits_for_what_dispatchers_do() {
    for workers in [None, Some(2)] {
        let mut builder = match workers {
            None => Builder::new_current_thread(),
            Some(_) => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let kinds = [
                Dispatcher::default().limited(1),
                Dispatcher::single("single").unwrap(),
                Dispatcher::io(),
                Dispatcher::group("group", Shares(1)),
                Dispatcher::from_fn(|job| drop(thread::spawn(|| job.run()))),
            ];
            for kind in kinds {
                let start = blitzen::time::Instant::now();
                let task = kind.spawn(async move {
                    // Blocks: the clock must not advance meanwhile.
                    thread::sleep(Duration::from_millis(5));
                    assert_eq!(blitzen::time::Instant::now(), start);
                    blitzen::time::sleep(Duration::from_secs(3600)).await;
                });
                blitzen::time::sleep(Duration::from_secs(60)).await;
                task.await.unwrap();
                assert!(start.elapsed() >= Duration::from_secs(3600));
            }
        });
    }
}

#[test]
fn an_unconfined_task_runs_in_place_until_it_first_waits() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            let (sender, receiver) = blitzen::sync::oneshot::channel::<()>();
            let order = Arc::new(Mutex::new(Vec::new()));
            let task = Dispatcher::unconfined().spawn({
                let order = order.clone();
                async move {
                    order.lock().unwrap().push("in place");
                    receiver.await.unwrap();
                    order.lock().unwrap().push("later");
                }
            });
            order.lock().unwrap().push("spawned");
            sender.send(()).unwrap();
            task.await.unwrap();
            assert_eq!(*order.lock().unwrap(), ["in place", "spawned", "later"]);
        });
    }
}

#[test]
fn unconfined_tasks_that_spawn_each_other_do_not_fill_the_stack() {
    fn nest(left: u32, ended: Arc<AtomicUsize>) {
        if left == 0 {
            return;
        }
        let task = Dispatcher::unconfined().spawn({
            let ended = ended.clone();
            async move {
                nest(left - 1, ended.clone());
                ended.fetch_add(1, SeqCst);
            }
        });
        drop(task);
    }
    let runtime = multi_thread(2);
    let ended = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        nest(10_000, ended.clone());
        while ended.load(SeqCst) < 10_000 {
            yield_now().await;
        }
    });
}

#[test]
fn groups_run_their_tasks_on_the_workers() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            let groups = [3, 1].map(|shares| Dispatcher::group("group", Shares(shares)));
            let tasks: Vec<_> = (0..40)
                .map(|n| {
                    groups[n % 2].spawn(async move {
                        for _ in 0..5 {
                            yield_now().await;
                        }
                        blitzen::time::sleep(Duration::from_millis(1)).await;
                        n
                    })
                })
                .collect();
            for (n, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), n);
            }
            let metrics = groups[0].metrics();
            assert_eq!((metrics.submitted, metrics.completed), (20, 20));
            assert!(metrics.polls >= 20 * 6 && metrics.busy > Duration::ZERO);
        });
    }
}

#[test]
fn a_foreign_executor_polls_every_poll_of_its_tasks() {
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let (jobs, queue) = mpsc::channel::<PollJob>();
        let foreign_thread = thread::spawn(move || queue.into_iter().for_each(PollJob::run));
        let id = foreign_thread.thread().id();
        let foreign = Dispatcher::from_fn(move |job| jobs.send(job).unwrap());
        let task = foreign.spawn(async move {
            for _ in 0..10 {
                assert_eq!(thread::current().id(), id);
                yield_now().await;
                blitzen::time::sleep(Duration::from_millis(1)).await;
            }
            // The runtime is entered there.
            blitzen::spawn(async { 3 }).await.unwrap()
        });
        assert_eq!(task.await.unwrap(), 3);
        let metrics = foreign.metrics();
        assert!(metrics.polls >= 20, "{metrics:?}");
        assert_eq!(metrics.completed, 1);
    });
}

#[test]
fn the_budget_of_a_runtime_and_of_a_dispatcher_counts_operations() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .budget(Budget::new(10, None))
        .build()
        .unwrap();
    /// Receives from a channel that is never empty; returns how many messages came in the
    /// first poll.
    async fn in_one_poll() -> usize {
        let (sender, mut receiver) = blitzen::channel::mpsc::unbounded_channel();
        (0..1000).for_each(|n| sender.send(n).unwrap());
        let received = AtomicUsize::new(0);
        let mut receive = Box::pin(async {
            while receiver.recv().await.is_some() {
                received.fetch_add(1, SeqCst);
            }
        });
        std::future::poll_fn(|cx| {
            assert!(receive.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(receive);
        drop(sender);
        received.load(SeqCst)
    }
    runtime.block_on(async {
        assert_eq!(blitzen::spawn(in_one_poll()).await.unwrap(), 10);
        let view = Dispatcher::default().limited(1);
        assert_eq!(view.spawn(in_one_poll()).await.unwrap(), 10);
        let single = Dispatcher::single("single").unwrap();
        assert_eq!(single.spawn(in_one_poll()).await.unwrap(), 10);
        let budget = Budget::new(300, None);
        let builder = Dispatcher::builder().budget(budget);
        let own = [
            builder.clone().build_limited(&Dispatcher::default(), 1),
            builder.clone().build_group(Shares(1)),
            builder.build(),
        ];
        for dispatcher in own {
            assert_eq!(dispatcher.unwrap().spawn(in_one_poll()).await.unwrap(), 300);
        }
        let timed = Budget::new(1000, Some(Duration::ZERO));
        let timed = Dispatcher::builder().budget(timed).build().unwrap();
        assert!(timed.spawn(in_one_poll()).await.unwrap() < 10);
    });
}

#[test]
fn a_task_that_never_waits_lets_others_run_when_its_budget_is_used_up() {
    let runtime = Builder::new_current_thread()
        .budget(Budget::new(u32::MAX, Some(Duration::from_micros(50))))
        .build()
        .unwrap();
    runtime.block_on(async {
        let hog = blitzen::spawn(async {
            let (sender, mut receiver) = blitzen::channel::mpsc::unbounded_channel();
            loop {
                sender.send(1).unwrap();
                receiver.recv().await;
            }
        });
        for _ in 0..10 {
            blitzen::spawn(async {}).await.unwrap();
        }
        hog.abort();
        assert!(hog.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn hooks_see_the_polls_of_dispatchers() {
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
        for dispatcher in [
            Dispatcher::default().limited(1),
            Dispatcher::single("single").unwrap(),
        ] {
            let before = polls.load(SeqCst);
            dispatcher
                .spawn(async {
                    for _ in 0..10 {
                        yield_now().await;
                    }
                })
                .await
                .unwrap();
            assert!(polls.load(SeqCst) - before >= 11);
        }
    });
}

#[test]
fn dispatchers_measure_how_long_their_tasks_wait() {
    for runtime in each_flavor() {
        runtime.block_on(async {
            let view = Dispatcher::default().limited(1);
            let group = Dispatcher::group("measured", Shares(1));
            for dispatcher in [&view, &group] {
                assert_eq!(dispatcher.metrics().queue_delay, None);
                dispatcher.spawn(async {}).await.unwrap();
                // The first one is timed. How long it took is another matter.
                assert!(dispatcher.metrics().queue_delay.is_some());
            }
            assert_eq!(Dispatcher::default().metrics().queue_delay, None);
        });
    }
}
