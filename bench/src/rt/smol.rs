//! smol's executor, in the form that tracks its tasks and in the one that lives
//! for ever and does not.
//!
//! A worker is a thread that runs the executor under `async_io::block_on`, which
//! turns the timers and descriptors as `smol::spawn`'s own threads do. The executor
//! is leaked, a few hundred bytes a sample: `StaticExecutor` asks for it, and the
//! other form is held the same way so that the two differ in nothing else.

use std::cell::Cell;
use std::future::Future;
use std::thread;

use async_executor::{Executor, StaticExecutor};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::{Blocking, Rt, TaskSet};

macro_rules! smol_like {
    ($name:ident, $executor:ty, $current:ident) => {
        thread_local! {
            static $current: Cell<Option<&'static $executor>> = const { Cell::new(None) };
        }

        pub(crate) struct $name {
            executor: &'static $executor,
            /// Closing it ends the workers.
            stop: async_channel::Sender<()>,
            workers: Vec<thread::JoinHandle<()>>,
        }

        impl Rt for $name {
            type Join<T: Send + 'static> = async_executor::Task<T>;

            fn start(workers: usize) -> Self {
                let executor: &'static $executor = Box::leak(Box::new(<$executor>::new()));
                let (stop, stopped) = async_channel::bounded::<()>(1);
                let workers = (0..workers)
                    .map(|_| {
                        let stopped = stopped.clone();
                        thread::spawn(move || {
                            $current.set(Some(executor));
                            let closed = async_io::block_on(executor.run(stopped.recv()));
                            assert!(closed.is_err(), "nobody sends");
                        })
                    })
                    .collect();
                $name {
                    executor,
                    stop,
                    workers,
                }
            }

            fn block_on<F: Future>(&self, future: F) -> F::Output {
                let outer = $current.replace(Some(self.executor));
                let output = async_io::block_on(future);
                $current.set(outer);
                output
            }

            fn spawn<F>(future: F) -> async_executor::Task<F::Output>
            where
                F: Future + Send + 'static,
                F::Output: Send + 'static,
            {
                $current
                    .get()
                    .expect("spawned from a worker or under block_on")
                    .spawn(future)
            }

            fn detach<T: Send + 'static>(join: async_executor::Task<T>) {
                join.detach();
            }

            fn yield_now() -> impl Future<Output = ()> + Send {
                futures_lite::future::yield_now()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.stop.close();
                for worker in self.workers.drain(..) {
                    worker.join().expect("a worker ends quietly");
                }
            }
        }

        impl Blocking for $name {
            fn spawn_blocking<T, F>(work: F) -> impl Future<Output = T> + Unpin + Send + 'static
            where
                F: FnOnce() -> T + Send + 'static,
                T: Send + 'static,
            {
                blocking::unblock(work)
            }
        }

        impl TaskSet for $name {
            type Set = FuturesUnordered<async_executor::Task<u64>>;

            fn new_set() -> Self::Set {
                FuturesUnordered::new()
            }

            fn spawn_into<F>(set: &mut Self::Set, future: F)
            where
                F: Future<Output = u64> + Send + 'static,
            {
                set.push(Self::spawn(future));
            }

            async fn join_next(set: &mut Self::Set) -> Option<u64> {
                set.next().await
            }
        }
    };
}

smol_like!(Smol, Executor<'static>, EXECUTOR);
smol_like!(SmolStatic, StaticExecutor, STATIC_EXECUTOR);
