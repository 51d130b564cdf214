//! A temporary path for a test.

use std::ffi::CString;
use std::path::PathBuf;

/// A path that does not exist yet; what is there is removed on drop.
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
