//! Empty: the published tests are built as tests of this package.
