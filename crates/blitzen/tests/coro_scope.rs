//! Coroutines that borrow from the function that spawns them.

mod coro_common;

use std::cell::Cell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::time::Duration;

use blitzen::channel::{mpsc, oneshot};
use blitzen::coro::{self, Scope, block_on};
use blitzen::task;
use blitzen::time::sleep;

use coro_common::{runtimes, spawn};

fn child<'scope>(scope: &'scope Scope<'scope, '_>, f: impl FnOnce() + Send + 'scope) {
    // SAFETY: the functions of these tests do not rely on nested calls of their thread.
    unsafe { scope.spawn(f) };
}

#[test]
fn children_borrow_and_end_before_the_scope() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let sums = spawn(|| {
                let numbers: Vec<u64> = (0..1000).collect();
                let mut sums = [0; 10];
                coro::scope(|scope| {
                    for (sum, part) in sums.iter_mut().zip(numbers.chunks(100)) {
                        child(scope, move || {
                            for number in part {
                                *sum += number;
                                if number % 10 == 0 {
                                    coro::yield_now();
                                }
                            }
                        });
                    }
                });
                sums.iter().sum::<u64>()
            });
            assert_eq!(sums.await.unwrap(), 499_500);
        });
    }
}

#[test]
fn scopes_nest_and_children_spawn_siblings() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let count = spawn(|| {
                let count = AtomicUsize::new(0);
                coro::scope(|scope| {
                    for _ in 0..4 {
                        child(scope, || {
                            child(scope, || {
                                block_on(sleep(Duration::from_millis(1)));
                                count.fetch_add(1, SeqCst);
                            });
                            coro::scope(|inner| {
                                (0..4)
                                    .for_each(|_| child(inner, || _ = count.fetch_add(10, SeqCst)));
                            });
                        });
                    }
                });
                count.into_inner()
            });
            assert_eq!(count.await.unwrap(), 164);
        });
    }
}

#[test]
fn a_child_that_panics_cancels_the_others_and_the_panic_goes_on() {
    for runtime in runtimes() {
        let joined = runtime.block_on(async {
            spawn(|| {
                let dropped = AtomicUsize::new(0);
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    coro::scope(|scope| {
                        let (started, mut starting) = mpsc::channel(5);
                        for _ in 0..5 {
                            let (started, dropped) = (started.clone(), &dropped);
                            child(scope, move || {
                                let _counted = CountDrop(dropped);
                                block_on(started.send(())).unwrap();
                                block_on(pending::<()>());
                            });
                        }
                        child(scope, move || {
                            (0..5).for_each(|_| block_on(starting.recv()).unwrap());
                            panic!("in a child");
                        });
                    });
                }));
                let payload = caught.unwrap_err();
                assert_eq!(payload.downcast_ref::<&str>(), Some(&"in a child"));
                dropped.into_inner()
            })
            .await
        });
        assert_eq!(joined.unwrap(), 5);
    }
}

struct CountDrop<'a>(&'a AtomicUsize);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_body_that_panics_waits_for_its_children() {
    for runtime in runtimes() {
        let joined = runtime.block_on(async {
            spawn(|| {
                let mut value = 0;
                let (started, starting) = oneshot::channel();
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    coro::scope(|scope| {
                        child(scope, || {
                            coro::shield(|| {
                                started.send(()).unwrap();
                                block_on(sleep(Duration::from_millis(5)));
                            });
                            value = 7;
                        });
                        block_on(starting).unwrap();
                        panic!("in the body");
                    });
                }));
                assert!(caught.is_err());
                value
            })
            .await
        });
        assert_eq!(joined.unwrap(), 7);
    }
}

#[test]
fn an_abort_of_the_parent_reaches_the_children_first() {
    for runtime in runtimes() {
        let order = Arc::new(Mutex::new(Vec::new()));
        runtime.block_on(async {
            let (started, starting) = oneshot::channel();
            let coroutine = spawn({
                let order = order.clone();
                move || {
                    let _parent = Note("parent", &order);
                    let lent = Cell::new(0); // not `Sync`: stays with the parent
                    coro::scope(|scope| {
                        child(scope, || {
                            let _child = Note("child", &order);
                            started.send(()).unwrap();
                            block_on(pending::<()>());
                        });
                        lent.set(1);
                    });
                    unreachable!("it is cancelled in the scope");
                }
            });
            starting.await.unwrap();
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(*order.lock().unwrap(), ["child", "parent"]);
    }
}

/// Notes its drop.
struct Note<'a>(&'static str, &'a Mutex<Vec<&'static str>>);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

#[test]
fn a_runtime_that_is_dropped_unwinds_children_before_their_parents() {
    for runtime in runtimes() {
        let ended = Arc::new(AtomicUsize::new(0));
        let (started, starting) = std_mpsc::channel();
        {
            let _entered = runtime.enter();
            for _ in 0..50 {
                let (ended, started) = (ended.clone(), started.clone());
                drop(spawn(move || {
                    let values = vec![1_usize; 4];
                    let _parent = CountDrop(&ended);
                    coro::scope(|scope| {
                        for value in &values {
                            let (ended, started) = (&ended, started.clone());
                            child(scope, move || {
                                let _child = Adds(value, ended);
                                started.send(()).unwrap();
                                block_on(pending::<()>());
                            });
                        }
                    });
                }));
            }
        }
        runtime.block_on(async {
            let all = task::spawn_blocking(move || (0..200).for_each(|_| starting.recv().unwrap()));
            all.await.unwrap();
        });
        drop(runtime);
        assert_eq!(ended.load(SeqCst), 50 + 200);
    }
}

/// Adds what it borrows when it is dropped.
struct Adds<'a>(&'a usize, &'a AtomicUsize);

impl Drop for Adds<'_> {
    fn drop(&mut self) {
        self.1.fetch_add(*self.0, SeqCst);
    }
}

#[test]
fn a_scope_works_outside_a_coroutine() {
    let [runtime, other, _] = runtimes();
    let sum = |number: u64| {
        let mut left = 0;
        let mut right = 0;
        coro::scope(|scope| {
            child(scope, || left = number);
            child(scope, || right = block_on(async { 2 * number }));
        });
        left + right
    };
    // In a task, whose worker another thread takes over.
    let in_task = runtime.block_on(async { blitzen::spawn(async move { sum(5) }).await });
    assert_eq!(in_task.unwrap(), 15);
    // On a thread that has only entered the runtime.
    let _entered = other.enter();
    assert_eq!(sum(7), 21);
}

#[test]
fn a_scope_that_cannot_wait_panics_before_its_body() {
    let [_, _, runtime] = runtimes();
    runtime.block_on(async {
        let mut has_run = false;
        let caught = catch_unwind(AssertUnwindSafe(|| coro::scope(|_| has_run = true)));
        assert!(caught.is_err() && !has_run);
    });
}

#[test]
fn a_scope_whose_children_are_refused_by_a_closed_runtime_panics() {
    for runtime in runtimes() {
        let (ended, ending) = std_mpsc::channel();
        {
            let _entered = runtime.enter();
            let (started, starting) = std_mpsc::channel();
            drop(spawn(move || {
                coro::shield(|| {
                    started.send(()).unwrap();
                    // Until the runtime has closed and refuses its children.
                    let add = |sum: &mut u64| coro::scope(|scope| child(scope, || *sum += 1));
                    let mut sum = 0;
                    while catch_unwind(AssertUnwindSafe(|| add(&mut sum))).is_ok() {}
                    ended.send(()).unwrap();
                });
            }));
            // A current-thread runtime polls nothing without `block_on`.
            runtime.block_on(async {
                task::spawn_blocking(move || starting.recv().unwrap())
                    .await
                    .unwrap();
            });
        }
        drop(runtime);
        assert!(ending.try_recv().is_ok());
    }
}

#[test]
fn a_childs_panic_whose_payload_panics_is_dropped_when_the_parent_is_cancelled() {
    struct PanicsOnDrop(Arc<AtomicUsize>);
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            panic!("a payload");
        }
    }
    for runtime in runtimes() {
        let dropped = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (waits, is_waiting) = oneshot::channel();
            let payload = PanicsOnDrop(dropped.clone());
            let coroutine = spawn(move || {
                coro::scope(|scope| {
                    child(scope, move || {
                        waits.send(()).unwrap();
                        panic_any(payload);
                    });
                    block_on(pending::<()>());
                });
            });
            is_waiting.await.unwrap();
            coroutine.abort();
            assert!(coroutine.await.unwrap_err().is_cancelled());
        });
        assert_eq!(dropped.load(SeqCst), 1);
    }
}
