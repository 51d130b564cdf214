//! Conversions from std, and access to the descriptor.

/// `TryFrom` a socket of the standard library, `Debug`, and the descriptor.
macro_rules! std_traits {
    ($socket:ident, $std:ty) => {
        impl TryFrom<$std> for $socket {
            type Error = std::io::Error;

            #[track_caller]
            fn try_from(socket: $std) -> std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl std::fmt::Debug for $socket {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.io.fmt(f)
            }
        }

        descriptor_traits!($socket);
    };
}

/// The descriptor of the socket in the field `io`.
macro_rules! descriptor_traits {
    ($socket:ident) => {
        #[cfg(unix)]
        impl std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.io.as_raw_fd()
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                use std::os::fd::AsRawFd;
                // SAFETY: the socket stays open while it is borrowed.
                unsafe { std::os::fd::BorrowedFd::borrow_raw(self.as_raw_fd()) }
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsRawSocket for $socket {
            fn as_raw_socket(&self) -> std::os::windows::io::RawSocket {
                self.io.as_raw_socket()
            }
        }

        #[cfg(windows)]
        impl std::os::windows::io::AsSocket for $socket {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                use std::os::windows::io::AsRawSocket;
                // SAFETY: the socket stays open while it is borrowed.
                unsafe { std::os::windows::io::BorrowedSocket::borrow_raw(self.as_raw_socket()) }
            }
        }
    };
}
