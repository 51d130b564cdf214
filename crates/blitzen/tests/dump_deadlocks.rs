//! Who holds a lock, and which tasks wait for each other: what is found, and what is no alarm.
//!
//! With 32 bits, a task has no room to note what it waits for.

#![cfg(target_pointer_width = "64")]

use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use blitzen::runtime::dump::{Deadlock, note_lock_owners};
use blitzen::runtime::lint::{Lint, LintKind};
use blitzen::runtime::{Builder, Runtime};
use blitzen::sync::{Barrier, Mutex, Notify, RwLock, oneshot};
use blitzen::task::{Id, JoinHandle, yield_now};

const FOREVER: Duration = Duration::from_secs(60);

/// A runtime in a process in which locks note their owner.
fn runtime() -> Runtime {
    note_lock_owners(true);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Waits until tasks are in a deadlock.
fn find(runtime: &Runtime) -> Deadlock {
    loop {
        let mut found = runtime.handle().deadlocks();
        if let Some(deadlock) = found.pop() {
            assert!(found.is_empty());
            return deadlock;
        }
        thread::yield_now();
    }
}

/// Waits until a task waits for a lock, and returns its owner.
fn owner_of_lock(runtime: &Runtime, task: &JoinHandle<()>) -> Option<Id> {
    loop {
        let tasks = runtime.handle().tasks();
        let wait = tasks.get(task.id()).expect("it waits").wait().cloned();
        if let Some(wait) = wait.filter(|wait| wait.resource().is_some()) {
            return wait.owner();
        }
        thread::yield_now();
    }
}

fn ids(deadlock: &Deadlock) -> Vec<Id> {
    deadlock.tasks().iter().map(|task| task.id()).collect()
}

/// Tasks that each take a lock, and then the lock of the next one.
fn circle(runtime: &Runtime, len: usize) -> Vec<JoinHandle<()>> {
    let locks: Vec<_> = (0..len).map(|_| Arc::new(Mutex::new(()))).collect();
    let all_locked = Arc::new(Barrier::new(len));
    let tasks = (0..len).map(|index| {
        let (own, next) = (locks[index].clone(), locks[(index + 1) % len].clone());
        let all_locked = all_locked.clone();
        runtime.spawn(async move {
            let _own = own.lock().await;
            all_locked.wait().await;
            let _next = next.lock().await;
        })
    });
    tasks.collect()
}

#[test]
fn tasks_that_wait_in_a_circle_are_found_in_their_order_until_one_is_aborted() {
    let runtime = runtime();
    for len in [2, 3] {
        let tasks = circle(&runtime, len);
        let deadlock = find(&runtime);
        let expected: Vec<_> = tasks.iter().map(JoinHandle::id).collect();
        assert_eq!(ids(&deadlock), expected);
        assert!(!deadlock.is_futurelock());
        for (index, task) in deadlock.tasks().iter().enumerate() {
            assert_eq!(
                task.wait().unwrap().owner(),
                Some(expected[(index + 1) % len])
            );
        }
        let text = deadlock.to_string();
        assert!(text.starts_with(&format!("deadlock: {len} tasks wait for each other; task ")));
        assert!(
            text.contains(&format!("held by task {}", expected[0])),
            "{text}"
        );

        let dump = runtime.handle().dump_within(FOREVER);
        assert_eq!(ids(&dump.deadlocks()[0]), expected);
        assert!(dump.to_string().contains("wait for each other"), "{dump}");
        let list: Vec<_> = expected.iter().map(Id::to_string).collect();
        let list = list.join(",");
        let json = format!(r#""deadlocks":[{{"kind":"deadlock","tasks":[{list}]}}]"#);
        assert!(dump.to_json().contains(&json), "{}", dump.to_json());

        tasks[0].abort();
        for task in tasks {
            let _ = runtime.block_on(task); // the others get their locks
        }
        assert!(runtime.handle().deadlocks().is_empty());
    }
}

#[test]
fn a_task_that_waits_for_its_own_lock_is_in_a_futurelock() {
    let runtime = runtime();
    let mutex = Arc::new(Mutex::new(()));
    let other = mutex.clone();
    let task = runtime.spawn(async move {
        // The first future gets the lock, and is not polled any more.
        let mut holds = pin!(async {
            let _guard = other.lock().await;
            pending::<()>().await;
        });
        poll_fn(|cx| {
            let _ = holds.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
        let _guard = other.lock().await;
    });
    let deadlock = find(&runtime);
    assert!(deadlock.is_futurelock());
    assert_eq!(ids(&deadlock), [task.id()]);
    assert!(deadlock.to_string().starts_with("futurelock: "));
    let json = runtime.handle().dump_within(FOREVER).to_json();
    assert!(json.contains(r#""kind":"futurelock""#), "{json}");
    task.abort();
}

#[test]
fn a_lock_that_was_granted_to_a_future_nobody_polls_is_a_futurelock() {
    // The program of Oxide's RFD 609.
    let runtime = runtime();
    let lock = Arc::new(Mutex::new(()));
    let (locked, is_locked) = mpsc::channel();
    let release = Arc::new(Notify::new());
    let holder = runtime.spawn({
        let (lock, release) = (lock.clone(), release.clone());
        async move {
            let _guard = lock.lock().await;
            locked.send(()).unwrap();
            release.notified().await;
        }
    });
    is_locked.recv().unwrap();
    let other_branch = Arc::new(Notify::new());
    let task = runtime.spawn({
        let (lock, other_branch) = (lock.clone(), other_branch.clone());
        async move {
            // Waits in the queue of the lock, and is kept.
            let mut first = pin!(async { drop(lock.lock().await) });
            blitzen::select! {
                biased; // so the first is polled again before the second lock is waited for
                () = &mut first => {}
                () = other_branch.notified() => {
                    yield_now().await; // a poll of its own, in which it waits for one thing
                    drop(lock.lock().await);
                }
            }
        }
    });
    let waits_for = |what: &str| {
        loop {
            let tasks = runtime.handle().tasks();
            let wait = tasks.get(task.id()).and_then(|task| task.wait().cloned());
            if wait.is_some_and(|wait| wait.kind().name() == what) {
                return;
            }
            thread::yield_now();
        }
    };
    waits_for("several");
    other_branch.notify_one();
    waits_for("mutex");
    assert!(
        runtime.handle().deadlocks().is_empty(),
        "the holder goes on"
    );
    assert_eq!(owner_of_lock(&runtime, &task), Some(holder.id()));
    release.notify_one();
    let deadlock = find(&runtime);
    assert!(deadlock.is_futurelock(), "{deadlock}");
    assert_eq!(ids(&deadlock), [task.id()]);
    task.abort();
    // Its future is dropped, and the lock with it.
    runtime.block_on(async { drop(lock.lock().await) });
    assert!(runtime.handle().deadlocks().is_empty());
}

#[test]
fn a_lock_that_is_granted_to_a_future_is_held_by_the_task_that_polled_it_last() {
    note_lock_owners(true);
    let runtime = Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle();
    let waits_for = async |task: &JoinHandle<()>, what: &str| {
        let name = || {
            let tasks = handle.tasks();
            let wait = tasks.get(task.id()).and_then(|task| task.wait().cloned());
            wait.map(|wait| wait.kind().name())
        };
        while name() != Some(what) {
            yield_now().await;
        }
    };
    runtime.block_on(async {
        let (lock, other) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
        let held = lock.lock().await;
        let (moved, to_second) = oneshot::channel::<Pin<Box<dyn Future<Output = ()> + Send>>>();
        let go_on = Arc::new(Notify::new());
        let first = runtime.spawn({
            let (lock, other, go_on) = (lock.clone(), other.clone(), go_on.clone());
            async move {
                let mut locks = Box::pin(async move { drop(lock.lock().await) });
                poll_fn(|cx| {
                    assert!(locks.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                assert!(moved.send(locks).is_ok());
                yield_now().await; // the next poll does not wait for the lock
                go_on.notified().await;
                drop(other.lock().await);
            }
        });
        waits_for(&first, "notify").await;
        let second = runtime.spawn(async { to_second.await.unwrap().await });
        waits_for(&second, "mutex").await;
        let third = runtime.spawn({
            let lock = lock.clone();
            async move {
                let _other = other.lock().await;
                drop(lock.lock().await);
            }
        });
        waits_for(&third, "mutex").await;
        go_on.notify_one();
        waits_for(&first, "mutex").await;
        drop(held);
        // The second task is woken, and goes on as soon as this one waits.
        let tasks = handle.tasks();
        let owner = tasks.get(third.id()).unwrap().wait().unwrap().owner();
        assert_eq!(owner, Some(second.id()));
        let found = handle.deadlocks();
        assert!(found.is_empty(), "{}", found[0]);
        for task in [first, second, third] {
            task.await.unwrap();
        }
    });
}

#[test]
fn writers_are_known_and_readers_and_owned_guards_are_not() {
    let runtime = runtime();
    let lock = Arc::new(RwLock::new(0));
    let (locked, is_locked) = mpsc::channel();
    let release = Arc::new(Notify::new());
    let holder = runtime.spawn({
        let (lock, release) = (lock.clone(), release.clone());
        async move {
            let guard = lock.write().await;
            locked.send(()).unwrap();
            release.notified().await;
            let guard = guard.downgrade();
            locked.send(()).unwrap();
            release.notified().await;
            drop(guard);
            let guard = lock.clone().write_owned().await;
            locked.send(()).unwrap();
            release.notified().await;
            drop(guard);
        }
    });
    is_locked.recv().unwrap();
    let waiter = |write: bool| {
        let lock = lock.clone();
        runtime.spawn(async move {
            match write {
                true => *lock.write().await += 1,
                false => drop(lock.read().await),
            }
        })
    };
    let reader = waiter(false);
    assert_eq!(owner_of_lock(&runtime, &reader), Some(holder.id()));
    assert!(runtime.handle().deadlocks().is_empty());
    release.notify_one();
    is_locked.recv().unwrap();
    runtime.block_on(reader).unwrap();
    let writer = waiter(true);
    assert_eq!(owner_of_lock(&runtime, &writer), None, "a reader holds it");
    release.notify_one();
    runtime.block_on(writer).unwrap();
    is_locked.recv().unwrap();
    let writer = waiter(true);
    assert_eq!(
        owner_of_lock(&runtime, &writer),
        None,
        "an owned guard holds it"
    );
    release.notify_one();
    runtime.block_on(writer).unwrap();
    runtime.block_on(holder).unwrap();
}

#[test]
fn locks_that_note_nothing_have_no_owner() {
    static LOCK: Mutex<()> = Mutex::const_new(());
    let runtime = runtime();
    let guard = LOCK.try_lock().unwrap();
    let task = runtime.spawn(async { drop(LOCK.lock().await) });
    assert_eq!(owner_of_lock(&runtime, &task), None);
    drop(guard);
    runtime.block_on(task).unwrap();

    // One that notes them, held by nobody who is known.
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.try_lock().unwrap();
    let other = mutex.clone();
    let task = runtime.spawn(async move { drop(other.lock().await) });
    assert_eq!(owner_of_lock(&runtime, &task), None);
    drop(guard);
    runtime.block_on(task).unwrap();
}

/// Polls a future with a waker of its own, as sets of futures do.
struct Nested<F> {
    future: Pin<Box<F>>,
    waker: Arc<NestedWaker>,
}

struct NestedWaker(std::sync::Mutex<Option<Waker>>);

impl Wake for NestedWaker {
    fn wake(self: Arc<Self>) {
        if let Some(waker) = &*self.0.lock().unwrap() {
            waker.wake_by_ref();
        }
    }
}

impl<F: Future> Nested<F> {
    fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            waker: Arc::new(NestedWaker(std::sync::Mutex::new(None))),
        }
    }
}

impl<F: Future> Future for Nested<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        *self.waker.0.lock().unwrap() = Some(cx.waker().clone());
        let waker = Waker::from(self.waker.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

#[test]
fn a_task_that_something_else_can_wake_is_in_no_deadlock() {
    let runtime = runtime();
    let mutex = Arc::new(Mutex::new(()));
    let wakers = Arc::new(std::sync::Mutex::new(Vec::<Waker>::new()));
    // Each holds the lock itself, and waits for it; but also for something else.
    let with_timer = runtime.spawn({
        let mutex = Arc::new(Mutex::new(()));
        async move {
            let _guard = mutex.lock().await;
            blitzen::select! {
                _ = mutex.lock() => {}
                () = blitzen::time::sleep(FOREVER) => {}
            }
        }
    });
    let with_foreign_waker = runtime.spawn({
        let (mutex, wakers) = (mutex.clone(), wakers.clone());
        async move {
            let _guard = mutex.lock().await;
            poll_fn(|cx| {
                wakers.lock().unwrap().push(cx.waker().clone());
                Poll::Ready(())
            })
            .await;
            let _again = mutex.lock().await;
        }
    });
    let nested = runtime.spawn({
        let mutex = Arc::new(Mutex::new(()));
        async move {
            let _guard = mutex.lock().await;
            Nested::new(async { drop(mutex.lock().await) }).await;
        }
    });
    for task in [&with_foreign_waker, &nested] {
        assert_eq!(owner_of_lock(&runtime, task), Some(task.id()));
    }
    for _ in 0..100 {
        assert!(runtime.handle().deadlocks().is_empty());
    }
    // Without the waker it is one.
    wakers.lock().unwrap().clear();
    assert_eq!(ids(&find(&runtime)), [with_foreign_waker.id()]);
    for task in [with_timer, with_foreign_waker, nested] {
        task.abort();
        assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    }
}

/// Polls a future once, with the waker of the task, and drops it.
async fn give_up(future: impl Future) {
    let mut future = Box::pin(future);
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_wait_that_was_given_up_is_in_no_deadlock() {
    let runtime = runtime();
    let wakers = Arc::new(std::sync::Mutex::new(Vec::<Waker>::new()));
    // All of it in one poll, so that the last wait that is listed is the one that was given up.
    let store_waker = |wakers: &Arc<std::sync::Mutex<Vec<Waker>>>| {
        let wakers = wakers.clone();
        poll_fn(move |cx| {
            wakers.lock().unwrap().push(cx.waker().clone());
            Poll::<()>::Pending
        })
    };
    let lock = runtime.spawn({
        let (mutex, stored) = (Arc::new(Mutex::new(())), store_waker(&wakers));
        async move {
            let _guard = mutex.lock().await;
            give_up(mutex.lock()).await;
            stored.await;
        }
    });
    let join = runtime.spawn({
        let stored = store_waker(&wakers);
        async move {
            let mutex = Arc::new(Mutex::new(()));
            let _guard = mutex.lock().await;
            let wanted = mutex.clone();
            let other = blitzen::spawn(async move { drop(wanted.lock().await) });
            give_up(other).await;
            stored.await;
        }
    });
    while wakers.lock().unwrap().len() < 2 {
        thread::yield_now();
    }
    for _ in 0..100 {
        assert!(runtime.handle().deadlocks().is_empty());
    }
    lock.abort();
    join.abort();
}

#[test]
fn tasks_that_wait_for_each_others_end_are_found() {
    let runtime = runtime();
    let mutex = Arc::new(Mutex::new(()));
    let (locked, is_locked) = blitzen::sync::oneshot::channel::<()>();
    // The parent holds a lock, and waits for a child that wants it.
    let (started, child_id) = mpsc::channel();
    let parent = runtime.spawn({
        let mutex = mutex.clone();
        async move {
            let _guard = mutex.lock().await;
            let child = blitzen::spawn({
                let mutex = mutex.clone();
                async move {
                    is_locked.await.unwrap();
                    drop(mutex.lock().await);
                }
            });
            started.send(child.id()).unwrap();
            locked.send(()).unwrap();
            child.await.unwrap();
        }
    });
    let child = child_id.recv().unwrap();
    let deadlock = find(&runtime);
    let mut expected = [parent.id(), child];
    expected.sort_by_key(|id| id.to_string().parse::<u64>().unwrap());
    assert_eq!(ids(&deadlock), expected);
    assert!(!deadlock.is_futurelock());
    let text = deadlock.to_string();
    assert!(text.contains(&format!("join of task {child}")), "{text}");
    parent.abort();
    assert!(runtime.block_on(parent).unwrap_err().is_cancelled());
    while runtime.handle().tasks().get(child).is_some() {
        thread::yield_now(); // it gets the lock now
    }

    // A task that waits for itself.
    let (give, own_handle) = blitzen::sync::oneshot::channel::<JoinHandle<()>>();
    let task = runtime.spawn(async move { own_handle.await.unwrap().await.unwrap() });
    let id = task.id();
    give.send(task).unwrap();
    let deadlock = find(&runtime);
    assert_eq!(ids(&deadlock), [id]);
    assert!(!deadlock.is_futurelock());
    let text = deadlock.to_string();
    assert!(
        text.starts_with("deadlock: a task waits for its own end; "),
        "{text}"
    );
}

#[test]
fn tasks_that_go_on_are_never_in_a_deadlock() {
    let runtime = runtime();
    let locks: Arc<Vec<_>> = Arc::new((0..3).map(|_| Mutex::new(0)).collect());
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..6)
        .map(|index| {
            let (locks, is_over) = (locks.clone(), is_over.clone());
            runtime.spawn(async move {
                let mut turns = 0;
                while !is_over.load(Relaxed) {
                    // Always in the same order, so there is no circle.
                    let (first, second) = [(0, 1), (1, 2), (0, 2)][(index + turns) % 3];
                    let mut one = locks[first].lock().await;
                    match turns % 5 {
                        0 => yield_now().await,
                        1 => drop(locks[second].try_lock()),
                        _ => *locks[second].lock().await += 1,
                    }
                    *one += 1;
                    turns += 1;
                }
            })
        })
        .collect();
    for _ in 0..500 {
        let found = runtime.handle().deadlocks();
        assert!(found.is_empty(), "{}", found[0]);
    }
    is_over.store(true, Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert!(locks.iter().all(|lock| lock.try_lock().is_ok()));
}

/// A runtime in a process in which locks note their owner, and its lints as they come.
fn linted() -> (Runtime, mpsc::Receiver<Lint>) {
    note_lock_owners(true);
    let (found, lints) = mpsc::channel();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .on_lint(move |lint| drop(found.send(lint.clone())))
        .build()
        .unwrap();
    (runtime, lints)
}

/// The next deadlock that is reported. Other lints may come on a machine that is slow.
fn next_deadlock(lints: &mpsc::Receiver<Lint>) -> Lint {
    let lint = || lints.recv_timeout(FOREVER).expect("the lint is reported");
    std::iter::repeat_with(lint)
        .find(|lint: &Lint| lint.deadlock().is_some())
        .expect("it never ends")
}

#[test]
fn a_deadlock_is_reported_once() {
    let (runtime, lints) = linted();
    let tasks = circle(&runtime, 2);
    let lint = next_deadlock(&lints);
    assert_eq!(lint.kind(), LintKind::Deadlock);
    let expected: Vec<_> = tasks.iter().map(JoinHandle::id).collect();
    assert_eq!(ids(lint.deadlock().unwrap()), expected);
    assert_eq!(lint.task().unwrap().id(), expected[0]);
    assert!(lint.to_string().starts_with("deadlock: 2 tasks"), "{lint}");
    // The next one is another.
    let mutex = Arc::new(Mutex::new(()));
    let task = runtime.spawn(async move {
        let _guard = mutex.lock().await;
        let _again = mutex.lock().await;
    });
    let lint = next_deadlock(&lints);
    assert_eq!(lint.kind(), LintKind::Futurelock, "{lint}");
    assert_eq!(lint.task().unwrap().id(), task.id());
}

#[test]
fn a_circle_of_joins_alone_is_reported() {
    for len in [1, 2] {
        let (runtime, lints) = linted();
        let (mut handles, tasks): (Vec<_>, Vec<_>) = (0..len)
            .map(|_| {
                let (give, awaited) = oneshot::channel::<JoinHandle<()>>();
                let task = runtime.spawn(async move { awaited.await.unwrap().await.unwrap() });
                (Some(give), task)
            })
            .unzip();
        let mut expected: Vec<_> = tasks.iter().map(JoinHandle::id).collect();
        // Each is given the handle of the next one.
        for (index, task) in tasks.into_iter().enumerate() {
            let before = (index + len - 1) % len;
            handles[before].take().unwrap().send(task).unwrap();
        }
        let lint = next_deadlock(&lints);
        assert_eq!(lint.kind(), LintKind::Deadlock);
        expected.sort_by_key(|id| id.to_string().parse::<u64>().unwrap());
        assert_eq!(ids(lint.deadlock().unwrap()), expected);
        let kind = if len == 1 { "self-join" } else { "deadlock" };
        let json = runtime.handle().dump_within(FOREVER).to_json();
        assert!(
            json.contains(&format!(r#""kind":"{kind}","tasks":["#)),
            "{json}"
        );
    }
}
