//! What a descriptor is ready for.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

use crate::Interest;

const READABLE: u8 = 1;
const WRITABLE: u8 = 1 << 1;
const READ_CLOSED: u8 = 1 << 2;
const WRITE_CLOSED: u8 = 1 << 3;
const PRIORITY: u8 = 1 << 4;
const ERROR: u8 = 1 << 5;

/// What a descriptor is ready for.
///
/// # Examples
///
/// ```
/// use blitzen::io::Ready;
///
/// let ready = Ready::READABLE | Ready::WRITE_CLOSED;
/// assert!(ready.is_readable() && ready.is_writable());
/// assert_eq!(ready - Ready::READABLE, Ready::WRITE_CLOSED);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(u8);

impl Ready {
    /// Ready for nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::EMPTY.is_empty());
    /// ```
    pub const EMPTY: Ready = Ready(0);

    /// Ready to be read from.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::READABLE.is_readable());
    /// ```
    pub const READABLE: Ready = Ready(READABLE);

    /// Ready to be written to.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::WRITABLE.is_writable());
    /// ```
    pub const WRITABLE: Ready = Ready(WRITABLE);

    /// The read half is closed: a read returns the end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::READ_CLOSED.is_read_closed());
    /// ```
    pub const READ_CLOSED: Ready = Ready(READ_CLOSED);

    /// The write half is closed: a write fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::WRITE_CLOSED.is_write_closed());
    /// ```
    pub const WRITE_CLOSED: Ready = Ready(WRITE_CLOSED);

    /// Urgent data is there to be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::PRIORITY.is_priority());
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const PRIORITY: Ready = Ready(PRIORITY);

    /// An error is pending.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::ERROR.is_error());
    /// ```
    pub const ERROR: Ready = Ready(ERROR);

    /// Ready for everything.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::ALL.is_readable() && Ready::ALL.is_writable());
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const ALL: Ready =
        Ready(READABLE | WRITABLE | READ_CLOSED | WRITE_CLOSED | PRIORITY | ERROR);

    /// Ready for everything.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub const ALL: Ready = Ready(READABLE | WRITABLE | READ_CLOSED | WRITE_CLOSED | ERROR);

    /// The states that last: a closed direction does not open again.
    pub(crate) const CLOSED: Ready = Ready(READ_CLOSED | WRITE_CLOSED);

    /// Every readiness that satisfies `interest`.
    pub(crate) const fn for_interest(interest: Interest) -> Ready {
        let mut bits = 0;
        if interest.is_readable() {
            bits |= READABLE | READ_CLOSED;
        }
        if interest.is_writable() {
            bits |= WRITABLE | WRITE_CLOSED;
        }
        if interest.wants_priority() {
            bits |= PRIORITY | READ_CLOSED;
        }
        if interest.is_error() {
            bits |= ERROR;
        }
        Ready(bits)
    }

    /// Converts an event of mio.
    #[cfg_attr(any(target_os = "linux", target_os = "android"), allow(dead_code))]
    pub(crate) fn from_event(event: &mio::event::Event) -> Ready {
        let mut bits = 0;
        let mut add = |holds: bool, bit: u8| bits |= if holds { bit } else { 0 };
        // A read returns the error, even of a source that is only written.
        add(event.is_readable() || event.is_error(), READABLE);
        add(event.is_writable(), WRITABLE);
        add(event.is_read_closed(), READ_CLOSED);
        add(event.is_write_closed(), WRITE_CLOSED);
        add(event.is_priority(), PRIORITY);
        add(event.is_error(), ERROR);
        // A completed asynchronous operation (AIO, LIO) counts as readable.
        add(event.is_aio() || event.is_lio(), READABLE);
        Ready(bits)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Ready {
        Ready(bits & (READABLE | WRITABLE | READ_CLOSED | WRITE_CLOSED | PRIORITY | ERROR))
    }

    /// Returns true if it is ready for nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::EMPTY.is_empty());
    /// assert!(!Ready::READABLE.is_empty());
    /// ```
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if a read would not wait: there is data, or the read half is
    /// closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::READABLE.is_readable());
    /// assert!(Ready::READ_CLOSED.is_readable());
    /// assert!(!Ready::WRITABLE.is_readable());
    /// ```
    pub fn is_readable(self) -> bool {
        self.has(READABLE | READ_CLOSED)
    }

    /// Returns true if a write would not wait: there is free space, or the write half
    /// is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::WRITABLE.is_writable());
    /// assert!(Ready::WRITE_CLOSED.is_writable());
    /// assert!(!Ready::READABLE.is_writable());
    /// ```
    pub fn is_writable(self) -> bool {
        self.has(WRITABLE | WRITE_CLOSED)
    }

    /// Returns true if the read half is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::READ_CLOSED.is_read_closed());
    /// assert!(!Ready::READABLE.is_read_closed());
    /// ```
    pub fn is_read_closed(self) -> bool {
        self.has(READ_CLOSED)
    }

    /// Returns true if the write half is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::WRITE_CLOSED.is_write_closed());
    /// assert!(!Ready::WRITABLE.is_write_closed());
    /// ```
    pub fn is_write_closed(self) -> bool {
        self.has(WRITE_CLOSED)
    }

    /// Returns true if urgent data is there to be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::PRIORITY.is_priority());
    /// assert!(!Ready::READABLE.is_priority());
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn is_priority(self) -> bool {
        self.has(PRIORITY)
    }

    /// Returns true if an error is pending.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Ready;
    ///
    /// assert!(Ready::ERROR.is_error());
    /// assert!(!Ready::WRITABLE.is_error());
    /// ```
    pub fn is_error(self) -> bool {
        self.has(ERROR)
    }

    /// Whether the set has any of `bits`.
    const fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
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
    fn an_interest_is_satisfied_by_the_end_as_well() {
        let read = Ready::for_interest(Interest::READABLE);
        assert_eq!(read, Ready::READABLE | Ready::READ_CLOSED);
        let write = Ready::for_interest(Interest::WRITABLE);
        assert_eq!(write, Ready::WRITABLE | Ready::WRITE_CLOSED);
        assert_eq!(Ready::for_interest(Interest::ERROR), Ready::ERROR);
    }

    #[test]
    fn bits_survive_the_round_trip() {
        for bits in 0..64 {
            let ready = Ready::from_bits(bits);
            assert_eq!(Ready::from_bits(ready.bits()), ready);
        }
        assert_eq!(Ready::from_bits(0xff).bits(), 0x3f);
    }

    #[test]
    fn the_set_operations_are_those_of_sets() {
        let both = Ready::READABLE | Ready::WRITABLE;
        assert_eq!(both & Ready::WRITABLE, Ready::WRITABLE);
        assert_eq!(both - both, Ready::EMPTY);
        let shown = format!("{both:?}");
        assert!(shown.starts_with("Ready { is_readable: true, is_writable: true"));
    }
}
