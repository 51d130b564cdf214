//! The message for a fiber that runs out of its stack.
//!
//! Its next frame lies in the guard area, and the kernel sends SIGSEGV (SIGBUS on some systems).
//! The handler runs on the thread's alternate stack. If the address is in the guard area of a
//! fiber that the thread runs, it writes a message and ends the process; otherwise it
//! calls the handler that was there before. There is no way to go on: the frames cannot be
//! unwound from here, and to skip them would be unsound.
//!
//! G1. [`CURRENT`] leads to the [`FiberInfo`] of the fiber that was resumed last on this thread, and
//!     has neither been suspended nor returned; otherwise it is null. That fiber may have called a
//!     function on the stack of whoever resumed it, which can be another fiber: each leads to that
//!     one.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::FiberInfo;
use crate::guard::GUARD_SIZE;
use crate::slab::Stack;

/// What the handler must know of a fiber.
pub(crate) struct Guarded {
    pub(crate) info: FiberInfo,
    guard_start: usize,
    /// The fiber that has resumed it, if one has (G1).
    outer: Cell<*const Guarded>,
}

impl Guarded {
    pub(crate) fn new(info: FiberInfo, stack: &Stack) -> Self {
        Self {
            info,
            guard_start: stack.limit(),
            outer: Cell::new(null()),
        }
    }
}

thread_local! {
    /// G1. Without a destructor, so that the handler may read it.
    static CURRENT: Cell<*const Guarded> = const { Cell::new(null()) };
    /// Whether this thread has an alternate stack.
    static HAS_ALTERNATE_STACK: Cell<bool> = const { Cell::new(false) };
}

/// The handlers that were there before, by their signal: set before ours is installed.
static PREVIOUS: [AtomicPtr<libc::sigaction>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Notes that the calling thread runs the fiber `guarded` from now on.
#[inline]
pub(crate) fn enter(guarded: &Guarded) {
    guarded.outer.set(CURRENT.replace(guarded));
}

/// Notes that the fiber `guarded`, which was entered last, has been suspended or has returned.
#[inline]
pub(crate) fn leave(guarded: &Guarded) {
    CURRENT.set(guarded.outer.get());
}

/// Makes sure that an overflow on the calling thread is noticed.
#[inline]
pub(crate) fn prepare_thread() {
    if !HAS_ALTERNATE_STACK.get() {
        prepare_thread_once();
    }
}

#[cold]
fn prepare_thread_once() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(install_handlers);
    HAS_ALTERNATE_STACK.set(true);
    let mut existing = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: only asks.
    let asked = unsafe { libc::sigaltstack(null(), existing.as_mut_ptr()) };
    // SAFETY: zeroed, or filled by the call.
    let existing = unsafe { existing.assume_init() };
    // std gives one to every thread that it starts.
    if asked == 0 && existing.ss_flags & libc::SS_DISABLE != 0 {
        let size = libc::SIGSTKSZ.max(64 * 1024);
        // It stays the thread's to its very end, so it cannot be freed before.
        let memory = Box::leak(vec![0_u8; size].into_boxed_slice());
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: size,
        };
        // SAFETY: memory of its own, never freed.
        unsafe { libc::sigaltstack(&stack, null_mut()) };
    }
}

fn install_handlers() {
    for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
        // SAFETY: zero is a valid `sigaction`; the handler has the signature that SA_SIGINFO
        // asks for, and does only what a handler may.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, null(), &mut before) != 0 {
                continue;
            }
            // Release, met by the Acquire in `chain`. Never freed: the handler stays.
            previous.store(Box::leak(Box::new(before)), Release);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &action, null_mut());
        }
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let mut next = CURRENT.get();
    // SAFETY: the kernel's, for a signal that has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: G1.
    while let Some(guarded) = unsafe { next.as_ref() } {
        if (guarded.guard_start..guarded.guard_start + GUARD_SIZE).contains(&address) {
            report(&guarded.info);
            // SAFETY: may be called from a handler.
            unsafe { libc::abort() };
        }
        next = guarded.outer.get();
    }
    chain(signal, info, context);
}

/// Calls the handler that was there before.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = usize::from(signal != SIGNALS[0]);
    // Acquire, met by the Release in `install_handlers`.
    let previous = PREVIOUS[index].load(Acquire);
    // SAFETY: set before the handler was installed, never freed.
    let previous = unsafe { &*previous };
    match previous.sa_sigaction {
        // SAFETY: puts the default back: the instruction faults again, and ends the process.
        libc::SIG_DFL | libc::SIG_IGN => unsafe {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, null_mut());
        },
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler of this kind, as its flags say.
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler without information, as its flags say.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Writes the message. A handler must not allocate, nor take the lock of the standard error.
fn report(info: &FiberInfo) {
    let mut line = [0_u8; 20];
    let mut column = [0_u8; 20];
    let mut size = [0_u8; 20];
    let name = info.name.unwrap_or("<unnamed>");
    let place = info.spawned_at;
    let parts = [
        "\ncoroutine '",
        name,
        "', spawned at ",
        place.file(),
        ":",
        decimal(place.line() as usize, &mut line),
        ":",
        decimal(place.column() as usize, &mut column),
        ", has overflowed its stack of ",
        decimal(info.stack_size, &mut size),
        " bytes\n",
    ];
    for part in parts {
        // SAFETY: the bytes of a string. If nobody can read them the process ends all the same.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
}

/// Writes `number` at the end of `digits`.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &str {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    str::from_utf8(&digits[start..]).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn numbers_are_written_without_allocating() {
        for number in [0, 7, 10, 262_144, usize::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string());
        }
    }
}
