//! Locks and channels.

pub use blitzen::sync::{
    AcquireError, Barrier, BarrierWaitResult, MappedMutexGuard, Mutex, MutexGuard, Notify,
    OnceCell, OwnedMappedMutexGuard, OwnedMutexGuard, OwnedRwLockMappedWriteGuard,
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock,
    RwLockMappedWriteGuard, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit,
    SetError, SetOnce, SetOnceError, TryAcquireError, TryLockError,
};

/// Many senders, many receivers, each of whom sees all.
pub mod broadcast {
    pub use blitzen::channel::broadcast::{Receiver, Sender, WeakSender, channel};

    /// What can go wrong.
    pub mod error {
        pub use blitzen::channel::broadcast::error::{RecvError, SendError, TryRecvError};
    }
}

/// Many senders, one receiver.
pub mod mpsc {
    pub use blitzen::channel::mpsc::{
        OwnedPermit, Permit, PermitIterator, Receiver, Sender, UnboundedReceiver, UnboundedSender,
        WeakSender, WeakUnboundedSender, channel, unbounded_channel,
    };

    /// What can go wrong.
    pub mod error {
        pub use blitzen::channel::mpsc::error::{
            SendError, SendTimeoutError, TryRecvError, TrySendError,
        };
    }
}

/// One value.
pub mod oneshot {
    pub use blitzen::channel::oneshot::{Receiver, Sender, channel};

    /// What can go wrong.
    pub mod error {
        pub use blitzen::channel::oneshot::error::{RecvError, TryRecvError};
    }
}

/// The latest value.
pub mod watch {
    pub use blitzen::channel::watch::{Receiver, Ref, Sender, channel};

    /// What can go wrong.
    pub mod error {
        pub use blitzen::channel::watch::error::{RecvError, SendError};
    }
}

/// Futures that locks return.
pub mod futures {
    pub use blitzen::sync::futures::{Notified, OwnedNotified};
}
