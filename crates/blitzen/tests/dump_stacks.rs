//! `Handle::dump`: where in its code each task waits.

use std::collections::HashSet;
use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use blitzen::channel::{oneshot, watch};
use blitzen::runtime::dump::{Dump, DumpedTask, WaitKind};
use blitzen::runtime::{Builder, Handle, Runtime};
use blitzen::task::{JoinHandle, yield_now};

const FOREVER: Duration = Duration::from_secs(30);

fn runtime(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

fn find<'a, T>(dump: &'a Dump, task: &JoinHandle<T>) -> &'a DumpedTask {
    let is_it = |dumped: &&DumpedTask| dumped.listed().id() == task.id();
    dump.iter().find(is_it).expect("the task is alive")
}

/// Dumps a runtime until the task's stack is there: a dump that takes long gives up on some.
fn dump_with_stack_of<T>(runtime: &Runtime, task: &JoinHandle<T>) -> Dump {
    loop {
        let dump = runtime.block_on(async { Handle::current().dump().await });
        if !find(&dump, task).stacks().is_empty() {
            return dump;
        }
    }
}

fn kinds(task: &DumpedTask) -> Vec<WaitKind> {
    task.stacks().iter().map(|stack| stack.kind()).collect()
}

/// Where `outer` awaits `inner`: with line tables alone a frame has no function's name.
const OUTER_LINE: u32 = line!() + 3;
#[inline(never)]
async fn outer(rx: oneshot::Receiver<()>) {
    inner(rx).await;
}

/// Where `inner` awaits the channel.
const INNER_LINE: u32 = line!() + 3;
#[inline(never)]
async fn inner(rx: oneshot::Receiver<()>) {
    let _ = rx.await;
}

#[test]
fn a_stack_leads_from_the_task_to_what_it_waits_for() {
    for runtime in [runtime(2), Builder::new_current_thread().build().unwrap()] {
        let (tx, rx) = oneshot::channel();
        let task = runtime.spawn(outer(rx));
        let dump = dump_with_stack_of(&runtime, &task);
        let dumped = find(&dump, &task);
        assert_eq!(kinds(dumped), [WaitKind::Oneshot], "{dump}");
        let frames = dumped.stacks()[0].frames();
        let position = |name: &str| frames.iter().position(|frame| frame.contains(name));
        let at = |line| position(&format!("dump_stacks.rs:{line}:"));
        let inner = position("::inner").or_else(|| at(INNER_LINE));
        let outer = position("::outer").or_else(|| at(OUTER_LINE));
        assert!(inner.is_some() && inner < outer, "{dump}");
        assert!(position("poll_cell").is_none(), "{dump}");
        assert!(position("record").is_none(), "{dump}");
        assert!(dump.to_string().contains("dump_stacks.rs"));
        drop(tx);
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn every_branch_of_a_select_has_a_stack() {
    let runtime = runtime(2);
    let (_tx, rx) = oneshot::channel::<()>();
    let task = runtime.spawn(async {
        blitzen::select! {
            _ = rx => {}
            () = blitzen::time::sleep(Duration::from_secs(1000)) => {}
            () = pending() => {}
        }
    });
    let dump = runtime.handle().dump_within(FOREVER);
    let mut kinds = kinds(find(&dump, &task));
    kinds.sort_by_key(|kind| kind.name());
    assert_eq!(kinds, [WaitKind::Oneshot, WaitKind::Timer]);
    task.abort();
}

#[test]
fn a_task_that_yields_says_so_and_one_of_foreign_make_has_no_stack() {
    let runtime = runtime(2);
    let yields = runtime.spawn(async {
        loop {
            yield_now().await;
        }
    });
    let foreign = runtime.spawn(pending::<()>());
    let dump = runtime.handle().dump_within(FOREVER);
    assert_eq!(kinds(find(&dump, &yields)), [WaitKind::Yield]);
    assert_eq!(kinds(find(&dump, &foreign)), []);
    yields.abort();
    foreign.abort();
}

#[test]
fn a_dump_polls_each_task_once_more_and_a_list_polls_none() {
    let runtime = runtime(1);
    let polls = Arc::new(AtomicUsize::new(0));
    runtime.spawn(poll_fn::<(), _>({
        let polls = polls.clone();
        move |_| {
            polls.fetch_add(1, Relaxed);
            Poll::Pending
        }
    }));
    runtime.handle().dump_within(FOREVER); // it has been polled once or twice by now
    let before = polls.load(Relaxed);
    drop(runtime.handle().tasks());
    assert_eq!(polls.load(Relaxed), before);
    runtime.handle().dump_within(FOREVER);
    assert_eq!(polls.load(Relaxed), before + 1);
}

#[test]
fn tasks_behind_a_stuck_worker_are_listed_without_a_stack() {
    let runtime = runtime(1);
    let (begun, beginning) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    let stuck = runtime.spawn(async move {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    beginning.recv().unwrap();
    let behind = runtime.spawn(pending::<()>());
    let dump = runtime.handle().dump_within(Duration::from_millis(20));
    for task in [&stuck, &behind] {
        assert!(find(&dump, task).stacks().is_empty());
    }
    drop(release);
    runtime.block_on(stuck).unwrap();
}

#[test]
fn dumps_harm_no_task_that_ends_is_aborted_or_shut_down_meanwhile() {
    for _ in 0..5 {
        let runtime = runtime(2);
        let is_over = Arc::new(AtomicBool::new(false));
        let dumpers: Vec<_> = (0..2)
            .map(|_| {
                let (handle, is_over) = (runtime.handle().clone(), is_over.clone());
                thread::spawn(move || {
                    while !is_over.load(Relaxed) {
                        drop(handle.dump_within(FOREVER));
                    }
                })
            })
            .collect();
        for _ in 0..20 {
            let tasks: Vec<_> = (0..20)
                .map(|index| match index % 3 {
                    0 => runtime.spawn(pending()),
                    1 => runtime.spawn(yield_now()),
                    _ => runtime
                        .spawn(async { blitzen::time::sleep(Duration::from_micros(50)).await }),
                })
                .collect();
            tasks.iter().step_by(3).for_each(JoinHandle::abort);
            for task in tasks {
                let _ = runtime.block_on(task);
            }
        }
        for _ in 0..50 {
            runtime.spawn(pending::<()>());
        }
        drop(runtime);
        is_over.store(true, Relaxed);
        dumpers
            .into_iter()
            .for_each(|dumper| dumper.join().unwrap());
    }
}

#[test]
fn a_dump_that_waits_for_a_stuck_worker_ends_with_the_runtime() {
    let runtime = runtime(2);
    let (begun, beginning) = mpsc::channel();
    let (release, wait) = mpsc::channel::<()>();
    runtime.spawn(async move {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    beginning.recv().unwrap();
    let (polled, polls) = mpsc::channel();
    runtime.spawn(poll_fn::<(), _>(move |_| {
        polled.send(()).unwrap();
        Poll::Pending
    }));
    polls.recv().unwrap();
    let (dumped, dump) = mpsc::channel();
    let handle = runtime.handle().clone();
    thread::spawn(move || dumped.send(handle.dump_within(Duration::from_secs(3_600))));
    polls.recv().unwrap(); // the dump has begun
    assert!(dump.try_recv().is_err(), "it waits for the stuck worker");
    runtime.shutdown_background();
    let dump = dump.recv_timeout(Duration::from_secs(60));
    assert_eq!(dump.expect("it ends").iter().len(), 2);
    drop(release);
}

/// Has `count` tasks wait at one place until the sender is dropped.
fn spawn_waiting(runtime: &Runtime, count: usize) -> watch::Sender<()> {
    let (tx, rx) = watch::channel(());
    for _ in 0..count {
        let mut rx = rx.clone();
        runtime.spawn(async move { rx.changed().await });
    }
    tx
}

#[test]
fn tasks_that_wait_at_the_same_place_share_the_names_of_their_calls() {
    const TASKS: usize = 20_000;
    let runtime = runtime(2);
    let tx = spawn_waiting(&runtime, TASKS);
    let dump = runtime.handle().dump_within(Duration::from_secs(600));
    let stacks = || dump.iter().flat_map(DumpedTask::stacks);
    assert_eq!((stacks().count(), dump.unresolved_stacks()), (TASKS, 0));
    assert!(stacks().all(|stack| !stack.frames().is_empty()));
    let lookups: HashSet<_> = stacks().map(|stack| stack.frames().as_ptr()).collect();
    // One for each way in which a worker comes to a task.
    assert!(lookups.len() <= 50, "{} lookups", lookups.len());
    drop(tx);
}

#[test]
fn a_dump_says_how_many_stacks_it_had_no_time_for() {
    const TASKS: usize = 4_000;
    let runtime = runtime(2);
    let tx = spawn_waiting(&runtime, TASKS);
    for limit in [1, 10, 100, 1_000].map(Duration::from_millis) {
        let dump = runtime.handle().dump_within(limit);
        assert_eq!(dump.iter().len(), TASKS);
        let stacks = dump.iter().flat_map(DumpedTask::stacks);
        let unresolved = stacks.filter(|stack| stack.frames().is_empty()).count();
        assert_eq!(dump.unresolved_stacks(), unresolved);
        let line = format!("{unresolved} stacks without frames");
        assert_eq!(dump.to_string().contains(&line), unresolved > 0);
        let field = format!(r#""unresolved_stacks":{unresolved}}}"#);
        assert!(dump.to_json().ends_with(&field));
    }
    drop(tx);
}
