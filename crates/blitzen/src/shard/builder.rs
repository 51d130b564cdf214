//! The builder of a sharded runtime.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

use super::sharded_runtime::{ShardOptions, ShardedRuntime};
use crate::runtime::{Builder, affinity};

/// Builds a [`ShardedRuntime`] with custom options.
///
/// [`Builder::sharded`](crate::runtime::Builder::sharded) returns it.
///
/// # Examples
///
/// ```
/// use blitzen::runtime::Builder;
///
/// let runtime = Builder::sharded().shards(2).thread_name("echo").build().unwrap();
/// assert_eq!(runtime.shards(), 2);
/// ```
#[derive(Clone)]
pub struct ShardedBuilder {
    shards: Option<usize>,
    cores: Option<Vec<usize>>,
    binds_threads: bool,
    thread_name: String,
    configure: Arc<dyn Fn(&mut Builder) + Send + Sync>,
}

impl ShardedBuilder {
    pub(crate) fn new() -> Self {
        Self {
            shards: None,
            cores: None,
            binds_threads: true,
            thread_name: "blitzen-shard".into(),
            configure: Arc::new(|_| {}),
        }
    }

    /// Sets the number of shards. The default is one for each of the [cores](Self::cores), or, if
    /// none are given, one for each core that the process may use.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(4).build().unwrap();
    /// assert_eq!(runtime.shards(), 4);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `shards` is 0.
    #[track_caller]
    pub fn shards(mut self, shards: usize) -> Self {
        assert!(shards > 0, "a sharded runtime needs at least one shard");
        self.shards = Some(shards);
        self
    }

    /// Sets the cores that the shards run on, such as `4..8`: each shard on one of them, in turn.
    /// By default these are all cores that the process may run on.
    ///
    /// Only Linux and Android can bind threads to cores.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().cores(4..8).build().unwrap();
    /// assert_eq!(runtime.shards(), 4);
    /// ```
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = Some(cores.into_iter().collect());
        self
    }

    /// Sets whether each thread is bound to a core. The default is `true`, where the system can
    /// do it.
    ///
    /// If other programs, or other threads of this one, keep a core busy, threads that are not
    /// bound can move away from it.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(2).bind_threads(false).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn bind_threads(mut self, bind: bool) -> Self {
        self.binds_threads = bind;
        self
    }

    /// Sets the name of the threads. Each has the number of its shard behind it, such as
    /// `echo-0`. The default is `blitzen-shard`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::thread;
    /// use blitzen::runtime::Builder;
    ///
    /// let runtime = Builder::sharded().shards(1).thread_name("echo").build().unwrap();
    /// runtime.run_each(|_| async { assert_eq!(thread::current().name(), Some("echo-0")) });
    /// ```
    pub fn thread_name(mut self, name: &str) -> Self {
        self.thread_name = name.to_owned();
        self
    }

    /// Sets a function that changes other settings of the runtime of each shard.
    ///
    /// `configure` is called on the thread of each shard, with a builder whose timers and sockets
    /// are enabled. Settings of worker threads have no effect, since a shard has none.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::{Budget, Builder};
    ///
    /// let runtime = Builder::sharded()
    ///     .shards(2)
    ///     .configure(|builder| {
    ///         builder.budget(Budget::new(256, None)).max_blocking_threads(8);
    ///     })
    ///     .build()
    ///     .unwrap();
    /// # drop(runtime);
    /// ```
    pub fn configure(mut self, configure: impl Fn(&mut Builder) + Send + Sync + 'static) -> Self {
        self.configure = Arc::new(configure);
        self
    }

    /// Creates the runtime, and starts its threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::Builder;
    ///
    /// let outside = Builder::sharded().cores([100_000]).build();
    /// assert!(outside.is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` if one of the cores is not among those that the process may run on, or
    /// a name has a zero byte; `Unsupported` if cores were given and the system cannot bind threads;
    /// the error of the system if it refuses a thread; and the same errors as
    /// [`Builder::build_local`].
    pub fn build(self) -> io::Result<ShardedRuntime> {
        if self.thread_name.contains('\0') {
            let message = "the name of a thread must not have a zero byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let cores = match &self.cores {
            Some(cores) => affinity::check(cores)?,
            None if self.binds_threads => affinity::allowed_cores().unwrap_or_default(),
            None => Vec::new(),
        };
        let shards = self.shards.unwrap_or_else(|| match &self.cores {
            Some(cores) if !cores.is_empty() => cores.len(),
            _ => thread::available_parallelism().map_or(1, usize::from),
        });
        let cores = if self.binds_threads {
            cores
        } else {
            Vec::new()
        };
        ShardedRuntime::start(ShardOptions {
            shards,
            cores,
            thread_name: self.thread_name,
            configure: self.configure,
        })
    }
}

impl fmt::Debug for ShardedBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedBuilder")
            .field("shards", &self.shards)
            .field("cores", &self.cores)
            .field("binds_threads", &self.binds_threads)
            .field("thread_name", &self.thread_name)
            .finish_non_exhaustive()
    }
}
