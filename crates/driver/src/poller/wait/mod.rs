//! Waiting in the kernel for events: one file per way of doing it.
//!
//! Each exports `Selector`, which waits, and `Events`, what the wait brought:
//! pairs of a token and a readiness. Tokens are numbers; what they mean is the
//! poller's affair. `Stream` is what a source must have to be watched in one
//! direction first.

cfg_select! {
    all(
        any(target_os = "linux", target_os = "android"),
        not(mio_unsupported_force_poll_poll)
    ) => {
        mod epoll;
        pub use epoll::Stream;
        pub(super) use epoll::{Events, Selector};
    }
    _ => {
        mod portable;
        pub use portable::Stream;
        pub(super) use portable::{Events, Selector};
    }
}
