//! What code can find out about where it runs: a stack of frames, then what its task was
//! spawned with.
//!
//! ```text
//!   frames of this thread:  shield ──► body of a scope ──► binding ──► … of other tasks
//!                           innermost                                  not this code's
//! ```
//!
//! A poll sets nothing: a frame names the task that it belongs to, and below the frames
//! of the current task comes the [context](crate::Schedule::context) of that task. So a task
//! that is polled within another one does not see the other's frames.

use std::any::Any;
use std::ptr::NonNull;

use crate::current;
use crate::header::Header;
use crate::raw;

/// What a task was spawned with, of a type that only its spawner knows.
pub type TaskContext = dyn Any + Send + Sync;

/// What a frame adds.
#[derive(Clone, Copy)]
pub enum FrameValue<'a> {
    /// Code inside is shielded.
    Shield,
    /// A value of any type.
    Value(&'a dyn Any),
}

/// One entry of the stack. It lies in the stack frame of [`with_frame`].
pub(crate) struct Frame {
    task: Option<NonNull<Header>>,
    outer: Option<NonNull<Frame>>,
    /// Valid as long as the frame.
    value: FrameValue<'static>,
}

/// Runs `code` with `value` on top of the stack of frames.
pub fn with_frame<R>(value: FrameValue<'_>, code: impl FnOnce() -> R) -> R {
    /// Takes the frame off, also when `code` panics.
    struct Leave(Option<NonNull<Frame>>);
    impl Drop for Leave {
        fn drop(&mut self) {
            current::set_frames(self.0);
        }
    }
    let outer = current::frames();
    let frame = Frame {
        task: current::task(),
        outer,
        // SAFETY: only the lifetime changes. The frame leaves the stack of frames before
        // this function returns or unwinds, and `value` outlives the call.
        value: unsafe { std::mem::transmute::<FrameValue<'_>, FrameValue<'static>>(value) },
    };
    let _leave = Leave(outer);
    current::set_frames(Some(NonNull::from(&frame)));
    code()
}

/// Calls `visit` with the frames of the current task, the innermost first, then with the
/// task's context, until it returns `Some`.
pub fn find<R>(mut visit: impl FnMut(FrameValue<'_>) -> Option<R>) -> Option<R> {
    let task = current::task();
    let mut next = current::frames();
    while let Some(frame) = next {
        // SAFETY: a frame in the stack is that of a call that has not returned.
        let frame = unsafe { frame.as_ref() };
        if frame.task != task {
            break;
        }
        if let Some(found) = visit(frame.value) {
            return Some(found);
        }
        next = frame.outer;
    }
    // SAFETY: a current task is alive.
    let context = task.and_then(|task| unsafe { raw::context(task) })?;
    visit(FrameValue::Value(context))
}

/// The frames of a thread, put away while other code runs on it; none by default.
#[derive(Default)]
pub struct SavedFrames(Option<NonNull<Frame>>);

impl SavedFrames {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Whether this thread has frames.
#[inline]
pub fn has_frames() -> bool {
    current::frames().is_some()
}

/// Makes `frames` the frames of this thread, and returns those it had: for code that
/// changes stacks.
///
/// # Safety
/// The calls that made `frames` have not returned, and do so only after their frames are
/// those of their thread again.
#[inline]
pub unsafe fn replace_frames(frames: SavedFrames) -> SavedFrames {
    let before = current::frames();
    current::set_frames(frames.0);
    SavedFrames(before)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    fn numbers() -> Vec<Option<u32>> {
        let mut seen = Vec::new();
        find(|value| {
            seen.push(match value {
                FrameValue::Shield => None,
                FrameValue::Value(value) => value.downcast_ref::<u32>().copied(),
            });
            None::<()>
        });
        seen
    }

    #[test]
    fn frames_are_seen_from_the_innermost_outwards_and_leave_with_a_panic() {
        with_frame(FrameValue::Value(&1_u32), || {
            with_frame(FrameValue::Shield, || {
                assert_eq!(numbers(), [None, Some(1)]);
            });
            let panics = || with_frame(FrameValue::Value(&2_u32), || panic!("inside"));
            assert!(std::panic::catch_unwind(panics).is_err());
            assert_eq!(numbers(), [Some(1)]);
        });
        assert_eq!(numbers(), []);
    }
}
