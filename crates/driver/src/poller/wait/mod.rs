//! Waiting in the kernel for events: one file per way of doing it.
//!
//! Each exports `Selector`, which waits; `Events`, pairs of a token and a
//! readiness; `Stream`, the trait of sources that can be registered for one
//! direction first; and `BareDescriptor`, a source without a type of mio's.
//! `Waker` makes a wait return.

mod waker;

pub(super) use waker::Waker;

cfg_select! {
    all(
        any(target_os = "linux", target_os = "android"),
        not(blitzen_poll)
    ) => {
        mod epoll;
        pub use epoll::Stream;
        pub(crate) use epoll::BareDescriptor;
        pub(super) use epoll::{Events, Selector};
    }
    _ => {
        mod portable;
        pub use portable::Stream;
        pub(crate) use portable::BareDescriptor;
        pub(super) use portable::{Events, Selector};
    }
}
