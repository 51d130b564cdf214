//! An async I/O runtime with the shape of Tokio.
//!
//! blitzen runs asynchronous programs: it schedules tasks over threads, waits for
//! sockets, files, timers, processes and signals, and has the locks and channels
//! that tasks need between them. Names, signatures and semantics are Tokio's, so what
//! you know of Tokio applies here. Programs that depend on Tokio can also move
//! without a change, through the drop-in package `tokio` in the same repository.
//!
//! # A first program
//!
//! ```
//! use blitzen::io::{AsyncReadExt, AsyncWriteExt};
//! use blitzen::net::{TcpListener, TcpStream};
//!
//! #[blitzen::main]
//! async fn main() -> std::io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let address = listener.local_addr()?;
//!     blitzen::spawn(async move {
//!         let (mut peer, _) = listener.accept().await?;
//!         peer.write_all(b"hello").await
//!     });
//!
//!     let mut greeting = String::new();
//!     let mut stream = TcpStream::connect(address).await?;
//!     stream.read_to_string(&mut greeting).await?;
//!     assert_eq!(greeting, "hello");
//!     Ok(())
//! }
//! ```
//!
//! # Runtimes
//!
//! Tasks need a [runtime]. `#[blitzen::main]` and `#[blitzen::test]` build one;
//! [`runtime::Builder`] builds one by hand.
//!
//! | flavour | tasks run on | for |
//! |---|---|---|
//! | [`Builder::new_multi_thread`](runtime::Builder::new_multi_thread) | worker threads that steal from each other | servers; the default |
//! | [`Builder::new_current_thread`](runtime::Builder::new_current_thread) | the thread that calls `block_on` | small programs, tests |
//! | [`LocalRuntime`](runtime::LocalRuntime) | the thread it was built on | futures that are not `Send` |
//!
//! # Modules
//!
//! | module | what is in it |
//! |---|---|
//! | `coro` | coroutines: plain functions that wait for futures (feature `coro`) |
//! | [`runtime`] | runtimes, their builder, handles, metrics |
//! | [`task`] | spawning, joining, aborting, shields, blocking code, task-local values |
//! | [`mod@scope`] | structured concurrency: tasks that do not outlive the code that started them |
//! | [`dispatch`] | which threads run a task, and how many tasks at a time |
//! | [`shard`] | a runtime with one thread for each core, whose tasks never move |
//! | [`time`] | sleeps, intervals, timeouts, a clock that tests can pause |
//! | [`net`] | TCP, UDP, Unix sockets, pipes |
//! | [`fs`] | files and directories |
//! | [`io`] | `AsyncRead`, `AsyncWrite` and what is built on them, owned buffers, standard streams |
//! | [`process`] | child processes |
//! | [`signal`] | signals of the operating system |
//! | [`sync`] | locks, semaphores, notifications, barriers, cells, cancellation |
//! | [`channel`] | mpsc, mpmc, oneshot, broadcast and watch channels |
//! | [`future`] | combinators: join, race, select, over tuples and collections |
//! | [`shutdown`] | graceful shutdown, with a deadline |
//!
//! The macros [`select!`], [`join!`], [`try_join!`], [`pin!`], [`task_local!`] and
//! [`inherited!`] are at the root.
//!
//! # How I/O is done
//!
//! Sockets wait for readiness and then call `recv(2)` or `send(2)`, as in Tokio. TCP and
//! Unix streams can be served by io_uring completions instead, on Linux, when asked
//! for: see [`net::SocketMode`]. Files use io_uring where the kernel has it, and a pool
//! of blocking threads elsewhere. Where io_uring is missing or forbidden everything
//! works without it.
//!
//! # Environment variables
//!
//! | variable | values | meaning |
//! |---|---|---|
//! | `BLITZEN_IO` | `auto`, `epoll`, `uring` | which kernel interface runtimes use |
//! | `BLITZEN_SOCKETS` | `readiness`, `completion`, `prefer-completion` | how new streams do I/O |
//! | `BLITZEN_CHILD` | `sigchld` | wait for children by SIGCHLD instead of a pidfd |
//! | `BLITZEN_LOG` | `1`, `debug` | every new runtime prints [what it runs on](engine()) to standard error; with `debug`, also each event that it [records](runtime::Builder::trace) |
//! | `BLITZEN_TRACE` | `off`, `sampled`, `full`, or a path | what runtimes [record](runtime::Builder::trace); with a path, everything, to a file for Perfetto |
//! | `BLITZEN_LINTS` | `stderr` | runtimes report [lints](runtime::lint) |
//! | `BLITZEN_LOCKS` | `1` | locks [note which task holds them](runtime::dump::note_lock_owners) |
//! | `BLITZEN_CONSOLE` | `1` | runtimes answer on a [socket](runtime::Builder::console) |
//!
//! The settings of a runtime's builder win over these. In a set-user-ID program, or one with file
//! capabilities, `BLITZEN_TRACE` and `BLITZEN_CONSOLE` are ignored, with a line on standard error.
//!
//! # Crate features
//!
//! | feature | adds |
//! |---|---|
//! | `coro` | stackful coroutines: `blitzen::coro` |
//! | `global` | a runtime of the process for [`spawn`] and [`block_on`] outside any other |
//! | `futures-io` | adapters to and from the traits of the `futures-io` crate |
//! | `hyper` | an executor, a timer and an I/O adapter for hyper |
//! | `stack-samples` | the stack of a poll that does not end, in [lints](runtime::lint) |
//! | `task-spans` | a `tracing` span for each task, as `console-subscriber` reads them; with `--cfg tokio_unstable` only |
//!
//! Everything else is always there.
//!
//! # How it differs from Tokio
//!
//! * A task that blocks its worker holds up nothing but itself: other workers take over
//!   its queue, its timers and its sockets.
//! * Workers share nothing on their hot paths: each has its own queue, timers and
//!   drivers. An idle runtime makes no system calls.
//! * Timers are finer: a tick is 25 µs instead of a millisecond, and with many timers a
//!   worker wakes for them every 250 µs.
//! * A [scope](mod@scope) waits for its tasks, stops them when one fails, and has deadlines,
//!   limits and a grace.
//! * [`task::shield`] defers an abort until a critical section is over.
//! * Counters of every worker are always on: [`runtime::RuntimeMetrics`].
//! * Worker threads are named `blitzen-worker`; a monitor thread looks after workers
//!   that are stuck.

#[cfg(feature = "coro")]
pub mod coro;
pub mod dispatch;
pub mod fs;
pub mod future;
pub mod io;
#[doc(hidden)]
pub mod macros;
pub mod net;
pub mod process;
pub mod runtime;
pub mod scope;
pub mod shard;
pub mod shutdown;
pub mod signal;
pub mod task;
pub mod time;

#[doc(inline)]
pub use blitzen_sync as sync;
#[doc(inline)]
pub use blitzen_sync::channel;

pub use blitzen_macros::{main, test};
#[doc(inline)]
pub use runtime::engine;
#[doc(inline)]
pub use runtime::global::block_on;
#[doc(inline)]
pub use scope::scope;
#[doc(inline)]
pub use task::spawn;
