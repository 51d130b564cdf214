//! A `LocalSet` loses no wake, whoever polls it, enters it, wakes its tasks or drops it.

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use blitzen::channel::oneshot;
use blitzen::runtime::{Builder, LocalRuntime};
use blitzen::task::{JoinSet, LocalEnterGuard, LocalSet, spawn_local, yield_now};

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl CountWakes {
    fn new() -> (Arc<Self>, Waker) {
        let wakes = Arc::new(Self::default());
        (wakes.clone(), wakes.into())
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Calls a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A waker that runs foreign code wherever a waker can.
struct Hostile {
    on_wake: Box<dyn Fn() + Send + Sync>,
    on_drop: Box<dyn Fn() + Send + Sync>,
}

impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        (self.on_wake)();
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        (self.on_drop)();
    }
}

/// Polls as an executor does, for as long as each poll was followed by a wake.
fn poll_while_woken<F: Future>(
    mut future: Pin<&mut F>,
    wakes: &Arc<CountWakes>,
) -> Poll<F::Output> {
    let waker = Waker::from(wakes.clone());
    loop {
        let seen = wakes.count();
        let polled = poll(future.as_mut(), &waker);
        if polled.is_ready() || wakes.count() == seen {
            return polled;
        }
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn a_wake_reaches_a_set_that_is_entered_but_not_being_polled() {
    let set = LocalSet::new();
    let (send, receive) = oneshot::channel();
    let _entered = set.enter();
    let task = spawn_local(receive);
    let (wakes, waker) = CountWakes::new();
    let mut run = pin!(set.run_until(task));
    assert!(poll(run.as_mut(), &waker).is_pending());
    send.send(5).unwrap();
    assert_eq!(wakes.count(), 1);
    let polled = poll_while_woken(run, &wakes);
    assert!(matches!(polled, Poll::Ready(Ok(Ok(5)))));
}

#[test]
fn a_spawn_reaches_a_set_that_is_entered_but_not_being_polled() {
    let set = LocalSet::new();
    let (wakes, waker) = CountWakes::new();
    let mut run = pin!(set.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), &waker).is_pending());
    let _entered = set.enter();
    let task = spawn_local(async {});
    assert_eq!(wakes.count(), 1);
    assert!(poll(run, &waker).is_pending());
    assert!(task.is_finished());
}

#[test]
fn a_timer_wakes_a_task_of_an_entered_set() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let set = LocalSet::new();
    let _entered = set.enter();
    let task = spawn_local(async {
        blitzen::time::sleep(std::time::Duration::from_millis(2)).await;
    });
    runtime.block_on(set.run_until(task)).unwrap();
}

#[test]
fn a_guard_that_outlives_the_poll_it_was_dropped_in_loses_no_wake() {
    let set = LocalSet::new();
    let (send, receive) = oneshot::channel();
    let kept = Rc::new(RefCell::new(None));
    let task = set.spawn_local({
        let kept = kept.clone();
        async move {
            let other = LocalSet::new();
            *kept.borrow_mut() = Some(other.enter());
            receive.await
        }
    });
    let (wakes, waker) = CountWakes::new();
    let mut run = pin!(set.run_until(task));
    assert!(poll(run.as_mut(), &waker).is_pending());
    // Makes the set current again, although nobody polls it.
    drop(kept.borrow_mut().take());
    send.send(1).unwrap();
    assert_eq!(wakes.count(), 1);
    let polled = poll_while_woken(run, &wakes);
    assert!(matches!(polled, Poll::Ready(Ok(Ok(1)))));
}

#[test]
fn a_poller_that_leaves_hands_the_set_to_those_that_stay() {
    let set = LocalSet::new();
    let (send, receive) = oneshot::channel::<()>();
    let task = set.spawn_local(receive);
    let (stays, staying) = CountWakes::new();
    let (_, leaving) = CountWakes::new();
    let mut first = Box::pin(set.run_until(pending::<()>()));
    let mut second = Box::pin(set.run_until(pending::<()>()));
    assert!(poll(first.as_mut(), &staying).is_pending());
    assert!(poll(second.as_mut(), &leaving).is_pending());
    drop(second);
    assert_eq!(stays.count(), 1);
    assert!(poll_while_woken(first.as_mut(), &stays).is_pending());
    send.send(()).unwrap();
    assert_eq!(stays.count(), 2);
    assert!(poll(first.as_mut(), &staying).is_pending());
    assert!(task.is_finished());
}

#[test]
fn tasks_left_over_by_a_poller_that_leaves_are_run_by_those_that_stay() {
    let set = LocalSet::new();
    let (stays, staying) = CountWakes::new();
    let (_, leaving) = CountWakes::new();
    let mut first = Box::pin(set.run_until(pending::<()>()));
    assert!(poll(first.as_mut(), &staying).is_pending());
    let mut spawned = None;
    let mut second = Box::pin(set.run_until(poll_fn(|_| {
        spawned = Some(spawn_local(async {}));
        Poll::Ready(())
    })));
    assert!(poll(second.as_mut(), &leaving).is_ready());
    drop(second);
    assert_eq!(stays.count(), 1);
    assert!(poll(first.as_mut(), &staying).is_pending());
    assert!(spawned.unwrap().is_finished());
}

#[test]
fn an_inner_run_until_with_a_waker_of_its_own_does_not_take_over_the_outer_one() {
    let set = LocalSet::new();
    let (send, receive) = oneshot::channel::<()>();
    let task = set.spawn_local(receive);
    let (wakes, _) = CountWakes::new();
    let mut inner_done = false;
    let mut run = pin!(set.run_until(poll_fn(|_| {
        if !std::mem::replace(&mut inner_done, true) {
            let (_, of_its_own) = CountWakes::new();
            let mut inner = pin!(set.run_until(pending::<()>()));
            assert!(poll(inner.as_mut(), &of_its_own).is_pending());
        }
        match task.is_finished() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })));
    assert!(poll_while_woken(run.as_mut(), &wakes).is_pending());
    let woken = wakes.count();
    send.send(()).unwrap();
    assert_eq!(wakes.count(), woken + 1);
    // The task runs after the future was polled, which nobody tells: one more poll is due.
    assert!(poll_while_woken(run.as_mut(), &wakes).is_pending());
    assert!(poll_while_woken(run.as_mut(), &wakes).is_ready());
}

#[test]
fn a_yield_is_not_lost_to_a_set_that_runs_within_the_same_poll() {
    let outer = LocalSet::new();
    let task = outer.spawn_local(async {
        let inner = LocalSet::new();
        inner.spawn_local(pending::<()>());
        let mut run_inner = pin!(inner.run_until(pending::<()>()));
        let mut yielding = pin!(yield_now());
        poll_fn(|cx| {
            if yielding.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            assert!(run_inner.as_mut().poll(cx).is_pending());
            Poll::Pending
        })
        .await;
    });
    let (_, waker) = CountWakes::new();
    let mut run = pin!(outer.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), &waker).is_pending());
    assert!(task.is_finished(), "it yielded, and nobody polled it again");
}

#[test]
fn a_yield_within_the_poll_of_another_task_is_not_that_tasks_yield() {
    let outer = LocalSet::new();
    let polls = Rc::new(RefCell::new(0));
    outer.spawn_local({
        let polls = polls.clone();
        async move {
            let inner = LocalSet::new();
            inner.spawn_local(yield_now());
            let mut run_inner = pin!(inner.run_until(pending::<()>()));
            poll_fn(|cx| {
                *polls.borrow_mut() += 1;
                assert!(run_inner.as_mut().poll(cx).is_pending());
                Poll::<()>::Pending
            })
            .await
        }
    });
    let mut run = pin!(outer.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), Waker::noop()).is_pending());
    assert_eq!(*polls.borrow(), 1);
}

#[test]
fn a_waker_whose_destructor_wakes_the_set_does_not_deadlock_it() {
    let set = LocalSet::new();
    let (send, receive) = oneshot::channel::<()>();
    let task = set.spawn_local(receive);
    let send = Mutex::new(Some(send));
    let hostile = Waker::from(Arc::new(Hostile {
        on_wake: Box::new(|| ()),
        on_drop: Box::new(move || _ = send.lock().unwrap().take().unwrap().send(())),
    }));
    let (wakes, waker) = CountWakes::new();
    let mut run = pin!(set.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), &hostile).is_pending());
    drop(hostile);
    // Replaces the hostile one, which is dropped by that, and sends.
    assert!(poll(run.as_mut(), &waker).is_pending());
    if !task.is_finished() {
        assert!(wakes.count() > 0);
        assert!(poll(run.as_mut(), &waker).is_pending());
    }
    assert!(task.is_finished());
}

#[test]
fn a_poller_whose_waker_panics_harms_neither_the_others_nor_the_tasks() {
    let set = LocalSet::new();
    let (send, receive) = oneshot::channel::<()>();
    let task = set.spawn_local(receive);
    let panicking = Waker::from(Arc::new(Hostile {
        on_wake: Box::new(|| panic!("in wake")),
        on_drop: Box::new(|| ()),
    }));
    let (wakes, waker) = CountWakes::new();
    let mut first = Box::pin(set.run_until(pending::<()>()));
    let mut second = Box::pin(set.run_until(task));
    assert!(poll(first.as_mut(), &panicking).is_pending());
    assert!(poll(second.as_mut(), &waker).is_pending());
    let sent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| send.send(())));
    assert!(sent.is_err(), "the panic reaches whoever wakes");
    assert_eq!(wakes.count(), 1);
    if poll(second.as_mut(), &waker).is_pending() {
        assert!(poll(second.as_mut(), &waker).is_ready());
    }
}

#[test]
fn dropping_a_join_set_aborts_all_its_tasks_although_a_waker_panics() {
    let set = LocalSet::new();
    let panicking = Waker::from(Arc::new(Hostile {
        on_wake: Box::new(|| panic!("in wake")),
        on_drop: Box::new(|| ()),
    }));
    let dropped = Rc::new(RefCell::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let dropped = dropped.clone();
        tasks.spawn_local_on(
            async move {
                let _held = OnDrop(move || *dropped.borrow_mut() += 1);
                pending::<()>().await
            },
            &set,
        );
    }
    let mut run = Box::pin(set.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), &panicking).is_pending());
    let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(tasks)));
    assert!(gone.is_err());
    assert!(poll(run.as_mut(), Waker::noop()).is_pending());
    assert_eq!(*dropped.borrow(), 3);
}

#[test]
fn a_guard_may_be_dropped_with_the_locals_of_its_thread() {
    thread_local! {
        static GUARD: RefCell<Option<LocalEnterGuard>> = const { RefCell::new(None) };
    }
    thread::spawn(|| {
        // First used, so destroyed last: when the set's own locals are gone.
        GUARD.with(|_| ());
        let set = LocalSet::new();
        GUARD.set(Some(set.enter()));
    })
    .join()
    .unwrap();
}

#[test]
fn a_set_may_be_dropped_with_the_locals_of_its_thread() {
    thread_local! {
        static SET: RefCell<Option<LocalSet>> = const { RefCell::new(None) };
    }
    let drops = Arc::new(AtomicUsize::new(0));
    thread::spawn({
        let drops = drops.clone();
        move || {
            SET.with(|_| ());
            let set = LocalSet::new();
            let (send, receive) = oneshot::channel::<()>();
            set.spawn_local({
                let drops = drops.clone();
                async move {
                    let _held = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                    let _ = receive.await;
                    pending::<()>().await
                }
            });
            set.spawn_local(async move {
                let mut send = Some(send);
                // Wakes the other one while the set is being dropped.
                let _held = OnDrop(|| _ = send.take().unwrap().send(()));
                pending::<()>().await
            });
            let mut run = Box::pin(set.run_until(pending::<()>()));
            assert!(poll(run.as_mut(), Waker::noop()).is_pending());
            drop(run);
            SET.set(Some(set));
        }
    })
    .join()
    .unwrap();
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_set_dropped_inside_a_task_of_another_drops_its_tasks_there() {
    let outer = LocalSet::new();
    let inner = LocalSet::new();
    let (send, receive) = oneshot::channel();
    let mut send = Some(send);
    inner.spawn_local(async move {
        // Wakes a task of the outer set while the inner one is being dropped.
        let _held = OnDrop(|| send.take().unwrap().send(()).unwrap());
        pending::<()>().await
    });
    let mut run = Box::pin(inner.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), Waker::noop()).is_pending());
    drop(run);
    let waiting = outer.spawn_local(receive);
    outer.spawn_local(async move { drop(inner) });
    let (_, waker) = CountWakes::new();
    let mut run = pin!(outer.run_until(waiting));
    if poll(run.as_mut(), &waker).is_pending() {
        assert!(poll(run.as_mut(), &waker).is_ready());
    }
}

#[test]
fn a_task_spawned_by_a_destructor_of_a_dropped_set_is_cancelled() {
    let set = LocalSet::new();
    let seen = Rc::new(RefCell::new(None));
    set.spawn_local({
        let seen = seen.clone();
        async move {
            let _held = OnDrop(|| *seen.borrow_mut() = Some(spawn_local(async {})));
            pending::<()>().await
        }
    });
    let mut run = Box::pin(set.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), Waker::noop()).is_pending());
    drop(run);
    drop(set);
    let mut late = seen.borrow_mut().take().unwrap();
    let Poll::Ready(Err(error)) = poll(Pin::new(&mut late), Waker::noop()) else {
        panic!("it has ended");
    };
    assert!(error.is_cancelled());
}

#[test]
fn a_panic_in_the_drop_of_a_task_does_not_keep_the_set_from_dropping_the_others() {
    let drops = Rc::new(RefCell::new(0));
    let set = LocalSet::new();
    for _ in 0..3 {
        let drops = drops.clone();
        set.spawn_local(async move {
            let _held = OnDrop(|| {
                *drops.borrow_mut() += 1;
                panic!("in drop");
            });
            pending::<()>().await
        });
    }
    let mut run = Box::pin(set.run_until(pending::<()>()));
    assert!(poll(run.as_mut(), Waker::noop()).is_pending());
    drop(run);
    drop(set);
    assert_eq!(*drops.borrow(), 3);
}

#[test]
fn wakers_that_outlive_the_set_wake_nothing() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    {
        let set = LocalSet::new();
        for _ in 0..3 {
            let kept = kept.clone();
            set.spawn_local(poll_fn(move |cx| {
                kept.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            }));
        }
        let mut run = pin!(set.run_until(pending::<()>()));
        assert!(poll(run.as_mut(), Waker::noop()).is_pending());
    }
    let wakers = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(wakers.len(), 3);
    thread::spawn(move || wakers.into_iter().for_each(Waker::wake))
        .join()
        .unwrap();
}

#[test]
fn wakes_from_other_threads_while_the_set_is_dropped_are_harmless() {
    let rounds = if cfg!(miri) { 5 } else { 200 };
    for _ in 0..rounds {
        let drops = Arc::new(AtomicUsize::new(0));
        let set = LocalSet::new();
        let (wakers, theirs) = std::sync::mpsc::channel::<Waker>();
        for _ in 0..4 {
            let (wakers, drops) = (wakers.clone(), drops.clone());
            set.spawn_local(async move {
                let _held = OnDrop(|| _ = drops.fetch_add(1, SeqCst));
                poll_fn(|cx| {
                    let _ = wakers.send(cx.waker().clone());
                    Poll::<()>::Pending
                })
                .await
            });
        }
        drop(wakers);
        let waking = thread::spawn(move || {
            for waker in theirs {
                waker.wake_by_ref();
                thread::yield_now();
                waker.wake();
            }
        });
        let mut run = Box::pin(set.run_until(pending::<()>()));
        for _ in 0..3 {
            assert!(poll(run.as_mut(), Waker::noop()).is_pending());
        }
        drop(run);
        drop(set);
        assert_eq!(drops.load(SeqCst), 4);
        waking.join().unwrap();
    }
}

#[test]
fn a_set_within_a_local_runtime_runs_beside_its_tasks() {
    let runtime = LocalRuntime::new().unwrap();
    let order = Rc::new(RefCell::new(Vec::new()));
    runtime.block_on(async {
        let set = LocalSet::new();
        let inside = set.spawn_local({
            let order = order.clone();
            async move {
                for _ in 0..3 {
                    order.borrow_mut().push("set");
                    yield_now().await;
                }
            }
        });
        let beside = spawn_local({
            let order = order.clone();
            async move {
                for _ in 0..3 {
                    order.borrow_mut().push("runtime");
                    yield_now().await;
                }
            }
        });
        set.run_until(inside).await.unwrap();
        beside.await.unwrap();
    });
    assert_eq!(order.borrow().len(), 6);
}
