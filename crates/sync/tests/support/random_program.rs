//! Random programs: actors that use a primitive, give up at any await, change their
//! wakers from poll to poll, and have wakers that panic.
//!
//! A program is determined by its seed. Set `BLITZEN_SEED` to run one again.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use blitzen_util::rng::Rng;

pub type Actor = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What makes programs differ, besides their seed.
#[derive(Clone, Copy, Debug)]
pub struct Chances {
    /// Of 16 polls of an operation, how many are its last.
    pub cancel: u32,
    /// Of 16 wakers, how many panic when they are woken.
    pub panic: u32,
}

/// The random choices of one actor.
pub struct Choices {
    rng: Rng,
    chances: Chances,
}

impl Choices {
    pub fn below(&mut self, bound: u32) -> u32 {
        self.rng.below(bound)
    }

    fn one_in_sixteen(&mut self, times: u32) -> bool {
        self.rng.below(16) < times
    }

    /// Awaits `operation`. Returns `None` if it was given up, or a waker panicked in
    /// it: whether it took effect is then unknown.
    pub async fn attempt<F: Future>(&mut self, operation: F) -> Option<F::Output> {
        let mut operation = Some(Box::pin(operation));
        let current = Arc::new(AtomicUsize::new(0));
        let mut waker = None;
        let outcome = poll_fn(|cx| {
            let give_up = self.one_in_sixteen(self.chances.cancel);
            let Some(future) = operation.as_mut().filter(|_| !give_up) else {
                return Poll::Ready(None);
            };
            // Often another waker than before, which is the only one that counts.
            if waker.is_none() || self.rng.below(2) == 0 {
                let generation = current.fetch_add(1, SeqCst) + 1;
                waker = Some(Waker::from(Arc::new(CheckedWaker {
                    task: cx.waker().clone(),
                    current: current.clone(),
                    generation,
                    panics: self.one_in_sixteen(self.chances.panic),
                })));
            }
            let waker = waker.as_ref().expect("just set");
            let poll = || future.as_mut().poll(&mut Context::from_waker(waker));
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(panic) => {
                    check_panic(panic);
                    Poll::Ready(None)
                }
            }
        })
        .await;
        calmly(|| drop(operation.take()));
        outcome
    }

    /// Lets other actors go on, now and then.
    pub async fn pause(&mut self) {
        let mut pauses = self.rng.below(3);
        poll_fn(|cx| {
            if pauses == 0 {
                return Poll::Ready(());
            }
            pauses -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// Runs what may wake a waker that panics; `None` if it did.
pub fn calmly<R>(act: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(result) => Some(result),
        Err(panic) => {
            check_panic(panic);
            None
        }
    }
}

/// The panic of a waker.
struct WakerPanic;

fn check_panic(panic: Box<dyn std::any::Any + Send>) {
    if !panic.is::<WakerPanic>() {
        resume_unwind(panic);
    }
}

struct CheckedWaker {
    task: Waker,
    current: Arc<AtomicUsize>,
    generation: usize,
    panics: bool,
}

impl Wake for CheckedWaker {
    fn wake(self: Arc<Self>) {
        // A stale waker wakes nobody: whoever relies on it is stranded.
        if self.current.load(SeqCst) == self.generation {
            self.task.wake_by_ref();
        }
        if self.panics && !thread::panicking() {
            resume_unwind(Box::new(WakerPanic)); // without the message of `panic!`
        }
    }
}

/// Runs programs made by `actors`: on one thread in random order, and on several.
/// `check` looks at what is left.
pub fn run<S>(
    programs: u64,
    actors: impl Fn(&mut Rng, &mut dyn FnMut(&mut Rng) -> Choices) -> (Vec<Actor>, S),
    check: impl Fn(S, Chances),
) {
    let mut seeds: Vec<u64> = match std::env::var("BLITZEN_SEED") {
        Ok(seed) => vec![seed.parse().expect("BLITZEN_SEED is a number")],
        Err(_) => (0..programs).collect(),
    };
    // Threads come last: an actor that is stranded there hangs.
    seeds.sort_by_key(|seed| uses_threads(*seed));
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let chances = Chances {
            cancel: [0, 1, 5][rng.below(3) as usize],
            panic: [0, 0, 4][rng.below(3) as usize],
        };
        let threads = uses_threads(seed);
        let program = || {
            let mut choices = |rng: &mut Rng| Choices {
                rng: Rng::new(u64::from(rng.next_u32())),
                chances,
            };
            let (actors, state) = actors(&mut rng, &mut choices);
            match threads {
                true => on_threads(actors),
                false => in_random_order(actors, &mut rng),
            }
            check(state, chances);
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(program)) {
            eprintln!("BLITZEN_SEED={seed} {chances:?}, on threads: {threads}");
            resume_unwind(panic);
        }
    }
}

fn uses_threads(seed: u64) -> bool {
    seed % 4 == 3
}

struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(1, Relaxed);
    }
}

/// Polls a random one of the woken actors, until all have ended.
fn in_random_order(actors: Vec<Actor>, rng: &mut Rng) {
    let mut tasks: Vec<_> = (actors.into_iter())
        .map(|actor| (actor, Arc::new(Woken(AtomicUsize::new(1)))))
        .collect();
    while !tasks.is_empty() {
        let woken: Vec<_> = (0..tasks.len())
            .filter(|index| tasks[*index].1.0.load(Relaxed) != 0)
            .collect();
        assert!(!woken.is_empty(), "{} actors are stranded", tasks.len());
        let index = woken[rng.below(woken.len() as u32) as usize];
        let (actor, flag) = &mut tasks[index];
        flag.0.store(0, Relaxed);
        let waker = Waker::from(flag.clone());
        if actor
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            drop(tasks.swap_remove(index));
        }
    }
}

/// Runs each actor on a thread of its own.
fn on_threads(actors: Vec<Actor>) {
    thread::scope(|scope| {
        for actor in actors {
            scope.spawn(move || futures::executor::block_on(actor));
        }
    });
}
