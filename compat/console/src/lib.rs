//! Empty: the programs are tests of this package.
