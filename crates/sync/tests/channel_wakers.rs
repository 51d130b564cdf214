//! Wakers run foreign code: in a channel, too, one that panics when it is woken or
//! dropped costs nobody else a wake, a value or capacity.

#![cfg(not(blitzen_loom))]

mod support;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use blitzen_sync::channel::{self, mpsc, oneshot};
use support::scripted_waker::Script;
use support::task;

fn panics(act: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(act)).is_err()
}

fn panics_when_woken() -> Script {
    Script {
        on_wake: Box::new(|| panic!("a waker that panics")),
        ..Script::default()
    }
}

fn panics_when_dropped() -> Script {
    Script {
        on_drop: Box::new(|| panic!("a waker that panics")),
        ..Script::default()
    }
}

#[test]
fn a_sender_whose_waker_panics_does_not_hide_the_close_of_mpsc() {
    let (tx, mut rx) = mpsc::channel(1);
    tx.try_send(1).unwrap();
    let waker = panics_when_woken().waker();
    let mut send = pin!(tx.send(2));
    let cx = &mut Context::from_waker(&waker);
    assert!(send.as_mut().poll(cx).is_pending());
    let mut closed = task(tx.closed());
    closed.assert_pending();
    assert!(panics(|| rx.close()));
    assert!(closed.is_woken());
    closed.assert_ready();
}

#[test]
fn a_sender_whose_waker_panics_does_not_hide_the_close_from_receivers() {
    let (tx, rx) = channel::bounded(1);
    let mut first = task(rx.recv());
    let mut second = task(rx.recv());
    first.assert_pending();
    second.assert_pending();
    tx.try_send(1).unwrap(); // wakes the first
    let waker = panics_when_woken().waker();
    let mut send = pin!(tx.send(2));
    let cx = &mut Context::from_waker(&waker);
    assert!(send.as_mut().poll(cx).is_pending());
    assert!(panics(|| assert!(tx.close())));
    assert!(second.is_woken());
    assert_eq!(first.assert_ready(), Some(1));
    assert_eq!(second.assert_ready(), None);
}

#[test]
fn a_receiver_of_mpsc_drops_its_waker_though_a_sender_panics() {
    let (tx, mut rx) = mpsc::channel::<u32>(1);
    let count = Arc::new(());
    let held = count.clone();
    let waker = Script {
        on_wake: Box::new(move || drop(held.clone())),
        ..Script::default()
    }
    .waker();
    assert!(
        rx.poll_recv(&mut Context::from_waker(&waker)).is_pending(),
        "nothing was sent"
    );
    drop(waker);
    let permit = tx.try_reserve().unwrap();
    let waker = panics_when_woken().waker();
    let mut reserve = pin!(tx.reserve());
    let cx = &mut Context::from_waker(&waker);
    assert!(reserve.as_mut().poll(cx).is_pending());
    assert!(panics(|| drop(rx)));
    assert_eq!(Arc::strong_count(&count), 1);
    drop(permit);
}

#[test]
fn capacity_acquired_while_the_waker_is_cloned_survives_its_drop() {
    let (tx, _rx) = mpsc::channel::<u32>(1);
    let tx = Arc::new(tx);
    let permit = Arc::new(std::sync::Mutex::new(Some(
        (*tx).clone().try_reserve_owned().unwrap(),
    )));
    let waker = Script {
        on_clone: Box::new(move || drop(permit.lock().unwrap().take())),
        ..panics_when_dropped()
    }
    .waker();
    assert!(panics(|| {
        let _ = pin!(tx.reserve()).poll(&mut Context::from_waker(&waker));
    }));
    std::mem::forget(waker);
    assert_eq!(tx.capacity(), 1);
}

#[test]
fn a_oneshot_wakes_its_receiver_though_the_senders_own_waker_panics() {
    let (mut tx, mut rx) = oneshot::channel();
    let waker = panics_when_dropped().waker();
    let cx = &mut Context::from_waker(&waker);
    assert!(tx.poll_closed(cx).is_pending());
    std::mem::forget(waker);
    let mut receive = task(&mut rx);
    receive.assert_pending();
    assert!(panics(|| assert!(tx.send(5).is_ok())));
    assert!(receive.is_woken());
    assert_eq!(receive.assert_ready(), Ok(5));
}

#[test]
fn a_waker_may_send_into_the_channel_while_it_is_cloned_or_dropped() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    let waker = Script {
        on_clone: Box::new({
            let tx = tx.clone();
            move || tx.send("cloned").unwrap()
        }),
        on_drop: Box::new({
            let tx = tx.clone();
            move || tx.send("dropped").unwrap()
        }),
        ..Script::default()
    }
    .waker();
    let polled = rx.poll_recv(&mut Context::from_waker(&waker));
    assert_eq!(polled, Poll::Ready(Some("cloned")));
    // The waker stays stored; another one replaces it.
    let polled = rx.poll_recv(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Some("dropped")));
    drop(waker);
    assert_eq!(rx.try_recv(), Ok("dropped"));
}

/// A receive that is woken while it takes a value passes the wake on, to a waker that panics.
#[test]
fn a_value_is_dropped_if_a_waker_panics_while_it_is_received() {
    let (tx, rx) = channel::bounded(1);
    let mut first = task(rx.recv());
    let mut second = pin!(rx.recv());
    let mut third = pin!(rx.recv());
    let noop = &mut Context::from_waker(Waker::noop());
    first.assert_pending();
    assert!(second.as_mut().poll(noop).is_pending());
    let waker = panics_when_woken().waker();
    let cx = &mut Context::from_waker(&waker);
    assert!(third.as_mut().poll(cx).is_pending());

    let value = Arc::new(());
    tx.try_send(value.clone()).unwrap(); // wakes the first
    let sender = tx.clone();
    let waker = Script {
        on_wake: Box::new(move || sender.try_send(Arc::new(())).unwrap()), // wakes the second
        ..Script::default()
    }
    .waker();
    let mut send = pin!(tx.send(Arc::new(())));
    let cx = &mut Context::from_waker(&waker);
    assert!(send.as_mut().poll(cx).is_pending());

    assert!(panics(|| drop(second.as_mut().poll(noop))));
    assert_eq!(Arc::strong_count(&value), 1);
}
