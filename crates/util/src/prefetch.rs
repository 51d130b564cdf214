//! The processor's prefetch hint.

/// Starts to load the memory at `address` into the cache, on processors that have a
/// hint for it. Any address is allowed; nothing is read.
///
/// ```
/// let many = [1_u64; 1024];
/// let mut sum = 0;
/// for (index, one) in many.iter().enumerate() {
///     blitzen_util::prefetch::prefetch(many.as_ptr().wrapping_add(index + 8));
///     sum += one;
/// }
/// assert_eq!(sum, 1024);
/// ```
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which takes any address and does nothing else.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    let _ = address;
}
