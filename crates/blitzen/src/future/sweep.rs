//! Which members of a group to poll, and in which order.
//!
//! A few members are polled all, each with the waker of the task: nothing is
//! allocated. Many get a waker each, and only those that were woken are polled:
//! a group of ten thousand does not cost ten thousand polls a wake.
//!
//! P1. A pass starts behind the member where the last one started, or where it
//!     stopped, unless biased: none is always last.
//! P2. A pass stops when the task's budget is used up, and the rest come first
//!     in the next one. To poll them without a budget would only have each ask
//!     to be polled again.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};

use blitzen_util::coop;
use blitzen_util::wake_set::{WORD, WakeSet};

/// Up to here a pass over all is cheaper than wakers of their own.
const FEW: usize = 32;

/// Where a pass starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    Rotating,
    Biased,
}

/// The passes over a group.
pub(crate) struct Sweep {
    members: usize,
    /// The member to start with.
    first: usize,
    order: Order,
    /// Made at the first pass, if there are many.
    many: Option<Many>,
}

struct Many {
    set: Arc<WakeSet>,
    /// Each made when its member is polled for the first time.
    wakers: Box<[Option<Waker>]>,
}

impl Sweep {
    /// Passes that start with the first member.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            members,
            first: 0,
            order: Order::Rotating,
            many: None,
        }
    }

    /// Passes that start with a member chosen at random.
    pub(crate) fn random(members: usize) -> Self {
        let mut sweep = Self::new(members);
        if members > 1 {
            let bound = u32::try_from(members).unwrap_or(u32::MAX);
            sweep.first = blitzen_util::rng::thread_below(bound) as usize;
        }
        sweep
    }

    /// Passes in the order of the members.
    pub(crate) fn biased(members: usize) -> Self {
        Self {
            order: Order::Biased,
            ..Self::new(members)
        }
    }

    /// Shows the members that may have something to say to `look`, until it
    /// returns something. A member that is done may be shown again.
    pub(crate) fn pass<R>(
        &mut self,
        cx: &mut Context<'_>,
        look: impl FnMut(usize, &mut Context<'_>) -> Option<R>,
    ) -> Option<R> {
        match self.members <= FEW {
            true => self.pass_few(cx, look),
            false => self.pass_many(cx, look),
        }
    }

    fn pass_few<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(usize, &mut Context<'_>) -> Option<R>,
    ) -> Option<R> {
        let start = self.start();
        for member in (start..self.members).chain(0..start) {
            if coop::poll_budget_available(cx).is_pending() {
                self.stopped_at(member);
                return None;
            }
            if let Some(found) = look(member, cx) {
                return Some(found);
            }
        }
        None
    }

    fn pass_many<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(usize, &mut Context<'_>) -> Option<R>,
    ) -> Option<R> {
        let start = self.start();
        let members = self.members;
        let Many { set, wakers } = self.many.get_or_insert_with(|| Many::new(members));
        set.register(cx.waker());
        // The word of the first member comes twice: from that member on, and at
        // the end up to it.
        let (first_word, before_first) = (start / WORD, (1 << (start % WORD)) - 1);
        for step in 0..=set.words() {
            let word = (first_word + step) % set.words();
            let mut woken = match step {
                0 => Taken::take(set, word, !before_first),
                last if last == set.words() => Taken::take(set, word, before_first),
                _ => Taken::take(set, word, u64::MAX),
            };
            while let Some(member) = woken.first() {
                if coop::poll_budget_available(cx).is_pending() {
                    drop(woken);
                    self.stopped_at(member);
                    return None;
                }
                woken.pass(member);
                let waker = wakers[member].get_or_insert_with(|| set.waker(member));
                if let Some(found) = look(member, &mut Context::from_waker(waker)) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn start(&mut self) -> usize {
        let start = self.first;
        if self.order == Order::Rotating {
            self.first = (start + 1) % self.members.max(1);
        }
        start
    }

    fn stopped_at(&mut self, member: usize) {
        if self.order == Order::Rotating {
            self.first = member;
        }
    }
}

impl Many {
    #[cold]
    fn new(members: usize) -> Self {
        Self {
            set: WakeSet::new(members),
            wakers: (0..members).map(|_| None).collect(),
        }
    }
}

/// The woken members of a word; those not looked at go back, also if a look
/// panics.
struct Taken<'a> {
    set: &'a WakeSet,
    word: usize,
    bits: u64,
}

impl<'a> Taken<'a> {
    /// Those of the word that are in `wanted`.
    fn take(set: &'a WakeSet, word: usize, wanted: u64) -> Self {
        let mut taken = Self {
            set,
            word,
            bits: set.take(word),
        };
        taken.put_back(!wanted);
        taken
    }

    fn first(&self) -> Option<usize> {
        let bit = self.bits.trailing_zeros() as usize;
        (self.bits != 0).then_some(self.word * WORD + bit)
    }

    /// The member counts as looked at.
    fn pass(&mut self, member: usize) {
        self.bits &= !(1 << (member % WORD));
    }

    fn put_back(&mut self, bits: u64) {
        let unwanted = self.bits & bits;
        if unwanted != 0 {
            self.bits &= !bits;
            self.set.put_back(self.word, unwanted);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.put_back(u64::MAX);
    }
}

impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep")
            .field("members", &self.members)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::task::Poll;

    fn seen(sweep: &mut Sweep) -> Vec<usize> {
        let mut seen = Vec::new();
        sweep.pass(&mut Context::from_waker(Waker::noop()), |member, _| {
            seen.push(member);
            None::<()>
        });
        seen
    }

    #[test]
    fn a_few_are_all_seen_and_take_turns_to_be_first() {
        let mut sweep = Sweep::new(3);
        assert_eq!(seen(&mut sweep), [0, 1, 2]);
        assert_eq!(seen(&mut sweep), [1, 2, 0]);
        assert_eq!(seen(&mut sweep), [2, 0, 1]);
        assert_eq!(seen(&mut sweep), [0, 1, 2]);
        let mut biased = Sweep::biased(2);
        assert_eq!(seen(&mut biased), [0, 1]);
        assert_eq!(seen(&mut biased), [0, 1]);
    }

    #[test]
    fn nobody_is_seen_in_an_empty_group() {
        assert_eq!(seen(&mut Sweep::new(0)), [0usize; 0]);
        assert_eq!(seen(&mut Sweep::random(0)), [0usize; 0]);
    }

    #[test]
    fn of_many_only_those_that_were_woken_are_seen() {
        let mut sweep = Sweep::new(200);
        assert_eq!(seen(&mut sweep), (0..200).collect::<Vec<_>>());
        assert_eq!(seen(&mut sweep), [0usize; 0]);
        let many = sweep.many.as_ref().unwrap();
        let wakers = [&many.wakers[3], &many.wakers[150], &many.wakers[150]];
        for waker in wakers {
            waker.as_ref().unwrap().wake_by_ref();
        }
        let mut woken = seen(&mut sweep);
        woken.sort_unstable();
        assert_eq!(woken, [3, 150]);
    }

    #[test]
    fn a_pass_that_runs_out_of_budget_is_continued() {
        for members in [10, 200] {
            let mut sweep = Sweep::new(members);
            let mut polls = vec![0; members];
            let mut passes = 0;
            while polls.contains(&0) {
                passes += 1;
                coop::with_budget(|| {
                    let mut cx = Context::from_waker(Waker::noop());
                    sweep.pass(&mut cx, |member, cx| {
                        polls[member] += 1;
                        for _ in 0..30 {
                            match coop::poll_proceed(cx) {
                                Poll::Ready(spent) => spent.made_progress(),
                                Poll::Pending => break,
                            }
                        }
                        None::<()>
                    })
                });
            }
            // Five members use up a budget.
            assert_eq!(passes, members.div_ceil(5));
        }
    }

    #[test]
    fn a_member_that_was_not_reached_is_seen_next_time() {
        let mut sweep = Sweep::new(100);
        let mut cx = Context::from_waker(Waker::noop());
        let found = sweep.pass(&mut cx, |member, _| (member == 40).then_some(member));
        assert_eq!(found, Some(40));
        let mut rest = seen(&mut sweep);
        rest.sort_unstable();
        assert_eq!(rest, (41..100).collect::<Vec<_>>());
    }
}
