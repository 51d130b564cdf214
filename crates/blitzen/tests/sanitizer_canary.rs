//! A known defect: the address sanitizer has to report it.
//!
//! It can, only because a build for a sanitizer gives the memory of finished tasks back to the
//! allocator. `cargo xtask asan` runs this test by name, and fails unless it fails.

#![cfg(blitzen_no_recycle)]

use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::task::{Poll, Waker};

use blitzen::runtime::Builder;

#[test]
#[ignore = "uses a freed task on purpose"]
fn use_of_a_freed_task() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let task = runtime.spawn(poll_fn(|context| Poll::Ready(context.waker().clone())));
    // The last reference: the task has finished, and its handle is gone.
    let waker: Waker = runtime.block_on(task).unwrap();
    let (data, vtable) = (waker.data(), waker.vtable());
    drop(waker);
    // SAFETY: there is none; the task that `data` points to is gone.
    let dangling = ManuallyDrop::new(unsafe { Waker::new(data, vtable) });
    dangling.wake_by_ref();
}
