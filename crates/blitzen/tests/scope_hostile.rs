//! Scopes in programs that are written to break them: values and handles that outlive them, panics in
//! every destructor, dispatchers that go away meanwhile.

mod scope_common;

use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use blitzen::dispatch::{Dispatcher, with_dispatcher};
use blitzen::scope::{Child, Scope, Stopped, scope};
use blitzen::task;
use blitzen::time::{sleep, timeout};
use scope_common::{Alive, FOREVER, on_both, workers};

/// A value whose destructor looks for the scope that it is in.
struct Looks(mpsc::Sender<(bool, bool)>);

impl Drop for Looks {
    fn drop(&mut self) {
        let has_deadline = task::deadline().is_some();
        // The receiver is kept until all have looked.
        self.0.send((has_deadline, task::is_cancelled())).unwrap();
    }
}

#[test]
fn a_value_that_nobody_takes_is_dropped_outside_the_scope() {
    on_both(|| async {
        let (sender, looked) = mpsc::channel();
        let scoped = Scope::builder().within(FOREVER).run(|s| async move {
            for _ in 0..100 {
                let sender = sender.clone();
                drop(s.spawn(async move {
                    assert!(task::deadline().is_some());
                    Ok::<_, Stopped>(Looks(sender))
                }));
            }
            s.spawn(async { Ok(()) }).await
        });
        scoped.await.unwrap();
        let looked: Vec<_> = looked.iter().collect();
        assert_eq!(looked, [(false, false); 100]);
    });
}

#[test]
fn a_child_that_outlives_its_scope_gives_its_value_to_another_thread() {
    for round in 0..200 {
        let runtime = workers(2);
        let (sender, looked) = mpsc::channel();
        let children: Vec<Child<Looks>> = runtime.block_on(async {
            let scoped = Scope::builder().within(FOREVER).run(|s| async move {
                let child = |_| {
                    let sender = sender.clone();
                    s.spawn(async move { Ok::<_, Stopped>(Looks(sender)) })
                };
                Ok((0..40).map(child).collect())
            });
            scoped.await.unwrap()
        });
        match round % 2 {
            0 => thread::spawn(|| drop(children)).join().unwrap(),
            _ => {
                // In another runtime, whose tasks are in no scope.
                workers(1).block_on(async {
                    for child in children {
                        drop(child.await.unwrap());
                    }
                });
            }
        }
        assert_eq!(looked.iter().count(), 40);
    }
}

/// Panics when it is dropped, unless a panic is under way.
struct PanicsOnDrop(#[expect(dead_code, reason = "counts")] scope_common::AliveGuard);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !thread::panicking() {
            std::panic::resume_unwind(Box::new("in a destructor")); // prints nothing
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

type Program = Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send>>;

/// A future whose panic is an error.
struct Caught(Program);

impl Future for Caught {
    type Output = Result<(), Stopped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = AssertUnwindSafe(|| self.0.as_mut().poll(cx));
        std::panic::catch_unwind(poll).unwrap_or(Poll::Ready(Err(Stopped::Panicked)))
    }
}

/// Scopes whose bodies, children, values and guards panic when they are dropped, on dispatchers that
/// are closed and dropped meanwhile.
fn panicking_program(seed: u64, depth: usize, alive: Alive) -> Program {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut builder = Scope::builder();
    let dispatcher = match random.below(5) {
        0 => Some(Dispatcher::default().limited(1)),
        1 => Some(Dispatcher::io()),
        2 => Some(Dispatcher::from_fn(|job| drop(thread::spawn(|| job.run())))),
        _ => None,
    };
    if let Some(dispatcher) = &dispatcher {
        builder = builder.dispatcher(dispatcher);
    }
    if random.below(3) == 0 {
        builder = builder.grace(Duration::from_micros(random.below(300)));
    }
    Box::pin(Caught(Box::pin(builder.run(move |s| async move {
        let _own = (random.below(4) == 0).then(|| PanicsOnDrop(alive.guard()));
        for _ in 0..random.below(6) {
            let guard = alive.guard();
            match random.below(8) {
                0 => drop(s.spawn(async move { Ok(PanicsOnDrop(guard)) })),
                1 => drop(s.spawn(async move {
                    let _guard = PanicsOnDrop(guard);
                    sleep(Duration::from_micros(200)).await;
                    Ok(())
                })),
                2 => s.spawn_daemon(async move {
                    let _guard = PanicsOnDrop(guard);
                    pending().await
                }),
                3 if depth > 0 => {
                    let inner = panicking_program(random.below(u64::MAX), depth - 1, alive.clone());
                    drop(s.spawn(inner));
                }
                4 if depth > 0 => {
                    let seed = random.below(u64::MAX);
                    let mut inner = panicking_program(seed, depth - 1, alive.clone());
                    let _ = scope_common::poll_once(&mut inner).await;
                }
                5 => {
                    let own = Dispatcher::default().limited(2);
                    drop(s.spawn(async move {
                        let _guard = guard;
                        with_dispatcher(&own, task::yield_now()).await;
                        Ok(())
                    }));
                }
                6 => s.cancel(),
                _ => task::yield_now().await,
            }
        }
        if random.below(3) == 0
            && let Some(dispatcher) = dispatcher.filter(|_| random.below(2) == 0)
        {
            dispatcher.close();
        }
        Ok(())
    }))))
}

#[test]
fn random_programs_that_panic_in_destructors_end_with_nobody_left() {
    let runtime = workers(2);
    for seed in 1..=150_u64 {
        let alive = Alive::default();
        let outer = runtime.spawn(scope({
            let alive = alive.clone();
            move |_| panicking_program(seed, 3, alive)
        }));
        runtime.block_on(async {
            for _ in 0..seed % 11 {
                task::yield_now().await;
            }
            if seed % 4 == 0 {
                outer.abort();
            }
            let hangs = format!("seed {seed} hangs");
            // However it ends.
            let _ = timeout(FOREVER, outer).await.expect(&hangs);
            timeout(FOREVER, alive.reaches(0)).await.expect(&hangs);
        });
    }
}
