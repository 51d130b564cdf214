//! What `select_owned!` promises: nothing of a loser is left when the winner's
//! handler runs.

#![deny(warnings)]
#![forbid(unsafe_code)]

use std::future::{pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use blitzen::future::Passive;
use blitzen::{select, select_owned};
use blitzen_sync::Mutex;
use blitzen_sync::channel::oneshot;
use blitzen_util::block_on::block_on;

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_borrowed_loser_in_the_queue_of_a_lock_hangs_select() {
    let lock = Mutex::new(());
    let mut hangs = std::pin::pin!(async {
        let held = lock.lock().await;
        let work = lock.lock();
        blitzen::pin!(work);
        select! {
            biased;
            _ = &mut work => {}
            _ = ready(()) => {
                drop(held); // now `work` has the lock, and nobody polls it
                let _own = lock.lock().await;
            }
        }
    });
    for _ in 0..100 {
        assert!(poll_once(hangs.as_mut()).is_pending());
    }
}

#[test]
fn an_owned_loser_leaves_the_queue_before_the_handler_runs() {
    let lock = Mutex::new(());
    block_on(async {
        let held = lock.lock().await;
        let work = lock.lock();
        select_owned! {
            biased;
            _ = work => {}
            _ = ready(()) => {
                drop(held);
                let _own = lock.lock().await;
            }
        }
    });
}

#[test]
fn it_has_the_form_of_select() {
    block_on(async {
        let which = select_owned! {
            Some(x) = ready(None::<u32>) => x,
            _ = pending::<()>(), if false => 1,
            else => 2,
        };
        assert_eq!(which, 2);
        let mut value = 1;
        select_owned! {
            biased;
            _ = async { value += 1 } => value += 1,
            _ = pending::<()>() => {}
        }
        assert_eq!(value, 3);
    });
}

#[test]
fn boxes_and_generic_futures_are_owned() {
    async fn first<F: Future<Output = u32> + Unpin>(future: F) -> u32 {
        select_owned! {
            x = future => x,
            x = Box::pin(pending()) => x,
        }
    }
    assert_eq!(block_on(first(ready(1))), 1);
}

#[test]
fn a_passive_future_may_be_borrowed_and_survives_losing() {
    struct Countdown(u32);
    impl Future for Countdown {
        type Output = &'static str;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<&'static str> {
            self.0 -= 1;
            match self.0 {
                0 => Poll::Ready("done"),
                _ => Poll::Pending,
            }
        }
    }
    impl Passive for Countdown {}

    block_on(async {
        let mut countdown = Countdown(3);
        let mut pinned = std::pin::pin!(Countdown(10));
        let mut lost = 0;
        let outcome = loop {
            select_owned! {
                biased;
                outcome = &mut countdown => break outcome,
                _ = pinned.as_mut() => unreachable!(),
                _ = ready(()) => lost += 1,
            }
        };
        assert_eq!((outcome, lost), ("done", 2));
    });
}

#[test]
fn the_receiver_of_one_value_may_be_borrowed() {
    block_on(async {
        let (sender, mut receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let answer = loop {
            select_owned! {
                biased;
                answer = &mut receiver => break answer.unwrap(),
                _ = ready(()) => sender.take().unwrap().send(42).unwrap(),
            }
        };
        assert_eq!(answer, 42);
    });
}

#[blitzen::test]
async fn the_handle_of_a_task_may_be_borrowed_and_the_task_runs_on() {
    let mut task = blitzen::spawn(async {
        for _ in 0..3 {
            blitzen::task::yield_now().await;
        }
        42
    });
    let mut lost = 0;
    let answer = loop {
        select_owned! {
            biased;
            answer = &mut task => break answer.unwrap(),
            _ = ready(()) => {
                lost += 1;
                blitzen::task::yield_now().await;
            }
        }
    };
    assert_eq!(answer, 42);
    assert!(lost > 0);
}
