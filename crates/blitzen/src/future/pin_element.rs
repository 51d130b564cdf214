//! Projects a pinned slice to a pinned element.

use std::pin::Pin;

/// Returns the element at `index`, pinned.
pub(crate) fn pin_element<T>(slice: Pin<&mut [T]>, index: usize) -> Pin<&mut T> {
    // SAFETY: an element moves only with its slice, which is pinned. A pinned slice
    // gives unpinned access to an element only if the element is `Unpin`.
    unsafe { slice.map_unchecked_mut(|slice| &mut slice[index]) }
}
