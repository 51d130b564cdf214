//! Waiting on a word: a thread sleeps while the word has a given value, and
//! the thread that changes the word wakes it.
//!
//! Linux has this as a system call; elsewhere, and under loom, a lock and a
//! condition stand in for the kernel's queue.

use std::time::Duration;

use crate::shim::atomic::AtomicU32;

pub use chosen::Futex;

#[cfg(all(any(target_os = "linux", target_os = "android"), not(blitzen_loom)))]
mod chosen {
    use super::*;

    /// A word that threads can sleep on.
    #[derive(Debug, Default)]
    pub struct Futex {
        word: AtomicU32,
    }

    /// The timeout as futex(2) reads it, on 32 bits too. A libc's `timespec` may have 64 bits
    /// there, for another call.
    #[repr(C)]
    struct Timespec {
        seconds: libc::c_long,
        nanoseconds: libc::c_long,
    }

    impl Timespec {
        /// `None` if the seconds do not fit.
        fn new(timeout: Duration) -> Option<Self> {
            Some(Self {
                seconds: timeout.as_secs().try_into().ok()?,
                nanoseconds: timeout.subsec_nanos() as libc::c_long, // below 2^30
            })
        }
    }

    impl Futex {
        /// A futex whose word is `value`.
        pub const fn new(value: u32) -> Self {
            Self {
                word: AtomicU32::new(value),
            }
        }

        /// The word itself.
        #[inline(always)]
        pub fn word(&self) -> &AtomicU32 {
            &self.word
        }

        /// Sleeps while the word is `expected`, at most for `timeout`. May
        /// return for no reason: look at the word and the clock again.
        pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
            // A timeout too long for the kernel's type is no timeout.
            let spec = timeout.and_then(Timespec::new);
            let spec_ptr = spec
                .as_ref()
                .map_or(std::ptr::null(), |spec| spec as *const Timespec);
            // SAFETY: the word outlives the call, `spec_ptr` is null or points
            // to `spec` above, and FUTEX_WAIT touches nothing else.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    expected,
                    spec_ptr,
                );
            }
        }

        /// Wakes one sleeper, if there is one.
        pub fn wake_one(&self) {
            // SAFETY: FUTEX_WAKE uses the address as a key only.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.word.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                );
            }
        }
    }
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(blitzen_loom))))]
mod chosen {
    use super::*;
    use crate::shim::{Condvar, Mutex, atomic::Ordering::Relaxed, const_unless_loom};

    /// A word that threads can sleep on.
    #[derive(Debug, Default)]
    pub struct Futex {
        word: AtomicU32,
        queue: Mutex<()>,
        changed: Condvar,
    }

    impl Futex {
        const_unless_loom! {
            /// A futex whose word is `value`.
            pub fn new(value: u32) -> Self {
                Self {
                    word: AtomicU32::new(value),
                    queue: Mutex::new(()),
                    changed: Condvar::new(),
                }
            }
        }

        /// The word itself.
        #[inline(always)]
        pub fn word(&self) -> &AtomicU32 {
            &self.word
        }

        /// Sleeps while the word is `expected`, at most for `timeout`. May
        /// return for no reason: look at the word and the clock again.
        pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
            let guard = self.queue.lock();
            // Relaxed: a thread that changes the word then takes the lock to wake
            // (`wake_one`), so the value read under the lock is not older than that.
            if self.word.load(Relaxed) != expected {
                return;
            }
            match timeout {
                None => drop(self.changed.wait(guard)),
                Some(timeout) => drop(self.changed.wait_timeout(guard, timeout)),
            }
        }

        /// Wakes one sleeper, if there is one.
        pub fn wake_one(&self) {
            // Taking the lock: a sleeper that has checked the word waits on the
            // condition by the time this returns.
            drop(self.queue.lock());
            self.changed.notify_one();
        }
    }
}
