//! The waker of a task: a counted pointer to its header, 16 bytes.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::header::Header;
use crate::raw;
use crate::span::WakerOp;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

const _: () = assert!(size_of::<Waker>() == 16 || size_of::<usize>() != 8);

/// A waker without a reference of its own, for the length of a poll.
///
/// # Safety
/// The task outlives the result.
pub(crate) unsafe fn borrowed(task: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: the functions below keep RawWaker's contract; since the result is
    // not dropped, it gives up no reference.
    ManuallyDrop::new(unsafe { Waker::new(task.as_ptr().cast_const().cast(), &VTABLE) })
}

/// Whether `waker` wakes `task`.
#[inline]
pub(crate) fn is_of(waker: &Waker, task: NonNull<Header>) -> bool {
    waker.data() == task.as_ptr().cast_const().cast() && std::ptr::eq(waker.vtable(), &VTABLE)
}

/// # Safety
/// `data` is the data of a waker made here, which holds the task alive.
unsafe fn header<'a>(data: *const ()) -> (&'a Header, NonNull<Header>) {
    // SAFETY: never null, and alive as the caller guarantees.
    unsafe {
        let task = NonNull::new_unchecked(data.cast_mut().cast::<Header>());
        (task.as_ref(), task)
    }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: called on a live waker.
    let (header, _) = unsafe { header(data) };
    header.span_id.report(WakerOp::Clone);
    header.state.reference();
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    /// Gives up the reference even if the scheduler panics: a set of local
    /// tasks calls the waker of whoever polls it.
    struct Release(*const ());
    impl Drop for Release {
        fn drop(&mut self) {
            // SAFETY: the waker's reference, used no more.
            unsafe { raw::release(header(self.0).1) };
        }
    }
    // SAFETY: called on a live waker.
    let (header, task) = unsafe { header(data) };
    header.span_id.report(WakerOp::Wake);
    // Last, since until the task is queued nothing else may hold it (T1: a
    // runtime that closes at this moment completes it).
    let _release = Release(data);
    // SAFETY: alive by the waker's reference.
    unsafe { raw::enqueue(task, header.state.wake()) };
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: called on a live waker.
    let (header, task) = unsafe { header(data) };
    header.span_id.report(WakerOp::WakeByRef);
    // SAFETY: alive by the waker's reference.
    unsafe { raw::enqueue(task, header.state.wake()) };
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: called on a live waker.
    let (header, task) = unsafe { header(data) };
    header.span_id.report(WakerOp::Drop);
    // SAFETY: the waker's reference, used no more.
    unsafe { raw::release(task) };
}
