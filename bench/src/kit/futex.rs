//! The kernel's own wait and wake: the floor under every wake that is measured.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

/// One token between two threads.
#[derive(Default)]
pub(crate) struct Futex {
    token: AtomicU32,
}

impl Futex {
    /// Leaves the token and wakes the sleeper.
    pub(crate) fn wake(&self) {
        // Release, met by the Acquire swap in `wait`.
        self.token.store(1, Release);
        self.call(libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }

    /// Sleeps until there is a token, and takes it.
    pub(crate) fn wait(&self) {
        while self.token.swap(0, Acquire) == 0 {
            self.call(libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0);
        }
    }

    fn call(&self, operation: i32, value: u32) {
        // SAFETY: the word outlives the call, and no timeout is given. A failed wait
        // (the value changed, a signal came) is answered by looking again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.token.as_ptr(),
                operation,
                value,
                ptr::null::<libc::timespec>(),
            );
        }
    }
}
