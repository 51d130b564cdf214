//! What a task wants to hear of about a descriptor.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Which kinds of readiness to wait for; never none.
///
/// ```
/// use blitzen_io::Interest;
///
/// let both = Interest::READABLE | Interest::WRITABLE;
/// assert!(both.is_readable() && both.is_writable());
/// assert_eq!(both.remove(Interest::WRITABLE), Some(Interest::READABLE));
/// ```
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Interest(u8);

const READABLE: u8 = 0b0001;
const WRITABLE: u8 = 0b0010;
const PRIORITY: u8 = 0b0100;
const ERROR: u8 = 0b1000;

impl Interest {
    /// Something to read, or the end of it.
    pub const READABLE: Interest = Interest(READABLE);

    /// Room to write, or nobody left to read it.
    pub const WRITABLE: Interest = Interest(WRITABLE);

    /// Urgent data, such as TCP's out-of-band byte.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const PRIORITY: Interest = Interest(PRIORITY);

    /// Errors only, which every other interest reports as well.
    pub const ERROR: Interest = Interest(ERROR);

    /// Whether reading is of interest.
    ///
    /// ```
    /// # use blitzen_io::Interest;
    /// assert!(Interest::READABLE.is_readable() && !Interest::WRITABLE.is_readable());
    /// ```
    pub const fn is_readable(self) -> bool {
        self.0 & READABLE != 0
    }

    /// Whether writing is of interest.
    ///
    /// ```
    /// # use blitzen_io::Interest;
    /// assert!(Interest::WRITABLE.is_writable() && !Interest::READABLE.is_writable());
    /// ```
    pub const fn is_writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    /// Whether errors were asked for by name.
    ///
    /// ```
    /// # use blitzen_io::Interest;
    /// assert!(Interest::ERROR.is_error() && !Interest::READABLE.is_error());
    /// ```
    pub const fn is_error(self) -> bool {
        self.0 & ERROR != 0
    }

    /// Whether urgent data is of interest.
    ///
    /// ```
    /// # use blitzen_io::Interest;
    /// assert!(Interest::PRIORITY.is_priority() && !Interest::READABLE.is_priority());
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const fn is_priority(self) -> bool {
        self.0 & PRIORITY != 0
    }

    /// Both interests.
    ///
    /// ```
    /// # use blitzen_io::Interest;
    /// const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);
    /// assert!(BOTH.is_readable() && BOTH.is_writable());
    /// ```
    #[must_use = "this returns the result and leaves the original as it is"]
    pub const fn add(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// This interest without `other`, or `None` if nothing is left.
    ///
    /// ```
    /// # use blitzen_io::Interest;
    /// let both = Interest::READABLE | Interest::WRITABLE;
    /// assert_eq!(both.remove(Interest::READABLE), Some(Interest::WRITABLE));
    /// assert_eq!(Interest::READABLE.remove(Interest::READABLE), None);
    /// ```
    #[must_use = "this returns the result and leaves the original as it is"]
    pub fn remove(self, other: Interest) -> Option<Interest> {
        match self.0 & !other.0 {
            0 => None,
            left => Some(Interest(left)),
        }
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.add(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (READABLE, "READABLE"),
            (WRITABLE, "WRITABLE"),
            (PRIORITY, "PRIORITY"),
            (ERROR, "ERROR"),
        ];
        let mut separator = "";
        for (_, name) in names.iter().filter(|(bit, _)| self.0 & bit != 0) {
            write!(f, "{separator}{name}")?;
            separator = " | ";
        }
        Ok(())
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_debug_form_names_every_part() {
        let both = Interest::READABLE | Interest::WRITABLE;
        assert_eq!(format!("{both:?}"), "READABLE | WRITABLE");
        assert_eq!(format!("{:?}", Interest::ERROR), "ERROR");
    }
}
