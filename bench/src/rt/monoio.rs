//! monoio: one thread, and a ring.

use std::future::Future;

use monoio::{IoUringDriver, RuntimeBuilder};

use super::SingleThread;

pub(crate) struct Monoio;

impl SingleThread for Monoio {
    fn run<F: Future>(future: F) -> F::Output {
        RuntimeBuilder::<IoUringDriver>::new()
            .build()
            .expect("there is an io_uring")
            .block_on(future)
    }

    fn spawn_local(future: impl Future<Output = ()> + 'static) {
        drop(monoio::spawn(future)); // dropping a handle leaves the task to itself
    }
}
