//! Socket options that several types have.
//!
//! Each type has a method `raw()`, which returns its socket as a
//! [`SockRef`](socket2::SockRef). The setup makes `socket`.

/// `IP_TTL`.
macro_rules! ttl_methods {
    ($setup:expr) => {
        /// Returns the time to live of the packets that are sent (`IP_TTL`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.set_ttl(64)?;
        /// assert_eq!(socket.ttl()?, 64);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockopt(2)`.
        pub fn ttl(&self) -> std::io::Result<u32> {
            self.raw().ttl_v4()
        }

        /// Sets the time to live of the packets that are sent (`IP_TTL`): the
        /// number of routers that a packet may pass.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.set_ttl(100)?;
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `setsockopt(2)`, such as
        /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) for a value that
        /// the system does not allow.
        pub fn set_ttl(&self, ttl: u32) -> std::io::Result<()> {
            self.raw().set_ttl_v4(ttl)
        }
    };
}

/// `TCP_NODELAY`.
macro_rules! nodelay_methods {
    ($setup:expr) => {
        /// Returns whether Nagle's algorithm is off (`TCP_NODELAY`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// assert!(!socket.nodelay()?);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockopt(2)`.
        pub fn nodelay(&self) -> std::io::Result<bool> {
            self.raw().tcp_nodelay()
        }

        /// Turns Nagle's algorithm off or on (`TCP_NODELAY`).
        ///
        /// If `nodelay` is true, small writes are sent at once. Otherwise the
        /// system may gather them until earlier ones are acknowledged.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.set_nodelay(true)?;
        /// assert!(socket.nodelay()?);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `setsockopt(2)`.
        pub fn set_nodelay(&self, nodelay: bool) -> std::io::Result<()> {
            self.raw().set_tcp_nodelay(nodelay)
        }
    };
}

/// `SO_LINGER`.
macro_rules! linger_methods {
    ($setup:expr) => {
        /// Returns how long closing the socket waits for data to be delivered
        /// (`SO_LINGER`), or `None` if it does not wait.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// assert_eq!(socket.linger()?, None);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockopt(2)`.
        pub fn linger(&self) -> std::io::Result<Option<std::time::Duration>> {
            self.raw().linger()
        }

        /// Sets how long closing the socket waits for data to be delivered
        /// (`SO_LINGER`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.set_linger(None)?;
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `setsockopt(2)`.
        #[deprecated = "closing the socket would block a worker; `set_zero_linger` does not"]
        pub fn set_linger(&self, dur: Option<std::time::Duration>) -> std::io::Result<()> {
            self.raw().set_linger(dur)
        }

        /// Makes closing the socket reset the connection (`SO_LINGER` with a
        /// time of zero).
        ///
        /// The peer gets
        /// [`ConnectionReset`](std::io::ErrorKind::ConnectionReset); data that
        /// was not delivered is lost.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.set_zero_linger()?;
        /// assert_eq!(socket.linger()?, Some(std::time::Duration::ZERO));
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `setsockopt(2)`.
        pub fn set_zero_linger(&self) -> std::io::Result<()> {
            self.raw().set_linger(Some(std::time::Duration::ZERO))
        }
    };
}

/// `IP_TOS`, where the system has it.
macro_rules! tos_methods {
    ($setup:expr) => {
        /// Returns the type of service of packets sent over IPv4 (`IP_TOS`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// assert_eq!(socket.tos_v4()?, 0);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockopt(2)`.
        #[cfg(not(any(
            target_os = "fuchsia",
            target_os = "redox",
            target_os = "solaris",
            target_os = "illumos",
            target_os = "haiku",
        )))]
        pub fn tos_v4(&self) -> std::io::Result<u32> {
            self.raw().tos_v4()
        }

        /// Sets the type of service of packets sent over IPv4 (`IP_TOS`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.set_tos_v4(96)?;
        /// assert_eq!(socket.tos_v4()?, 96);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `setsockopt(2)`.
        #[cfg(not(any(
            target_os = "fuchsia",
            target_os = "redox",
            target_os = "solaris",
            target_os = "illumos",
            target_os = "haiku",
        )))]
        pub fn set_tos_v4(&self, tos: u32) -> std::io::Result<()> {
            self.raw().set_tos_v4(tos)
        }

        /// The former name of [`tos_v4`](Self::tos_v4).
        #[deprecated(note = "it concerns IPv4 only: use `tos_v4`")]
        #[doc(hidden)]
        #[cfg(not(any(
            target_os = "fuchsia",
            target_os = "redox",
            target_os = "solaris",
            target_os = "illumos",
            target_os = "haiku",
        )))]
        pub fn tos(&self) -> std::io::Result<u32> {
            self.tos_v4()
        }

        /// The former name of [`set_tos_v4`](Self::set_tos_v4).
        #[deprecated(note = "it concerns IPv4 only: use `set_tos_v4`")]
        #[doc(hidden)]
        #[cfg(not(any(
            target_os = "fuchsia",
            target_os = "redox",
            target_os = "solaris",
            target_os = "illumos",
            target_os = "haiku",
        )))]
        pub fn set_tos(&self, tos: u32) -> std::io::Result<()> {
            self.set_tos_v4(tos)
        }
    };
}

/// `IPV6_TCLASS`, where the system has it. The setup makes a `socket` for IPv6.
macro_rules! tclass_methods {
    ($setup:expr) => {
        /// Returns the traffic class of packets sent over IPv6 (`IPV6_TCLASS`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// assert_eq!(socket.tclass_v6()?, 0);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockopt(2)`.
        #[cfg(any(
            target_os = "android",
            target_os = "dragonfly",
            target_os = "freebsd",
            target_os = "fuchsia",
            target_os = "linux",
            target_os = "macos",
            target_os = "netbsd",
            target_os = "openbsd",
        ))]
        pub fn tclass_v6(&self) -> std::io::Result<u32> {
            self.raw().tclass_v6()
        }

        /// Sets the traffic class of packets sent over IPv6 (`IPV6_TCLASS`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// socket.set_tclass_v6(96)?;
        /// assert_eq!(socket.tclass_v6()?, 96);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `setsockopt(2)`.
        #[cfg(any(
            target_os = "android",
            target_os = "dragonfly",
            target_os = "freebsd",
            target_os = "fuchsia",
            target_os = "linux",
            target_os = "macos",
            target_os = "netbsd",
            target_os = "openbsd",
        ))]
        pub fn set_tclass_v6(&self, tclass: u32) -> std::io::Result<()> {
            self.raw().set_tclass_v6(tclass)
        }
    };
}

/// `SO_BINDTODEVICE`, where the system has it.
macro_rules! device_methods {
    ($setup:expr) => {
        /// Returns the name of the network device that the socket is bound to,
        /// or `None` (`SO_BINDTODEVICE`).
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// assert_eq!(socket.device()?, None);
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `getsockopt(2)`.
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        pub fn device(&self) -> std::io::Result<Option<Vec<u8>>> {
            self.raw().device()
        }

        /// Binds the socket to the network device named `interface`
        /// (`SO_BINDTODEVICE`); `None` undoes it.
        ///
        /// # Examples
        ///
        #[doc = $setup]
        /// match socket.bind_device(Some(b"lo")) {
        ///     Ok(()) => assert_eq!(socket.device()?.as_deref(), Some(&b"lo"[..])),
        ///     Err(error) => println!("not allowed here: {error}"),
        /// }
        /// # Ok(()) }
        /// ```
        ///
        /// # Errors
        /// Returns the error of `setsockopt(2)`, such as
        /// [`PermissionDenied`](std::io::ErrorKind::PermissionDenied).
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        pub fn bind_device(&self, interface: Option<&[u8]>) -> std::io::Result<()> {
            self.raw().bind_device(interface)
        }
    };
}
