//! Where a task was spawned, and what it is called: one word.
//!
//! Nearly every task has no name, so that the word is the address of its line;
//! with its lowest bit set it is that of a [`Named`]. On the way to the spawn it also carries
//! the task's span, which is empty in most builds.

use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;

use crate::id::Id;
use crate::span::TaskSpan;

/// The bit that tells a [`Named`] from a [`Location`].
const NAMED: usize = 1;

const _: () = assert!(align_of::<Location>() > NAMED && align_of::<Named>() > NAMED);

/// The spawning line, and a name if one was given.
pub struct SpawnMeta {
    place: NonNull<()>,
    span: TaskSpan,
}

// SAFETY: it is a static reference, or a box of what is `Send` and `Sync`; so is the span.
unsafe impl Send for SpawnMeta {}
// SAFETY: as above.
unsafe impl Sync for SpawnMeta {}

struct Named {
    location: &'static Location<'static>,
    name: Box<str>,
}

impl SpawnMeta {
    /// Creates the metadata of a task spawned at `location`.
    pub fn new(location: &'static Location<'static>) -> Self {
        Self::from_place(NonNull::from(location).cast())
    }

    fn from_place(place: NonNull<()>) -> Self {
        Self {
            place,
            span: TaskSpan::NONE,
        }
    }

    /// Creates the metadata of a task spawned by the caller.
    #[track_caller]
    pub fn caller() -> Self {
        Self::new(Location::caller())
    }

    /// Returns the same metadata, with a name.
    pub fn named(self, name: &str) -> Self {
        let named = Box::new(Named {
            location: self.location(),
            name: name.into(),
        });
        let named = NonNull::from(Box::leak(named)).cast();
        Self::from_place(named.map_addr(|address| address | NAMED))
    }

    /// The same, with a span for a task that polls an `F`. `kind` says how the task was spawned.
    ///
    /// Without [spans](crate::span) it does nothing; with them it calls foreign code.
    #[inline]
    pub fn with_task_span<F>(mut self, kind: &'static str, id: Id) -> Self {
        self.span = TaskSpan::of_task::<F>(kind, id, &self);
        self
    }

    /// The same, with a span for a task that calls a `C` on the blocking pool.
    ///
    /// Without [spans](crate::span) it does nothing; with them it calls foreign code.
    #[inline]
    pub fn with_closure_span<C>(mut self, id: Id) -> Self {
        self.span = TaskSpan::of_closure::<C>(id, &self);
        self
    }

    #[inline]
    pub(crate) fn take_span(&mut self) -> TaskSpan {
        std::mem::replace(&mut self.span, TaskSpan::NONE)
    }

    /// The line that spawned the task.
    pub fn location(&self) -> &'static Location<'static> {
        match self.as_named() {
            Some(named) => named.location,
            // SAFETY: without the bit it is the reference given to `new`.
            None => unsafe { self.place.cast().as_ref() },
        }
    }

    /// The task's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        self.as_named().map(|named| &*named.name)
    }

    fn as_named(&self) -> Option<&Named> {
        // SAFETY: from the box leaked in `named`, which `drop` takes back.
        self.named_ptr().map(|named| unsafe { &*named })
    }

    fn named_ptr(&self) -> Option<*mut Named> {
        let word = self.place.as_ptr();
        (word.addr() & NAMED != 0).then(|| word.map_addr(|address| address & !NAMED).cast())
    }
}

impl Drop for SpawnMeta {
    #[inline]
    fn drop(&mut self) {
        if let Some(named) = self.named_ptr() {
            // SAFETY: leaked in `named`, and not used again.
            drop(unsafe { Box::from_raw(named) });
        }
    }
}

impl Clone for SpawnMeta {
    fn clone(&self) -> Self {
        let plain = Self::new(self.location());
        match self.name() {
            Some(name) => plain.named(name),
            None => plain,
        }
    }
}

impl fmt::Debug for SpawnMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnMeta")
            .field("location", self.location())
            .field("name", &self.name())
            .finish()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn spawn_meta_knows_its_line_and_name() {
        let plain = SpawnMeta::caller();
        assert!(plain.location().file().ends_with("spawn_meta.rs"));
        assert_eq!(plain.name(), None);
        let named = plain.clone().named("reader");
        assert_eq!(named.name(), Some("reader"));
        assert_eq!(named.location(), plain.location());
        let other = named.clone().named("writer");
        drop(named);
        assert_eq!(other.clone().name(), Some("writer"));
        assert_eq!(other.location(), plain.location());
    }

    #[test]
    fn spawn_meta_without_a_span_is_a_word() {
        let span = size_of::<TaskSpan>();
        assert_eq!(size_of::<SpawnMeta>() - span, size_of::<usize>());
        assert_eq!(span == 0, !crate::span::ENABLED);
    }
}
