//! What may cross threads, move and unwind: as documented, and no more.

#![cfg(not(blitzen_loom))]

use std::cell::Cell;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::rc::Rc;

use blitzen_sync::cancel::{Cancelled, CancelledOwned, DropGuard};
use blitzen_sync::futures::{Notified, OwnedNotified};
use blitzen_sync::*;

/// Says of a value which traits its type has, without requiring them.
struct Of<T>(std::marker::PhantomData<T>);

/// The inherent constant wins where its bound holds, the trait's otherwise.
macro_rules! probe {
    ($name:ident, $value:ident, $bound:path) => {
        trait $name {
            const $value: bool = false;
        }
        impl<T> $name for Of<T> {}
        impl<T: $bound> Of<T> {
            const $value: bool = true;
        }
    };
}
probe!(MaySend, SEND, Send);
probe!(MaySync, SYNC, Sync);
probe!(MayUnpin, UNPIN, Unpin);

type NotSend = Rc<u8>;
type NotSync = Cell<u8>;
type Both = u8;

macro_rules! traits {
    ($($type:ty: $send:literal $sync:literal $unpin:literal;)*) => {
        $(
            assert_eq!(
                (Of::<$type>::SEND, Of::<$type>::SYNC, Of::<$type>::UNPIN),
                ($send == 1, $sync == 1, $unpin == 1),
                "{}", stringify!($type),
            );
        )*
    };
}

#[test]
fn values_cross_threads_as_they_should() {
    traits! {
        Semaphore: 1 1 1;
        SemaphorePermit<'static>: 1 1 1;
        OwnedSemaphorePermit: 1 1 1;
        AcquireError: 1 1 1;
        TryAcquireError: 1 1 1;
        TryLockError: 1 1 1;
        Barrier: 1 1 1;
        BarrierWaitResult: 1 1 1;
        Notify: 1 1 1;
        Notified<'static>: 1 1 0;
        OwnedNotified: 1 1 0;
        CancelToken: 1 1 1;
        Cancelled<'static>: 1 1 0;
        CancelledOwned: 1 1 0;
        DropGuard: 1 1 1;
        Mutex<NotSend>: 0 0 1;
        Mutex<NotSync>: 1 1 1;
        Mutex<Both>: 1 1 1;
        MutexGuard<'static, NotSend>: 0 0 1;
        MutexGuard<'static, NotSync>: 1 0 1;
        MutexGuard<'static, Both>: 1 1 1;
        MappedMutexGuard<'static, NotSend>: 0 0 1;
        MappedMutexGuard<'static, NotSync>: 1 0 1;
        MappedMutexGuard<'static, Both>: 1 1 1;
        OwnedMutexGuard<NotSend>: 0 0 1;
        OwnedMutexGuard<NotSync>: 1 0 1;
        OwnedMutexGuard<Both>: 1 1 1;
        OwnedMappedMutexGuard<NotSend, Both>: 0 0 1;
        OwnedMappedMutexGuard<NotSync, Both>: 1 0 1;
        OwnedMappedMutexGuard<Both, NotSend>: 0 0 1;
        OwnedMappedMutexGuard<Both, NotSync>: 1 0 1;
        OwnedMappedMutexGuard<Both, Both>: 1 1 1;
        RwLock<NotSend>: 0 0 1;
        RwLock<NotSync>: 1 0 1;
        RwLock<Both>: 1 1 1;
        RwLockReadGuard<'static, NotSend>: 0 0 1;
        RwLockReadGuard<'static, NotSync>: 0 0 1;
        RwLockReadGuard<'static, Both>: 1 1 1;
        RwLockWriteGuard<'static, NotSend>: 0 0 1;
        RwLockWriteGuard<'static, NotSync>: 0 0 1;
        RwLockWriteGuard<'static, Both>: 1 1 1;
        RwLockMappedWriteGuard<'static, NotSync>: 0 0 1;
        RwLockMappedWriteGuard<'static, Both>: 1 1 1;
        OwnedRwLockReadGuard<NotSync>: 0 0 1;
        OwnedRwLockReadGuard<Both>: 1 1 1;
        OwnedRwLockWriteGuard<NotSync>: 0 0 1;
        OwnedRwLockWriteGuard<Both>: 1 1 1;
        OwnedRwLockMappedWriteGuard<NotSync>: 0 0 1;
        OwnedRwLockMappedWriteGuard<Both>: 1 1 1;
        OnceCell<NotSend>: 0 0 1;
        OnceCell<NotSync>: 1 0 1;
        OnceCell<Both>: 1 1 1;
        SetOnce<NotSend>: 0 0 1;
        SetOnce<NotSync>: 1 0 1;
        SetOnce<Both>: 1 1 1;
    }
}

fn of<T>(_: &T) -> Of<T> {
    Of(std::marker::PhantomData)
}

macro_rules! future_traits {
    ($($future:expr => $send:literal $sync:literal $unpin:literal;)*) => {
        $(
            // A match, so that what the future borrows lives as long.
            match of(&$future) {
                of => assert_eq!(
                    (of.may_send(), of.may_sync(), of.may_unpin()),
                    ($send == 1, $sync == 1, $unpin == 1),
                    "{}", stringify!($future),
                ),
            }
        )*
    };
}

/// The constants above, of a type that has no name.
trait Ask {
    fn may_send(&self) -> bool;
    fn may_sync(&self) -> bool;
    fn may_unpin(&self) -> bool;
}

macro_rules! ask {
    ($($method:ident $bound:path),*) => {
        $(
            impl<T: $bound> Of<T> {
                fn $method(&self) -> bool {
                    true
                }
            }
        )*
    };
}
ask!(may_send Send, may_sync Sync, may_unpin Unpin);

impl<T> Ask for Of<T> {
    fn may_send(&self) -> bool {
        false
    }

    fn may_sync(&self) -> bool {
        false
    }

    fn may_unpin(&self) -> bool {
        false
    }
}

#[test]
fn futures_cross_threads_as_they_should() {
    type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
    let init: fn() -> Boxed<u8> = || Box::pin(async { 1 });
    let not_sync: fn() -> Boxed<NotSync> = || Box::pin(async { Cell::new(1) });
    future_traits! {
        std::future::ready(1u8) => 1 1 1;
        Mutex::new(Rc::new(1u8)).lock() => 0 0 0;
        Mutex::new(Cell::new(1u8)).lock() => 1 1 0;
        Mutex::new(1u8).lock() => 1 1 0;
        RwLock::new(Cell::new(1u8)).read() => 0 0 0;
        RwLock::new(Cell::new(1u8)).write() => 0 0 0;
        RwLock::new(1u8).read() => 1 1 0;
        RwLock::new(1u8).write() => 1 1 0;
        Semaphore::new(1).acquire() => 1 1 0;
        Barrier::new(1).wait() => 1 1 0;
        SetOnce::<NotSync>::new().wait() => 0 0 0;
        SetOnce::<Both>::new().wait() => 1 1 0;
        OnceCell::<Both>::new().get_or_init(init) => 1 0 0;
        OnceCell::<NotSync>::new().get_or_init(not_sync) => 0 0 0;
        CancelToken::new().run_until_cancelled(async {}) => 1 1 0;
    }
}

#[test]
fn what_may_be_used_after_a_panic() {
    fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    is_unwind_safe::<Notify>();
    is_unwind_safe::<Semaphore>();
    is_unwind_safe::<Barrier>();
}
