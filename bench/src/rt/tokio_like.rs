//! Tokio and blitzen, which have the same names: one text for both.

macro_rules! tokio_like {
    ($name:ident, $join:ident, $library:ident, $flavour:ident, |$builder:ident| $told:expr) => {
        pub(crate) struct $name {
            runtime: $library::runtime::Runtime,
        }

        /// A join handle whose task does not panic.
        pub(crate) struct $join<T>($library::task::JoinHandle<T>);

        impl<T> std::future::Future for $join<T> {
            type Output = T;

            fn poll(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<T> {
                std::pin::Pin::new(&mut self.0)
                    .poll(cx)
                    .map(|output| output.expect("tasks of a workload do not panic"))
            }
        }

        impl $crate::rt::Rt for $name {
            type Join<T: Send + 'static> = $join<T>;

            fn start(workers: usize) -> Self {
                let mut builder = $library::runtime::Builder::$flavour();
                let $builder = builder.worker_threads(workers).enable_all();
                let runtime = $told.build().expect("a runtime starts");
                $name { runtime }
            }

            fn block_on<F: Future>(&self, future: F) -> F::Output {
                self.runtime.block_on(future)
            }

            fn spawn<F>(future: F) -> $join<F::Output>
            where
                F: Future + Send + 'static,
                F::Output: Send + 'static,
            {
                $join($library::spawn(future))
            }

            fn detach<T: Send + 'static>(join: $join<T>) {
                drop(join); // dropping a handle leaves the task to itself
            }

            fn yield_now() -> impl Future<Output = ()> + Send {
                $library::task::yield_now()
            }
        }

        impl $crate::rt::Blocking for $name {
            fn spawn_blocking<T, F>(work: F) -> impl Future<Output = T> + Unpin + Send + 'static
            where
                F: FnOnce() -> T + Send + 'static,
                T: Send + 'static,
            {
                $join($library::task::spawn_blocking(work))
            }
        }

        impl $crate::rt::TaskSet for $name {
            type Set = $library::task::JoinSet<u64>;

            fn new_set() -> Self::Set {
                $library::task::JoinSet::new()
            }

            fn spawn_into<F>(set: &mut Self::Set, future: F)
            where
                F: Future<Output = u64> + Send + 'static,
            {
                set.spawn(future);
            }

            async fn join_next(set: &mut Self::Set) -> Option<u64> {
                set.join_next()
                    .await
                    .map(|output| output.expect("tasks of a workload do not panic"))
            }
        }
    };
}

tokio_like!(Tokio, TokioJoin, tokio, new_multi_thread, |builder| builder);
tokio_like!(Blitzen, BlitzenJoin, blitzen, new_multi_thread, |builder| {
    builder
});

// One thread, which is the one in `block_on`: for workloads that spawn all they do.
tokio_like!(
    TokioCurrentThread,
    TokioAloneJoin,
    tokio,
    new_current_thread,
    |builder| builder
);
tokio_like!(
    BlitzenCurrentThread,
    BlitzenAloneJoin,
    blitzen,
    new_current_thread,
    |builder| builder
);

// Blitzen with sockets by completion.
tokio_like!(
    BlitzenCompletion,
    BlitzenCompletionJoin,
    blitzen,
    new_multi_thread,
    |builder| builder.socket_mode(blitzen::net::SocketMode::Completion)
);

// Blitzen with what can be observed switched on.
tokio_like!(
    BlitzenSampled,
    BlitzenSampledJoin,
    blitzen,
    new_multi_thread,
    |builder| builder.trace(blitzen::runtime::TraceMode::Sampled)
);
// Its ring, and so its budget, is as small as can be: two events in a quarter of a second.
tokio_like!(
    BlitzenThinned,
    BlitzenThinnedJoin,
    blitzen,
    new_multi_thread,
    |builder| builder
        .trace(blitzen::runtime::TraceMode::Sampled)
        .trace_buffer(256)
);
tokio_like!(
    BlitzenFull,
    BlitzenFullJoin,
    blitzen,
    new_multi_thread,
    |builder| builder.trace(blitzen::runtime::TraceMode::Full)
);
tokio_like!(
    BlitzenHistograms,
    BlitzenHistogramsJoin,
    blitzen,
    new_multi_thread,
    |builder| builder
        .enable_metrics_poll_time_histogram()
        .enable_metrics_schedule_latency_histogram()
);

// Tokio as the other build has it.
tokio_like!(
    TokioHistogram,
    TokioHistogramJoin,
    tokio,
    new_multi_thread,
    |builder| with_poll_times(builder)
);
tokio_like!(
    TokioConsole,
    TokioConsoleJoin,
    tokio,
    new_multi_thread,
    |builder| with_console(builder)
);

#[cfg(all(feature = "observed-tokio", tokio_unstable))]
fn with_poll_times(builder: &mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder {
    builder.enable_metrics_poll_time_histogram()
}

/// Once in a process: the subscriber is that of all threads. Its server waits for a client that does
/// not come.
#[cfg(all(feature = "observed-tokio", tokio_unstable))]
fn with_console(builder: &mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder {
    console_subscriber::ConsoleLayer::builder()
        .server_addr(([127, 0, 0, 1], 0))
        .init();
    builder
}

#[cfg(not(all(feature = "observed-tokio", tokio_unstable)))]
fn with_poll_times(_: &mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder {
    panic!("only the other build has it");
}

#[cfg(not(all(feature = "observed-tokio", tokio_unstable)))]
fn with_console(_: &mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder {
    panic!("only the other build has it");
}
