//! What the functions of `future` promise.

#![deny(warnings)]
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::future::{Ready, poll_fn};
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use blitzen::future::{
    Either, either, join, join_all, pending, race, ready, select_all, select_ok, try_join,
    try_join_all,
};
use blitzen_util::block_on::block_on;
use blitzen_util::coop;

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A future that another hand completes.
#[derive(Clone, Default)]
struct Promise {
    state: Rc<RefCell<(Option<u32>, Option<Waker>)>>,
    polls: Rc<Cell<u32>>,
}

impl Promise {
    fn keep(&self, value: u32) {
        let waker = {
            let mut state = self.state.borrow_mut();
            state.0 = Some(value);
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Promise {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        self.polls.set(self.polls.get() + 1);
        let mut state = self.state.borrow_mut();
        match state.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn promises(count: usize) -> Vec<Promise> {
    (0..count).map(|_| Promise::default()).collect()
}

#[derive(Default)]
struct CountWakes(AtomicU32);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

type Fallible = Pin<Box<dyn Future<Output = Result<u32, &'static str>>>>;

/// Few enough to be polled all, and too many for that.
const SIZES: [usize; 4] = [1, 3, 64, 1000];

#[test]
fn join_all_keeps_the_order_whatever_ends_first() {
    for size in SIZES {
        let promises = promises(size);
        let mut joined = pin!(join_all(promises.clone()));
        assert!(poll_once(joined.as_mut()).is_pending());
        for (index, promise) in promises.iter().enumerate().rev() {
            promise.keep(index as u32);
            assert_eq!(poll_once(joined.as_mut()).is_ready(), index == 0);
            if index == 0 {
                break;
            }
        }
    }
    let numbers = join_all((0..1000).map(ready));
    assert_eq!(block_on(numbers), (0..1000).collect::<Vec<_>>());
    assert_eq!(block_on(join_all(Vec::<Ready<u32>>::new())), []);
}

#[test]
fn of_a_large_collection_only_the_woken_are_polled() {
    let promises = promises(1000);
    let wakes = Arc::new(CountWakes::default());
    let waker = wakes.clone().into();
    let mut cx = Context::from_waker(&waker);
    let mut joined = pin!(join_all(promises.clone()));
    assert!(joined.as_mut().poll(&mut cx).is_pending());
    let polls = || {
        promises
            .iter()
            .map(|promise| promise.polls.get())
            .sum::<u32>()
    };
    assert_eq!(polls(), 1000);
    for round in 0..999u32 {
        promises[round as usize].keep(round);
        assert_eq!(wakes.0.load(Relaxed), round + 1);
        assert!(joined.as_mut().poll(&mut cx).is_pending());
        assert_eq!(polls(), 1001 + round);
    }
    promises[999].keep(999);
    let Poll::Ready(outputs) = joined.as_mut().poll(&mut cx) else {
        panic!("all are done");
    };
    assert_eq!(outputs, (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_large_collection_ends_with_wakes_from_many_threads() {
    let (senders, futures): (Vec<_>, Vec<_>) = (0..500)
        .map(|_| {
            let slot = Arc::new(std::sync::Mutex::new((false, None::<Waker>)));
            let future = poll_fn({
                let slot = slot.clone();
                move |cx| {
                    let mut slot = slot.lock().unwrap();
                    if slot.0 {
                        return Poll::Ready(1);
                    }
                    slot.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            });
            (slot, future)
        })
        .unzip();
    let threads: Vec<_> = senders
        .chunks(125)
        .map(|chunk| {
            let chunk = chunk.to_vec();
            std::thread::spawn(move || {
                for slot in chunk {
                    let waker = {
                        let mut slot = slot.lock().unwrap();
                        slot.0 = true;
                        slot.1.take()
                    };
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
            })
        })
        .collect();
    assert_eq!(block_on(join_all(futures)).len(), 500);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn greedy_members_do_not_starve_the_others() {
    // Four members want more budget than there is, for ever.
    for size in [8, 100] {
        let polled = Rc::new(RefCell::new(vec![0u32; size]));
        let members = (0..size).map(|index| {
            let polled = polled.clone();
            async move {
                loop {
                    polled.borrow_mut()[index] += 1;
                    for _ in 0..(if index < 4 { 200 } else { 1 }) {
                        poll_fn(|cx| coop::poll_proceed(cx).map(|spent| spent.made_progress()))
                            .await;
                    }
                    if index >= 4 {
                        break;
                    }
                }
            }
        });
        let mut joined = pin!(join_all(members));
        for _ in 0..2 * size {
            assert!(coop::with_budget(|| poll_once(joined.as_mut())).is_pending());
        }
        assert!(!polled.borrow().contains(&0), "{:?}", polled.borrow());
    }
}

#[test]
fn the_first_error_drops_the_rest_at_once() {
    for size in SIZES {
        let witness = Rc::new(());
        let mut futures: Vec<Fallible> = (1..size)
            .map(|_| {
                let witness = witness.clone();
                Box::pin(async move {
                    let _witness = witness;
                    pending().await
                }) as _
            })
            .collect();
        futures.push(Box::pin(ready(Err("no"))));
        let mut joined = pin!(try_join_all(futures));
        assert_eq!(poll_once(joined.as_mut()), Poll::Ready(Err("no")));
        assert_eq!(
            Rc::strong_count(&witness),
            1,
            "although the join is still here"
        );
    }
    let all = try_join_all((0..100).map(|n| ready(Ok::<_, ()>(n))));
    assert_eq!(block_on(all), Ok((0..100).collect()));
}

#[test]
fn tuples_and_arrays_join() {
    block_on(async {
        assert_eq!(join((ready(1),)).await, (1,));
        assert_eq!(
            join((ready(1), async { "two" }, ready('3'))).await,
            (1, "two", '3')
        );
        assert_eq!(join([1, 2, 3].map(ready)).await, [1, 2, 3]);
        assert_eq!(join([0u8; 100].map(ready)).await, [0; 100]);
        let none: [Ready<u32>; 0] = [];
        assert_eq!(join(none).await, []);
        let both = try_join((ready(Ok::<_, ()>(1)), async { Ok("two") })).await;
        assert_eq!(both, Ok((1, "two")));
        let failed = try_join((pending::<Result<u8, u32>>(), ready(Err::<u8, _>(1)))).await;
        assert_eq!(failed, Err(1));
        let twelve = join((
            ready(1),
            ready(2),
            ready(3),
            ready(4),
            ready(5),
            ready(6),
            ready(7),
            ready(8),
            ready(9),
            ready(10),
            ready(11),
            ready(12),
        ));
        assert_eq!(twelve.await.11, 12);
    });
}

#[test]
fn the_losers_of_a_race_are_gone_when_it_ends() {
    let witness = Rc::new(());
    let loser = || {
        let witness = witness.clone();
        async move {
            let _witness = witness;
            pending().await
        }
    };
    let mut tuple = pin!(race((loser(), ready(1), loser())));
    assert_eq!(poll_once(tuple.as_mut()), Poll::Ready(1));
    let mut two = pin!(either(loser(), ready("right")));
    let two = poll_once(two.as_mut());
    assert_eq!(two, Poll::Ready(Either::<u32, _>::Right("right")));
    let boxed = |last: bool| -> Pin<Box<dyn Future<Output = u32>>> {
        match last {
            true => Box::pin(ready(1)),
            false => Box::pin(loser()),
        }
    };
    let mut many = pin!(race((0..100).map(|n| boxed(n == 99)).collect::<Vec<_>>()));
    assert_eq!(poll_once(many.as_mut()), Poll::Ready(1));
    let mut array = pin!(race([boxed(false), boxed(true)]));
    assert_eq!(poll_once(array.as_mut()), Poll::Ready(1));
    assert_eq!(Rc::strong_count(&witness), 1);
}

#[test]
fn a_race_is_fair_unless_biased() {
    let mut wins = [0; 3];
    for _ in 0..3000 {
        wins[block_on(race([0, 1, 2].map(ready)))] += 1;
        assert_eq!(block_on(race((ready(1), ready(2))).biased()), 1);
        assert_eq!(
            block_on(either(ready(1), ready(2)).biased()),
            Either::Left(1)
        );
    }
    assert!(wins.iter().all(|&n| n > 850), "{wins:?}");
}

#[test]
fn select_all_hands_back_the_others_in_order() {
    for size in [3, 100] {
        let promises = promises(size);
        let mut selected = pin!(select_all(promises.clone()));
        assert!(poll_once(selected.as_mut()).is_pending());
        promises[1].keep(7);
        let Poll::Ready((output, index, others)) = poll_once(selected.as_mut()) else {
            panic!("one is ready");
        };
        assert_eq!((output, index, others.len()), (7, 1, size - 1));
        assert!(Rc::ptr_eq(&others[0].state, &promises[0].state));
        assert!(Rc::ptr_eq(&others[1].state, &promises[2].state));
        // The others go on.
        let mut selected = pin!(select_all(others));
        assert!(poll_once(selected.as_mut()).is_pending());
        promises[size - 1].keep(8);
        let Poll::Ready((output, index, _)) = poll_once(selected.as_mut()) else {
            panic!("one is ready");
        };
        assert_eq!((output, index), (8, size - 2));
    }
}

#[test]
fn select_ok_skips_errors_and_ends_with_the_last() {
    for size in [2, 100] {
        let fail = |index: usize| match index {
            0 => ready(Ok("yes")),
            _ => ready(Err(index)),
        };
        let (output, others) = block_on(select_ok((0..size).map(fail))).unwrap();
        assert_eq!(output, "yes");
        assert!(others.len() < size);
        let failed = block_on(select_ok((0..size).map(|_| ready(Err::<(), _>("no")))));
        assert_eq!(failed.unwrap_err(), "no");
    }
}

#[test]
fn nothing_to_choose_from_is_a_panic() {
    assert!(catch_unwind(|| race(Vec::<Ready<()>>::new())).is_err());
    assert!(catch_unwind(|| select_all(Vec::<Ready<()>>::new())).is_err());
    assert!(catch_unwind(|| select_ok(Vec::<Ready<Result<(), ()>>>::new())).is_err());
}

#[test]
fn groups_are_send_if_their_futures_are() {
    fn send<T: Send>(_: T) {}
    send(join((async { 1 }, async { 2 })));
    send(try_join((async { Ok::<_, ()>(1) }, async { Ok(2) })));
    send(join_all(vec![async { 1 }]));
    send(race(vec![async { 1 }]));
    send(select_all(vec![Box::pin(async { 1 })]));
    send(either(async { 1 }, async { 2 }));
}
