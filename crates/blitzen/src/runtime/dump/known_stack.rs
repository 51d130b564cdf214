//! The stacks of a dump. Thousands of tasks wait at the same few places, so each distinct stack is
//! kept once, and its names are looked up once.
//!
//! N1. Two stacks are the same if their return addresses are.
//! N2. Names are looked up by the dumper alone, when all answers are there: std holds a lock
//!     meanwhile that a worker needs to capture a stack.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::deep::frames;

/// A stack that one task or many wait with.
pub(super) struct KnownStack {
    captured: Backtrace,
    /// Its calls, innermost first, once they were looked up.
    frames: OnceLock<Arc<[String]>>,
}

impl KnownStack {
    pub(super) fn capture() -> Arc<Self> {
        Arc::new(Self {
            captured: Backtrace::force_capture(),
            frames: OnceLock::new(),
        })
    }

    /// Returns its calls. Looks them up if nobody has, and `has_time` returns true.
    pub(super) fn resolve(&self, has_time: &mut dyn FnMut() -> bool) -> Option<Arc<[String]>> {
        let known = self.frames.get().cloned();
        known.or_else(|| {
            let look_up = || frames(&self.captured.to_string()).into();
            has_time().then(|| self.frames.get_or_init(look_up).clone())
        })
    }
}

/// The stacks of a dump, by their return addresses (N1).
#[derive(Default)]
pub(super) struct KnownStacks(HashMap<Box<[usize]>, Arc<KnownStack>>);

impl KnownStacks {
    pub(super) fn get(&self, addresses: &[usize]) -> Option<Arc<KnownStack>> {
        self.0.get(addresses).cloned()
    }

    /// Adds a stack; returns the one that another thread has added meanwhile, if there is one.
    pub(super) fn add(&mut self, addresses: Vec<usize>, stack: Arc<KnownStack>) -> Arc<KnownStack> {
        let known = self.0.entry(addresses.into_boxed_slice());
        known.or_insert(stack).clone()
    }
}

/// The return addresses of the calling thread's stack; `None` where they cannot be had without
/// names.
pub(super) fn return_addresses() -> Option<Vec<usize>> {
    cfg_select! {
        any(unix, windows) => { Some(unwind::return_addresses()) }
        _ => { None }
    }
}

#[cfg(windows)]
mod unwind {
    use windows_sys::Win32::System::Diagnostics::Debug::RtlCaptureStackBackTrace;

    pub(super) fn return_addresses() -> Vec<usize> {
        let mut addresses = vec![0_usize; 64];
        loop {
            let room = addresses.len();
            // SAFETY: there is room for so many addresses; a hash is not asked for.
            let count = unsafe {
                RtlCaptureStackBackTrace(
                    0,
                    room as u32,
                    addresses.as_mut_ptr().cast(),
                    std::ptr::null_mut(),
                )
            };
            if usize::from(count) < room {
                addresses.truncate(count.into());
                return addresses;
            }
            addresses.resize(2 * room, 0);
        }
    }
}

#[cfg(unix)]
mod unwind {
    use std::ffi::{c_int, c_void};

    /// Goes on with the next frame.
    const NO_REASON: c_int = 0;

    type OnFrame = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

    // The unwinder that std brings along.
    unsafe extern "C" {
        fn _Unwind_Backtrace(on_frame: OnFrame, argument: *mut c_void) -> c_int;
        #[cfg(not(target_arch = "arm"))]
        fn _Unwind_GetIP(frame: *mut c_void) -> usize;
        #[cfg(target_arch = "arm")]
        fn _Unwind_VRS_Get(
            frame: *mut c_void,
            class: c_int,
            register: u32,
            representation: c_int,
            value: *mut c_void,
        ) -> c_int;
    }

    /// Returns the instruction pointer of a frame. On 32-bit ARM it has no function of its own: it is
    /// register 15 of the core (class 0), as an unsigned integer (representation 0).
    ///
    /// # Safety
    /// `frame` is that of the unwinder, during its call.
    unsafe fn instruction_pointer(frame: *mut c_void) -> usize {
        cfg_select! {
            target_arch = "arm" => {
                let mut address = 0_usize;
                // SAFETY: the caller upholds the contract for `frame`; a register has the size of
                // `address`.
                unsafe { _Unwind_VRS_Get(frame, 0, 15, 0, (&raw mut address).cast()) };
                address
            }
            _ => {
                // SAFETY: the caller upholds the same contract.
                unsafe { _Unwind_GetIP(frame) }
            }
        }
    }

    pub(super) fn return_addresses() -> Vec<usize> {
        let mut addresses: Vec<usize> = Vec::with_capacity(64);
        // SAFETY: `push` has the signature of the Itanium C++ ABI, and is called only before this
        // returns, with the pointer to `addresses`, which nobody else uses meanwhile.
        unsafe { _Unwind_Backtrace(push, (&raw mut addresses).cast()) };
        addresses
    }

    extern "C" fn push(frame: *mut c_void, addresses: *mut c_void) -> c_int {
        // SAFETY: the unwinder passes on the pointer of `return_addresses`, whose vector is alive.
        let addresses = unsafe { &mut *addresses.cast::<Vec<usize>>() };
        // SAFETY: `frame` is that of the unwinder, during its call.
        addresses.push(unsafe { instruction_pointer(frame) });
        NO_REASON
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_looked_up_once_and_only_if_there_is_time() {
        let stack = KnownStack::capture();
        let mut questions = 0;
        let mut ask = |answer: bool| {
            let resolved = stack.resolve(&mut || {
                questions += 1;
                answer
            });
            (resolved.is_some(), questions)
        };
        assert_eq!(ask(false), (false, 1), "there is no time");
        assert_eq!(ask(true), (true, 2), "it is looked up");
        assert_eq!(ask(false), (true, 2), "it is known");
    }

    #[cfg(any(unix, windows))]
    #[test]
    fn the_same_place_has_the_same_stack() {
        #[inline(never)]
        fn here() -> Vec<usize> {
            return_addresses().unwrap()
        }
        let places: Vec<_> = (0..2).map(|_| here()).collect();
        assert!(places[0].len() > 2 && places[0] == places[1]);
        let elsewhere = here();
        assert_ne!(places[0], elsewhere);
        let mut known = KnownStacks::default();
        assert!(known.get(&elsewhere).is_none());
        let first = known.add(elsewhere.clone(), KnownStack::capture());
        let second = known.add(elsewhere.clone(), KnownStack::capture());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first, &known.get(&elsewhere).unwrap()));
    }
}
