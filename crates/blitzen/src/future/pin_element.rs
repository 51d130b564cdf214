//! From a pinned slice to a pinned element.

use std::pin::Pin;

/// The element at `index`.
pub(crate) fn pin_element<T>(slice: Pin<&mut [T]>, index: usize) -> Pin<&mut T> {
    // SAFETY: an element of a slice stands where the slice does, and moves only
    // with it. No caller moves one out: this module's users replace elements
    // only through `Pin::set` and its kin.
    unsafe { slice.map_unchecked_mut(|slice| &mut slice[index]) }
}
