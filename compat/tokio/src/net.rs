//! Sockets. Without the feature `net`, only the trait of addresses.

pub use blitzen::net::ToSocketAddrs;
#[cfg(feature = "net")]
pub use blitzen::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, lookup_host};
#[cfg(all(unix, feature = "net"))]
pub use blitzen::net::{UnixDatagram, UnixListener, UnixSocket, UnixStream};

/// Halves of a TCP stream.
#[cfg(feature = "net")]
pub mod tcp {
    pub use blitzen::net::tcp::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
}

/// Halves, addresses and credentials of Unix sockets.
#[cfg(all(unix, feature = "net"))]
pub mod unix {
    pub use blitzen::net::unix::{
        OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, SocketAddr, UCred, WriteHalf, gid_t,
        pid_t, uid_t,
    };

    /// Empty, as in Tokio.
    #[doc(hidden)]
    pub mod datagram {}

    /// Pipes, named and unnamed.
    pub mod pipe {
        pub use blitzen::net::unix::pipe::{OpenOptions, Receiver, Sender, pipe};
    }
}

/// Sockets of Windows alone.
#[cfg(all(windows, feature = "net"))]
pub mod windows {
    /// Named pipes.
    pub mod named_pipe {
        pub use blitzen::net::windows::named_pipe::{
            ClientOptions, NamedPipeClient, NamedPipeServer, PipeEnd, PipeInfo, PipeMode,
            ServerOptions,
        };
    }
}
