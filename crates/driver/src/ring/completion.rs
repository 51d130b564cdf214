//! A completion, as the sockets of a ring read it.

use io_uring::cqueue;

/// The result of a request, and its flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) result: i32,
    pub(super) flags: u32,
}

impl Completion {
    /// Whether the kernel will post another one for the same request.
    pub(super) fn has_more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The id of the provided buffer that the kernel has picked.
    pub(super) fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}
