//! Cache-line padding, so that two hot words of different owners never share a line.

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
