//! Descriptors and wakers, never a task: the I/O engine of blitzen.
