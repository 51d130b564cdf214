//! Says with `cfg(blitzen_poll)` whether mio waits in poll(2), and with `cfg(blitzen_ring)` whether
//! this target can have an io_uring. `blitzen` has the second condition in a build script of its
//! own, too, and `Cargo.toml` for the dependency.
//!
//! That is Linux on a processor whose kernel interface the `io-uring` crate describes: none
//! with 32 bits. A ring also waits for the worker's poller, which therefore has to be a
//! descriptor: mio's stand-in over poll(2) is none.
//!
//! Without a ring, files are read and written at once if the kernel need not wait (Linux), and
//! all other file operations run on the blocking pool.

use std::env;

const ARCHITECTURES: [&str; 5] = ["x86_64", "aarch64", "riscv64", "loongarch64", "powerpc64"];

/// The Unix systems for which mio has neither epoll nor kqueue nor event ports.
const POLL_SYSTEMS: [&str; 9] = [
    "aix", "cygwin", "espidf", "fuchsia", "haiku", "hurd", "nto", "nuttx", "vita",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(blitzen_poll, blitzen_ring)");
    let is = |name: &str, values: &[&str]| {
        env::var(name).is_ok_and(|value| values.contains(&value.as_str()))
    };
    let has_poll = is("CARGO_CFG_TARGET_OS", &POLL_SYSTEMS)
        || env::var_os("CARGO_CFG_MIO_UNSUPPORTED_FORCE_POLL_POLL").is_some();
    if has_poll {
        println!("cargo::rustc-cfg=blitzen_poll");
    }
    let has_ring = is("CARGO_CFG_TARGET_OS", &["linux"])
        && is("CARGO_CFG_TARGET_POINTER_WIDTH", &["64"])
        && is("CARGO_CFG_TARGET_ARCH", &ARCHITECTURES)
        && !has_poll;
    if has_ring {
        println!("cargo::rustc-cfg=blitzen_ring");
    }
}
