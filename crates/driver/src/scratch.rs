//! A place for a file of a test's own.

use std::ffi::CString;
use std::path::PathBuf;

/// A path where there is nothing yet, and nothing any more afterwards.
pub(crate) struct TempPath(pub(crate) PathBuf);

impl TempPath {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("blitzen-driver-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn c(&self) -> CString {
        CString::new(self.0.to_str().unwrap()).unwrap()
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
