//! Futures dropped at every point at which they can wait, and those who wait
//! behind them.

#![cfg(not(blitzen_loom))]

mod support;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use blitzen_sync::channel::{self, broadcast, mpsc, oneshot, watch};
use blitzen_util::{coop, entered};
use support::task;

#[test]
fn senders_are_served_in_the_order_in_which_they_came() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(0).unwrap();
    let mut sends: Vec<_> = (1..=3).map(|value| task(tx.send(value))).collect();
    sends.iter_mut().for_each(|send| send.assert_pending());
    for (value, send) in sends.iter_mut().enumerate() {
        assert_eq!(rx.try_recv(), Ok(value));
        assert!(tx.try_send(9).is_err(), "nobody overtakes");
        assert!(send.is_woken());
        send.assert_ready().unwrap();
    }
    assert_eq!(rx.try_recv(), Ok(3));
}

#[test]
fn room_given_to_a_send_that_is_dropped_goes_to_the_next() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(1).unwrap();
    let mut first = task(tx.send(2));
    let mut second = task(tx.send(3));
    first.assert_pending();
    second.assert_pending();
    rx.try_recv().unwrap();
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert!(second.is_woken());
    second.assert_ready().unwrap();
    assert_eq!(rx.try_recv(), Ok(3));
}

#[test]
fn a_send_dropped_in_the_middle_of_the_queue_is_skipped() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(1).unwrap();
    let mut sends: Vec<_> = (2..=4).map(|value| task(tx.send(value))).collect();
    sends.iter_mut().for_each(|send| send.assert_pending());
    drop(sends.remove(1));
    rx.try_recv().unwrap();
    sends[0].assert_ready().unwrap();
    rx.try_recv().unwrap();
    sends[1].assert_ready().unwrap();
    assert_eq!(rx.try_recv(), Ok(4));
}

#[test]
fn a_receive_given_up_leaves_the_message() {
    let (tx, mut rx) = mpsc::channel(1);
    {
        let mut receive = task(rx.recv());
        receive.assert_pending();
        tx.try_send(1).unwrap();
        assert!(receive.is_woken());
    }
    assert_eq!(rx.try_recv(), Ok(1));
}

#[test]
fn a_turn_given_to_a_receive_that_is_dropped_goes_to_the_next() {
    for (tx, rx) in [channel::bounded(2), channel::unbounded()] {
        let mut first = task(rx.recv());
        let mut second = task(rx.recv());
        first.assert_pending();
        second.assert_pending();
        tx.try_send(1).unwrap();
        assert!(first.is_woken() && !second.is_woken());
        drop(first);
        assert!(second.is_woken());
        assert_eq!(second.assert_ready(), Some(1));
    }
}

#[test]
fn a_turn_given_to_a_send_that_is_dropped_goes_to_the_next() {
    let (tx, rx) = channel::bounded(1);
    tx.try_send(1).unwrap();
    let mut first = task(tx.send(2));
    let mut second = task(tx.send(3));
    first.assert_pending();
    second.assert_pending();
    assert_eq!(rx.try_recv(), Ok(1));
    assert!(first.is_woken() && !second.is_woken());
    drop(first);
    assert!(second.is_woken());
    second.assert_ready().unwrap();
    assert_eq!(rx.try_recv(), Ok(3));
}

#[test]
fn a_closed_channel_for_many_gives_values_back_and_wakes_everybody() {
    let (tx, rx) = channel::bounded(1);
    tx.try_send(1).unwrap();
    let mut send = task(tx.send(2));
    send.assert_pending();
    assert!(tx.close() && !rx.close());
    assert_eq!(send.assert_ready().unwrap_err().0, 2);
    assert_eq!(rx.try_recv(), Ok(1));
    assert_eq!(task(rx.recv()).assert_ready(), None);

    let (tx, rx) = channel::unbounded::<u32>();
    let mut receive = task(rx.recv());
    receive.assert_pending();
    drop(tx);
    assert!(receive.is_woken());
    assert_eq!(receive.assert_ready(), None);
}

#[test]
fn the_last_receiver_takes_the_values_with_it() {
    for (tx, rx) in [channel::bounded(2), channel::unbounded()] {
        let value = Arc::new(());
        tx.try_send(value.clone()).unwrap();
        let weak = rx.downgrade();
        drop(rx);
        assert_eq!(Arc::strong_count(&value), 1);
        assert!(weak.upgrade().is_none());
        assert!(tx.try_send(value).is_err());
    }
}

#[test]
fn messages_sent_with_a_permit_that_outlives_the_receiver_are_dropped() {
    let value = Arc::new(());
    let (tx, rx) = mpsc::channel(1);
    let permit = tx.try_reserve().unwrap();
    drop(rx);
    permit.send(value.clone());
    drop(tx);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_receive_of_a_broadcast_given_up_leaves_the_value() {
    let (tx, mut one) = broadcast::channel(2);
    let mut two = tx.subscribe();
    {
        let mut receive = task(one.recv());
        receive.assert_pending();
        tx.send(1).unwrap();
        assert!(receive.is_woken());
    }
    assert_eq!(one.try_recv(), Ok(1));
    let mut receive = task(two.recv());
    assert_eq!(receive.assert_ready(), Ok(1));
}

#[test]
fn a_wait_for_a_change_given_up_leaves_the_change() {
    let (tx, mut rx) = watch::channel(1);
    {
        let mut changed = task(rx.changed());
        changed.assert_pending();
        tx.send(2).unwrap();
        assert!(changed.is_woken());
    }
    assert!(rx.has_changed().unwrap());
}

#[test]
fn many_waiters_are_all_woken_by_one_send() {
    let (tx, rx) = broadcast::channel(2);
    let mut receivers: Vec<_> = (0..100).map(|_| tx.subscribe()).collect();
    let mut waiting: Vec<_> = receivers.iter_mut().map(|rx| task(rx.recv())).collect();
    waiting
        .iter_mut()
        .for_each(|receive| receive.assert_pending());
    tx.send(1).unwrap();
    for receive in &mut waiting {
        assert_eq!(receive.wakes(), 1);
        assert_eq!(receive.assert_ready(), Ok(1));
    }
    drop((waiting, rx));

    let (tx, rx) = watch::channel(1);
    let mut receivers = vec![rx; 100];
    let mut waiting: Vec<_> = receivers.iter_mut().map(|rx| task(rx.changed())).collect();
    waiting
        .iter_mut()
        .for_each(|changed| changed.assert_pending());
    tx.send(2).unwrap();
    for changed in &mut waiting {
        assert_eq!(changed.wakes(), 1);
        changed.assert_ready().unwrap();
    }
}

#[test]
fn a_waker_that_panics_keeps_no_other_waiter_from_being_woken() {
    struct Bomb;

    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics");
        }
    }

    let (tx, rx) = broadcast::channel(2);
    let mut receivers: Vec<_> = (0..40).map(|_| tx.subscribe()).collect();
    let (first, rest) = receivers.split_at_mut(1);
    let bomb = Waker::from(Arc::new(Bomb));
    let mut bombed = Box::pin(first[0].recv());
    assert!(
        bombed
            .as_mut()
            .poll(&mut Context::from_waker(&bomb))
            .is_pending()
    );
    let mut waiting: Vec<_> = rest.iter_mut().map(|rx| task(rx.recv())).collect();
    waiting
        .iter_mut()
        .for_each(|receive| receive.assert_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| tx.send(1))).is_err());
    assert!(waiting.iter().all(|receive| receive.is_woken()));
    assert!(
        bombed
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
    drop(rx);
}

/// How often an operation goes on within one poll of a task.
fn within_budget<F: Future>(mut operation: impl FnMut() -> F) -> usize {
    coop::with_budget(|| {
        let mut count = 0;
        while count < 1000 && task(operation()).poll().is_ready() {
            count += 1;
        }
        count
    })
}

#[test]
fn every_operation_spends_the_budget() {
    let (tx, mut rx) = mpsc::channel(1000);
    assert_eq!(within_budget(|| tx.send(1)), 128);
    assert_eq!(within_budget(|| tx.reserve()), 128);
    let received = coop::with_budget(|| {
        (0..200)
            .filter(|_| task(rx.recv()).poll().is_ready())
            .count()
    });
    assert_eq!((received, rx.len()), (128, 0));
    rx.close();
    assert_eq!(within_budget(|| tx.closed()), 128);

    let (tx, rx) = channel::bounded(1000);
    assert_eq!(within_budget(|| tx.send(1)), 128);
    assert_eq!(within_budget(|| rx.recv()), 128);
    rx.close();
    while rx.try_recv().is_ok() {}
    assert_eq!(within_budget(|| rx.recv()), 128, "the end, again and again");

    let (tx, mut rx) = broadcast::channel(256);
    (0..200).for_each(|value| drop(tx.send(value)));
    assert_eq!(
        coop::with_budget(|| (0..200)
            .filter(|_| task(rx.recv()).poll().is_ready())
            .count()),
        128
    );

    let (tx, mut rx) = watch::channel(0);
    let changes = coop::with_budget(|| {
        (0..200)
            .filter(|_| {
                tx.send(0).unwrap();
                task(rx.changed()).poll().is_ready()
            })
            .count()
    });
    assert_eq!(changes, 128);

    let receivers: Vec<_> = (0..200)
        .map(|value| {
            let (tx, rx) = oneshot::channel();
            tx.send(value).unwrap();
            rx
        })
        .collect();
    let mut receivers = receivers.into_iter();
    assert_eq!(within_budget(|| receivers.next().unwrap()), 128);
}

#[test]
fn a_task_out_of_budget_loses_nothing() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(1).unwrap();
    coop::with_budget(|| {
        while coop::try_spend() {}
        let mut receive = task(rx.recv());
        receive.assert_pending();
        assert!(receive.is_woken(), "told to come back");
    });
    assert_eq!(rx.try_recv(), Ok(1));
}

#[test]
fn blocking_where_tasks_are_driven_is_refused_at_the_callers_line() {
    let (tx, mut rx) = mpsc::channel::<u32>(1);
    let (utx, mut urx) = mpsc::unbounded_channel::<u32>();
    let (mtx, mrx) = channel::bounded::<u32>(1);
    let (_btx, mut brx) = broadcast::channel::<u32>(1);
    let (_otx, orx) = oneshot::channel::<u32>();
    let mut buffer = Vec::new();
    let mut orx = Some(orx);
    let mut calls: Vec<Box<dyn FnMut()>> = vec![
        Box::new(|| _ = tx.blocking_send(1)),
        Box::new(|| _ = rx.blocking_recv()),
        Box::new(|| _ = urx.blocking_recv_many(&mut buffer, 1)),
        Box::new(|| _ = mtx.blocking_send(1)),
        Box::new(|| _ = mrx.blocking_recv()),
        Box::new(|| _ = brx.blocking_recv()),
        Box::new(|| _ = orx.take().unwrap().blocking_recv()),
        Box::new(|| _ = mpsc::channel::<u32>(0)),
        Box::new(|| _ = broadcast::channel::<u32>(0)),
        Box::new(|| _ = channel::bounded::<u32>(0)),
    ];
    let _driving = entered::enter().unwrap();
    let places = Arc::new(std::sync::Mutex::new(Vec::new()));
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new({
        let (places, here) = (places.clone(), std::thread::current().id());
        move |panic| {
            // Other tests panic on purpose too.
            if std::thread::current().id() == here {
                let file = panic.location().unwrap().file().to_owned();
                places.lock().unwrap().push(file);
            }
        }
    }));
    let panics = calls
        .iter_mut()
        .filter_map(|call| catch_unwind(AssertUnwindSafe(call)).err())
        .count();
    std::panic::set_hook(before);
    assert_eq!(panics, calls.len());
    assert!(
        places.lock().unwrap().iter().all(|file| file == file!()),
        "{places:?}"
    );
    drop(calls);
    drop(utx);
}

#[test]
fn polling_a_oneshot_after_its_answer_panics() {
    let (tx, mut rx) = oneshot::channel();
    tx.send(1).unwrap();
    assert_eq!(task(&mut rx).poll(), Poll::Ready(Ok(1)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(task(&mut rx).poll()))).is_err());
}
