//! Cost of making many parked tasks run, each woken once and then ending.
//!
//! It would lie if a task were not parked yet (all have returned `Pending` and left
//! their waker before the clock starts), or if the tasks' own bookkeeping were
//! shared between the cores (see [`Countdown`] and [`Striped`]).
//!
//! The floor is two bare threads with as many blocks of memory: one marks each block and hands its
//! address over, the other marks it again and frees it. That is the least that waking a task on
//! another core takes.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::kit::{Block, Countdown, Signal, Striped, wait_until_others_sleep};
use crate::probe::{Cost, Probe, Region};
use crate::row::{Row, Target::OverTokio};
use crate::rt::{Rt, each_runtime, run_inside};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "wake_outside",
            "wake parked tasks from outside, until all have ended",
            (100_000, 2_000),
            each_runtime!(wake_outside),
        )
        .floor("threads", hand_over)
        .target(OverTokio(2.5)),
        Row::new(
            "wake_inside",
            "wake parked tasks from a task, until all have ended",
            (100_000, 2_000),
            each_runtime!(wake_inside),
        )
        .counted(2_000)
        .floor("threads", hand_over)
        .target(OverTokio(2.5)),
    ]
}

struct ParkedTasks {
    signals: Box<[Signal]>,
    parked: Countdown,
    ended: Countdown,
}

impl ParkedTasks {
    fn spawn<R: Rt>(n: u64) -> Arc<ParkedTasks> {
        let parked_tasks = Arc::new(ParkedTasks {
            signals: (0..n).map(|_| Signal::default()).collect(),
            parked: Countdown::new(n),
            ended: Countdown::new(n),
        });
        let shared = Striped::new(&parked_tasks, n);
        for member in 0..n {
            let parked_tasks = shared.of(member);
            R::detach(R::spawn(async move {
                parked_tasks.park(member).await;
                parked_tasks.ended.done(member);
            }));
        }
        parked_tasks
    }

    /// Waits for the member's signal, and says so once it has left its waker.
    async fn park(&self, member: u64) {
        let mut signal = pin!(self.signals[member as usize].wait());
        let mut is_first = true;
        poll_fn(|cx| {
            let poll = signal.as_mut().poll(cx);
            if mem::take(&mut is_first) {
                assert!(poll.is_pending(), "nobody has fired yet");
                self.parked.done(member);
            }
            poll
        })
        .await
    }

    async fn wake_all(&self) -> Cost {
        let region = Region::begin();
        let mut woken = 0;
        for signal in &self.signals {
            signal.fire();
            woken += 1;
        }
        self.ended.wait().await;
        region.end(woken)
    }
}

fn wake_outside<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        rt.block_on(async move {
            let parked_tasks = ParkedTasks::spawn::<R>(n);
            parked_tasks.parked.wait().await;
            wait_until_others_sleep();
            parked_tasks.wake_all().await
        })
    });
}

fn wake_inside<R: Rt>(probe: &mut Probe) {
    let rt = R::start(probe.workers());
    probe.time(|n| {
        run_inside(&rt, async move {
            let parked_tasks = ParkedTasks::spawn::<R>(n);
            parked_tasks.parked.wait().await;
            parked_tasks.wake_all().await
        })
    });
}

fn hand_over(probe: &mut Probe) {
    probe.time(|n| {
        let blocks: Vec<Box<Block>> = thread::spawn(move || (0..n).map(|_| Block::new()).collect())
            .join()
            .expect("it only allocates");
        let queue = Mutex::new(Vec::new());
        thread::scope(|threads| {
            let region = Region::begin();
            let taker = threads.spawn(|| {
                let mut ended = 0;
                while ended < n {
                    let taken: Vec<Box<Block>> = mem::take(&mut *queue.lock().expect("no panic"));
                    ended += taken.len() as u64;
                    for block in taken {
                        assert_eq!(block.mark(), 2, "marked by the other");
                    }
                }
                ended
            });
            for block in blocks {
                block.mark();
                queue.lock().expect("no panic").push(block);
            }
            region.end(taker.join().expect("marks are as they should be"))
        })
    });
}
