//! Asynchronous reading and writing: traits, buffers and combinators for any executor.
