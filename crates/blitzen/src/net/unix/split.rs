//! The halves of a [`UnixStream`].

use super::{SocketAddr, UnixStream};

halves!(UnixStream, SocketAddr, "unix", unix_pair);
