//! A waker whose clone, wake and drop each run a closure of the test.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

type Action = Box<dyn Fn() + Send + Sync>;

/// What the waker does besides nothing.
pub struct Script {
    pub on_clone: Action,
    pub on_wake: Action,
    pub on_drop: Action,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            on_clone: Box::new(|| {}),
            on_wake: Box::new(|| {}),
            on_drop: Box::new(|| {}),
        }
    }
}

impl Script {
    pub fn waker(self) -> Waker {
        let script = Arc::into_raw(Arc::new(self)).cast();
        // SAFETY: the functions keep one reference of the `Arc` for each waker.
        unsafe { Waker::from_raw(RawWaker::new(script, &VTABLE)) }
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);

unsafe fn clone(script: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned owns a reference, which is only lent.
    let this = ManuallyDrop::new(unsafe { Arc::from_raw(script.cast::<Script>()) });
    (this.on_clone)();
    RawWaker::new(Arc::into_raw(Arc::clone(&this)).cast(), &VTABLE)
}

unsafe fn wake(script: *const ()) {
    // SAFETY: the waker's reference is given up here.
    let this = unsafe { Arc::from_raw(script.cast::<Script>()) };
    (this.on_wake)();
}

unsafe fn wake_by_ref(script: *const ()) {
    // SAFETY: the waker's reference is only lent.
    let this = ManuallyDrop::new(unsafe { Arc::from_raw(script.cast::<Script>()) });
    (this.on_wake)();
}

unsafe fn release(script: *const ()) {
    // SAFETY: the waker's reference is given up here.
    let this = unsafe { Arc::from_raw(script.cast::<Script>()) };
    (this.on_drop)();
}
