//! Empty: the program is a test of this package.
