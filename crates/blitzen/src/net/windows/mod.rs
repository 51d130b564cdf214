//! Named pipes, which only Windows has.

pub mod named_pipe;
mod pipe_io;
