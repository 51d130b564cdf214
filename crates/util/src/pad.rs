//! Cache-line padding, so that two hot words of different owners never share a line.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// A value alone on its cache line.
///
/// 128 bytes where the prefetcher fetches lines in pairs (x86-64, AArch64,
/// PowerPC64), otherwise the line size of the architecture.
#[cfg_attr(
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "powerpc64"
    ),
    repr(align(128))
)]
#[cfg_attr(
    any(target_arch = "arm", target_arch = "mips", target_arch = "sparc"),
    repr(align(32))
)]
#[cfg_attr(target_arch = "s390x", repr(align(256)))]
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "powerpc64",
        target_arch = "arm",
        target_arch = "mips",
        target_arch = "sparc",
        target_arch = "s390x"
    )),
    repr(align(64))
)]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
/// As many bytes as lie between two values that are never on one cache line: a field of a
/// `repr(C)` struct that keeps those before it apart from those behind it.
///
/// Unlike [`Padded`] it leaves the alignment as it is, since allocators take longer for a large one.
///
/// ```
/// use blitzen_util::pad::{CacheGap, Padded};
///
/// #[repr(C)]
/// struct Queue {
///     tail: usize,
///     gap: CacheGap,
///     head: usize,
/// }
/// let distance = std::mem::offset_of!(Queue, head) - std::mem::offset_of!(Queue, tail);
/// assert!(distance >= align_of::<Padded<u8>>());
/// assert_eq!(align_of::<Queue>(), align_of::<usize>());
/// ```
pub struct CacheGap(
    #[expect(dead_code, reason = "room")] [MaybeUninit<u8>; align_of::<Padded<u8>>()],
);

impl CacheGap {
    /// Creates the room, without initialising it.
    #[inline(always)]
    pub const fn new() -> Self {
        Self([MaybeUninit::uninit(); align_of::<Padded<u8>>()])
    }
}

impl Default for CacheGap {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CacheGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheGap")
    }
}
