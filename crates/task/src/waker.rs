//! The waker of a task: a counted pointer to its header, 16 bytes.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::header::Header;
use crate::raw::{self, ReleaseOnDrop};
use crate::span::WakerOp;
use crate::state::Wake;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// For a task whose future unwinds (`state.rs`, S6).
static UNWINDING_VTABLE: RawWakerVTable =
    RawWakerVTable::new(clone_unwinding, wake_unwinding, wake_by_ref, drop_waker);

const _: () = assert!(size_of::<Waker>() == 16 || size_of::<usize>() != 8);

/// A waker without a reference of its own, for the length of a poll of a task whose future
/// `unwinds` or does not.
///
/// # Safety
/// The task outlives the result.
#[inline]
pub(crate) unsafe fn borrowed(task: NonNull<Header>, unwinds: bool) -> ManuallyDrop<Waker> {
    let vtable = match unwinds {
        true => &UNWINDING_VTABLE,
        false => &VTABLE,
    };
    // SAFETY: the functions below keep RawWaker's contract; since the result is
    // not dropped, it gives up no reference.
    ManuallyDrop::new(unsafe { Waker::new(task.as_ptr().cast_const().cast(), vtable) })
}

/// Whether `waker` wakes `task`.
#[inline]
pub(crate) fn is_of(waker: &Waker, task: NonNull<Header>) -> bool {
    let vtables = [&VTABLE, &UNWINDING_VTABLE];
    waker.data() == task.as_ptr().cast_const().cast()
        && vtables.iter().any(|&own| std::ptr::eq(waker.vtable(), own))
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
    unsafe { reference(data) };
    RawWaker::new(data, &VTABLE)
}

unsafe fn clone_unwinding(data: *const ()) -> RawWaker {
    // SAFETY: called on a live waker.
    unsafe { reference(data) };
    RawWaker::new(data, &UNWINDING_VTABLE)
}

/// Adds the reference of a clone.
///
/// # Safety
/// As for [`header`].
#[inline]
unsafe fn reference(data: *const ()) {
    // SAFETY: as the caller guarantees.
    let (header, _) = unsafe { header(data) };
    header.span_id.report(WakerOp::Clone);
    header.state.reference();
}

/// [`wake`] for a task whose future unwinds: the reference is given up with the wake itself.
unsafe fn wake_unwinding(data: *const ()) {
    // SAFETY: called on a live waker.
    let (header, task) = unsafe { header(data) };
    match header.state.wake_idle_and_unreference() {
        // SAFETY: as for the other one.
        Wake::Nothing => unsafe { wake(data) },
        wake => {
            header.span_id.report(WakerOp::Wake);
            // SAFETY: the transition has made the runnable, and nobody completes the task before
            // it is queued (S6).
            unsafe { raw::enqueue(task, wake) };
        }
    }
}

unsafe fn wake(data: *const ()) {
    // SAFETY: called on a live waker.
    let (header, task) = unsafe { header(data) };
    header.span_id.report(WakerOp::Wake);
    // Given up last, also if the scheduler panics (a set of local tasks calls the waker of whoever
    // polls it), since until the task is queued nothing else may hold it (T1: a
    // runtime that closes at this moment completes it).
    let _release = ReleaseOnDrop(task);
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
