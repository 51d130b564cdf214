//! The streams, timer and executor that hyper asks of a runtime.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use blitzen::io::hyper::{HyperIo, HyperTimer};
//! use blitzen::net::TcpListener;
//! use hyper::server::conn::http1;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response, body::Incoming};
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
//!     Ok(Response::new("hello".into()))
//! }
//!
//! # #[blitzen::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! # let address = listener.local_addr()?;
//! # let client = std::thread::spawn(move || {
//! #     use std::io::{Read, Write};
//! #     let mut stream = std::net::TcpStream::connect(address).unwrap();
//! #     stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
//! #     let mut answer = String::new();
//! #     stream.read_to_string(&mut answer).unwrap();
//! #     answer
//! # });
//! let (stream, _) = listener.accept().await?;
//! let served = http1::Builder::new()
//!     .timer(HyperTimer::new())
//!     .serve_connection(HyperIo::new(stream), service_fn(hello))
//!     .await;
//! assert!(served.is_ok());
//! # assert!(client.join().unwrap().ends_with("hello"));
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ::hyper::rt;
use pin_project_lite::pin_project;

#[doc(inline)]
pub use blitzen_io::hyper::HyperIo;

use crate::time::{Instant, Sleep, sleep, sleep_until};

/// The timers of the current runtime, for hyper.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use blitzen::io::hyper::HyperTimer;
/// use hyper::rt::Timer;
///
/// # #[blitzen::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let timer = HyperTimer::new();
/// let start = timer.now();
/// timer.sleep(Duration::from_secs(60)).await;
/// assert!(timer.now() - start >= Duration::from_secs(60));
/// # }
/// ```
///
/// # Panics
///
/// Its methods that sleep panic outside a runtime, and in a runtime without timers.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct HyperTimer;

impl HyperTimer {
    /// Creates the timer.
    ///
    /// # Examples
    ///
    /// ```
    /// let timer = blitzen::io::hyper::HyperTimer::new();
    /// ```
    pub const fn new() -> Self {
        Self
    }
}

pin_project! {
    /// A [`Sleep`] that hyper can hold.
    struct HyperSleep {
        #[pin]
        sleep: Sleep,
    }
}

impl Future for HyperSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(cx)
    }
}

impl rt::Sleep for HyperSleep {}

impl rt::Timer for HyperTimer {
    #[track_caller]
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        let sleep = sleep(duration);
        Box::pin(HyperSleep { sleep })
    }

    #[track_caller]
    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        let sleep = sleep_until(Instant::from_std(deadline));
        Box::pin(HyperSleep { sleep })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: std::time::Instant) {
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(sleep) => sleep.project().sleep.reset(Instant::from_std(deadline)),
            // The sleep of another timer.
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// An executor that spawns hyper's background tasks on the current runtime.
///
/// # Examples
///
/// ```
/// use blitzen::io::hyper::HyperExecutor;
/// use hyper::rt::Executor;
///
/// # #[blitzen::main(flavor = "current_thread")]
/// # async fn main() {
/// let (done, is_done) = blitzen::sync::oneshot::channel();
/// HyperExecutor::new().execute(async { done.send(()) });
/// is_done.await.unwrap();
/// # }
/// ```
///
/// # Panics
///
/// Executing panics outside a runtime.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct HyperExecutor;

impl HyperExecutor {
    /// Creates the executor.
    ///
    /// # Examples
    ///
    /// ```
    /// let executor = blitzen::io::hyper::HyperExecutor::new();
    /// ```
    pub const fn new() -> Self {
        Self
    }
}

impl<F> rt::Executor<F> for HyperExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    #[track_caller]
    fn execute(&self, future: F) {
        drop(crate::spawn(future)); // a task runs on without its handle
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use ::hyper::rt::Timer;

    #[test]
    fn a_sleep_is_reset_in_place_whoever_made_it() {
        let runtime = crate::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let timer = HyperTimer::new();
            let start = timer.now();
            let mut sleep = timer.sleep(Duration::from_secs(1));
            timer.reset(&mut sleep, start + Duration::from_secs(100));
            sleep.await;
            assert!(timer.now() - start >= Duration::from_secs(100));

            struct Foreign;
            impl Future for Foreign {
                type Output = ();
                fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
                    panic!("it was replaced")
                }
            }
            impl rt::Sleep for Foreign {}
            let mut sleep: Pin<Box<dyn rt::Sleep>> = Box::pin(Foreign);
            let now = timer.now();
            timer.reset(&mut sleep, now + Duration::from_secs(1));
            sleep.await;
            assert!(timer.now() - now >= Duration::from_secs(1));
        });
    }
}
