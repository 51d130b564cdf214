//! Whole tasks on a scheduler of one queue.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::{
    Header, Id, JoinHandle, OwnedTasks, RunOutcome, Runnable, Schedule, SpawnMeta, current, shield,
    spawn,
};

#[derive(Clone, Default)]
struct Queue(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tasks: Mutex<VecDeque<Runnable>>,
    owned: OwnedTasks,
}

impl Schedule for Queue {
    fn schedule(&self, task: Runnable) {
        self.0.tasks.lock().unwrap().push_back(task);
    }

    fn release(&self, task: &Header) {
        // SAFETY: inserted there by `spawn`, or refused.
        unsafe { self.0.owned.remove(task) };
    }
}

impl Queue {
    #[track_caller]
    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let (task, handle) = spawn(future, self.clone(), Id::next(), SpawnMeta::caller());
        // SAFETY: new, and `release` above removes it.
        if unsafe { self.0.owned.insert(&task) }.is_ok() {
            self.schedule(task);
        }
        handle
    }

    fn pop(&self) -> Option<Runnable> {
        self.0.tasks.lock().unwrap().pop_front()
    }

    /// Runs what is queued, and what that queues.
    fn run(&self) {
        while let Some(task) = self.pop() {
            match task.run() {
                RunOutcome::Woken(task) | RunOutcome::Yielded(task) => self.schedule(task),
                RunOutcome::Complete | RunOutcome::Idle(_) => {}
            }
        }
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Counts how often it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn counter() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(0))
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn the_output_comes_through_the_handle() {
    let queue = Queue::default();
    let mut handle = queue.spawn(async { 7 });
    assert!(poll(&mut handle).is_pending());
    assert_eq!(queue.0.owned.len(), 1);
    queue.run();
    assert!(handle.is_finished());
    assert!(queue.0.owned.is_empty());
    assert!(matches!(poll(&mut handle), Poll::Ready(Ok(7))));
}

#[test]
fn the_join_waker_is_called_once_and_the_newest_counts() {
    let queue = Queue::default();
    let mut handle = queue.spawn(async {});
    let (old, new) = (
        Arc::new(CountWakes(AtomicUsize::new(0))),
        Arc::new(CountWakes(AtomicUsize::new(0))),
    );
    for wakes in [&old, &new, &new] {
        let waker = Waker::from(wakes.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut handle).poll(&mut cx).is_pending());
    }
    queue.run();
    assert_eq!((old.0.load(Relaxed), new.0.load(Relaxed)), (0, 1));
    drop(handle);
    assert_eq!(Arc::strong_count(&new), 1, "the waker was not leaked");
}

#[test]
fn a_task_sleeps_until_it_is_woken() {
    let queue = Queue::default();
    let slot = Arc::new(Mutex::new(None::<Waker>));
    let mut polls = 0;
    let mut handle = queue.spawn({
        let slot = slot.clone();
        poll_fn(move |cx| {
            polls += 1;
            *slot.lock().unwrap() = Some(cx.waker().clone());
            if polls == 3 {
                Poll::Ready(polls)
            } else {
                Poll::Pending
            }
        })
    });
    for _ in 0..2 {
        queue.run();
        assert!(queue.pop().is_none() && !handle.is_finished());
        let waker = slot.lock().unwrap().take().unwrap();
        waker.wake_by_ref();
        waker.wake();
    }
    queue.run();
    assert!(matches!(poll(&mut handle), Poll::Ready(Ok(3))));
}

#[test]
fn a_panic_reaches_the_handle_and_nobody_else() {
    let queue = Queue::default();
    let mut handle = queue.spawn(async {
        let what = String::from("no");
        panic!("oh {what}")
    });
    queue.run();
    let Poll::Ready(Err(error)) = poll(&mut handle) else {
        panic!("an error was expected");
    };
    assert!(error.is_panic() && !error.is_cancelled());
    assert_eq!(
        error.to_string(),
        format!("task {} panicked with message \"oh no\"", error.id())
    );
    assert_eq!(*error.into_panic().downcast::<String>().unwrap(), "oh no");
}

#[test]
fn an_abort_drops_the_future_on_the_worker() {
    let queue = Queue::default();
    let drops = counter();
    let held = Dropped(drops.clone());
    let mut handle = queue.spawn(async move {
        let _held = held;
        pending::<()>().await
    });
    queue.run();
    handle.abort();
    handle.abort_handle().abort();
    assert_eq!(drops.load(Relaxed), 0, "not on the aborting thread");
    queue.run();
    assert_eq!(drops.load(Relaxed), 1);
    assert!(matches!(poll(&mut handle), Poll::Ready(Err(e)) if e.is_cancelled()));
}

#[test]
fn an_abort_before_the_first_poll_means_no_poll() {
    let queue = Queue::default();
    let mut handle = queue.spawn(async { unreachable!() });
    handle.abort();
    queue.run();
    assert!(matches!(poll(&mut handle), Poll::Ready(Err(e)) if e.is_cancelled()));
}

#[test]
fn a_shield_keeps_an_abort_out_until_it_ends() {
    let queue = Queue::default();
    let stage = counter();
    let (send, receive) = {
        let slot = Arc::new(Mutex::new(None::<Waker>));
        (slot.clone(), slot)
    };
    let mut handle = queue.spawn({
        let stage = stage.clone();
        async move {
            let mut polled = false;
            shield(shield(poll_fn(|cx| {
                *send.lock().unwrap() = Some(cx.waker().clone());
                if std::mem::replace(&mut polled, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })))
            .await;
            stage.store(1, Relaxed);
            pending::<()>().await;
            stage.store(2, Relaxed);
        }
    });
    queue.run();
    handle.abort();
    assert!(queue.pop().is_none(), "deferred");
    receive.lock().unwrap().take().unwrap().wake();
    queue.run();
    assert_eq!(stage.load(Relaxed), 1, "cancelled right behind the shield");
    assert!(matches!(poll(&mut handle), Poll::Ready(Err(e)) if e.is_cancelled()));
}

#[test]
fn a_shield_dropped_in_another_place_lets_the_abort_through() {
    let queue = Queue::default();
    let parked = Arc::new(Mutex::new(None));
    let mut handle = queue.spawn({
        let parked = parked.clone();
        async move {
            let mut inner = Box::pin(shield(pending::<()>()));
            poll_fn(|cx| {
                assert!(inner.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            *parked.lock().unwrap() = Some(inner);
            pending::<()>().await
        }
    });
    queue.run();
    handle.abort();
    assert!(queue.pop().is_none());
    drop(parked.lock().unwrap().take());
    queue.run();
    assert!(matches!(poll(&mut handle), Poll::Ready(Err(e)) if e.is_cancelled()));
}

#[test]
fn a_shield_that_is_one_too_many_is_not_counted() {
    let queue = Queue::default();
    let mut handle = queue.spawn(async {
        let mut shields: Vec<_> = (0..256)
            .map(|_| Box::pin(shield(pending::<()>())))
            .collect();
        let refused = poll_fn(|cx| {
            let polled = shields.iter_mut().map(|shield| {
                let poll = AssertUnwindSafe(|| shield.as_mut().poll(cx));
                catch_unwind(poll)
            });
            Poll::Ready(current::count_shields(|| {
                polled.filter(Result::is_err).count()
            }))
        });
        assert_eq!(refused.await, (1, 255));
        assert_eq!(current::count_shields(|| drop(shields)), ((), -255));
    });
    queue.run();
    assert!(matches!(poll(&mut handle), Poll::Ready(Ok(()))));
}

#[test]
fn a_task_that_is_polled_in_the_middle_of_another_counts_its_own_shields() {
    let (queue, inner) = (Queue::default(), Queue::default());
    let mut handle = queue.spawn(async move {
        let waiting = Arc::new(Mutex::new(None::<Waker>));
        let slot = waiting.clone();
        let mut other = inner.spawn(shield(poll_fn(move |cx| {
            match slot.lock().unwrap().replace(cx.waker().clone()) {
                Some(_) => Poll::Ready(()),
                None => Poll::Pending,
            }
        })));
        let run = || {
            let before = current::count_shields(|| inner.run());
            let mut own = Box::pin(shield(pending::<()>()));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(own.as_mut().poll(&mut cx).is_pending());
            (before, own)
        };
        let ((before, own), raised) = current::count_shields(run);
        assert_eq!((before, raised), (((), 0), 1));
        let (_, raised) = current::count_shields(|| {
            waiting.lock().unwrap().as_ref().unwrap().wake_by_ref();
            inner.run(); // which lowers the shield of the other one
            drop(own);
        });
        assert_eq!(raised, -1);
        assert!(poll(&mut other).is_ready());
    });
    queue.run();
    assert!(matches!(poll(&mut handle), Poll::Ready(Ok(()))));
}

#[test]
fn a_shield_outside_a_task_is_the_future_itself() {
    let mut future = pin!(shield(async { 5 }));
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(future.as_mut().poll(&mut cx), Poll::Ready(5));
}

#[test]
fn a_destructor_that_panics_is_an_error_of_the_task() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let queue = Queue::default();
    let mut cancelled = queue.spawn(async {
        let _bomb = Bomb;
        pending::<()>().await
    });
    queue.run();
    cancelled.abort();
    queue.run();
    assert!(matches!(poll(&mut cancelled), Poll::Ready(Err(e)) if e.is_panic()));
    // An output whose handle was dropped before, and one whose handle is
    // dropped after the end.
    drop(queue.spawn(async { Bomb }));
    let late = queue.spawn(async { Bomb });
    queue.run();
    drop(late);
    assert!(queue.0.owned.is_empty());
}

#[test]
fn a_future_that_panics_is_dropped_as_the_panic_passes() {
    struct Look(Arc<AtomicUsize>);
    impl Drop for Look {
        fn drop(&mut self) {
            self.0
                .fetch_add(if std::thread::panicking() { 1 } else { 100 }, Relaxed);
        }
    }
    let queue = Queue::default();
    let seen = counter();
    let look = Look(seen.clone());
    // Not an async block, which drops its locals by itself.
    let mut handle = queue.spawn(poll_fn(move |_| -> Poll<()> {
        let _owned = &look;
        panic!("in poll")
    }));
    queue.run();
    assert!(matches!(poll(&mut handle), Poll::Ready(Err(e)) if e.is_panic()));
    assert_eq!(seen.load(Relaxed), 1);
}

#[test]
fn closing_drops_every_future_once_in_whatever_state() {
    let queue = Queue::default();
    let drops = counter();
    let task = |drops: &Arc<AtomicUsize>| {
        let held = Dropped(drops.clone());
        async move {
            let _held = held;
            shield(pending::<()>()).await
        }
    };
    let idle = queue.spawn(task(&drops));
    queue.run();
    let queued = queue.spawn(task(&drops));
    // The queue gives up its runnables before the tasks are closed.
    while let Some(task) = queue.pop() {
        task.forget();
    }
    // SAFETY: no runnable is left, and all futures are `Send`.
    unsafe { queue.0.owned.cancel_all() };
    assert_eq!(drops.load(Relaxed), 2);
    assert!(idle.is_finished() && queued.is_finished());
    let refused = queue.spawn(task(&drops));
    assert!(refused.is_finished());
    assert_eq!(drops.load(Relaxed), 3);
}

/// A scheduler of tasks whose futures end on their own when they are cancelled.
struct Unwinding(Queue);

impl Schedule for Unwinding {
    const UNWINDS: bool = true;

    fn schedule(&self, task: Runnable) {
        self.0.schedule(task);
    }

    fn release(&self, task: &Header) {
        self.0.release(task);
    }
}

#[test]
fn closing_leaves_tasks_alone_that_unwind_themselves_until_they_are_asked_to_end() {
    let queue = Queue::default();
    let drops = counter();
    let held = Dropped(drops.clone());
    let unwinds = poll_fn(move |_| {
        let _held = &held;
        if current::is_cancel_requested() {
            current::end_unwinding();
        }
        Poll::<()>::Pending
    });
    let scheduler = Unwinding(queue.clone());
    let (task, unwinding) = spawn(unwinds, scheduler, Id::next(), SpawnMeta::caller());
    // SAFETY: new, and `release` removes it.
    unsafe { queue.0.owned.insert(&task) }.unwrap();
    queue.schedule(task);
    let other = queue.spawn(pending::<()>());
    queue.run();
    // SAFETY: no runnable of the other is left, and all futures are `Send`.
    unsafe {
        queue.0.owned.cancel_idle();
        queue.0.owned.cancel_all();
    }
    assert!(other.is_finished() && !unwinding.is_finished());
    assert_eq!((queue.0.owned.len(), drops.load(Relaxed)), (1, 0));
    queue.0.owned.close_unwinding();
    queue.run();
    assert!(unwinding.is_finished() && queue.0.owned.is_empty());
    assert_eq!(drops.load(Relaxed), 1);
}

#[test]
fn a_yield_goes_behind_the_others() {
    let queue = Queue::default();
    let mut yielded = false;
    let mut handle = queue.spawn(poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        assert!(!current::yield_if_own(Waker::noop()));
        assert!(current::yield_if_own(cx.waker()));
        Poll::Pending
    }));
    let RunOutcome::Yielded(task) = queue.pop().unwrap().run() else {
        panic!("it yielded");
    };
    queue.schedule(task);
    queue.run();
    assert!(poll(&mut handle).is_ready());
}

#[test]
fn a_task_knows_its_name_while_it_runs_and_while_it_is_dropped() {
    thread_local!(static SEEN: Cell<Option<Id>> = const { Cell::new(None) });
    struct See;
    impl Drop for See {
        fn drop(&mut self) {
            SEEN.with(|seen| seen.set(current::id()));
        }
    }
    let queue = Queue::default();
    let handle = queue.spawn(async {
        SEEN.with(|seen| seen.set(current::id()));
        See
    });
    assert_eq!(current::id(), None);
    queue.run();
    assert_eq!(SEEN.with(Cell::take), Some(handle.id()));
    let id = handle.id();
    drop(handle);
    assert_eq!(SEEN.with(Cell::take), Some(id));
}

#[test]
fn a_small_task_takes_at_most_104_bytes() {
    type Small = crate::cell::Cell<std::future::Ready<()>, Queue>;
    assert!(size_of::<Small>() <= 104, "{}", size_of::<Small>());
}

/// A task that waits for `gate` in its first poll, and ends in its second.
fn spawn_child(queue: &Queue, gate: Arc<Mutex<Option<Waker>>>) -> JoinHandle<u32> {
    let mut polls = 0;
    queue.spawn(poll_fn(move |cx| {
        polls += 1;
        *gate.lock().unwrap() = Some(cx.waker().clone());
        match polls {
            1 => Poll::Pending,
            _ => Poll::Ready(7),
        }
    }))
}

#[test]
fn a_task_that_joins_its_newest_child_yields_once_before_it_leaves_a_waker() {
    let (queue, gate) = (Queue::default(), Arc::default());
    let parent = queue.spawn({
        let (queue, gate) = (queue.clone(), Arc::clone(&gate));
        async move {
            let child = spawn_child(&queue, gate);
            child.expect_join();
            child.await.unwrap()
        }
    });
    let RunOutcome::Yielded(yielded) = queue.pop().unwrap().run() else {
        panic!("it yields");
    };
    let child = queue.pop().unwrap();
    assert!(!child.header().state.load().has_join_waker());
    assert!(matches!(child.run(), RunOutcome::Idle(_)));
    assert!(matches!(yielded.run(), RunOutcome::Idle(_)), "it waits");
    gate.lock().unwrap().take().unwrap().wake();
    queue.run();
    assert!(matches!(poll(&mut { parent }), Poll::Ready(Ok(7))));
}

#[test]
fn a_join_of_the_newest_child_with_a_foreign_waker_leaves_that_waker() {
    struct Woken(AtomicUsize);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (queue, gate) = (Queue::default(), Arc::default());
    let woken = Arc::new(Woken(AtomicUsize::new(0)));
    let foreign = Waker::from(woken.clone());
    let mut child = None;
    let parent = queue.spawn({
        let (queue, gate) = (queue.clone(), Arc::clone(&gate));
        poll_fn(move |_| {
            let child = child.get_or_insert_with(|| {
                let child = spawn_child(&queue, Arc::clone(&gate));
                child.expect_join();
                child
            });
            Pin::new(child).poll(&mut Context::from_waker(&foreign))
        })
    });
    assert!(matches!(queue.pop().unwrap().run(), RunOutcome::Idle(_)));
    queue.run();
    gate.lock().unwrap().take().unwrap().wake();
    queue.run();
    assert_eq!(woken.0.load(Relaxed), 1);
    parent.abort();
    queue.run();
}

#[test]
fn a_child_that_has_ended_is_joined_at_once() {
    let queue = Queue::default();
    let mut child = queue.spawn(async { 7 });
    child.expect_join();
    queue.run();
    let parent = queue.spawn(poll_fn(move |cx| Pin::new(&mut child).poll(cx)));
    assert!(matches!(queue.pop().unwrap().run(), RunOutcome::Complete));
    assert!(matches!(poll(&mut { parent }), Poll::Ready(Ok(Ok(7)))));
}
