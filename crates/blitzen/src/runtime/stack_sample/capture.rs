//! Interrupts a thread, and copies its registers and its stack.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use blitzen_util::kernel_thread::kernel_thread_id;
use blitzen_util::sample_slot::SampleSlot;

use super::unwind::{self, REGISTERS, StackCopy};

/// Ignored by default, and programs that use it have to expect it at any time.
const SIGNAL: libc::c_int = libc::SIGURG;

/// How long to wait for a thread: it may have blocked the signal, or wait for a processor.
const LIMIT: Duration = Duration::from_secs(1);

/// How many words of a stack are copied.
const COPY_WORDS: usize = 8 * 1024;

/// The stack of a thread: from its end, where it grows to, to its start.
#[derive(Clone, Copy)]
struct StackBounds {
    low: usize,
    high: usize,
}

/// What a handler fills.
struct SharedCopy {
    slot: SampleSlot,
    /// Set by the asker.
    low: AtomicUsize,
    high: AtomicUsize,
    /// Set by the handler.
    registers: [AtomicU64; REGISTERS],
    pc: AtomicU64,
    len: AtomicUsize,
    words: [AtomicU64; COPY_WORDS],
}

static COPY: SharedCopy = SharedCopy {
    slot: SampleSlot::new(),
    low: AtomicUsize::new(0),
    high: AtomicUsize::new(0),
    registers: [const { AtomicU64::new(0) }; REGISTERS],
    pc: AtomicU64::new(0),
    len: AtomicUsize::new(0),
    words: [const { AtomicU64::new(0) }; COPY_WORDS],
};

/// The stack of a thread that can be asked, until it ends (S3).
type ThreadNote = Arc<Mutex<Option<StackBounds>>>;

/// Nothing before somebody wants samples.
static THREADS: Mutex<Option<HashMap<u32, ThreadNote>>> = Mutex::new(None);

/// Held by whoever uses the copy.
static ASKER: Mutex<()> = Mutex::new(());

/// What handled the signal before.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler, for the rest of the process: another one may have been installed after it,
/// which calls it.
pub(crate) fn enable() -> io::Result<()> {
    static IS_INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = IS_INSTALLED
        .get_or_init(|| install().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)));
    installed.map_err(io::Error::from_raw_os_error)?;
    lock(&THREADS).get_or_insert_default();
    Ok(())
}

fn install() -> io::Result<()> {
    let mut previous = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks for what is installed, and has room for the answer.
    if unsafe { libc::sigaction(SIGNAL, null(), previous.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it.
    let previous = unsafe { previous.assume_init() };
    // Before the handler can run. Never freed: a handler may be using it.
    set_previous(previous);
    // SAFETY: all zeros is a valid value.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    // Calls that the program's own handler would interrupt are interrupted still; others go on.
    let restart = match is_function(&previous) {
        true => previous.sa_flags & libc::SA_RESTART,
        false => libc::SA_RESTART,
    };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | restart;
    action.sa_mask = previous.sa_mask;
    let mut replaced = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the handler keeps to what a handler may do (S1), and there is room for the answer.
    if unsafe { libc::sigaction(SIGNAL, &action, replaced.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it.
    let replaced = unsafe { replaced.assume_init() };
    if replaced.sa_sigaction != previous.sa_sigaction {
        set_previous(replaced); // another thread has installed one meanwhile
    }
    Ok(())
}

fn set_previous(action: libc::sigaction) {
    // Release, met by the Acquire in `call_previous`.
    PREVIOUS.store(Box::leak(Box::new(action)), Release);
}

fn is_function(action: &libc::sigaction) -> bool {
    action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
}

/// Notes the stack of the calling thread, which begins to run a worker.
pub(crate) fn note_thread() {
    /// Takes the note back when the thread ends (S3).
    struct Noted(u32, ThreadNote);

    impl Drop for Noted {
        fn drop(&mut self) {
            *lock(&self.1) = None;
            if let Some(threads) = &mut *lock(&THREADS) {
                threads.remove(&self.0);
            }
        }
    }

    thread_local! {
        static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
    }

    if lock(&THREADS).is_none() {
        return;
    }
    // A thread that is being destroyed is not noted any more.
    let _ = NOTED.try_with(|noted| {
        let mut noted = noted.borrow_mut();
        if noted.is_some() {
            return;
        }
        let (thread, note) = (kernel_thread_id(), Arc::new(Mutex::new(stack_bounds())));
        let mut threads = lock(&THREADS);
        threads.get_or_insert_default().insert(thread, note.clone());
        *noted = Some(Noted(thread, note));
    });
}

/// The stack of the calling thread.
fn stack_bounds() -> Option<StackBounds> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: of the calling thread, and there is room for the answer.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut low, mut size) = (null_mut(), 0);
    // SAFETY: the call above has filled them, and there is room for both answers.
    let failed =
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut size) } != 0;
    // SAFETY: filled above, and not used after this.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let low = low.addr();
    (!failed).then(|| StackBounds {
        low,
        high: low + size,
    })
}

/// The return addresses on the stack of a thread, innermost first; none if it does not answer.
pub(crate) fn addresses_of(kernel_thread: u32) -> Vec<usize> {
    let note = lock(&THREADS)
        .as_ref()
        .and_then(|threads| threads.get(&kernel_thread).cloned());
    let Some(note) = note else { return Vec::new() };
    let asker = lock(&ASKER);
    // Until the copy is there: S3.
    let bounds = lock(&note);
    let Some(StackBounds { low, high }) = *bounds else {
        return Vec::new();
    };
    COPY.low.store(low, Relaxed);
    COPY.high.store(high, Relaxed);
    let copied = COPY
        .slot
        .ask(kernel_thread, LIMIT, || interrupt(kernel_thread), read_copy);
    drop((bounds, asker));
    copied.map_or(Vec::new(), |copied| unwind::addresses(&copied))
}

fn read_copy() -> StackCopy {
    let len = COPY.len.load(Relaxed);
    StackCopy {
        pc: COPY.pc.load(Relaxed),
        registers: COPY.registers.each_ref().map(|word| word.load(Relaxed)),
        words: COPY.words[..len]
            .iter()
            .map(|word| word.load(Relaxed))
            .collect(),
    }
}

/// A `siginfo_t` as `sigqueue(3)` fills it.
#[repr(C)]
struct QueuedInfo {
    signal: i32,
    error: i32,
    code: i32,
    _padding: i32,
    process: u32,
    user: u32,
    value: usize,
    _rest: [u64; 12],
}

const _: () = assert!(size_of::<QueuedInfo>() == size_of::<libc::siginfo_t>());

/// Sends the signal to a thread of this process, with a value that no other sender has.
fn interrupt(kernel_thread: u32) -> bool {
    let info = QueuedInfo {
        signal: SIGNAL,
        error: 0,
        code: libc::SI_QUEUE,
        _padding: 0,
        process: std::process::id(),
        // SAFETY: a call without arguments.
        user: unsafe { libc::getuid() },
        value: (&raw const COPY).addr(),
        _rest: [0; 12],
    };
    // SAFETY: `info` is a whole `siginfo_t`, and the call only reads it.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            std::process::id(),
            kernel_thread,
            SIGNAL,
            &raw const info,
        )
    };
    sent == 0
}

/// The handler.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes both, for as long as the handler runs.
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value().sival_ptr.addr()) };
    if code != libc::SI_QUEUE || value != (&raw const COPY).addr() {
        return call_previous(signal, info, context);
    }
    // SAFETY: the address of this thread's own.
    let error = unsafe { *libc::__errno_location() };
    COPY.slot.note(kernel_thread_id(), || {
        // SAFETY: with `SA_SIGINFO` it is the context of the code that was interrupted.
        copy_stack(unsafe { &*context.cast::<libc::ucontext_t>() });
    });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}

fn call_previous(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // Acquire, met by the Release in `set_previous`.
    // SAFETY: null, or leaked.
    let Some(previous) = (unsafe { PREVIOUS.load(Acquire).as_ref() }) else {
        return;
    };
    if !is_function(previous) {
        return; // the default is to do nothing
    }
    if previous.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: by its flags it is a function with these arguments.
        let function: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(previous.sa_sigaction) };
        function(signal, info, context);
    } else {
        // SAFETY: without the flag it has the number alone.
        let function: extern "C" fn(libc::c_int) =
            unsafe { std::mem::transmute(previous.sa_sigaction) };
        function(signal);
    }
}

/// Copies the registers of the interrupted code, and its stack as far as there is room.
fn copy_stack(context: &libc::ucontext_t) {
    let (registers, pc) = unwind::registers_of(context);
    for (to, from) in COPY.registers.iter().zip(registers) {
        to.store(from, Relaxed);
    }
    COPY.pc.store(pc, Relaxed);
    let (low, high) = (COPY.low.load(Relaxed), COPY.high.load(Relaxed));
    let start = registers[unwind::STACK_POINTER] as usize;
    // A coroutine, or other code with a stack of its own, is not on the thread's.
    let is_here = start.is_multiple_of(size_of::<u64>()) && (low..high).contains(&start);
    let words = match is_here {
        true => ((high - start) / size_of::<u64>()).min(COPY_WORDS),
        false => 0,
    };
    for (index, to) in COPY.words[..words].iter().enumerate() {
        // SAFETY: S2.
        to.store(
            unsafe { unwind::load_word(start + index * size_of::<u64>()) },
            Relaxed,
        );
    }
    COPY.len.store(words, Relaxed);
}
