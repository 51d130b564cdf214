//! The timestamps of a file.

use std::time::SystemTime;

use super::doc::example;

/// Timestamps to set on a file with
/// [`File::set_times`](crate::fs::File::set_times). Those that are not given
/// stay as they are.
///
/// # Examples
///
#[doc = example!("use std::time::SystemTime;", "use blitzen::fs::{File, FileTimes};")]
/// let file = File::create(dir.join("file")).await?;
/// let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
/// file.set_times(times).await?;
/// assert_eq!(file.metadata().await?.modified()?, SystemTime::UNIX_EPOCH);
/// # std::fs::remove_dir_all(&dir) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "has no effect until it is passed to `File::set_times`"]
pub struct FileTimes(pub(super) std::fs::FileTimes);

impl FileTimes {
    /// Creates a value that sets no timestamp.
    ///
    /// # Examples
    ///
    #[doc = example!("use blitzen::fs::{File, FileTimes};")]
    /// let file = File::create(dir.join("file")).await?;
    /// file.set_times(FileTimes::new()).await?;
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn new() -> Self {
        Self(std::fs::FileTimes::new())
    }

    /// Sets the time of the last access to `when`.
    ///
    /// # Examples
    ///
    #[doc = example!("use std::time::SystemTime;", "use blitzen::fs::{File, FileTimes};")]
    /// let file = File::create(dir.join("file")).await?;
    /// let times = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH);
    /// file.set_times(times).await?;
    /// assert_eq!(file.metadata().await?.accessed()?, SystemTime::UNIX_EPOCH);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn set_accessed(self, when: SystemTime) -> Self {
        Self(self.0.set_accessed(when))
    }

    /// Sets the time of the last modification to `when`.
    ///
    /// # Examples
    ///
    #[doc = example!("use std::time::SystemTime;", "use blitzen::fs::{File, FileTimes};")]
    /// let file = File::create(dir.join("file")).await?;
    /// let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    /// file.set_times(times).await?;
    /// assert_eq!(file.metadata().await?.modified()?, SystemTime::UNIX_EPOCH);
    /// # std::fs::remove_dir_all(&dir) }
    /// ```
    pub fn set_modified(self, when: SystemTime) -> Self {
        Self(self.0.set_modified(when))
    }
}
