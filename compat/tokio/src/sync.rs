//! Locks and channels.

pub use blitzen::sync::{
    AcquireError, Barrier, BarrierWaitResult, MappedMutexGuard, Mutex, MutexGuard, Notify,
    OnceCell, OwnedMappedMutexGuard, OwnedMutexGuard, OwnedRwLockMappedWriteGuard,
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit,
    SetError, SetOnce, SetOnceError, TryAcquireError, TryLockError,
};

/// A channel with many senders and many receivers, each of which sees every value.
pub mod broadcast {
    pub use blitzen::channel::broadcast::{Receiver, Sender, WeakSender, channel};

    /// Errors of the channel.
    pub mod error {
        pub use blitzen::channel::broadcast::error::{RecvError, SendError, TryRecvError};
    }
}

/// A channel with many senders and one receiver.
pub mod mpsc {
    pub use blitzen::channel::mpsc::{
        OwnedPermit, Permit, PermitIterator, Receiver, Sender, UnboundedReceiver, UnboundedSender,
        WeakSender, WeakUnboundedSender, channel, unbounded_channel,
    };

    /// Errors of the channel.
    pub mod error {
        #[cfg(feature = "time")]
        pub use blitzen::channel::mpsc::error::SendTimeoutError;
        pub use blitzen::channel::mpsc::error::{SendError, TryRecvError, TrySendError};

        /// An error that no function returns. Tokio still has its name.
        #[doc(hidden)]
        #[deprecated = "no function returns it"]
        #[derive(Clone, Debug)]
        pub struct RecvError {
            _private: (),
        }

        #[allow(deprecated)]
        impl std::fmt::Display for RecvError {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("channel closed")
            }
        }

        #[allow(deprecated)]
        impl std::error::Error for RecvError {}
    }
}

/// A channel for a single value.
pub mod oneshot {
    pub use blitzen::channel::oneshot::{Receiver, Sender, channel};

    /// Errors of the channel.
    pub mod error {
        pub use blitzen::channel::oneshot::error::{RecvError, TryRecvError};
    }
}

/// A channel that keeps only the latest value.
pub mod watch {
    pub use blitzen::channel::watch::{Receiver, Ref, Sender, channel};

    /// Errors of the channel.
    pub mod error {
        pub use blitzen::channel::watch::error::{RecvError, SendError};
    }
}

/// Futures that this module's methods return.
pub mod futures {
    pub use blitzen::sync::futures::{Notified, OwnedNotified};
}
