//! Whole tasks under loom: every cell access of future, output and join waker
//! is checked against every interleaving.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicUsize as PlainUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use blitzen_util::shim::{Arc, Mutex, thread};
use blitzen_util::wait::{self, WaitKind};

use crate::{Header, Id, JoinHandle, OwnedTasks, RunOutcome, Runnable, Schedule, SpawnMeta, spawn};

#[derive(Clone)]
struct Queue(Arc<(Mutex<Option<VecDeque<Runnable>>>, OwnedTasks)>);

impl Schedule for Queue {
    fn schedule(&self, task: Runnable) {
        match &mut *self.0.0.lock() {
            Some(tasks) => tasks.push_back(task),
            // Closed: the thread that closed the queue cancels the task.
            None => task.forget(),
        }
    }

    fn release(&self, task: &Header) {
        // SAFETY: inserted there by `spawn`.
        unsafe { self.0.1.remove(task) };
    }
}

impl Queue {
    fn new() -> Self {
        Self(Arc::new((
            Mutex::new(Some(VecDeque::new())),
            OwnedTasks::new(),
        )))
    }

    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let (task, handle) = spawn(future, self.clone(), Id::next(), SpawnMeta::caller());
        // SAFETY: new, and `release` above removes it.
        unsafe { self.0.1.insert(&task) }.unwrap();
        self.schedule(task);
        handle
    }

    fn run(&self) {
        loop {
            let task = self.0.0.lock().as_mut().and_then(VecDeque::pop_front);
            let Some(task) = task else { return };
            match task.run() {
                RunOutcome::Woken(task) | RunOutcome::Yielded(task) => self.schedule(task),
                RunOutcome::Complete | RunOutcome::Idle(_) => {}
            }
        }
    }

    fn close(&self) {
        let tasks = self.0.0.lock().take();
        for task in tasks.into_iter().flatten() {
            task.forget();
        }
        // SAFETY: the queue is empty and closed, the futures are `Send`.
        unsafe { self.0.1.cancel_all() };
    }
}

struct CountWakes(PlainUsize);

impl Wake for CountWakes {
    fn wake(self: Plain<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn waker() -> (Plain<CountWakes>, Waker) {
    let wakes = Plain::new(CountWakes(PlainUsize::new(0)));
    (wakes.clone(), wakes.into())
}

/// Counts how often it is dropped.
struct Dropped(Plain<PlainUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn dropped() -> (Plain<PlainUsize>, Dropped) {
    let drops = Plain::new(PlainUsize::new(0));
    (drops.clone(), Dropped(drops))
}

#[test]
fn joining_against_completion_gives_the_output_or_a_wake() {
    loom::model(|| {
        let queue = Queue::new();
        let mut handle = queue.spawn(async { Box::new(9) });
        let worker = thread::spawn({
            let queue = queue.clone();
            move || queue.run()
        });
        let (wakes, waker) = waker();
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
        worker.join().unwrap();
        match polled {
            Poll::Ready(output) => assert_eq!(*output.unwrap(), 9),
            Poll::Pending => {
                assert_eq!(wakes.0.load(Relaxed), 1);
                let output = handle.try_take_output().unwrap();
                assert_eq!(*output.unwrap(), 9);
            }
        }
    });
}

#[test]
fn dropping_the_handle_against_completion_drops_the_output_once() {
    loom::model(|| {
        let queue = Queue::new();
        let (drops, output) = dropped();
        let mut handle = queue.spawn(async move { output });
        let (_, waker) = waker();
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut handle).poll(&mut cx).is_pending());
        let worker = thread::spawn({
            let queue = queue.clone();
            move || queue.run()
        });
        drop(handle);
        worker.join().unwrap();
        assert_eq!(drops.load(Relaxed), 1);
    });
}

#[test]
fn a_handle_compares_its_waker_before_the_waker_is_dropped() {
    loom::model(|| {
        let queue = Queue::new();
        let mut handle = queue.spawn(async {});
        let (wakes, waker) = waker();
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut handle).poll(&mut cx).is_pending());
        let worker = thread::spawn({
            let queue = queue.clone();
            move || queue.run()
        });
        // Compares the waker with the one in the slot.
        let _ = Pin::new(&mut handle).poll(&mut cx);
        drop(handle);
        worker.join().unwrap();
        drop(waker);
        assert_eq!(Plain::strong_count(&wakes), 1, "the slot is empty");
    });
}

#[test]
fn an_abort_against_a_poll_that_waits_drops_the_future_once() {
    loom::model(|| {
        let queue = Queue::new();
        let (drops, held) = dropped();
        let handle = queue.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await
        });
        let worker = thread::spawn({
            let queue = queue.clone();
            move || queue.run()
        });
        handle.abort();
        worker.join().unwrap();
        queue.run();
        assert_eq!(drops.load(Relaxed), 1);
        assert!(handle.is_finished());
    });
}

#[test]
fn a_waker_that_outlives_the_task_frees_it() {
    loom::model(|| {
        let queue = Queue::new();
        let slot = Arc::new(Mutex::new(None::<Waker>));
        let mut first = true;
        let handle = queue.spawn({
            let slot = slot.clone();
            poll_fn(move |cx| {
                if std::mem::take(&mut first) {
                    *slot.lock() = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
        });
        queue.run();
        let waker = slot.lock().take().unwrap();
        let other = thread::spawn({
            let queue = queue.clone();
            move || {
                waker.wake_by_ref();
                queue.run();
                waker.wake();
            }
        });
        drop(handle);
        other.join().unwrap();
        queue.run();
        assert!(queue.0.1.is_empty());
    });
}

#[test]
fn closing_against_a_wake_drops_the_future_once() {
    loom::model(|| {
        let queue = Queue::new();
        let (drops, held) = dropped();
        let slot = Arc::new(Mutex::new(None::<Waker>));
        let handle = queue.spawn({
            let slot = slot.clone();
            async move {
                let _held = held;
                poll_fn::<(), _>(|cx| {
                    *slot.lock() = Some(cx.waker().clone());
                    Poll::Pending
                })
                .await
            }
        });
        drop(handle);
        queue.run();
        let waker = slot.lock().take().unwrap();
        let other = thread::spawn(move || waker.wake());
        queue.close();
        other.join().unwrap();
        assert_eq!(drops.load(Relaxed), 1);
        assert!(queue.0.1.is_empty());
    });
}

#[test]
fn closing_during_a_poll_drops_the_future_once() {
    loom::model(|| {
        let queue = Queue::new();
        let (drops, held) = dropped();
        let closer = Arc::new(Mutex::new(None));
        drop(queue.spawn({
            let (queue, closer) = (queue.clone(), closer.clone());
            async move {
                let _held = held;
                poll_fn::<(), _>(|_| {
                    let queue = queue.clone();
                    *closer.lock() = Some(thread::spawn(move || queue.close()));
                    Poll::Pending
                })
                .await
            }
        }));
        queue.run();
        let closer = closer.lock().take().unwrap();
        closer.join().unwrap();
        assert_eq!(drops.load(Relaxed), 1);
        assert!(queue.0.1.is_empty());
    });
}

/// A scheduler that links its tasks, as an injection queue does.
#[derive(Clone)]
struct LinkedQueue(Arc<(Mutex<Option<Runnable>>, OwnedTasks)>);

impl Schedule for LinkedQueue {
    fn schedule(&self, task: Runnable) {
        let mut queued = self.0.0.lock();
        // SAFETY: the lock is that of the queue; the link is not followed.
        unsafe { task.set_queue_next(Some(NonNull::from(task.header()))) };
        *queued = Some(task);
    }

    fn release(&self, task: &Header) {
        // SAFETY: inserted there by the model.
        unsafe { self.0.1.remove(task) };
    }
}

#[test]
fn a_walk_against_a_wake_and_a_poll_sees_a_wait_that_was_or_none() {
    loom::model(|| {
        let queue = LinkedQueue(Arc::new((Mutex::new(None), OwnedTasks::new())));
        let slot = Arc::new(Mutex::new(None::<Waker>));
        let waits = [(WaitKind::Mutex, 8), (WaitKind::Timer, 16)];
        let mut left = waits.into_iter();
        let future = poll_fn({
            let slot = slot.clone();
            move |cx| {
                let Some((kind, identity)) = left.next() else {
                    return Poll::Ready(());
                };
                *slot.lock() = Some(cx.waker().clone());
                wait::pending(kind, identity);
                Poll::Pending
            }
        });
        let (task, handle) = spawn(future, queue.clone(), Id::next(), SpawnMeta::caller());
        // SAFETY: new, and `release` above removes it.
        unsafe { queue.0.1.insert(&task) }.unwrap();
        drop(handle);
        assert!(matches!(task.run(), RunOutcome::Idle(_)));
        let worker = thread::spawn({
            let (queue, slot) = (queue.clone(), slot.clone());
            move || {
                let waker = slot.lock().take().unwrap();
                waker.wake();
                let task = queue.0.0.lock().take().unwrap();
                assert!(matches!(task.run(), RunOutcome::Idle(_)));
            }
        });
        let mut shown = 0;
        queue.0.1.walk(1, |task| {
            shown += 1;
            let snapshot = task.snapshot();
            if let Some((identity, _)) = snapshot.wait {
                assert!(waits.contains(&(snapshot.wait_kind, identity.unwrap())));
            }
        });
        assert_eq!(shown, 1);
        worker.join().unwrap();
        slot.lock().take().unwrap().wake();
        let task = queue.0.0.lock().take().unwrap();
        assert!(matches!(task.run(), RunOutcome::Complete));
    });
}

#[test]
fn a_walk_against_the_end_of_a_task_shows_it_alive_or_not_at_all() {
    loom::model(|| {
        let queue = Queue::new();
        drop(queue.spawn(async {}));
        drop(queue.spawn(async {}));
        let worker = thread::spawn({
            let queue = queue.clone();
            move || queue.run()
        });
        // One task under each hold of the lock: the cursor's may end between two of them.
        queue
            .0
            .1
            .walk(1, |task| assert!(task.snapshot().wait.is_none()));
        worker.join().unwrap();
        assert!(queue.0.1.is_empty());
    });
}
