//! The shards, and their threads.
//!
//! Each shard is a [`LocalRuntime`](crate::runtime::LocalRuntime) on a thread of its own. The
//! thread runs jobs: functions that are sent to it and spawn tasks there. It ends when nobody can
//! send any more, and its runtime with it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::ToSocketAddrs;
use std::panic::{Location, resume_unwind};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;

use blitzen_sync::channel::mpsc;
use blitzen_task::{JoinError, SpawnMeta};
use blitzen_util::entered;

use super::listener::{Balance, ShardedListener};
use super::shard::{Shard, runtime_of};
use crate::runtime::affinity::{self, Core};
use crate::runtime::{Builder, Handle, LocalOptions};
use crate::task::JoinHandle;

/// Code for the thread of a shard.
type Job = Box<dyn FnOnce(&Shard) + Send>;

/// What the shards are made with.
pub(super) struct ShardOptions {
    pub(super) shards: usize,
    /// The cores of the threads, in turn; any if there are none.
    pub(super) cores: Vec<Core>,
    pub(super) thread_name: String,
    pub(super) configure: Arc<dyn Fn(&mut Builder) + Send + Sync>,
}

/// A runtime of shards, each with one thread that its tasks never leave.
///
/// Dropping it cancels all tasks, each on its thread, and waits for the threads. Inside a runtime,
/// where that would block, it does not wait.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Builder;
///
/// let runtime = Builder::sharded().shards(2).build().unwrap();
/// let squares = runtime.run_each(|shard| async move { shard.index() * shard.index() });
/// assert_eq!(squares, [0, 1]);
/// ```
pub struct ShardedRuntime {
    runtimes: Arc<[Handle]>,
    threads: Vec<ShardThread>,
}

/// The thread of a shard.
struct ShardThread {
    jobs: mpsc::UnboundedSender<Job>,
    thread: thread::JoinHandle<()>,
}

/// What a thread needs to become a shard.
struct NewShard {
    index: usize,
    core: Option<Core>,
    configure: Arc<dyn Fn(&mut Builder) + Send + Sync>,
    /// Gets its runtime.
    started: std_mpsc::Sender<(usize, io::Result<Handle>)>,
    /// Has all runtimes, once they have started.
    runtimes: std_mpsc::Receiver<Arc<[Handle]>>,
    jobs: mpsc::UnboundedReceiver<Job>,
}

impl NewShard {
    /// Runs the shard on the calling thread.
    fn run(mut self) {
        if let Some(core) = self.core {
            affinity::pin_thread(core);
        }
        let mut builder = Builder::new_current_thread();
        builder.enable_all();
        (self.configure)(&mut builder);
        let runtime = match builder.build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => {
                // Nobody listens if another shard has failed before.
                let _ = self.started.send((self.index, Err(error)));
                return;
            }
        };
        let handle = runtime.handle().clone();
        if self.started.send((self.index, Ok(handle))).is_err() {
            return;
        }
        drop(self.started);
        let Ok(runtimes) = self.runtimes.recv() else {
            return; // another shard has not started
        };
        // SAFETY: made above, on this thread.
        let shard = unsafe { Shard::new(self.index, runtimes) };
        runtime.block_on(async {
            while let Some(job) = self.jobs.recv().await {
                job(&shard);
            }
        });
    }
}

impl ShardedRuntime {
    /// Starts the shards.
    pub(super) fn start(options: ShardOptions) -> io::Result<Self> {
        let (started, starts) = std_mpsc::channel();
        let mut runtime = Self {
            runtimes: Arc::new([]),
            threads: Vec::with_capacity(options.shards),
        };
        let mut waiting_threads = Vec::with_capacity(options.shards);
        for index in 0..options.shards {
            let (jobs, queue) = mpsc::unbounded_channel();
            let (send_runtimes, runtimes) = std_mpsc::channel();
            let cores = &options.cores;
            let shard = NewShard {
                index,
                core: (!cores.is_empty()).then(|| cores[index % cores.len()]),
                configure: options.configure.clone(),
                started: started.clone(),
                runtimes,
                jobs: queue,
            };
            let name = format!("{}-{index}", options.thread_name);
            let thread = thread::Builder::new().name(name);
            let thread = affinity::spawn_unbound(thread, move || shard.run())?;
            runtime.threads.push(ShardThread { jobs, thread });
            waiting_threads.push(send_runtimes);
        }
        drop(started);
        let mut handles: Vec<Option<Handle>> = vec![None; options.shards];
        for (index, handle) in starts {
            handles[index] = Some(handle?);
        }
        let handles: Option<Arc<[Handle]>> = handles.into_iter().collect();
        // A thread that has sent nothing has panicked, in `configure`.
        runtime.runtimes =
            handles.ok_or_else(|| io::Error::other("the setup of a shard panicked"))?;
        for send_runtimes in waiting_threads {
            // The thread waits for it.
            let _ = send_runtimes.send(runtime.runtimes.clone());
        }
        Ok(runtime)
    }

    /// Returns the number of shards.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// assert_eq!(Builder::sharded().shards(3).build().unwrap().shards(), 3);
    /// ```
    pub fn shards(&self) -> usize {
        self.runtimes.len()
    }

    /// Returns the handle of the runtime of the shard with the number `index`, for example for its
    /// metrics.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(2).build().unwrap();
    /// assert_eq!(runtime.handle(1).metrics().num_workers(), 1);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no shard with the number `index`.
    #[track_caller]
    pub fn handle(&self, index: usize) -> &Handle {
        runtime_of(&self.runtimes, index)
    }

    /// Spawns a task on the shard with the number `index`.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(2).build().unwrap();
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// runtime.spawn_on(1, async move { sender.send(7).unwrap() });
    /// assert_eq!(receiver.recv().unwrap(), 7);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if there is no such shard.
    #[track_caller]
    pub fn spawn_on<F>(&self, index: usize, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle(index).spawn(future)
    }

    /// Calls `make` on the thread of each shard, runs the futures that it returns, and waits for all
    /// of them. Returns their outputs in the order of the shards.
    ///
    /// The futures never leave their threads, so they need not be `Send`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(2).build().unwrap();
    /// let outputs = runtime.run_each(|shard| async move {
    ///     let local = Rc::new(shard.index());
    ///     blitzen::task::yield_now().await;
    ///     *local
    /// });
    /// assert_eq!(outputs, [0, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics inside a runtime, since it blocks its thread. If one of the futures panics, the
    /// panic goes on here when all of them have ended.
    #[track_caller]
    pub fn run_each<F, M>(&self, make: M) -> Vec<F::Output>
    where
        M: Fn(Shard) -> F + Send + Sync + 'static,
        F: Future + 'static,
        F::Output: Send + 'static,
    {
        entered::assert_may_block();
        let make = Arc::new(make);
        let (ended, ends) = std_mpsc::channel();
        let spawned_at = Location::caller();
        for (index, thread) in self.threads.iter().enumerate() {
            let (make, ended) = (make.clone(), ended.clone());
            let job = Box::new(move |shard: &Shard| {
                let own = shard.clone();
                let task = async move { make(own).await };
                let task = shard.spawn_local_with(task, SpawnMeta::new(spawned_at));
                let report = async move {
                    // The caller waits for it.
                    let _ = ended.send((index, task.await));
                };
                drop(shard.spawn_local_with(report, SpawnMeta::new(spawned_at)));
            });
            // If the thread has ended, the job and its sender go with this.
            let _ = thread.jobs.send(job);
        }
        drop(ended);
        collect(ends, self.shards())
    }

    /// Listens on `address` for connections that are spread over all shards, as `balance` says.
    ///
    /// Each shard takes its part by [`ShardedListener::on`].
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    /// use blitzen::shard::Balance;
    ///
    /// let runtime = Builder::sharded().shards(2).build()?;
    /// let listener = runtime.listen("127.0.0.1:0", Balance::Exact)?;
    /// assert_ne!(listener.local_addr().port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the error of `socket(2)`, `bind(2)` or `listen(2)`, such as `AddrInUse`;
    /// `InvalidInput` if `address` has no address; and `Unsupported` for [`Balance::ReusePort`] where
    /// the system has no `SO_REUSEPORT`.
    pub fn listen(
        &self,
        address: impl ToSocketAddrs,
        balance: Balance,
    ) -> io::Result<ShardedListener> {
        let missing = || io::Error::new(io::ErrorKind::InvalidInput, "there is no address");
        let mut result = Err(missing());
        for address in address.to_socket_addrs()? {
            result = ShardedListener::bind(&self.runtimes, address, balance);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Cancels all tasks, without waiting for the threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(2).build().unwrap();
    /// runtime.spawn_on(0, std::future::pending::<()>());
    /// runtime.shutdown_background();
    /// ```
    pub fn shutdown_background(mut self) {
        self.threads.clear(); // each ends when nobody can send it a job
    }
}

/// Waits for the outputs of all shards. A panic goes on here.
fn collect<T>(ends: std_mpsc::Receiver<(usize, Result<T, JoinError>)>, shards: usize) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = (0..shards).map(|_| None).collect();
    let mut panic = None;
    for (index, ended) in ends {
        match ended {
            Ok(output) => outputs[index] = Some(output),
            Err(error) => panic = panic.or(error.try_into_panic().ok()),
        }
    }
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
    let outputs: Option<Vec<T>> = outputs.into_iter().collect();
    outputs.expect("the runtime of a shard was shut down by a panic of another task")
}

impl Drop for ShardedRuntime {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        let threads: Vec<_> = threads
            .into_iter()
            .map(|ShardThread { jobs, thread }| {
                drop(jobs); // which ends it
                thread
            })
            .collect();
        if entered::is_entered() {
            return;
        }
        for thread in threads {
            // A panic there was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for ShardedRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedRuntime")
            .field("shards", &self.shards())
            .finish_non_exhaustive()
    }
}
