//! What channels allocate: nothing to wait, and nothing a message once they run.

#![cfg(not(any(blitzen_loom, blitzen_no_recycle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};

use blitzen_sync::channel::{self, broadcast, mpsc, oneshot, watch};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations, and of how many bytes in all.
fn allocated(run: impl FnOnce()) -> (usize, usize) {
    let before = (COUNT.get(), BYTES.get());
    run();
    (COUNT.get() - before.0, BYTES.get() - before.1)
}

#[track_caller]
fn allocates_nothing(run: impl FnOnce()) {
    assert_eq!(allocated(run), (0, 0));
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn waits<F: Future>(future: Pin<&mut F>) {
    assert!(poll(future).is_pending());
}

#[track_caller]
fn ends<F: Future>(future: Pin<&mut F>) -> F::Output {
    match poll(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("still waiting"),
    }
}

#[test]
fn the_allocator_counts() {
    let boxed = || drop(std::hint::black_box(Box::new(5_u64)));
    assert_eq!(allocated(boxed), (1, 8));
}

#[test]
fn a_bounded_mpsc_channel_in_use_allocates_nothing() {
    let (tx, mut rx) = mpsc::channel(2);
    let round = |rx: &mut mpsc::Receiver<u32>| {
        {
            let mut receiving = pin!(rx.recv());
            waits(receiving.as_mut());
            tx.try_send(1).unwrap();
            assert_eq!(ends(receiving), Some(1));
        }

        tx.try_send(2).unwrap();
        let permit = tx.try_reserve().unwrap();
        let mut sending = pin!(tx.send(3));
        let mut reserving = pin!(tx.reserve_many(2));
        waits(sending.as_mut());
        waits(reserving.as_mut());
        permit.send(4);
        assert_eq!(rx.try_recv(), Ok(2));
        ends(sending).unwrap();
        assert_eq!(rx.try_recv(), Ok(4));
        assert_eq!(rx.try_recv(), Ok(3));
        drop(ends(reserving).unwrap());
        waits(pin!(tx.closed()));
    };
    (0..100).for_each(|_| round(&mut rx)); // some blocks to begin with
    allocates_nothing(|| (0..1000).for_each(|_| round(&mut rx)));
}

#[test]
fn an_unbounded_mpsc_channel_in_use_allocates_nothing() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    let round = |rx: &mut mpsc::UnboundedReceiver<u32>| {
        {
            let mut receiving = pin!(rx.recv());
            waits(receiving.as_mut());
            for value in 0..5 {
                tx.send(value).unwrap();
            }
            assert_eq!(ends(receiving), Some(0));
        }
        for value in 1..5 {
            assert_eq!(rx.try_recv(), Ok(value));
        }
        waits(pin!(tx.closed()));
    };
    (0..100).for_each(|_| round(&mut rx));
    allocates_nothing(|| (0..1000).for_each(|_| round(&mut rx)));
}

#[test]
fn channels_for_many_receivers_in_use_allocate_nothing() {
    for (tx, rx) in [channel::bounded(1), channel::unbounded()] {
        let round = || {
            let mut one = pin!(rx.recv());
            let mut two = pin!(rx.recv());
            waits(one.as_mut());
            waits(two.as_mut());
            tx.try_send(1).unwrap();
            assert_eq!(ends(one), Some(1));
            tx.try_send(2).unwrap();
            assert_eq!(ends(two), Some(2));
            if tx.max_capacity().is_some() {
                tx.try_send(3).unwrap();
                let mut sending = pin!(tx.send(4));
                waits(sending.as_mut());
                assert_eq!(rx.try_recv(), Ok(3));
                ends(sending).unwrap();
                assert_eq!(rx.try_recv(), Ok(4));
            }
        };
        (0..100).for_each(|_| round());
        allocates_nothing(|| (0..1000).for_each(|_| round()));
    }
}

#[test]
fn a_oneshot_is_one_small_allocation() {
    let used = allocated(|| {
        let (mut tx, mut rx) = oneshot::channel::<usize>();
        waits(pin!(tx.closed()));
        waits(Pin::new(&mut rx));
        tx.send(5).unwrap();
        assert_eq!(ends(pin!(rx)), Ok(5));
    });
    // The value, two wakers, and 64 bits.
    let bytes = 5 * size_of::<usize>() + size_of::<u64>();
    assert_eq!(used, (1, bytes.next_multiple_of(align_of::<AtomicU64>())));
}

#[test]
fn a_broadcast_in_use_allocates_nothing() {
    let (tx, mut one) = broadcast::channel(2);
    let mut two = tx.subscribe();
    let mut round = || {
        {
            let mut receiving = pin!(one.recv());
            waits(receiving.as_mut());
            tx.send(1).unwrap();
            tx.send(2).unwrap();
            assert_eq!(ends(receiving), Ok(1));
        }
        tx.send(3).unwrap();
        assert_eq!(ends(pin!(one.recv())), Ok(2));
        assert_eq!(ends(pin!(one.recv())), Ok(3));
        assert_eq!(
            two.try_recv(),
            Err(broadcast::error::TryRecvError::Lagged(1))
        );
        assert_eq!((two.try_recv(), two.try_recv()), (Ok(2), Ok(3)));
        waits(pin!(tx.closed()));
    };
    allocates_nothing(|| (0..1000).for_each(|_| round()));
}

#[test]
fn a_watch_in_use_allocates_nothing() {
    let (tx, mut rx) = watch::channel(0);
    let mut round = || {
        {
            let mut changing = pin!(rx.changed());
            waits(changing.as_mut());
            tx.send(1).unwrap();
            ends(changing).unwrap();
        }
        let mut wanting = pin!(rx.wait_for(|value| *value == 2));
        waits(wanting.as_mut());
        tx.send(2).unwrap();
        assert_eq!(*ends(wanting).unwrap(), 2);
        waits(pin!(tx.closed()));
    };
    allocates_nothing(|| (0..1000).for_each(|_| round()));
}

#[test]
fn futures_are_small() {
    let (tx, mut rx) = mpsc::channel::<u64>(1);
    let (btx, mut brx) = broadcast::channel::<u64>(1);
    let (mtx, mrx) = channel::bounded::<u64>(1);
    let (wtx, mut wrx) = watch::channel(0_u64);
    let sizes = [
        ("mpsc recv", size_of_val(&rx.recv())),
        ("mpsc send", size_of_val(&tx.send(1))),
        ("mpsc reserve", size_of_val(&tx.reserve())),
        ("mpmc recv", size_of_val(&mrx.recv())),
        ("mpmc send", size_of_val(&mtx.send(1))),
        ("broadcast recv", size_of_val(&brx.recv())),
        ("watch changed", size_of_val(&wrx.changed())),
        ("watch closed", size_of_val(&wtx.closed())),
        ("broadcast closed", size_of_val(&btx.closed())),
    ];
    for (what, size) in sizes {
        assert!(size <= 200, "{what}: {size} bytes");
    }
}
