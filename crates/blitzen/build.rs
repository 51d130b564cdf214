//! Says with `cfg(blitzen_poll)` whether mio waits in poll(2), and with `cfg(blitzen_ring)` whether
//! this target can have an io_uring: the conditions of `blitzen-driver`, whose build script has the
//! reasons. And with `cfg(blitzen_baton)` that coroutines are threads: the opposite of the condition
//! in `blitzen-stack`.

use std::env;

const WITH_RING: [&str; 5] = ["x86_64", "aarch64", "riscv64", "loongarch64", "powerpc64"];
const POLL_SYSTEMS: [&str; 9] = [
    "aix", "cygwin", "espidf", "fuchsia", "haiku", "hurd", "nto", "nuttx", "vita",
];
const WITH_STACKS: [&str; 4] = ["x86_64", "x86", "aarch64", "riscv64"];

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
        && is("CARGO_CFG_TARGET_ARCH", &WITH_RING)
        && !has_poll;
    if has_ring {
        println!("cargo::rustc-cfg=blitzen_ring");
    }
    let has_stacks =
        is("CARGO_CFG_TARGET_FAMILY", &["unix"]) && is("CARGO_CFG_TARGET_ARCH", &WITH_STACKS);
    if !has_stacks {
        println!("cargo::rustc-cfg=blitzen_baton");
    }
}
