//! What the task that is being polled waits for.
//!
//! A leaf future (a lock, a channel, a timer, a socket) that is about to return `Pending` calls
//! [`pending`]. It leaves a note in a thread-local; the end of the poll takes the note, and keeps
//! it in the task for a dump to read. The note also holds a request to yield, so that a poll
//! without a leaf pays for one test in all.
//!
//! ```text
//!  31       30       29     28        6    5      0
//! ┌───────┬────────┬──────┬─────────┬────┬─────────┐
//! │ yield │ record │ hold │ unheard │    │  kind   │
//! └───────┴────────┴──────┴─────────┴────┴─────────┘
//! ```
//!
//! W1. The note belongs to the innermost poll of the thread: who polls a task replaces it, and
//!     puts it back afterwards.
//! W2. A second leaf in the same poll that waits for something else makes the kind
//!     [`WaitKind::Several`].
//! W3. With the record bit every leaf goes to the function that [`set_recorder`] was given, for a
//!     poll that is watched.

use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::thread_local_const;

/// This file, as a backtrace names it.
pub const FILE: &str = file!();

const KIND: u32 = 0x3f;
const RECORD: u32 = 1 << 30;
const YIELD: u32 = 1 << 31;
/// A scope with children was polled: an abort of the task is deferred.
const HOLD: u32 = 1 << 29;
/// Such a scope has not seen an abort of the task: one that has come causes another poll.
const UNHEARD: u32 = 1 << 28;

macro_rules! wait_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What a task waits for.
        ///
        /// # Examples
        ///
        /// ```
        /// use blitzen::runtime::dump::WaitKind;
        ///
        /// assert_eq!(WaitKind::Mutex.to_string(), "mutex");
        /// assert_eq!(WaitKind::default(), WaitKind::Unknown);
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum WaitKind {
            $($(#[$doc])* $kind,)*
            /// More than one thing: in the last poll, operations had to wait for several things.
            Several = KIND as u8,
        }

        /// All kinds but [`WaitKind::Several`], at the index of their number.
        const KINDS: &[(WaitKind, &str)] = &[$((WaitKind::$kind, $name),)*];
    };
}

wait_kinds! {
    /// Something that is not part of this crate, such as a waker that the program has stored.
    #[default]
    Unknown = "unknown",
    /// A turn after other tasks: the budget of the task was used up.
    Budget = "budget",
    /// A turn after other tasks: the task has yielded.
    Yield = "yield",
    /// A `Mutex`.
    Mutex = "mutex",
    /// An `RwLock`, to read.
    RwLockRead = "rwlock read",
    /// An `RwLock`, to write.
    RwLockWrite = "rwlock write",
    /// Permits of a `Semaphore`.
    Semaphore = "semaphore",
    /// A `Notify`.
    Notify = "notify",
    /// A `Barrier`.
    Barrier = "barrier",
    /// A `OnceCell` that another task initialises.
    OnceCell = "once cell",
    /// A `SetOnce`.
    SetOnce = "set once",
    /// A cancellation token.
    Cancelled = "cancellation",
    /// The receiver of an `mpsc` channel: a message.
    MpscReceive = "mpsc receive",
    /// A sender of an `mpsc` channel: room.
    MpscSend = "mpsc send",
    /// The receiver of an `mpmc` channel: a message.
    MpmcReceive = "mpmc receive",
    /// A sender of an `mpmc` channel: room.
    MpmcSend = "mpmc send",
    /// A `oneshot` channel: its value, or the end of its receiver.
    Oneshot = "oneshot",
    /// A `broadcast` channel: a message.
    Broadcast = "broadcast",
    /// A `watch` channel: another value.
    Watch = "watch",
    /// The end of all receivers of a channel.
    ChannelClosed = "channel closed",
    /// A timer.
    Timer = "timer",
    /// A socket, pipe or other descriptor, to become readable.
    Readable = "readable",
    /// A socket, pipe or other descriptor, to become writable.
    Writable = "writable",
    /// A descriptor, to become ready for several things.
    Ready = "ready",
    /// An operation of an io_uring.
    RingOperation = "io_uring",
    /// The bytes of a socket that an io_uring serves.
    RingReceive = "io_uring receive",
    /// Room to send on a socket that an io_uring serves.
    RingSend = "io_uring send",
    /// A file operation on another thread.
    File = "file",
    /// An in-memory pipe, to read.
    PipeRead = "pipe read",
    /// An in-memory pipe, to write.
    PipeWrite = "pipe write",
    /// The end of another task.
    Join = "join",
    /// The end of any task of a `JoinSet`.
    JoinSet = "join set",
    /// The tasks of a `LocalSet`.
    LocalSet = "local set",
    /// The end of the members of a scope.
    Scope = "scope",
    /// A signal.
    Signal = "signal",
    /// The end of a child process.
    Process = "process",
}

const _: () = assert!(KINDS.len() <= KIND as usize);

impl WaitKind {
    /// Returns the kind with a number; `Unknown` if there is none.
    #[doc(hidden)]
    pub fn from_number(number: u8) -> Self {
        match KINDS.get(usize::from(number)) {
            Some(&(kind, _)) => kind,
            None if u32::from(number) == KIND => Self::Several,
            None => Self::Unknown,
        }
    }

    /// Returns the kind of a note.
    #[doc(hidden)]
    pub fn of_bits(bits: u64) -> Self {
        Self::from_number((bits & u64::from(KIND)) as u8)
    }

    /// Returns the name of the kind, in lower case.
    ///
    /// # Examples
    ///
    /// ```
    /// use blitzen::runtime::dump::WaitKind;
    ///
    /// assert_eq!(WaitKind::MpscReceive.name(), "mpsc receive");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Several => "several",
            kind => KINDS[kind as usize].1,
        }
    }
}

impl fmt::Display for WaitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

struct Notes {
    note: Cell<u32>,
    /// What the leaf of the note waits for: an address or a number.
    identity: Cell<u64>,
}

thread_local_const! {
    static NOTES: Notes = Notes {
        note: Cell::new(0),
        identity: Cell::new(0),
    };
}

/// What the leaves of a poll have noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollNote(u32);

impl PollNote {
    /// No leaf has had to wait.
    pub const EMPTY: Self = Self(0);
    /// The task has asked to yield, and nothing else.
    pub const YIELDED: Self = Self(YIELD);
    /// No leaf has had to wait yet, and each one is to be recorded (W3).
    pub const RECORD: Self = Self(RECORD);

    /// A scope holds the task, and nothing else.
    pub const HELD: Self = Self(HOLD);
    /// A scope holds the task that has seen no abort of it.
    pub const HELD_UNHEARD: Self = Self(HOLD | UNHEARD);

    /// Whether there is nothing to keep.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether there is nothing but, at most, what a leaf waits for.
    #[inline(always)]
    pub fn is_wait(self) -> bool {
        self.0 & !KIND == 0
    }

    /// Whether the task has asked to yield, and there is nothing else but, at most, what a leaf
    /// waits for.
    #[inline(always)]
    pub fn is_yield(self) -> bool {
        self.0 & !KIND == YIELD
    }

    /// Whether each leaf was recorded (W3).
    #[inline(always)]
    pub fn is_recorded(self) -> bool {
        self.0 & RECORD != 0
    }

    /// Whether the task has asked to yield.
    #[inline(always)]
    pub fn has_yielded(self) -> bool {
        self.0 & YIELD != 0
    }

    /// Whether a scope defers an abort of the task.
    #[inline(always)]
    pub fn holds(self) -> bool {
        self.0 & HOLD != 0
    }

    /// Whether a scope that holds the task has seen no abort of it.
    #[inline(always)]
    pub fn has_unheard(self) -> bool {
        self.0 & UNHEARD != 0
    }

    /// All of the note, as a number for [`WaitKind::of_bits`].
    #[inline(always)]
    pub fn bits(self) -> u64 {
        self.0.into()
    }

    /// The number of the kind, as the state of a task keeps it.
    #[inline(always)]
    pub fn kind_number(self) -> u64 {
        u64::from(self.0 & KIND)
    }
}

/// Notes that a leaf is about to return `Pending`, and what it waits for: an address, or
/// another number that tells one such thing from others.
#[inline(always)]
pub fn pending(kind: WaitKind, identity: u64) {
    let note = NOTES.with(|notes| {
        let note = notes.note.get();
        // Something else sets all bits of the kind, which is `Several` (W2); it has no identity.
        let kind = match note & KIND {
            0 => kind as u32,
            known if known == kind as u32 && identity == notes.identity.get() => known,
            _ => KIND,
        };
        notes.note.set(note | kind);
        notes.identity.set(identity);
        note
    });
    if note & RECORD != 0 {
        record(kind, identity);
    }
}

/// [`pending`] for a leaf that waits for an object in memory.
#[inline]
pub fn pending_on<T: ?Sized>(kind: WaitKind, object: &T) {
    pending(kind, (&raw const *object).addr() as u64);
}

/// A deadline in nanoseconds as an identity: to the microsecond, and nine years at most.
#[inline]
pub fn deadline_identity(deadline_ns: u64) -> u64 {
    (deadline_ns >> DEADLINE_SHIFT).min((1 << 48) - 1)
}

/// The nanoseconds of a [`deadline_identity`].
pub fn deadline_ns(identity: u64) -> u64 {
    identity << DEADLINE_SHIFT
}

const DEADLINE_SHIFT: u32 = 10;

#[cold]
#[inline(never)]
fn record(kind: WaitKind, identity: u64) {
    if let Some(record) = RECORDER.get() {
        record(kind, identity); // W3
    }
}

/// Starts a poll with `note`; returns the note of the poll around it (W1).
#[inline]
pub fn replace(note: PollNote) -> PollNote {
    NOTES.with(|notes| PollNote(notes.note.replace(note.0)))
}

/// Takes the note at the end of a poll.
#[inline]
pub fn take() -> PollNote {
    replace(PollNote::EMPTY)
}

/// What the leaf waits for whose note was just taken; means nothing for an empty note, or one of
/// several leaves.
#[inline]
pub fn identity() -> u64 {
    NOTES.with(|notes| notes.identity.get())
}

/// Notes that the task asks to be queued again at the end of its poll.
#[inline]
pub fn request_yield() {
    let note = NOTES.with(|notes| notes.note.replace(notes.note.get() | YIELD));
    if note & RECORD != 0 {
        record(WaitKind::Yield, 0);
    }
}

/// Notes that an abort of the task is to be deferred beyond its poll, since a scope in it has
/// members; `is_heard` if that scope knows that there was one.
pub fn request_hold(is_heard: bool) {
    let hold = match is_heard {
        true => PollNote::HELD,
        false => PollNote::HELD_UNHEARD,
    };
    NOTES.with(|notes| notes.note.set(notes.note.get() | hold.0));
}

/// Whether a scope has asked for that in the current poll.
#[inline]
pub fn is_held() -> bool {
    NOTES.with(|notes| PollNote(notes.note.get()).holds())
}

/// Forgets such requests of the current poll: the scopes are gone.
pub fn forget_holds() {
    NOTES.with(|notes| notes.note.set(notes.note.get() & !PollNote::HELD_UNHEARD.0));
}

/// Whether a scope that has asked for that knows of no abort.
pub fn has_unheard_holds() -> bool {
    NOTES.with(|notes| PollNote(notes.note.get()).has_unheard())
}

/// Takes such requests of the current poll out, for [`add_holds`].
pub fn take_holds() -> PollNote {
    let note = NOTES.with(|notes| notes.note.get());
    forget_holds();
    PollNote(note & PollNote::HELD_UNHEARD.0)
}

/// Adds such requests to those of the current poll.
pub fn add_holds(holds: PollNote) {
    NOTES.with(|notes| notes.note.set(notes.note.get() | holds.0));
}

/// Whether each leaf of the current poll is recorded (W3).
pub fn is_recording() -> bool {
    NOTES.with(|notes| PollNote(notes.note.get()).is_recorded())
}

/// Runs `poll`, as a part of the current one, and has each of its leaves recorded (W3).
pub fn recorded<R>(poll: impl FnOnce() -> R) -> R {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            NOTES.with(|notes| notes.note.set(notes.note.get() & !RECORD | self.0));
        }
    }
    let note = NOTES.with(|notes| notes.note.replace(notes.note.get() | RECORD));
    let _restore = Restore(note & RECORD);
    poll()
}

/// Runs `poll` with an empty note: what it waits for concerns the caller's task no more than the
/// work of another thread would.
pub fn isolated<R>(poll: impl FnOnce() -> R) -> R {
    struct Restore(PollNote);
    impl Drop for Restore {
        fn drop(&mut self) {
            replace(self.0);
        }
    }
    let _restore = Restore(take());
    poll()
}

/// What is called for each leaf of a watched poll (W3). The leaf holds no lock: this may call
/// foreign code.
pub type Recorder = fn(WaitKind, u64);

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Sets the function that is called for each leaf of a watched poll. The first one that is set
/// stays.
pub fn set_recorder(record: Recorder) {
    RECORDER.get_or_init(|| record);
}

/// The seconds of the process, as far as somebody has told them. Not modelled: a dump shows
/// them, nothing depends on them.
static SECONDS: AtomicU32 = AtomicU32::new(0);
/// The same as a [`Stamp`].
static STAMP: AtomicU32 = AtomicU32::new(Stamp::of(0).0 as u32);

/// Tells how many seconds have passed since some moment in the past. Threads that read a clock
/// anyway call this, so that the end of a poll need not.
#[inline]
pub fn set_seconds(seconds: u64) {
    let seconds = seconds as u32;
    // Relaxed, here and below: a stamp that is a little old is as good.
    if SECONDS.load(Relaxed) != seconds {
        SECONDS.store(seconds, Relaxed);
        STAMP.store(Stamp::of(seconds).0.into(), Relaxed);
    }
}

/// A moment to the second, of the last sixteen hours: 16 bits whose lowest three are not all
/// zero, so that no aligned pointer looks like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u16);

impl Stamp {
    /// How many seconds there are before the stamps repeat.
    const SPAN: u32 = (1 << 13) * 7;

    /// The current stamp.
    #[inline(always)]
    pub fn now() -> Self {
        Self(STAMP.load(Relaxed) as u16)
    }

    const fn of(seconds: u32) -> Self {
        let seconds = seconds % Self::SPAN;
        Self((seconds / 7 * 8 + seconds % 7 + 1) as u16)
    }

    /// The stamp in the lowest 16 bits of a word; `None` for an aligned pointer.
    pub fn from_word(word: u64) -> Option<Self> {
        (!word.is_multiple_of(8)).then_some(Self(word as u16))
    }

    /// The stamp as the lowest 16 bits of a word.
    #[inline(always)]
    pub fn to_word(self) -> u64 {
        self.0.into()
    }

    /// How many seconds ago it was, by the seconds last told.
    pub fn age_seconds(self) -> u64 {
        let at = u32::from(self.0) / 8 * 7 + u32::from(self.0) % 8 - 1;
        let now = SECONDS.load(Relaxed) % Self::SPAN;
        let age = (now + Self::SPAN - at) % Self::SPAN;
        // Somebody told an earlier second after this one: clocks of two threads.
        match age > Self::SPAN - 60 {
            true => 0,
            false => age.into(),
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_named_and_two_are_several() {
        let before = take();
        assert!(take().is_empty());
        pending(WaitKind::Mutex, 7);
        let note = take();
        assert_eq!(note.kind_number(), WaitKind::Mutex as u64);
        assert_eq!(identity(), 7);
        pending(WaitKind::Mutex, 7);
        pending(WaitKind::Mutex, 7);
        let note = take();
        assert_eq!(note.kind_number(), WaitKind::Mutex as u64, "the same");
        assert_eq!(identity(), 7);
        for (kind, identity) in [(WaitKind::Mutex, 8), (WaitKind::Notify, 7)] {
            pending(WaitKind::Mutex, 7);
            pending(kind, identity);
            assert_eq!(take().kind_number(), WaitKind::Several as u64);
        }
        replace(before);
    }

    #[test]
    fn a_request_to_yield_keeps_what_was_noted_and_what_comes() {
        pending(WaitKind::Timer, 1);
        request_yield();
        let note = take();
        assert!(note.has_yielded());
        assert_eq!(note.kind_number(), WaitKind::Timer as u64);
        request_yield();
        pending(WaitKind::Notify, 2);
        let note = take();
        assert!(note.has_yielded());
        assert_eq!(
            (note.kind_number(), identity()),
            (WaitKind::Notify as u64, 2)
        );
    }

    #[test]
    fn an_isolated_poll_leaves_the_note_as_it_was() {
        pending(WaitKind::Mutex, 1);
        isolated(|| pending(WaitKind::Timer, 2));
        assert_eq!(take().kind_number(), WaitKind::Mutex as u64);
    }

    #[test]
    fn every_kind_comes_back_from_its_number() {
        for &(kind, name) in KINDS {
            assert_eq!(WaitKind::from_number(kind as u8), kind);
            assert_eq!(kind.name(), name);
        }
        let several = WaitKind::Several;
        assert_eq!(WaitKind::from_number(several as u8), several);
        assert_eq!(several.name(), "several");
        assert_eq!(WaitKind::from_number(62), WaitKind::Unknown);
    }

    #[test]
    fn no_stamp_looks_like_an_aligned_pointer_and_all_differ() {
        let words: std::collections::BTreeSet<_> = (0..Stamp::SPAN)
            .map(|seconds| Stamp::of(seconds).to_word())
            .collect();
        assert_eq!(words.len(), Stamp::SPAN as usize);
        assert!(words.iter().all(|word| word % 8 != 0 && *word <= 0xffff));
        assert_eq!(Stamp::from_word(0x7fff_0000_1230), None);
        assert_eq!(Stamp::from_word(0xab_0000 | 9), Some(Stamp(9)));
    }

    #[test]
    fn a_stamp_knows_its_age_across_the_end_of_its_span() {
        set_seconds(u64::from(Stamp::SPAN) - 3);
        let stamp = Stamp::now();
        set_seconds(u64::from(Stamp::SPAN) + 4);
        assert_eq!(stamp.age_seconds(), 7);
        set_seconds(u64::from(Stamp::SPAN) - 5);
        assert_eq!(stamp.age_seconds(), 0, "a clock that lags");
    }
}
