//! The recorder: what is in a trace, and that reading it disturbs nobody.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use blitzen::runtime::{Builder, Runtime, TraceMode};
use blitzen::sync::Notify;
use blitzen::task::{self, yield_now};

mod engine_common;
mod observe_common;
use engine_common::{multi_thread, must_end};
use observe_common::{Decoded, Kind};

fn recording(mode: TraceMode) -> Runtime {
    Builder::new_current_thread()
        .trace(mode)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn nothing_is_recorded_unless_it_was_asked_for() {
    let runtime = Builder::new_current_thread()
        .trace(TraceMode::Off)
        .build()
        .unwrap();
    runtime.block_on(runtime.spawn(async {})).unwrap();
    let trace = runtime.handle().trace();
    assert!(trace.is_empty());
    let decoded = Decoded::of(&trace);
    assert!(decoded.moments.is_empty() && decoded.tracks.is_empty());
}

#[test]
fn polls_wakes_and_queues_are_in_the_trace() {
    let runtime = recording(TraceMode::Full);
    let notify = Arc::new(Notify::new());
    runtime.block_on(async {
        let waiting = task::Builder::new().name("waiting").spawn({
            let notify = notify.clone();
            async move { notify.notified().await }
        });
        yield_now().await;
        let waking = async move { notify.notify_one() };
        let waking = task::Builder::new().name("waking").spawn(waking).unwrap();
        waking.await.unwrap();
        waiting.unwrap().await.unwrap();
    });
    let decoded = Decoded::of(&runtime.handle().trace());
    assert!(
        decoded.tracks.values().any(|name| name == "worker 0"),
        "{decoded:?}"
    );
    let waiting = decoded.slices_named("waiting");
    let waking = decoded.slices_named("waking");
    assert_eq!((waiting.len(), waking.len()), (2, 1));
    assert!(waiting[0].end_ns <= waking[0].begin.at_ns);
    assert!(waking[0].end_ns <= waiting[1].begin.at_ns);
    // Each poll has its cause: both tasks were spawned, and one was woken.
    assert_eq!(decoded.count_flows(), 3);
    let wakes = decoded.instants_named("wake");
    assert_eq!(wakes.len(), 1);
    assert_eq!(wakes[0].notes["task"], waiting[0].begin.notes["task"]);
    assert_eq!(wakes[0].flow, waiting[1].begin.terminating_flow);
    assert_eq!(wakes[0].track, waking[0].begin.track);
    assert!((waking[0].begin.at_ns..=waking[0].end_ns).contains(&wakes[0].at_ns));
    assert_eq!(decoded.instants_named("spawn").len(), 2);
    let counters = decoded
        .moments
        .iter()
        .filter(|moment| moment.kind == Kind::Counter);
    assert_eq!(counters.count(), 3, "one after each poll");
}

#[test]
fn the_length_of_the_queue_is_a_counter() {
    let runtime = recording(TraceMode::Full);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..3).map(|_| task::spawn(async {})).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let decoded = Decoded::of(&runtime.handle().trace());
    let queued: Vec<_> = decoded
        .moments
        .iter()
        .filter_map(|moment| moment.counter)
        .collect();
    assert_eq!(queued, [2, 1, 0]);
}

#[test]
fn every_poll_is_recorded_and_has_its_task_and_line() {
    const YIELDS: usize = 100;
    let runtime = recording(TraceMode::Full);
    let line = line!() + 1;
    let task = runtime.spawn(async {
        for _ in 0..YIELDS {
            yield_now().await;
        }
    });
    runtime.block_on(task).unwrap();
    let decoded = Decoded::of(&runtime.handle().trace());
    let slices = decoded.slices_named(&format!("{}:{line}", file!()));
    assert_eq!(slices.len(), YIELDS + 1);
    let id = slices[0].begin.notes["task"];
    assert!(slices.iter().all(|slice| slice.begin.notes["task"] == id));
}

#[test]
fn a_task_that_was_spawned_before_the_recording_has_a_name_too() {
    let runtime = recording(TraceMode::Off);
    let notify = Arc::new(Notify::new());
    let waiting = {
        let (notify, _entered) = (notify.clone(), runtime.enter());
        let waiting = async move {
            notify.notified().await;
            std::future::pending::<()>().await;
        };
        task::Builder::new().name("early").spawn(waiting).unwrap()
    };
    runtime.block_on(yield_now());
    runtime.handle().set_trace(TraceMode::Full);
    runtime.block_on(async {
        yield_now().await;
        notify.notify_one();
        yield_now().await;
    });
    let decoded = Decoded::of(&runtime.handle().trace());
    assert_eq!(decoded.slices_named("early").len(), 1, "{decoded:?}");
    drop(waiting);
}

#[test]
fn names_are_shown_as_they_are_whatever_they_contain() {
    let runtime = recording(TraceMode::Full);
    let names = [
        "",
        "a\0b",
        "\"}]\n\u{1b}[31m",
        "ü\u{202e}🦀",
        "%s%n",
        "'; drop table --",
    ];
    runtime.block_on(async {
        for name in names {
            let task = task::Builder::new().name(name).spawn(async {});
            task.unwrap().await.unwrap();
        }
        let long = "ä".repeat(1_000);
        let task = task::Builder::new().name(&long).spawn(async {});
        task.unwrap().await.unwrap();
    });
    let decoded = Decoded::of(&runtime.handle().trace());
    // A name of no length says nothing: there is the line.
    for name in &names[1..] {
        assert_eq!(decoded.slices_named(name).len(), 1, "{name:?}");
    }
    assert_eq!(
        decoded.slices_named(&"ä".repeat(16)).len(),
        1,
        "cut between characters"
    );
}

#[test]
fn a_runtime_may_have_any_name() {
    let runtime = Builder::new_current_thread()
        .name("\"\n\0}".repeat(1_000))
        .trace(TraceMode::Full)
        .build()
        .unwrap();
    runtime.block_on(runtime.spawn(async {})).unwrap();
    let decoded = Decoded::of(&runtime.handle().trace());
    assert!(decoded.process.contains("\"\n\0}") && decoded.process.len() <= 256);
}

#[test]
fn a_worker_that_was_handed_off_ends_the_poll_in_the_trace() {
    must_end(|| {
        let runtime = multi_thread(1);
        runtime.handle().set_trace(TraceMode::Full);
        runtime.block_on(async {
            let blocking = task::Builder::new().name("blocking").spawn(async {
                yield_now().await;
                let (ran, has_run) = std::sync::mpsc::channel();
                task::spawn(async move { ran.send(()).unwrap() });
                // Only another thread can run it now.
                task::block_in_place(|| has_run.recv().unwrap());
            });
            blocking.unwrap().await.unwrap();
            task::spawn(async {}).await.unwrap();
        });
        let decoded = Decoded::of(&runtime.handle().trace());
        let handed_off = decoded.instants_named("handed off");
        assert_eq!(handed_off.len(), 1, "{decoded:?}");
        let blocking = decoded.slices_named("blocking");
        assert!(
            blocking
                .iter()
                .any(|slice| slice.end_ns == handed_off[0].at_ns)
        );
    });
}

#[test]
fn parks_are_slices() {
    must_end(|| {
        let runtime = recording(TraceMode::Full);
        runtime.block_on(async {
            let (wake, woken) = blitzen::sync::oneshot::channel();
            let waiting = async move { woken.await.unwrap() };
            let waiting = task::Builder::new().name("waiting").spawn(waiting);
            let metrics = runtime.metrics();
            thread::spawn(move || {
                while metrics.worker_park_unpark_count(0).is_multiple_of(2) {
                    thread::yield_now();
                }
                wake.send(()).unwrap(); // now that it is parked
            });
            waiting.unwrap().await.unwrap();
        });
        let decoded = Decoded::of(&runtime.handle().trace());
        let polls = decoded.slices_named("waiting");
        assert_eq!(polls.len(), 2);
        let is_between = |parked: &observe_common::Slice| {
            polls[0].end_ns <= parked.begin.at_ns && parked.end_ns <= polls[1].begin.at_ns
        };
        assert!(decoded.slices_named("parked").iter().any(is_between));
    });
}

#[test]
fn wakes_and_spawns_of_other_threads_have_a_track() {
    must_end(|| {
        let runtime = recording(TraceMode::Full);
        let task = runtime.spawn(async {});
        runtime.block_on(async {
            task.await.unwrap();
            let (wake, woken) = blitzen::sync::oneshot::channel();
            let waiting = task::spawn(async move { woken.await.unwrap() });
            yield_now().await;
            thread::spawn(move || wake.send(()).unwrap());
            waiting.await.unwrap();
        });
        let decoded = Decoded::of(&runtime.handle().trace());
        let other = |moment: &&observe_common::Moment| {
            decoded.tracks[&moment.track].starts_with("other threads")
        };
        let (spawns, wakes) = (
            decoded.instants_named("spawn"),
            decoded.instants_named("wake"),
        );
        assert_eq!(spawns.iter().filter(other).count(), 1);
        assert_eq!(wakes.iter().filter(other).count(), 1);
        assert_eq!(decoded.count_flows(), 3);
        decoded.slices();
    });
}

#[test]
fn a_busy_worker_records_a_part_and_says_how_much_it_has_left_out() {
    const POLLS: u64 = 200_000;
    let runtime = Builder::new_current_thread()
        .trace(TraceMode::Sampled)
        .trace_buffer(16 << 10) // 1,024 events
        .build()
        .unwrap();
    runtime.block_on(async {
        let busy = task::spawn(async {
            for _ in 1..POLLS {
                yield_now().await;
            }
        });
        busy.await.unwrap();
    });
    let decoded = Decoded::of(&runtime.handle().trace());
    let left_out = decoded.instants_named("not recorded");
    let left_out: u64 = left_out.iter().map(|moment| moment.notes["polls"]).sum();
    // Room for 1,024 events at the start, and for half as many more each second.
    assert!(left_out > 0 && left_out < POLLS, "{left_out}");
    decoded.slices();
}

#[test]
fn a_ring_that_is_full_keeps_the_newest_events() {
    let runtime = Builder::new_current_thread()
        .trace(TraceMode::Full)
        .trace_buffer(1 << 10)
        .build()
        .unwrap();
    let run = |name: &'static str| {
        runtime.block_on(async {
            let task = task::Builder::new().name(name).spawn(async {
                for _ in 0..200 {
                    yield_now().await;
                }
            });
            task.unwrap().await.unwrap();
        });
    };
    run("first");
    run("second");
    let trace = runtime.handle().trace();
    assert_eq!(trace.len(), 63);
    let decoded = Decoded::of(&trace);
    assert_eq!(decoded.instants_named("events lost").len(), 1);
    assert!(decoded.slices_named("first").is_empty());
    // Its name was overwritten, and it has ended.
    assert!(decoded.slices_named("task").len() > 20);
}

#[test]
fn recording_is_switched_by_many_threads_and_copied_while_the_runtime_ends() {
    must_end(|| {
        let runtime = multi_thread(2);
        let handle = runtime.handle().clone();
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..4 {
            let (handle, stop) = (handle.clone(), stop.clone());
            threads.push(thread::spawn(move || {
                let modes = [TraceMode::Full, TraceMode::Off, TraceMode::Sampled];
                let mut rounds = 0;
                // Once more after the end of the runtime.
                let mut is_over = false;
                while !is_over {
                    is_over = stop.load(Relaxed);
                    handle.set_trace(modes[rounds % 3]);
                    handle.set_poll_times(rounds % 2 == number % 2);
                    handle.set_schedule_delays(rounds % 5 == 0);
                    if rounds % 8 == number {
                        Decoded::of(&handle.trace()).slices();
                    }
                    rounds += 1;
                    thread::yield_now();
                }
            }));
        }
        runtime.block_on(async {
            for _ in 0..200 {
                let children = (0..20).map(|_| task::spawn(async { yield_now().await }));
                for child in children.collect::<Vec<_>>() {
                    child.await.unwrap();
                }
            }
        });
        runtime.spawn(async {
            loop {
                task::spawn(async {});
                yield_now().await;
            }
        });
        drop(runtime); // while they go on
        handle.set_trace(TraceMode::Full);
        Decoded::of(&handle.trace()).slices();
        stop.store(true, Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
        let delays = handle.metrics().schedule_delays();
        // A stamp that is left over from before a switch would be as old as that.
        assert!(
            delays
                .quantile(1.0)
                .is_none_or(|delay| delay < Duration::from_secs(20))
        );
    });
}

/// A connection inside this machine.
fn tcp_pair() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

/// The polls of a task, each with what the task then waited for.
fn waits(decoded: &Decoded, name: &str) -> Vec<Option<String>> {
    let slices = decoded.slices_named(name).into_iter();
    slices
        .map(|slice| slice.end.texts.get("waits for").cloned())
        .collect()
}

/// What has woken a task, each time.
fn causes(decoded: &Decoded, name: &str) -> Vec<String> {
    let id = decoded.slices_named(name)[0].begin.notes["task"];
    let wakes = decoded.instants_named("wake").into_iter();
    wakes
        .filter(|wake| wake.notes["task"] == id)
        .map(|wake| wake.texts.get("by").cloned().unwrap_or_default())
        .collect()
}

#[test]
fn a_poll_says_what_the_task_waits_for_and_a_wake_what_it_was_caused_by() {
    must_end(|| {
        let runtime = recording(TraceMode::Full);
        let named = |name: &str, future: Pin<Box<dyn Future<Output = ()> + Send>>| {
            let _entered = runtime.enter();
            task::Builder::new().name(name).spawn(future).unwrap()
        };
        let (ours, theirs) = tcp_pair();
        let (tx, rx) = blitzen::sync::oneshot::channel::<()>();
        let sleeps = named(
            "sleeps",
            Box::pin(async { blitzen::time::sleep(Duration::from_millis(1)).await }),
        );
        let reads = named(
            "reads",
            Box::pin(async move {
                ours.set_nonblocking(true).unwrap();
                let stream = blitzen::net::TcpStream::from_std(ours).unwrap();
                stream.readable().await.unwrap();
            }),
        );
        let receives = named("receives", Box::pin(async { rx.await.unwrap() }));
        let joined = sleeps.id();
        let joins = named("joins", Box::pin(async { sleeps.await.unwrap() }));
        let blocks = named(
            "blocks",
            Box::pin(async { task::spawn_blocking(|| ()).await.unwrap() }),
        );
        runtime.block_on(async {
            joins.await.unwrap();
            std::io::Write::write_all(&mut &theirs, b"x").unwrap();
            reads.await.unwrap();
            blocks.await.unwrap();
            let sender = task::Builder::new().name("sends").spawn(async {
                tx.send(()).unwrap();
            });
            sender.unwrap().await.unwrap();
            receives.await.unwrap();
        });
        let decoded = Decoded::of(&runtime.handle().trace());
        let starts = |name, start: &str| {
            let waits = waits(&decoded, name);
            assert_eq!(waits.len(), 2, "{name}: {waits:?}");
            let wait = waits[0].as_deref().unwrap_or_default();
            assert!(wait.starts_with(start), "{name}: {wait}");
            assert_eq!(waits[1], None, "it has ended");
        };
        starts("sleeps", "timer");
        starts("reads", "readable");
        starts("receives", "oneshot 0x");
        starts("joins", &format!("join of task {joined}"));
        assert_eq!(causes(&decoded, "sleeps"), ["timer"]);
        assert_eq!(causes(&decoded, "reads"), ["io"]);
        assert_eq!(causes(&decoded, "receives"), ["task"]);
        assert_eq!(causes(&decoded, "joins"), ["task"]);
        if waits(&decoded, "blocks").len() == 2 {
            starts("blocks", "join of task ");
            assert_eq!(causes(&decoded, "blocks"), ["blocking"]);
        } // else the pool was faster than the task
        let results = |name| {
            let slices = decoded.slices_named(name).into_iter();
            let result = |slice: observe_common::Slice| slice.end.texts["result"].clone();
            slices.map(result).collect::<Vec<_>>()
        };
        assert_eq!(results("sleeps"), ["idle", "complete"]);
    });
}

#[test]
fn a_socket_that_another_thread_serves_for_a_worker_is_the_cause_of_the_wake() {
    must_end(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .trace(TraceMode::Full)
            .build()
            .unwrap();
        let (ours, theirs) = tcp_pair();
        ours.set_nonblocking(true).unwrap();
        let reads = {
            let _entered = runtime.enter();
            task::Builder::new().name("reads").spawn(async {
                let stream = blitzen::net::TcpStream::from_std(ours).unwrap();
                stream.readable().await.unwrap();
            })
        };
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (release, is_released) = std::sync::mpsc::channel();
        let blocks = runtime.spawn(async move {
            begun.send(()).unwrap();
            is_released.recv().unwrap();
        });
        has_begun.recv().unwrap();
        std::io::Write::write_all(&mut &theirs, b"x").unwrap();
        let causes = loop {
            let causes = causes(&Decoded::of(&runtime.handle().trace()), "reads");
            if !causes.is_empty() {
                break causes;
            }
            std::thread::yield_now();
        };
        assert_eq!(causes, ["io"]);
        release.send(()).unwrap();
        runtime.block_on(async {
            blocks.await.unwrap();
            reads.unwrap().await.unwrap();
        });
    });
}

#[test]
fn wakes_of_a_runtime_that_a_thread_of_the_blocking_pool_drives_have_causes_of_their_own() {
    must_end(|| {
        let pool = multi_thread(1);
        let job = pool.spawn_blocking(|| {
            let runtime = recording(TraceMode::Full);
            let (tx, rx) = blitzen::sync::oneshot::channel::<()>();
            runtime.block_on(async {
                let receives = task::Builder::new().name("receives");
                let receives = receives.spawn(async { rx.await.unwrap() }).unwrap();
                yield_now().await;
                task::spawn(async { tx.send(()).unwrap() }).await.unwrap();
                receives.await.unwrap();
            });
            Decoded::of(&runtime.handle().trace())
        });
        let decoded = pool.block_on(job).unwrap();
        assert_eq!(causes(&decoded, "receives"), ["task"]);
    });
}

#[test]
fn a_task_that_blocks_in_place_is_the_cause_of_its_wakes_during_that_and_after() {
    must_end(|| {
        let runtime = multi_thread(1);
        runtime.handle().set_trace(TraceMode::Full);
        let wakes_during = Arc::new(Notify::new());
        let wakes_after = Arc::new(Notify::new());
        runtime.block_on(async {
            let waits = |name, notify: &Arc<Notify>| {
                let notify = notify.clone();
                let waits = task::Builder::new().name(name);
                waits.spawn(async move { notify.notified().await }).unwrap()
            };
            let during = waits("woken during it", &wakes_during);
            let after = waits("woken after it", &wakes_after);
            while runtime
                .handle()
                .tasks()
                .iter()
                .any(|task| task.wait().is_none())
            {
                yield_now().await;
            }
            let blocks = task::spawn(async move {
                let (ran, has_run) = std::sync::mpsc::channel();
                task::spawn(async move { ran.send(()).unwrap() });
                task::block_in_place(|| {
                    has_run.recv().unwrap(); // on another thread, which has the worker now
                    wakes_during.notify_one();
                });
                wakes_after.notify_one();
            });
            blocks.await.unwrap();
            during.await.unwrap();
            after.await.unwrap();
        });
        let decoded = Decoded::of(&runtime.handle().trace());
        assert_eq!(causes(&decoded, "woken during it"), ["task"]);
        assert_eq!(causes(&decoded, "woken after it"), ["task"]);
    });
}

#[test]
fn code_on_the_blocking_pool_has_tracks_of_its_own() {
    must_end(|| {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .trace(TraceMode::Full)
            .build()
            .unwrap();
        let line = line!() + 5;
        let (begun, has_begun) = std::sync::mpsc::channel();
        let jobs: Vec<_> = (0..2)
            .map(|_| {
                let begun = begun.clone();
                runtime.spawn_blocking(move || begun.send(()).unwrap())
            })
            .collect();
        drop(jobs);
        has_begun.iter().take(2).for_each(drop);
        // Two at the same time, the first until the second has begun.
        let barrier = Arc::new(std::sync::Barrier::new(2));
        let jobs: Vec<_> = (0..2)
            .map(|_| {
                let barrier = barrier.clone();
                let _entered = runtime.enter();
                let job = task::Builder::new().name("waits for the other");
                job.spawn_blocking(move || barrier.wait()).unwrap()
            })
            .collect();
        runtime.block_on(async {
            for job in jobs {
                job.await.unwrap();
            }
            let panics = task::Builder::new().name("panics");
            let panics = panics.spawn_blocking(|| std::panic::resume_unwind(Box::new(())));
            let panics: Result<(), _> = panics.unwrap().await;
            assert!(panics.unwrap_err().is_panic());
        });
        let decoded = Decoded::of(&runtime.handle().trace());
        let jobs = decoded.slices_named("waits for the other");
        let tracks = jobs.iter().map(|job| &*decoded.tracks[&job.begin.track]);
        let tracks: Vec<_> = tracks.collect();
        assert_eq!(tracks.len(), 2);
        assert_ne!(tracks[0], tracks[1]);
        assert!(tracks.iter().all(|track| track.starts_with("blocking ")));
        assert!(jobs[0].begin.at_ns <= jobs[1].end_ns && jobs[1].begin.at_ns <= jobs[0].end_ns);
        assert_eq!(decoded.slices_named("panics").len(), 1);
        let plain = decoded.slices_named(&format!("{}:{line}", file!()));
        assert_eq!(plain.len(), 2);
        // Each was submitted somewhere, which is its cause.
        for job in jobs.iter().chain(&plain) {
            assert!(job.begin.terminating_flow.is_some());
        }
        assert!(decoded.count_flows() >= 5);
    });
}

#[test]
fn a_trace_as_text_has_a_line_for_each_event() {
    let runtime = recording(TraceMode::Full);
    let task = runtime.spawn(async { yield_now().await });
    let id = task.id();
    runtime.block_on(task).unwrap();
    let mut text = Vec::new();
    runtime.handle().trace().write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(_, what)| what))
        .filter(|what| what.contains("task"))
        .map(|what| what.split_once(" at ").map_or(what, |(what, _)| what))
        .collect();
    let expected = [
        format!("spawn task {id}"),
        format!("poll task {id}"),
        format!("task {id} yields"),
        format!("poll task {id}"),
        format!("task {id} has ended"),
    ];
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn a_poll_inside_another_is_shown_inside_it() {
    use blitzen::dispatch::Dispatcher;

    must_end(|| {
        let runtime = recording(TraceMode::Full);
        runtime.block_on(async {
            let outer = task::Builder::new().name("outer").spawn(async {
                let inner = async { yield_now().await };
                Dispatcher::unconfined().spawn(inner).await.unwrap();
            });
            outer.unwrap().await.unwrap();
        });
        let trace = runtime.handle().trace();
        let decoded = Decoded::of(&trace);
        let outer = decoded.slices_named("outer");
        let line = format!("{}:{}", file!(), line!() - 7);
        let inner = decoded.slices_named(&line);
        assert_eq!((outer.len(), inner.len()), (2, 2), "{decoded:?}");
        assert!(outer[0].begin.at_ns <= inner[0].begin.at_ns);
        assert!(inner[0].end_ns <= outer[0].end_ns);
        assert_eq!(inner[0].end.texts["result"], "yielded");
        let id = inner[0].begin.notes["task"];
        let wait = format!("join of task {id}");
        assert_eq!(outer[0].end.texts["waits for"], wait);
        let mut text = Vec::new();
        trace.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let id = outer[0].begin.notes["task"];
        assert!(
            text.contains(&format!(": task {id} waits for {wait}")),
            "{text}"
        );
    });
}

#[test]
fn tasks_of_dispatchers_are_shown_as_themselves() {
    use blitzen::dispatch::Dispatcher;

    must_end(|| {
        let runtime = multi_thread(1);
        runtime.handle().set_trace(TraceMode::Full);
        runtime.block_on(async {
            let limited = Dispatcher::default().limited(1);
            for (name, dispatcher) in [("limited", limited), ("io", Dispatcher::io())] {
                let task = task::Builder::new().name(name);
                let task = task.spawn(async move {
                    blitzen::dispatch::with_dispatcher(&dispatcher, async {
                        yield_now().await;
                        task::spawn(async {}).await.unwrap();
                    })
                    .await;
                });
                task.unwrap().await.unwrap();
            }
            let yields = async {
                yield_now().await;
                yield_now().await;
            };
            Dispatcher::io().spawn(yields).await.unwrap();
            // When the worker polls this, it has recorded the ends of its polls before.
            task::spawn(async {}).await.unwrap();
        });
        let own_line = format!("{}:{}", file!(), line!() - 4);
        let decoded = Decoded::of(&runtime.handle().trace());
        for name in ["limited", "io"] {
            let polls = decoded.slices_named(name);
            assert!(polls.len() >= 3, "{name}: {polls:?}");
        }
        // Those that were spawned there, too, with their name for each poll.
        let polls = decoded.slices_named(&own_line);
        assert_eq!(polls.len(), 3, "{decoded:?}");
    });
}
