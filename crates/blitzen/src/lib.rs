//! An async I/O runtime with the shape of Tokio.
