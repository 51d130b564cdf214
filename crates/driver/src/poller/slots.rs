//! The slots of a poller's sources: found by number, and freed only with the
//! poller.
//!
//! ```text
//!   pages   ┌────┐┌────────┐┌────────────────┐
//!           │ 64 ││  128   ││      256       │ …   made when needed
//!           └────┘└────────┘└────────────────┘
//!   number    0…63  64…191        192…
//! ```
//!
//! A token that the kernel hands back is a slot's number and the generation of
//! the source that was in it, or the lowest bits of that. However late an event
//! comes, its slot still exists, and the generation shows whether the event is for
//! the current source.
//!
//! N1. A slot is in the free list, or belongs to one registration.
//! N2. After `shut` no slot leaves the free list.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use blitzen_util::shim::Mutex;
use blitzen_util::shim::atomic::AtomicUsize;
use blitzen_util::shim::atomic::Ordering::Relaxed;

use crate::readiness::SourceSlot;
use crate::wake_list::{WakeList, contain_panic};
use crate::{Ready, shutdown_error};

/// Sources of the first page; each page is twice the one before.
const FIRST_PAGE: usize = 64;

/// As many as 32 bits can number.
const PAGES: usize = 26;

/// Bits of a token for the number; the rest is the generation.
pub(super) const NUMBER_BITS: u32 = match usize::BITS {
    64 => 32,
    bits => bits / 2 + 4,
};

/// All numbers are below this, so that a token is never all ones.
pub(super) const MAX_NUMBERS: usize = (1 << NUMBER_BITS) - 1;

/// Bits of a token for the generation. On Windows, mio shifts the token of a named pipe to the left by
/// one and back for some events, which loses the highest bit.
const GENERATION_BITS: u32 = usize::BITS - NUMBER_BITS - cfg!(windows) as u32;

/// The highest generation that a token can have.
pub(super) const MAX_GENERATION: usize = usize::MAX >> (usize::BITS - GENERATION_BITS);

/// The token of a source: the kernel returns it with each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceToken(pub(super) usize);

impl SourceToken {
    fn new(number: usize, generation: u32) -> Self {
        Self(number | (generation as usize & MAX_GENERATION) << NUMBER_BITS)
    }

    fn number(self) -> usize {
        self.0 & MAX_NUMBERS
    }

    /// Whether the bits of a generation that fit into a token are those of this
    /// token.
    pub(super) fn is_of(self, generation: u32) -> bool {
        self.0 >> NUMBER_BITS == generation as usize & MAX_GENERATION
    }
}

/// All slots of one poller.
#[derive(Debug)]
pub(super) struct SourceSlots {
    pages: [OnceLock<Box<[SourceSlot]>>; PAGES],
    free: Mutex<Free>,
    live: AtomicUsize,
}

#[derive(Debug, Default)]
struct Free {
    numbers: Vec<usize>,
    /// Numbers from here on have no page yet.
    end: usize,
    shut: bool,
}

impl SourceSlots {
    pub(super) fn new() -> Self {
        Self {
            pages: [const { OnceLock::new() }; PAGES],
            free: Mutex::new(Free::default()),
            live: AtomicUsize::new(0),
        }
    }

    /// Returns about how many sources there are.
    pub(super) fn live(&self) -> usize {
        // Relaxed: a thread that registers a source interrupts the owner
        // (`park.rs`, B4).
        self.live.load(Relaxed)
    }

    /// Opens a slot for a new source.
    pub(super) fn open(&self, initially: Ready) -> io::Result<(&SourceSlot, SourceToken)> {
        let mut free = self.free.lock();
        if free.shut {
            return Err(shutdown_error()); // N2
        }
        if free.numbers.is_empty() {
            self.add_page(&mut free)?;
        }
        let number = free.numbers.pop().expect("a page was added");
        let slot = self.slot(number).expect("its page was added");
        // Under the lock: either `shut` came before, and was seen above, or it
        // comes later, and finds this slot.
        let generation = slot.open(initially);
        self.live.fetch_add(1, Relaxed);
        Ok((slot, SourceToken::new(number, generation)))
    }

    /// Frees the slot of a source that has ended.
    pub(super) fn close(&self, token: SourceToken) {
        let number = token.number();
        let slot = self.slot(number).expect("a token comes from `open`");
        let wakers = slot.retire();
        // `add_page` has reserved the room, so that closing never allocates.
        self.free.lock().numbers.push(number);
        self.live.fetch_sub(1, Relaxed);
        for waker in wakers {
            contain_panic(|| drop(waker)); // foreign code: after everything else
        }
    }

    /// The slot a token names; `None` only if it comes from elsewhere.
    pub(super) fn get(&self, token: SourceToken) -> Option<&SourceSlot> {
        self.slot(token.number())
    }

    /// Refuses new sources and shuts the present ones.
    pub(super) fn shut(&self, wakes: &mut WakeList) {
        self.free.lock().shut = true; // N2: so the loop below reaches every source
        for page in self.pages.iter().map_while(OnceLock::get) {
            page.iter().for_each(|slot| slot.shut(wakes));
        }
    }

    pub(super) fn is_shut(&self) -> bool {
        self.free.lock().shut
    }

    #[cold]
    fn add_page(&self, free: &mut Free) -> io::Result<()> {
        let start = free.end;
        let (page, _) = place(start);
        let end = page_end(page).min(MAX_NUMBERS);
        if start >= end || page >= PAGES {
            return Err(io::Error::other("too many sources on one poller"));
        }
        let make = |numbers: Range<usize>| numbers.map(|_| SourceSlot::new()).collect();
        self.pages[page].get_or_init(|| make(start..end));
        // Room for every number there is, so that `close` never allocates.
        free.numbers.reserve(end);
        free.numbers.extend((start..end).rev()); // low numbers first
        free.end = end;
        Ok(())
    }

    fn slot(&self, number: usize) -> Option<&SourceSlot> {
        let (page, within) = place(number);
        self.pages.get(page)?.get()?.get(within)
    }
}

/// Returns the page of a number, and the index in that page.
fn place(number: usize) -> (usize, usize) {
    let page = (number / FIRST_PAGE + 1).ilog2() as usize;
    (page, number - (page_end(page) - (FIRST_PAGE << page)))
}

/// The first number beyond a page.
fn page_end(page: usize) -> usize {
    FIRST_PAGE * ((2 << page) - 1)
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_own_place() {
        let mut next = (0, 0);
        for number in 0..100_000 {
            let (page, within) = place(number);
            assert_eq!((page, within), next, "number {number}");
            next = match within + 1 == FIRST_PAGE << page {
                true => (page + 1, 0),
                false => (page, within + 1),
            };
        }
    }

    #[test]
    fn a_token_names_one_source_of_its_slot() {
        let slots = SourceSlots::new();
        let (_, first) = slots.open(Ready::EMPTY).unwrap();
        slots.close(first);
        let (_, second) = slots.open(Ready::EMPTY).unwrap();
        assert_eq!(first.number(), second.number());
        assert_ne!(first, second);
        let post = |token: SourceToken| {
            let slot = slots.get(token).unwrap();
            let mut wakes = WakeList::default();
            slot.post(
                |generation| token.is_of(generation),
                Ready::READABLE,
                &mut wakes,
            )
        };
        assert!(!post(first));
        assert!(post(second));
    }

    #[test]
    fn a_token_has_the_lowest_bits_of_the_generation() {
        for generation in [0, 1, 7 << 9, 1 << 31, u32::MAX] {
            let token = SourceToken::new(5, generation);
            assert_eq!(token.number(), 5);
            assert!(token.is_of(generation));
            assert!(!token.is_of(generation ^ 1));
        }
    }

    #[cfg(windows)]
    #[test]
    fn a_token_of_a_named_pipe_keeps_its_generation_when_mio_shifts_it() {
        for generation in [1, 1 << 31, u32::MAX] {
            let SourceToken(token) = SourceToken::new(5, generation);
            assert!(SourceToken(token << 1 >> 1).is_of(generation));
        }
    }

    #[test]
    fn slots_are_used_again_and_counted() {
        let slots = SourceSlots::new();
        for _ in 0..3 {
            let tokens: Vec<_> = (0..1000)
                .map(|_| slots.open(Ready::EMPTY).unwrap().1)
                .collect();
            assert_eq!(slots.live(), 1000);
            let distinct: std::collections::HashSet<_> = tokens.iter().map(|t| t.0).collect();
            assert_eq!(distinct.len(), 1000);
            tokens.into_iter().for_each(|token| slots.close(token));
            assert_eq!(slots.live(), 0);
        }
        assert_eq!(slots.free.lock().end, 64 + 128 + 256 + 512 + 1024);
    }

    #[test]
    fn a_number_from_nowhere_finds_nothing() {
        let slots = SourceSlots::new();
        assert!(slots.get(SourceToken(5)).is_none());
        assert!(slots.get(SourceToken(usize::MAX)).is_none());
    }

    #[test]
    fn no_source_is_taken_in_after_the_end() {
        let slots = SourceSlots::new();
        let (slot, token) = slots.open(Ready::EMPTY).unwrap();
        slots.shut(&mut WakeList::default());
        assert!(slot.now(Ready::ALL).is_shutdown());
        assert!(crate::is_shutdown_error(
            &slots.open(Ready::EMPTY).unwrap_err()
        ));
        slots.close(token);
        assert!(slots.open(Ready::EMPTY).is_err());
    }
}
