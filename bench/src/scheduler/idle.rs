//! Cost of reaching someone who sleeps, or is about to.
//!
//! Nearly all of a wake is the kernel's, so each row has the bare system call as its
//! floor in the same rounds: only the ratio to it says anything about a runtime.
//! `wake_idle` would lie if the worker were still looking for work: the kernel
//! confirms that every other thread sleeps before each wake.

use std::future::poll_fn;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::task::Poll;
use std::thread;
use std::time::Instant;

use atomic_waker::AtomicWaker;

use crate::kit::{Futex, Signal, wait_until_others_sleep};
use crate::probe::{Cost, Probe, Region};
use crate::row::{
    Contender, Row,
    Target::{OverTokio, TimesFloor},
};
use crate::rt::{Rt, each_runtime, run_inside, spawn_from_outside};

pub(crate) fn rows() -> Vec<Row> {
    let with_floor = |mut contenders: Vec<Contender>, floor: fn(&mut Probe)| {
        contenders.push(Contender::floor("futex", floor));
        contenders
    };
    vec![
        Row::new(
            "wake_idle",
            "from the wake to the task's first step; all workers sleep",
            (100, 5),
            with_floor(each_runtime!(wake_idle), wake_idle_futex),
        )
        .target(TimesFloor(1.15)),
        Row::new(
            "cross_ping_pong",
            "round trip between tasks on two workers that nothing else uses",
            (1_000, 20),
            with_floor(each_runtime!(cross_ping_pong), cross_ping_pong_futex),
        )
        .target(TimesFloor(1.1)),
        Row::new(
            "block_on_trip",
            "block_on asks a spinning thread, which wakes it",
            (50_000, 500),
            each_runtime!(block_on_trip),
        )
        .target(OverTokio(1.0)),
    ]
}

/// The last wake, told by the one that was woken.
struct Arrival {
    epoch: Instant,
    at_ns: AtomicU64,
}

const NOT_YET: u64 = u64::MAX;

impl Arrival {
    fn new() -> Arrival {
        Arrival {
            epoch: Instant::now(),
            at_ns: AtomicU64::new(NOT_YET),
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn arrived(&self) {
        self.at_ns.store(self.now_ns(), Relaxed);
    }

    /// Wakes, and spins until the other side has run.
    fn latency(&self, wake: impl FnOnce()) -> f64 {
        self.at_ns.store(NOT_YET, Relaxed);
        let woken_ns = self.now_ns();
        wake();
        loop {
            let at_ns = self.at_ns.load(Relaxed);
            if at_ns != NOT_YET {
                return at_ns.saturating_sub(woken_ns) as f64;
            }
            spin_loop();
        }
    }
}

fn wake_idle<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.collect(|n| {
        let shared = Arc::new((Signal::default(), Arrival::new()));
        let sleeper = spawn_from_outside(&rt, {
            let shared = shared.clone();
            async move {
                let (signal, arrival) = &*shared;
                for _ in 0..n {
                    signal.wait().await;
                    arrival.arrived();
                }
            }
        });
        let (signal, arrival) = &*shared;
        let mut points = Vec::with_capacity(n as usize);
        for _ in 0..n {
            wait_until_others_sleep();
            points.push(arrival.latency(|| signal.fire()));
        }
        rt.block_on(sleeper);
        (Cost::of_count(points.len() as u64), points)
    });
}

pub(super) fn wake_idle_futex(probe: &mut Probe) {
    probe.collect(|n| {
        let shared = Arc::new((Futex::default(), Arrival::new()));
        let sleeper = thread::spawn({
            let shared = shared.clone();
            move || {
                let (futex, arrival) = &*shared;
                for _ in 0..n {
                    futex.wait();
                    arrival.arrived();
                }
            }
        });
        let (futex, arrival) = &*shared;
        let mut points = Vec::with_capacity(n as usize);
        for _ in 0..n {
            wait_until_others_sleep();
            points.push(arrival.latency(|| futex.wake()));
        }
        sleeper.join().expect("the sleeper does not panic");
        (Cost::of_count(points.len() as u64), points)
    });
}

/// Two runtimes with a worker each: the only way to be sure that two tasks are on
/// different workers at every trip, for every contender.
fn cross_ping_pong<R: Rt>(probe: &mut Probe) {
    let (here, there) = (R::start(1), R::start(1));
    probe.time(|n| {
        let (ping, pong) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let other = spawn_from_outside(&there, {
            let (ping, pong) = (ping.clone(), pong.clone());
            async move {
                for _ in 0..n {
                    ping.wait().await;
                    pong.fire();
                }
            }
        });
        let cost = run_inside(&here, async move {
            let region = Region::begin();
            let mut trips = 0;
            for _ in 0..n {
                ping.fire();
                pong.wait().await;
                trips += 1;
            }
            region.end(trips)
        });
        there.block_on(other);
        cost
    });
}

fn cross_ping_pong_futex(probe: &mut Probe) {
    probe.time(|n| {
        let (ping, pong) = (Arc::new(Futex::default()), Arc::new(Futex::default()));
        let other = thread::spawn({
            let (ping, pong) = (ping.clone(), pong.clone());
            move || {
                for _ in 0..n {
                    ping.wait();
                    pong.wake();
                }
            }
        });
        let region = Region::begin();
        let mut trips = 0;
        for _ in 0..n {
            ping.wake();
            pong.wait();
            trips += 1;
        }
        let cost = region.end(trips);
        other.join().expect("the other thread does not panic");
        cost
    });
}

/// The question a future under `block_on` puts to a spinning thread.
#[derive(Default)]
struct Counter {
    asked: AtomicU64,
    answered: AtomicU64,
    is_closed: AtomicBool,
    waker: AtomicWaker,
}

impl Counter {
    /// Answers each question as soon as it is put.
    fn serve(&self) {
        let mut seen = 0;
        while !self.is_closed.load(Relaxed) {
            // Acquire, met by the Release in `ask`: the waker is registered.
            let asked = self.asked.load(Acquire);
            if asked != seen {
                seen = asked;
                // Release, met by the Acquire in `ask`.
                self.answered.store(asked, Release);
                self.waker.wake();
            }
            spin_loop();
        }
    }

    async fn ask(&self, question: u64) {
        let mut is_asked = false;
        poll_fn(|cx| {
            if is_asked && self.answered.load(Acquire) == question {
                return Poll::Ready(());
            }
            self.waker.register(cx.waker());
            if !is_asked {
                is_asked = true;
                self.asked.store(question, Release);
                return Poll::Pending;
            }
            match self.answered.load(Acquire) == question {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await
    }
}

fn block_on_trip<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        let counter = Arc::new(Counter::default());
        let server = thread::spawn({
            let counter = counter.clone();
            move || counter.serve()
        });
        let cost = rt.block_on(async {
            let region = Region::begin();
            let mut trips = 0;
            for question in 1..=n {
                counter.ask(question).await;
                trips += 1;
            }
            region.end(trips)
        });
        counter.is_closed.store(true, Relaxed);
        server.join().expect("the server does not panic");
        cost
    });
}
