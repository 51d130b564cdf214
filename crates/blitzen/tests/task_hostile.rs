//! Programs that do to tasks what nobody should. None of them may harm the runtime, lose
//! an outcome, or drop anything twice.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

use blitzen::channel::oneshot;
use blitzen::runtime::{Builder, Runtime};
use blitzen::task::{JoinHandle, JoinSet, shield, try_id, yield_now};

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// The runtime still works, and holds nothing.
fn assert_sound(runtime: &Runtime) {
    for round in 0..10 {
        let task = runtime.spawn(async move { round });
        assert_eq!(runtime.block_on(task).unwrap(), round);
    }
    while runtime.metrics().num_alive_tasks() > 0 {
        thread::yield_now(); // the last one is just being taken off the list
    }
}

/// Panics when dropped, unless the thread is panicking already.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("in drop");
        }
    }
}

/// Panics when dropped, whatever happens.
struct Relentless;

impl Drop for Relentless {
    fn drop(&mut self) {
        panic!("in drop, again");
    }
}

struct CountDrops(Arc<AtomicUsize>);

impl Drop for CountDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn drops() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(0))
}

/// A waker that panics where it is told to.
#[derive(Clone, Copy, PartialEq)]
enum PanicIn {
    Clone,
    Wake,
    Drop,
}

fn panicking_waker(panic_in: PanicIn) -> Waker {
    fn panic_if(data: *const (), panic_in: PanicIn) {
        if data as usize == panic_in as usize {
            panic!("in a waker");
        }
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            panic_if(data, PanicIn::Clone);
            RawWaker::new(data, &VTABLE)
        },
        |data| panic_if(data, PanicIn::Wake),
        |data| panic_if(data, PanicIn::Wake),
        |data| panic_if(data, PanicIn::Drop),
    );
    // SAFETY: the functions follow no pointer, and may panic as any code may.
    unsafe { Waker::new(panic_in as usize as *const (), &VTABLE) }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn an_output_and_a_future_that_both_panic_when_dropped() {
    struct Both;
    impl Future for Both {
        type Output = Relentless;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Relentless> {
            Poll::Ready(Relentless)
        }
    }
    impl Drop for Both {
        fn drop(&mut self) {
            panic!("in the future's drop");
        }
    }
    let runtime = runtime();
    let Err(error) = runtime.block_on(runtime.spawn(Both)) else {
        panic!("the future's drop panicked");
    };
    assert!(error.is_panic());
    drop(runtime.spawn(Both));
    assert_sound(&runtime);
}

#[test]
fn a_poll_that_panics_and_a_future_that_panics_when_dropped() {
    let runtime = runtime();
    let held = Relentless;
    let task = runtime.spawn(poll_fn(move |_| -> Poll<()> {
        let _held = &held;
        panic!("in poll")
    }));
    let error = runtime.block_on(task).unwrap_err();
    assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "in poll");
    assert_sound(&runtime);
}

#[test]
fn a_panic_whose_payload_panics_when_dropped() {
    let runtime = runtime();
    drop(runtime.spawn(async { panic_any(Bomb) }));
    let joined = runtime.spawn(async { panic_any(Bomb) });
    let error = runtime.block_on(joined).unwrap_err();
    std::mem::forget(error.into_panic());
    let late = runtime.spawn(async { panic_any(Bomb) });
    while !late.is_finished() {
        thread::yield_now();
    }
    drop(late);
    assert_sound(&runtime);
}

#[test]
fn join_wakers_that_panic_in_every_way() {
    let runtime = runtime();
    for panic_in in [PanicIn::Clone, PanicIn::Wake, PanicIn::Drop] {
        for end in [true, false] {
            let (send, receive) = oneshot::channel::<()>();
            let mut task = runtime.spawn(async { receive.await.is_ok() });
            let waker = panicking_waker(panic_in);
            for _ in 0..2 {
                let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut task, &waker)));
                assert_eq!(polled.is_err(), panic_in == PanicIn::Clone);
                // Replaced, and so dropped.
                let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut task, Waker::noop())));
            }
            let _ = catch_unwind(AssertUnwindSafe(|| poll(&mut task, &waker)));
            std::mem::forget(waker);
            if end {
                send.send(()).unwrap();
                assert!(runtime.block_on(task).unwrap());
            } else {
                drop(task);
            }
            assert_sound_after_drop(&runtime);
        }
    }
    assert_sound(&runtime);
}

fn assert_sound_after_drop(runtime: &Runtime) {
    assert!(runtime.block_on(runtime.spawn(async { true })).unwrap());
}

#[test]
fn a_task_that_aborts_itself_ends_where_it_next_waits() {
    let runtime = runtime();
    let (send, receive) = oneshot::channel::<JoinHandle<()>>();
    let (ended, end) = oneshot::channel();
    let dropped = drops();
    let held = CountDrops(dropped.clone());
    let reached = drops();
    let task = runtime.spawn({
        let reached = reached.clone();
        async move {
            let _held = held;
            let ended = SendOnDrop(Some(ended));
            let me = receive.await.unwrap();
            me.abort();
            me.abort_handle().abort();
            reached.fetch_add(1, SeqCst); // not yet
            assert!(!me.is_finished());
            pending::<()>().await;
            reached.fetch_add(1, SeqCst);
            drop(ended);
        }
    });
    send.send(task).unwrap();
    runtime.block_on(end).unwrap();
    assert_eq!(reached.load(SeqCst), 1);
    assert_sound(&runtime);
    assert_eq!(dropped.load(SeqCst), 1);
}

struct SendOnDrop(Option<oneshot::Sender<()>>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[test]
fn a_task_that_aborts_itself_and_ends_at_once_has_its_output() {
    let runtime = runtime();
    let (send, receive) = oneshot::channel::<blitzen::task::AbortHandle>();
    let task = runtime.spawn(async move {
        receive.await.unwrap().abort();
        7
    });
    send.send(task.abort_handle()).unwrap();
    assert_eq!(runtime.block_on(task).unwrap(), 7);
}

#[test]
fn a_task_that_awaits_itself_waits_until_its_runtime_ends() {
    let runtime = runtime();
    let dropped = drops();
    let held = CountDrops(dropped.clone());
    let (send, receive) = oneshot::channel::<JoinHandle<()>>();
    let (begun, beginning) = oneshot::channel();
    let task = runtime.spawn(async move {
        let _held = held;
        let me = receive.await.unwrap();
        begun.send(()).unwrap();
        me.await.unwrap();
    });
    send.send(task).unwrap();
    runtime.block_on(beginning).unwrap();
    drop(runtime);
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn a_task_that_awaits_itself_can_be_aborted() {
    let runtime = runtime();
    let dropped = drops();
    let held = CountDrops(dropped.clone());
    let (send, receive) = oneshot::channel::<JoinHandle<()>>();
    let (begun, beginning) = oneshot::channel();
    let task = runtime.spawn(async move {
        let _held = held;
        let me = receive.await.unwrap();
        begun.send(()).unwrap();
        me.await.unwrap();
    });
    let abort = task.abort_handle();
    send.send(task).unwrap();
    runtime.block_on(beginning).unwrap();
    abort.abort();
    while !abort.is_finished() {
        thread::yield_now();
    }
    assert_sound(&runtime);
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn an_output_that_holds_the_handle_of_its_own_task_lives_until_the_handle_goes() {
    struct Own(
        #[allow(dead_code)] Arc<Mutex<Option<JoinHandle<Own>>>>,
        #[allow(dead_code)] CountDrops,
    );
    let runtime = runtime();
    let dropped = drops();
    let handle = Arc::new(Mutex::new(None));
    let output = Own(handle.clone(), CountDrops(dropped.clone()));
    let task = runtime.spawn(async { output });
    let abort = task.abort_handle();
    *handle.lock().unwrap() = Some(task);
    while !abort.is_finished() {
        thread::yield_now();
    }
    assert_sound(&runtime);
    drop(runtime);
    assert_eq!(dropped.load(SeqCst), 0);
    let own = handle.lock().unwrap().take();
    drop(own);
    assert_eq!(dropped.load(SeqCst), 1);
    assert_eq!(Arc::strong_count(&handle), 1);
}

#[test]
fn an_output_whose_destructor_drops_the_handle_of_another_task() {
    struct Chain(
        #[allow(dead_code)] Option<JoinHandle<Chain>>,
        #[allow(dead_code)] CountDrops,
    );
    let runtime = runtime();
    let dropped = drops();
    let mut last = None;
    for _ in 0..50 {
        let chain = Chain(last.take(), CountDrops(dropped.clone()));
        let task = runtime.spawn(async move {
            yield_now().await;
            chain
        });
        while !task.is_finished() {
            thread::yield_now();
        }
        last = Some(task);
    }
    drop(last);
    assert_eq!(dropped.load(SeqCst), 50);
    assert_sound(&runtime);
}

#[test]
fn an_output_whose_destructor_spawns_and_looks_at_its_task() {
    struct Spawns(Arc<Mutex<Vec<Option<blitzen::task::Id>>>>, CountDrops);
    impl Drop for Spawns {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(try_id());
            let drops = self.1.0.clone();
            if blitzen::runtime::Handle::try_current().is_ok() {
                blitzen::spawn(async move { drop(drops) });
            }
            // A shield that is left behind on a task that has ended.
            let mut shielded = Box::pin(shield(pending::<()>()));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(shielded.as_mut().poll(&mut cx).is_pending());
            KEPT.lock().unwrap().push(shielded);
        }
    }
    type Kept = Pin<Box<dyn Future<Output = ()> + Send>>;
    static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

    let runtime = runtime();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let dropped = drops();
    let output = || Spawns(seen.clone(), CountDrops(dropped.clone()));
    let (one, two, three) = (output(), output(), output());
    // Dropped by the worker, by the last handle, and by whoever took it.
    drop(runtime.spawn(async { one }));
    let late = runtime.spawn(async { two });
    let taken = runtime.spawn(async { three });
    while !late.is_finished() {
        thread::yield_now();
    }
    let id = late.id();
    drop(late);
    drop(runtime.block_on(taken).unwrap());
    assert_sound(&runtime);
    assert_eq!(dropped.load(SeqCst), 3);
    assert!(seen.lock().unwrap().contains(&Some(id)));
    KEPT.lock().unwrap().clear();
    drop(runtime);
}

#[test]
fn shields_nested_too_deep_panic_and_harm_nothing() {
    fn nested(depth: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match depth {
            0 => Box::pin(yield_now()),
            _ => Box::pin(shield(nested(depth - 1))),
        }
    }
    let runtime = runtime();
    runtime.block_on(runtime.spawn(nested(255))).unwrap();
    let error = runtime.block_on(runtime.spawn(nested(256))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("nested more than 255 deep"), "{text}");
    // A task that survives the panic is not shielded for good.
    let task = runtime.spawn(async {
        assert!(catch_unwind(|| futures_poll_once(nested(300))).is_err());
        pending::<()>().await
    });
    task.abort();
    assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    assert_sound(&runtime);
}

fn futures_poll_once(mut future: Pin<Box<dyn Future<Output = ()> + Send>>) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending());
}

#[test]
fn a_shield_taken_to_another_task_holds_up_the_first_one_until_it_is_dropped() {
    let runtime = runtime();
    let (send, receive) = oneshot::channel();
    let task = runtime.spawn(async {
        let mut shielded = Box::pin(shield(pending::<()>()));
        poll_fn(|cx| {
            assert!(shielded.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(send.send(shielded).is_ok());
        pending::<()>().await
    });
    let shielded = runtime.block_on(receive).unwrap();
    task.abort();
    let dropping = runtime.spawn(async move { drop(shielded) });
    assert!(runtime.block_on(task).unwrap_err().is_cancelled());
    runtime.block_on(dropping).unwrap();
    assert_sound(&runtime);
}

#[test]
fn a_join_set_survives_a_waker_that_panics() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("in wake");
        }
    }
    let runtime = runtime();
    let closed = self::runtime();
    let dead = closed.handle().clone();
    drop(closed);
    let mut tasks = JoinSet::new();
    tasks.spawn_on(pending::<()>(), runtime.handle());
    let waker = Waker::from(Arc::new(Panics));
    let mut cx = Context::from_waker(&waker);
    assert!(tasks.poll_join_next(&mut cx).is_pending());
    // Refused, so that it has ended when it is added, and the waker is called.
    let added = catch_unwind(AssertUnwindSafe(|| tasks.spawn_on(async {}, &dead)));
    assert!(added.is_err());
    assert_eq!(tasks.len(), 2);
    let ended = tasks.try_join_next().unwrap();
    assert!(ended.unwrap_err().is_cancelled());
    tasks.abort_all();
    assert!(runtime.block_on(tasks.join_next()).unwrap().is_err());
    assert!(tasks.is_empty());
    assert_sound(&runtime);
}

#[test]
fn a_join_set_does_not_deadlock_on_a_waker_that_ends_its_tasks() {
    /// Its clones end a task of the set when they are made and when they go.
    struct Ends(Mutex<Vec<Runtime>>);
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, end, end_by_ref, end);
    fn clone(data: *const ()) -> RawWaker {
        end_by_ref(data);
        // SAFETY: `data` came from `Arc::into_raw`, and is alive.
        unsafe { Arc::increment_strong_count(data.cast::<Ends>()) };
        RawWaker::new(data, &VTABLE)
    }
    fn end(data: *const ()) {
        end_by_ref(data);
        // SAFETY: this waker's own count.
        drop(unsafe { Arc::from_raw(data.cast::<Ends>()) });
    }
    fn end_by_ref(data: *const ()) {
        // SAFETY: alive by the waker's count.
        let ends = unsafe { &*data.cast::<Ends>() };
        let runtime = ends.0.lock().unwrap().pop();
        drop(runtime); // which cancels its task
    }
    let mut tasks = JoinSet::new();
    let mut runtimes = Vec::new();
    for _ in 0..8 {
        let runtime = Builder::new_current_thread().build().unwrap();
        tasks.spawn_on(pending::<()>(), runtime.handle());
        runtimes.push(runtime);
    }
    let ends = Arc::new(Ends(Mutex::new(runtimes)));
    // SAFETY: the functions above keep the count.
    let waker = unsafe { Waker::new(Arc::into_raw(ends).cast(), &VTABLE) };
    let mut joined = 0;
    while joined < 8 {
        let mut cx = Context::from_waker(&waker);
        match tasks.poll_join_next(&mut cx) {
            Poll::Ready(ended) => {
                assert!(ended.unwrap().unwrap_err().is_cancelled());
                joined += 1;
            }
            Poll::Pending => {
                let mut cx = Context::from_waker(Waker::noop());
                joined += tasks.poll_join_next(&mut cx).is_ready() as usize;
            }
        }
    }
}

#[test]
fn a_yield_within_block_in_place_is_not_lost_to_another_runtime() {
    let runtime = runtime();
    let task = runtime.spawn(async {
        let mut yielding = Box::pin(yield_now());
        let mut nested = false;
        poll_fn(|cx| {
            if yielding.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut nested, true) {
                blitzen::task::block_in_place(|| {
                    let other = Builder::new_current_thread().build().unwrap();
                    other.block_on(async {
                        let task = blitzen::spawn(pending::<()>());
                        yield_now().await;
                        drop(task);
                    });
                });
            }
            Poll::Pending
        })
        .await;
    });
    runtime.block_on(task).unwrap();
    assert_sound(&runtime);
}

#[test]
fn handles_polled_after_the_end_panic_and_nothing_else() {
    let runtime = runtime();
    let mut task = runtime.spawn(async { 1 });
    assert_eq!(runtime.block_on(&mut task).unwrap(), 1);
    let again = catch_unwind(AssertUnwindSafe(|| poll(&mut task, Waker::noop())));
    assert!(again.is_err());
    drop(task);
    assert_sound(&runtime);
}
