//! What is known about a descriptor's readiness.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

use crate::Interest;

/// A set of kinds of readiness.
///
/// ```
/// use blitzen_io::Ready;
///
/// let ready = Ready::READABLE | Ready::WRITE_CLOSED;
/// assert!(ready.is_readable());
/// assert!(ready.is_writable(), "a write would not wait: it would fail");
/// assert!(!(ready - Ready::READABLE).is_readable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(u16);

impl Ready {
    /// Nothing.
    pub const EMPTY: Ready = Ready(0);

    /// There is something to read.
    pub const READABLE: Ready = Ready(0b00_0001);

    /// There is room to write.
    pub const WRITABLE: Ready = Ready(0b00_0010);

    /// The other side sends no more.
    pub const READ_CLOSED: Ready = Ready(0b00_0100);

    /// The other side takes no more.
    pub const WRITE_CLOSED: Ready = Ready(0b00_1000);

    /// There is urgent data.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const PRIORITY: Ready = Ready(0b01_0000);

    /// There is an error to collect.
    pub const ERROR: Ready = Ready(0b10_0000);

    /// Everything.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const ALL: Ready = Ready(0b11_1111);

    /// Everything.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub const ALL: Ready = Ready(0b10_1111);

    /// Whether nothing is ready.
    ///
    /// ```
    /// # use blitzen_io::Ready;
    /// assert!(Ready::EMPTY.is_empty() && !Ready::READABLE.is_empty());
    /// ```
    pub fn is_empty(self) -> bool {
        self == Ready::EMPTY
    }

    /// Whether a read would not wait: there is something, or the end.
    ///
    /// ```
    /// # use blitzen_io::Ready;
    /// assert!(Ready::READABLE.is_readable() && Ready::READ_CLOSED.is_readable());
    /// assert!(!Ready::WRITABLE.is_readable());
    /// ```
    pub fn is_readable(self) -> bool {
        self.intersects(Ready::READABLE | Ready::READ_CLOSED)
    }

    /// Whether a write would not wait: there is room, or nobody who reads.
    ///
    /// ```
    /// # use blitzen_io::Ready;
    /// assert!(Ready::WRITABLE.is_writable() && Ready::WRITE_CLOSED.is_writable());
    /// assert!(!Ready::READABLE.is_writable());
    /// ```
    pub fn is_writable(self) -> bool {
        self.intersects(Ready::WRITABLE | Ready::WRITE_CLOSED)
    }

    /// Whether the other side sends no more.
    ///
    /// ```
    /// # use blitzen_io::Ready;
    /// assert!(Ready::READ_CLOSED.is_read_closed() && !Ready::READABLE.is_read_closed());
    /// ```
    pub fn is_read_closed(self) -> bool {
        self.intersects(Ready::READ_CLOSED)
    }

    /// Whether the other side takes no more.
    ///
    /// ```
    /// # use blitzen_io::Ready;
    /// assert!(Ready::WRITE_CLOSED.is_write_closed() && !Ready::WRITABLE.is_write_closed());
    /// ```
    pub fn is_write_closed(self) -> bool {
        self.intersects(Ready::WRITE_CLOSED)
    }

    /// Whether there is urgent data.
    ///
    /// ```
    /// # use blitzen_io::Ready;
    /// assert!(Ready::PRIORITY.is_priority() && !Ready::READABLE.is_priority());
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn is_priority(self) -> bool {
        self.intersects(Ready::PRIORITY)
    }

    /// Whether there is an error to collect.
    ///
    /// ```
    /// # use blitzen_io::Ready;
    /// assert!(Ready::ERROR.is_error() && !Ready::READABLE.is_error());
    /// ```
    pub fn is_error(self) -> bool {
        self.intersects(Ready::ERROR)
    }

    /// The kinds of readiness that answer `interest`. For drivers.
    #[doc(hidden)]
    pub fn answering(interest: Interest) -> Ready {
        let mut ready = Ready::EMPTY;
        if interest.is_readable() {
            ready |= Ready::READABLE | Ready::READ_CLOSED;
        }
        if interest.is_writable() {
            ready |= Ready::WRITABLE | Ready::WRITE_CLOSED;
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if interest.is_priority() {
            ready |= Ready::PRIORITY | Ready::READ_CLOSED;
        }
        if interest.is_error() {
            ready |= Ready::ERROR;
        }
        ready
    }

    /// Whether something of `interest` is ready. For drivers.
    #[doc(hidden)]
    pub fn answers(self, interest: Interest) -> bool {
        self.intersects(Ready::answering(interest))
    }

    /// The set as a number, to be packed into a word. For drivers.
    #[doc(hidden)]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set of a number from [`bits`](Self::bits). For drivers.
    #[doc(hidden)]
    pub const fn from_bits(bits: u16) -> Ready {
        Ready(bits & Ready::ALL.0)
    }

    fn intersects(self, other: Ready) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Ready {
    type Output = Ready;

    fn bitor(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Ready) {
        self.0 |= other.0;
    }
}

impl BitAnd for Ready {
    type Output = Ready;

    fn bitand(self, other: Ready) -> Ready {
        Ready(self.0 & other.0)
    }
}

impl Sub for Ready {
    type Output = Ready;

    fn sub(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Ready");
        out.field("is_readable", &self.is_readable())
            .field("is_writable", &self.is_writable())
            .field("is_read_closed", &self.is_read_closed())
            .field("is_write_closed", &self.is_write_closed())
            .field("is_error", &self.is_error());
        #[cfg(any(target_os = "linux", target_os = "android"))]
        out.field("is_priority", &self.is_priority());
        out.finish()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_closed_side_answers_the_interest_in_it() {
        assert!(Ready::READ_CLOSED.answers(Interest::READABLE));
        assert!(Ready::WRITE_CLOSED.answers(Interest::WRITABLE));
        assert!(!Ready::READ_CLOSED.answers(Interest::WRITABLE));
        assert!(!Ready::READABLE.answers(Interest::ERROR));
    }

    #[test]
    fn every_set_survives_the_way_through_a_word() {
        for bits in 0..=Ready::ALL.bits() {
            let ready = Ready::from_bits(bits);
            assert_eq!(Ready::from_bits(ready.bits()), ready);
        }
        assert_eq!(Ready::from_bits(u16::MAX), Ready::ALL);
    }
}
