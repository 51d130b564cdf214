//! What `join!` and `try_join!` promise.

#![deny(warnings)]
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use blitzen::{join, try_join};
use blitzen_util::block_on::block_on;
use blitzen_util::coop;

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Pending once, then ready.
fn yield_now() -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

#[test]
fn outputs_come_in_the_order_of_the_futures() {
    block_on(async {
        assert_eq!(join!(async { 1 }), (1,));
        assert_eq!(join!(async { 1 }, async { "two" },), (1, "two"));
        assert_eq!(join!(biased; async { 1 }, async { "two" }), (1, "two"));
        let slow = async {
            yield_now().await;
            1
        };
        assert_eq!(join!(slow, ready('2'), ready(3.0)), (1, '2', 3.0));
        let all: Result<_, ()> = try_join!(async { Ok(1) }, ready(Ok("two")));
        assert_eq!(all, Ok((1, "two")));
    });
}

#[test]
fn nothing_to_wait_for_is_fine() {
    join!();
    join!(biased;);
    assert_eq!(try_join!() as Result<(), ()>, Ok(()));
    assert_eq!(try_join!(biased;) as Result<(), ()>, Ok(()));
}

#[test]
fn a_variable_may_be_called_biased() {
    block_on(async {
        let biased = ready(1);
        assert_eq!(join!(biased, ready(2)), (1, 2));
    });
}

fn poll_orders(is_biased: bool) -> Vec<u32> {
    let order = RefCell::new(Vec::new());
    let member = |name| {
        let order = &order;
        async move {
            for _ in 0..4 {
                order.borrow_mut().push(name);
                yield_now().await;
            }
        }
    };
    block_on(async {
        match is_biased {
            true => join!(biased; member(1), member(2), member(3)),
            false => join!(member(1), member(2), member(3)),
        }
    });
    order.into_inner()
}

#[test]
fn each_poll_starts_with_another_future_unless_biased() {
    assert_eq!(poll_orders(false), [1, 2, 3, 2, 3, 1, 3, 1, 2, 1, 2, 3]);
    assert_eq!(poll_orders(true), [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

#[test]
fn a_future_that_uses_up_the_budget_does_not_starve_the_others() {
    let spend = || poll_fn(|cx| coop::poll_proceed(cx).map(|spent| spent.made_progress()));
    let small_done = Cell::new(false);
    let greedy = async {
        for _ in 0..5 * 128 {
            spend().await;
        }
        assert!(small_done.get(), "the small one had its turns");
    };
    let small = async {
        for _ in 0..5 {
            spend().await;
        }
        small_done.set(true);
    };
    let mut both = pin!(async { join!(greedy, small) });
    while coop::with_budget(|| poll_once(both.as_mut())).is_pending() {}
}

#[test]
fn an_output_is_kept_until_all_are_there_and_dropped_with_the_join() {
    struct Count<'a>(&'a Cell<u32>);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let drops = Cell::new(0);
    {
        let mut joined = pin!(async { join!(ready(Count(&drops)), pending::<()>()) });
        assert!(poll_once(joined.as_mut()).is_pending());
        assert_eq!(drops.get(), 0);
    }
    assert_eq!(drops.get(), 1);
}

#[test]
fn the_first_error_ends_a_try_join() {
    block_on(async {
        let failed = try_join!(pending::<Result<u32, &str>>(), ready(Err::<u32, _>("no")));
        assert_eq!(failed, Err("no"));
        let failed = try_join!(biased; ready(Err::<u32, _>(1)), ready(Err::<u32, _>(2)));
        assert_eq!(failed, Err(1));
    });
}

#[test]
fn futures_that_never_end_or_never_fail_cause_no_warnings() {
    let never = |polled: Poll<(Infallible, u32)>| assert!(polled.is_pending());
    never(poll_once(pin!(async {
        join!(pending::<Infallible>(), async { 1 })
    })));
    block_on(async {
        let all = try_join!(async { Ok::<_, Infallible>(1) }, async { Ok(2) });
        assert_eq!(all, Ok((1, 2)));
        let failed = try_join!(async { Err::<Infallible, _>(1) }, async { Ok(2) });
        assert_eq!(failed, Err(1));
    });
}

#[test]
fn more_futures_than_a_tuple_has_traits_for() {
    block_on(async {
        let all = join!(
            ready(0),
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
            ready(13),
            ready(14),
            ready(15),
        );
        assert_eq!((all.0, all.15), (0, 15));
    });
}

#[test]
fn commas_closures_and_temporaries_in_the_expressions() {
    fn first<A, B>(a: A, _: B) -> A {
        a
    }
    block_on(async {
        let outputs = join!(
            first::<_, (u8, u8)>(ready(1), (1, 2)),
            std::convert::identity(|a, b| async move { a + b })(1, 2),
            &mut ready(3),
        );
        assert_eq!(outputs, (1, 3, 3));
    });
}

#[test]
fn pinned_values_can_be_waited_for_by_reference() {
    block_on(async {
        blitzen::pin! {
            let one = async { 1 };
            let two = async { 2 };
        }
        assert_eq!((&mut one).await, 1);
        assert_eq!(two.await, 2);
        let (three, four) = (async { 3 }, async { 4 });
        blitzen::pin!(three, four,);
        assert_eq!(join!(three, &mut four), (3, 4));
    });
}

#[test]
fn a_join_is_send_if_its_futures_are() {
    fn send<T: Send>(_: T) {}
    send(async { join!(async { 1 }, async { 2 }) });
    send(async { try_join!(async { Ok::<_, ()>(1) }, async { Ok(2) }) });
}
