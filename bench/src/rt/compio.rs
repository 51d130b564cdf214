//! compio: one thread, and a ring.

use std::future::Future;

use compio::runtime::Runtime;

use super::SingleThread;

pub(crate) struct Compio;

impl SingleThread for Compio {
    fn run<F: Future>(future: F) -> F::Output {
        Runtime::new()
            .expect("there is an io_uring")
            .block_on(future)
    }

    fn spawn_local(future: impl Future<Output = ()> + 'static) {
        compio::runtime::spawn(future).detach();
    }
}
