//! The user data of a request, which the kernel returns with each completion.
//!
//! ```text
//!   bits          63 62        61 … 32       31     30 … 0
//!   operation   [      generation       ]    0    [ index ]
//!   socket      [ kind ][   generation  ]    1    [ index ]
//!   others        all ones but the last few
//! ```
//!
//! A kind is never 3, so no socket's request looks like one of the others.

use super::slab::OpToken;

/// Bits of a socket's generation.
const GENERATION_MASK: u32 = (1 << 30) - 1;
const IS_SOCKET: u64 = 1 << 31;
const POLLER: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// The most sockets, or operations, of one ring.
pub(super) const MAX_INDEX: usize = (1 << 31) - 1;

/// Names a socket of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketKey {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SocketKey {
    /// The generation of the next socket in the same slot.
    pub(super) fn next_generation(self) -> u32 {
        (self.generation + 1) & GENERATION_MASK
    }
}

/// What the kernel was asked to do for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    Recv = 0,
    Send = 1,
    /// To report when there is room to send.
    Writable = 2,
}

/// What a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserData {
    /// An operation in the slab.
    Op(OpToken),
    Socket(SocketKey, OpKind),
    /// The watch of the poller: it has events.
    Poller,
    /// A cancellation, whose result is ignored.
    Cancel,
}

impl UserData {
    pub(super) fn from_bits(bits: u64) -> Self {
        match bits {
            POLLER => Self::Poller,
            CANCEL => Self::Cancel,
            bits if bits & IS_SOCKET == 0 => Self::Op(OpToken::from_bits(bits)),
            bits => {
                let kind = match bits >> 62 {
                    0 => OpKind::Recv,
                    1 => OpKind::Send,
                    _ => OpKind::Writable,
                };
                let key = SocketKey {
                    index: (bits & (IS_SOCKET - 1)) as u32,
                    generation: (bits >> 32) as u32 & GENERATION_MASK,
                };
                Self::Socket(key, kind)
            }
        }
    }

    pub(super) fn bits(self) -> u64 {
        match self {
            Self::Op(token) => token.bits(),
            Self::Poller => POLLER,
            Self::Cancel => CANCEL,
            Self::Socket(key, kind) => {
                let generation = u64::from(key.generation & GENERATION_MASK);
                u64::from(key.index) | IS_SOCKET | generation << 32 | (kind as u64) << 62
            }
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_user_data_comes_back_as_it_was() {
        let keys = [(0, 0), (7, 1), (MAX_INDEX as u32, GENERATION_MASK)];
        for (index, generation) in keys {
            let key = SocketKey { index, generation };
            for kind in [OpKind::Recv, OpKind::Send, OpKind::Writable] {
                let data = UserData::Socket(key, kind);
                assert_eq!(UserData::from_bits(data.bits()), data);
            }
        }
        for data in [UserData::Poller, UserData::Cancel] {
            assert_eq!(UserData::from_bits(data.bits()), data);
        }
        let last = SocketKey {
            index: 0,
            generation: GENERATION_MASK,
        };
        assert_eq!(last.next_generation(), 0);
    }
}
