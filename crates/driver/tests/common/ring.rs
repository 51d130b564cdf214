//! A ring whose owner is a thread that does nothing but turn it.

#![allow(dead_code)] // each test file uses its own part

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;

use blitzen_driver::Poller;
use blitzen_driver::ring::{Flavour, Memory, Op, Operation, Ring, RingConfig};

/// A ring of the given size, turned by whoever holds it; `None`, with a word
/// about it, where the system has none.
pub(crate) fn ring(entries: u32, completions: u32, flavour: Flavour) -> Option<Arc<Ring>> {
    let poller = Arc::new(Poller::new(64).unwrap());
    let config = RingConfig {
        entries,
        completions,
        flavour,
        ..RingConfig::default()
    };
    match Ring::new(&config, poller) {
        Ok(ring) => Some(Arc::new(ring)),
        Err(refusal) => {
            eprintln!("not tested: {refusal}");
            None
        }
    }
}

/// Turns `ring` until `op` has ended.
pub(crate) fn run<T: Operation>(ring: &Ring, mut op: Op<T>) -> T::Output {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    loop {
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = std::pin::Pin::new(&mut op).poll(&mut cx) {
            return output;
        }
        ring.turn(None).unwrap();
    }
}

/// Turns a ring until it is dropped.
pub(crate) struct RingOwner {
    pub(crate) ring: Arc<Ring>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RingOwner {
    pub(crate) fn start() -> Option<Self> {
        let ring = ring(64, 256, Flavour::Shared)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (ring, stop) = (ring.clone(), stop.clone());
            move || {
                while !stop.load(SeqCst) {
                    ring.turn(None).unwrap();
                }
                ring.cancel_all();
                while ring.in_flight() > 0 {
                    ring.turn(None).unwrap();
                }
            }
        });
        Some(Self {
            ring,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for RingOwner {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.ring.interrupt();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A buffer that counts how many of its kind are alive.
pub(crate) struct Counted {
    bytes: Box<[u8]>,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    /// Memory of `len` bytes to read into.
    pub(crate) fn room(len: usize, alive: &Arc<AtomicUsize>) -> Memory<Self> {
        alive.fetch_add(1, SeqCst);
        let counted = Self {
            bytes: vec![0; len].into(),
            alive: alive.clone(),
        };
        let span = |counted: &mut Self| (counted.bytes.as_mut_ptr(), counted.bytes.len());
        // SAFETY: boxed bytes stay where they are.
        unsafe { Memory::new(counted, span, |_, _| {}) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bytes.fill(0xdd); // whoever still writes here is found out
        self.alive.fetch_sub(1, SeqCst);
    }
}
