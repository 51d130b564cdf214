//! When a file was last used.

use std::time::SystemTime;

/// Times to be set on a file; those not given stay as they are.
///
/// ```
/// use std::time::SystemTime;
///
/// let times = blitzen::fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
/// # drop(times);
/// ```
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct FileTimes(pub(super) std::fs::FileTimes);

impl FileTimes {
    /// None given.
    ///
    /// ```
    /// let times = blitzen::fs::FileTimes::new();
    /// # drop(times);
    /// ```
    pub fn new() -> Self {
        Self(std::fs::FileTimes::new())
    }

    /// When it was last read.
    ///
    /// ```
    /// # use std::time::SystemTime;
    /// let times = blitzen::fs::FileTimes::new().set_accessed(SystemTime::now());
    /// # drop(times);
    /// ```
    pub fn set_accessed(self, when: SystemTime) -> Self {
        Self(self.0.set_accessed(when))
    }

    /// When it was last written.
    ///
    /// ```
    /// # use std::time::SystemTime;
    /// let times = blitzen::fs::FileTimes::new().set_modified(SystemTime::now());
    /// # drop(times);
    /// ```
    pub fn set_modified(self, when: SystemTime) -> Self {
        Self(self.0.set_modified(when))
    }
}
