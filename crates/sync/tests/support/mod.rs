//! A future polled by hand, which counts its wakes.

#![allow(dead_code, unreachable_pub)] // each test file uses a part of it

pub mod random_program;
pub mod scripted_waker;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

pub struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

pub struct Task<F: Future> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    waker: Waker,
}

pub fn task<F: Future>(future: F) -> Task<F> {
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    Task {
        future: Box::pin(future),
        waker: wakes.clone().into(),
        wakes,
    }
}

impl<F: Future> Task<F> {
    pub fn poll(&mut self) -> Poll<F::Output> {
        self.future
            .as_mut()
            .poll(&mut Context::from_waker(&self.waker))
    }

    pub fn wakes(&self) -> usize {
        self.wakes.0.load(Relaxed)
    }

    pub fn is_woken(&self) -> bool {
        self.wakes() > 0
    }

    #[track_caller]
    pub fn assert_pending(&mut self) {
        assert!(self.poll().is_pending(), "ready, where it should wait");
    }

    #[track_caller]
    pub fn assert_ready(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("pending, where it should be ready"),
        }
    }

    pub fn pinned(&mut self) -> Pin<&mut F> {
        self.future.as_mut()
    }
}
