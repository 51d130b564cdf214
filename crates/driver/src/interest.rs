//! Which readiness an operation waits for.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

const READABLE: u8 = 1;
const WRITABLE: u8 = 1 << 1;
const PRIORITY: u8 = 1 << 2;
const ERROR: u8 = 1 << 3;

/// The readiness that an operation waits for. It is never empty.
///
/// # Examples
///
/// ```
/// use blitzen::io::Interest;
///
/// let both = Interest::READABLE | Interest::WRITABLE;
/// assert!(both.is_readable() && both.is_writable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Interest in reading: data, or the end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!(Interest::READABLE.is_readable());
    /// ```
    pub const READABLE: Interest = Interest(READABLE);

    /// Interest in writing: free space, or the end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!(Interest::WRITABLE.is_writable());
    /// ```
    pub const WRITABLE: Interest = Interest(WRITABLE);

    /// Interest in errors that the system reports. Which those are differs between
    /// systems.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!(Interest::ERROR.is_error());
    /// ```
    pub const ERROR: Interest = Interest(ERROR);

    /// Interest in urgent data.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!(Interest::PRIORITY.is_priority());
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const PRIORITY: Interest = Interest(PRIORITY);

    /// Returns true if reading is among the interests.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!(Interest::READABLE.is_readable());
    /// assert!(!Interest::WRITABLE.is_readable());
    /// ```
    pub const fn is_readable(self) -> bool {
        self.0 & READABLE != 0
    }

    /// Returns true if writing is among the interests.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!(Interest::WRITABLE.is_writable());
    /// assert!(!Interest::READABLE.is_writable());
    /// ```
    pub const fn is_writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    /// Returns true if errors are among the interests.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!((Interest::READABLE | Interest::ERROR).is_error());
    /// assert!(!Interest::READABLE.is_error());
    /// ```
    pub const fn is_error(self) -> bool {
        self.0 & ERROR != 0
    }

    /// Returns true if urgent data is among the interests.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// assert!((Interest::READABLE | Interest::PRIORITY).is_priority());
    /// assert!(!Interest::READABLE.is_priority());
    /// ```
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub const fn is_priority(self) -> bool {
        self.wants_priority()
    }

    pub(crate) const fn wants_priority(self) -> bool {
        self.0 & PRIORITY != 0
    }

    /// Returns the interests of both `self` and `other`. Works in constants.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);
    /// assert!(BOTH.is_readable() && BOTH.is_writable());
    /// ```
    #[must_use = "this returns the result without changing the original"]
    #[allow(clippy::should_implement_trait)] // works in constants, as the trait cannot
    pub const fn add(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// Returns the interests of `self` that are not in `other`, or `None` if none is
    /// left.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::io::Interest;
    ///
    /// let both = Interest::READABLE | Interest::WRITABLE;
    /// assert_eq!(both.remove(Interest::READABLE), Some(Interest::WRITABLE));
    /// assert_eq!(both.remove(both), None);
    /// ```
    #[must_use = "this returns the result without changing the original"]
    pub fn remove(self, other: Interest) -> Option<Interest> {
        match self.0 & !other.0 {
            0 => None,
            left => Some(Interest(left)),
        }
    }

    /// Converts to mio's interest.
    pub(crate) fn to_mio(self) -> mio::Interest {
        let wanted = [
            (READABLE, Some(mio::Interest::READABLE)),
            (WRITABLE, Some(mio::Interest::WRITABLE)),
            (PRIORITY, MIO_PRIORITY),
        ];
        wanted
            .into_iter()
            .filter(|(bit, _)| self.0 & bit != 0)
            .filter_map(|(_, interest)| interest)
            .reduce(mio::Interest::add)
            // mio reports errors for every interest, but refuses an empty one.
            // Events of this extra interest do not end the wait.
            .unwrap_or(mio::Interest::READABLE)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const MIO_PRIORITY: Option<mio::Interest> = Some(mio::Interest::PRIORITY);

#[cfg(not(any(target_os = "linux", target_os = "android")))]
const MIO_PRIORITY: Option<mio::Interest> = None;

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
        for (_, name) in names.into_iter().filter(|(bit, _)| self.0 & bit != 0) {
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
    fn an_interest_becomes_that_of_mio() {
        let both = Interest::READABLE | Interest::WRITABLE;
        let asked = both.to_mio();
        assert!(asked.is_readable() && asked.is_writable() && !asked.is_priority());
        assert!(!Interest::WRITABLE.to_mio().is_readable());
        // mio refuses an empty interest, so errors are requested with another one.
        assert!(Interest::ERROR.to_mio().is_readable());
    }

    #[test]
    fn the_interests_are_listed_by_name() {
        let mut interest = Interest::WRITABLE;
        interest |= Interest::READABLE;
        assert_eq!(format!("{interest:?}"), "READABLE | WRITABLE");
    }
}
