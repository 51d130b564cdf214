//! What lints report, of whom, and what reports cannot harm.

mod lint_common;

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use blitzen::runtime::dump::{ListedTask, TaskStatus};
use blitzen::runtime::lint::{Lint, LintKind};
use blitzen::runtime::{Builder, Runtime, TraceMode};
use blitzen::task::yield_now;

use lint_common::{FOREVER, SLOW, find, linted};

fn multi_thread(workers: usize) -> (Runtime, mpsc::Receiver<Lint>) {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers);
    linted(builder)
}

#[test]
fn a_task_that_blocks_in_a_system_call_is_named_with_the_call_and_its_line_once() {
    let (runtime, lints) = multi_thread(2);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let task = blitzen::task::Builder::new()
        .name("reader")
        .spawn_on(
            async move {
                let mut byte = [0];
                std::io::Read::read_exact(&mut reader, &mut byte).unwrap();
            },
            runtime.handle(),
        )
        .unwrap();
    let line = line!() - 8;
    let lint = find(&lints, LintKind::SlowPoll);
    let named = lint.task().unwrap();
    assert_eq!(named.id(), task.id());
    assert_eq!(named.name(), Some("reader"));
    assert!(named.spawned_at().line().abs_diff(line) <= 3);
    assert_eq!(named.status(), TaskStatus::Running);
    assert!(lint.duration().unwrap() >= SLOW);
    #[cfg(target_os = "linux")]
    {
        assert_eq!(lint.system_call(), Some("read"));
        assert!(lint.processor_wait().is_some());
    }
    let text = lint.to_string();
    assert!(text.contains("lint_reports.rs"), "{text}");

    // Another slow poll is reported, this one never again.
    let (release, wait) = mpsc::channel::<()>();
    let other = runtime.spawn(async move {
        let _ = wait.recv();
    });
    let next = lints.iter().find(|lint| lint.task().is_some()).unwrap();
    assert_eq!(next.task().unwrap().id(), other.id());
    drop((release, writer));
}

#[test]
#[cfg(target_os = "linux")]
fn a_task_that_waits_for_a_lock_of_std_is_told_from_others() {
    let (runtime, lints) = multi_thread(2);
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().unwrap();
    let task = runtime.spawn({
        let lock = lock.clone();
        async move { drop(lock.lock().unwrap()) }
    });
    let lint = find(&lints, LintKind::BlockingLock);
    assert_eq!(lint.task().unwrap().id(), task.id());
    assert_eq!(lint.system_call(), Some("futex"));
    drop(held);
}

#[test]
fn a_task_that_computes_for_long_is_reported_on_every_flavour() {
    for builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let (runtime, lints) = linted(builder);
        let is_over = Arc::new(AtomicBool::new(false));
        let finder = thread::spawn({
            let is_over = is_over.clone();
            move || {
                let lint = find(&lints, LintKind::SlowPoll);
                is_over.store(true, Relaxed);
                lint
            }
        });
        let task = runtime.spawn(async move {
            while !is_over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let id = task.id();
        runtime.block_on(task).unwrap();
        assert_eq!(finder.join().unwrap().task().unwrap().id(), id);
    }
}

#[test]
fn what_blocks_in_place_is_not_slow() {
    let (runtime, lints) = multi_thread(2);
    let (release, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    runtime.spawn(async {
        blitzen::task::block_in_place(move || {
            begun.send(()).unwrap();
            wait.recv().is_err()
        })
    });
    has_begun.recv().unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let slow = runtime.spawn(async move {
        let _ = stopped.recv();
    });
    // The slow poll that began later is the first that is reported.
    let lint = lints.iter().find(|lint| lint.task().is_some()).unwrap();
    assert_eq!(lint.task().unwrap().id(), slow.id());
    drop((release, stop));
}

#[test]
fn a_task_without_a_waker_is_reported_once_and_others_are_not() {
    let (runtime, lints) = multi_thread(2);
    let wakers = Arc::new(Mutex::new(Vec::<Waker>::new()));
    let keeps = runtime.spawn(poll_fn::<(), _>({
        let wakers = wakers.clone();
        move |cx| {
            wakers.lock().unwrap().push(cx.waker().clone());
            Poll::Pending
        }
    }));
    let loses = runtime.spawn(pending::<()>());
    let lint = find(&lints, LintKind::LostWaker);
    assert_eq!(lint.task().unwrap().id(), loses.id());
    assert!(runtime.handle().tasks().get(keeps.id()).unwrap().wakers() > 0);
    let next = runtime.spawn(pending::<()>());
    let lint = find(&lints, LintKind::LostWaker);
    assert_eq!(
        lint.task().unwrap().id(),
        next.id(),
        "the first one only once"
    );
}

#[test]
fn a_task_that_only_yields_is_reported() {
    let (runtime, lints) = multi_thread(1);
    let task = runtime.spawn(async {
        loop {
            yield_now().await;
        }
    });
    let metrics = runtime.metrics();
    let (mut polls, mut slow_seconds) = (0, 0);
    let lint = loop {
        match lints.recv_timeout(Duration::from_secs(1)) {
            Ok(lint) if lint.kind() == LintKind::SelfWake => break lint,
            Ok(_) => {}
            Err(_) => {
                let now = metrics.worker_poll_count(0);
                slow_seconds += u32::from(now - std::mem::replace(&mut polls, now) < 200_000);
            }
        }
        if slow_seconds > 20 {
            println!("not tested: this machine polls too slowly");
            return;
        }
    };
    assert_eq!(lint.task().unwrap().id(), task.id());
    task.abort();
}

#[test]
fn a_large_future_is_reported_once_for_its_line() {
    let (runtime, lints) = multi_thread(1);
    for _ in 0..3 {
        let bytes = [0_u8; 20_000];
        runtime.spawn(async move {
            pending::<()>().await;
            std::hint::black_box(&bytes);
        });
    }
    let mut counts = [0, 0];
    while counts[0] < 3 {
        let lint = lints.recv_timeout(FOREVER).unwrap();
        counts[0] += usize::from(lint.kind() == LintKind::LostWaker);
        if lint.kind() == LintKind::LargeFuture {
            counts[1] += 1;
            assert!(lint.task().unwrap().future_size() >= 20_000);
        }
    }
    assert_eq!(counts, [3, 1]);
}

#[test]
fn queued_tasks_are_starved_while_all_threads_are_stuck() {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).max_blocking_threads(1);
    let (runtime, lints) = linted(builder);
    // No thread of the pool is left that could run tasks in the worker's place.
    let (release_pool, wait) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || wait.recv().is_err());
    let (release_worker, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    runtime.spawn(async move {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    has_begun.recv().unwrap();
    runtime.spawn(async {});
    let lint = find(&lints, LintKind::Starved);
    assert!(lint.to_string().contains("1 queued task"), "{lint}");
    drop((release_worker, release_pool));
}

#[test]
fn tasks_that_run_in_the_place_of_a_stuck_worker_are_not_starved() {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    let (runtime, lints) = linted(builder);
    let (release_worker, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    runtime.spawn(async move {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    has_begun.recv().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    for _ in 0..3 {
        let is_over = is_over.clone();
        runtime.spawn(async move {
            while !is_over.load(Relaxed) {
                yield_now().await;
            }
        });
    }
    // Tasks that have lost their wakers are looked for once a second, and that is how the time
    // passes here. When the first one is found, others have taken the place of the worker.
    for round in 0..3 {
        runtime.block_on(runtime.spawn(yield_now())).unwrap();
        runtime.spawn(pending::<()>());
        loop {
            let lint = lints.recv_timeout(FOREVER).unwrap();
            assert!(round == 0 || lint.kind() != LintKind::Starved, "{lint}");
            if lint.kind() == LintKind::LostWaker {
                break;
            }
        }
    }
    is_over.store(true, Relaxed);
    drop(release_worker);
}

#[test]
fn a_pool_without_a_free_thread_is_reported() {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).max_blocking_threads(1);
    let (runtime, lints) = linted(builder);
    let (release, wait) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || wait.recv().is_err());
    let second = runtime.spawn_blocking(|| 1);
    let lint = find(&lints, LintKind::PoolFull);
    assert!(lint.to_string().contains("1 job(s)"), "{lint}");
    drop(release);
    assert_eq!(runtime.block_on(second).unwrap(), 1);
}

#[test]
fn a_report_that_panics_does_not_end_the_reports() {
    let (found, lints) = mpsc::channel();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .slow_poll(SLOW)
        .on_lint(move |lint| {
            found.send(lint.kind()).unwrap();
            std::panic::resume_unwind(Box::new("no"));
        })
        .build()
        .unwrap();
    for _ in 0..3 {
        runtime.spawn(pending::<()>());
    }
    // Others may come on a machine that is slow.
    let mut left = 3;
    while left > 0 {
        let kind = lints.recv_timeout(FOREVER).unwrap();
        left -= u32::from(kind == LintKind::LostWaker);
    }
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
}

#[test]
fn a_report_that_blocks_holds_up_neither_tasks_nor_the_end_of_the_runtime() {
    let (found, lints) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .slow_poll(SLOW)
        .on_lint(move |_| {
            found.send(()).unwrap();
            let _ = wait.lock().unwrap().recv();
        })
        .build()
        .unwrap();
    runtime.spawn(pending::<()>());
    lints.recv_timeout(FOREVER).unwrap();
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    drop(runtime); // or the test hangs
    drop(release);
}

#[test]
fn a_report_may_drop_the_runtime() {
    let slot = Arc::new(Mutex::new(None::<Runtime>));
    let (dropped, is_dropped) = mpsc::channel();
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .slow_poll(SLOW)
        .on_lint({
            let slot = slot.clone();
            move |_| {
                drop(slot.lock().unwrap().take());
                let _ = dropped.send(());
            }
        })
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    *slot.lock().unwrap() = Some(runtime);
    handle.spawn(pending::<()>());
    is_dropped.recv_timeout(FOREVER).unwrap();
    assert!(handle.tasks().is_empty());
}

#[test]
fn no_task_whose_waker_exists_is_said_to_have_lost_it() {
    // Tasks that hand their wakers around at random, on all threads at once; a task counts as
    // lost only when the last waker is gone, and nothing brings it back: it is never polled again.
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let mut rng = blitzen_util::rng::Rng::new(0x5eed);
    for _ in 0..200 {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
                let polls = Arc::new(AtomicUsize::new(0));
                let keep = rng.below(3) as usize;
                let task = runtime.spawn(poll_fn::<(), _>({
                    let (kept, polls) = (kept.clone(), polls.clone());
                    move |cx| {
                        polls.fetch_add(1, Relaxed);
                        let mut kept = kept.lock().unwrap();
                        kept.clear();
                        kept.extend((0..keep).map(|_| cx.waker().clone()));
                        Poll::Pending
                    }
                }));
                (task, kept, polls)
            })
            .collect();
        let churn = thread::spawn({
            let kept: Vec<_> = tasks.iter().map(|(_, kept, _)| kept.clone()).collect();
            move || {
                for kept in kept {
                    // Woken by value: the last waker may be inside `wake`.
                    let waker = kept.lock().unwrap().pop();
                    waker.into_iter().for_each(Waker::wake);
                }
            }
        });
        let mut lost = Vec::new();
        loop {
            let is_last = churn.is_finished();
            for lint in runtime.handle().tasks().lints() {
                let id = lint.task().unwrap().id();
                let (_, kept, polls) = tasks.iter().find(|(task, ..)| task.id() == id).unwrap();
                lost.push((polls.clone(), polls.load(Relaxed)));
                assert!(kept.lock().unwrap().is_empty(), "its waker exists");
            }
            if is_last {
                break;
            }
        }
        churn.join().unwrap();
        // Those that were woken have their polls.
        let is_idle = |task: &ListedTask| task.status() == TaskStatus::Idle;
        while !runtime.handle().tasks().iter().all(is_idle) {
            thread::yield_now();
        }
        for (polls, when_lost) in lost {
            assert_eq!(polls.load(Relaxed), when_lost, "it was polled again");
        }
        for (task, ..) in &tasks {
            task.abort();
        }
        for (task, ..) in tasks {
            let _ = runtime.block_on(task);
        }
    }
}

#[test]
fn a_lint_is_counted_and_is_an_event_of_the_trace() {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).trace(TraceMode::Sampled);
    let (runtime, lints) = linted(builder);
    let bytes = [0_u8; 20_000];
    let task = runtime.spawn(async move {
        pending::<()>().await;
        std::hint::black_box(&bytes);
    });
    let lint = find(&lints, LintKind::LargeFuture);
    assert_eq!(lint.task().unwrap().id(), task.id());
    assert_eq!(runtime.metrics().lint_count(LintKind::LargeFuture), 1);
    let mut page = String::new();
    runtime.metrics().write_prometheus(&mut page).unwrap();
    assert!(page.contains(r#",kind="large future"} 1"#), "{page}");
    let mut text = Vec::new();
    runtime.handle().trace().write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = format!(" lints: large future of task {}\n", task.id());
    assert!(text.contains(&line), "{text}");
    task.abort();
}
