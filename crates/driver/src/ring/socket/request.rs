//! Requests for the kernel that wait for the ring's next submission.

use std::collections::VecDeque;

use io_uring::opcode;
use io_uring::squeue::Entry;

use crate::ring::user_data::{OpKind, SocketKey, UserData};

/// A request for one socket. Its entry is made when it is submitted; by then
/// the request may have been withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Submit(SocketKey, OpKind),
    Cancel(SocketKey, OpKind),
}

/// All requests of a ring's sockets, oldest first.
#[derive(Debug, Default)]
pub(super) struct Requests(VecDeque<Request>);

impl Requests {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn submit(&mut self, key: SocketKey, kind: OpKind) {
        self.0.push_back(Request::Submit(key, kind));
    }

    pub(super) fn cancel(&mut self, key: SocketKey, kind: OpKind) {
        self.0.push_back(Request::Cancel(key, kind));
    }

    pub(super) fn front(&self) -> Option<Request> {
        self.0.front().copied()
    }

    pub(super) fn pop_front(&mut self) {
        self.0.pop_front();
    }
}

/// Asks the kernel to end a request.
pub(in crate::ring) fn cancel_entry(target: UserData) -> Entry {
    let request = opcode::AsyncCancel::new(target.bits());
    request.build().user_data(UserData::Cancel.bits())
}
