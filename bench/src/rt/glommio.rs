//! glommio: one thread, and three rings.

use std::future::Future;

use glommio::{LocalExecutorBuilder, Placement};

use super::SingleThread;

pub(crate) struct Glommio;

impl SingleThread for Glommio {
    fn run<F: Future>(future: F) -> F::Output {
        LocalExecutorBuilder::new(Placement::Unbound)
            .make()
            .expect("there is an io_uring, and memory may be locked")
            .run(future)
    }

    fn spawn_local(future: impl Future<Output = ()> + 'static) {
        glommio::spawn_local(future).detach();
    }
}
