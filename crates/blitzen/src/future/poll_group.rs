//! Which members of a group to poll, and in which order.
//!
//! In a small group all members are polled, with the waker of the task: nothing is
//! allocated. In a large group each member has a waker of its own, and only members
//! that were woken are polled.
//!
//! P1. A pass starts one member after the start of the last pass, or where that
//!     stopped, unless the group is biased: no member is always last.
//! P2. A pass stops when the task's budget is spent. The next pass continues there:
//!     members polled without a budget would only ask to be polled again.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Waker};

use blitzen_util::coop;
use blitzen_util::wake_set::{WORD, WakeSet};

/// Up to this many members, polling all is cheaper than a waker for each.
const POLL_ALL_LIMIT: usize = 32;

/// The order in which members are polled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PollOrder {
    Rotating,
    Biased,
}

/// Which members of a group to poll next.
pub(crate) struct PollGroup {
    members: usize,
    /// The member to start with.
    first: usize,
    order: PollOrder,
    /// Allocated at the first pass, if there are many members.
    many: Option<MemberWakers>,
}

struct MemberWakers {
    set: Arc<WakeSet>,
    /// Each is created when its member is polled for the first time.
    wakers: Box<[Option<Waker>]>,
}

impl PollGroup {
    /// Creates a group whose first pass starts with the first member.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            members,
            first: 0,
            order: PollOrder::Rotating,
            many: None,
        }
    }

    /// Creates a group whose first pass starts with a random member.
    pub(crate) fn random(members: usize) -> Self {
        let mut group = Self::new(members);
        if members > 1 {
            let bound = u32::try_from(members).unwrap_or(u32::MAX);
            group.first = blitzen_util::rng::thread_below(bound) as usize;
        }
        group
    }

    /// Creates a group whose passes all start with the first member.
    pub(crate) fn biased(members: usize) -> Self {
        Self {
            order: PollOrder::Biased,
            ..Self::new(members)
        }
    }

    /// Calls `poll` for each member that may be ready, until it returns `Some`. A member
    /// that is done may be polled again.
    pub(crate) fn poll_members<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnMut(usize, &mut Context<'_>) -> Option<R>,
    ) -> Option<R> {
        match self.members <= POLL_ALL_LIMIT {
            true => self.poll_all(cx, poll),
            false => self.poll_woken(cx, poll),
        }
    }

    fn poll_all<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(usize, &mut Context<'_>) -> Option<R>,
    ) -> Option<R> {
        let start = self.advance_start();
        for member in (start..self.members).chain(0..start) {
            if coop::poll_budget_available(cx).is_pending() {
                self.resume_at(member);
                return None;
            }
            if let Some(found) = poll(member, cx) {
                return Some(found);
            }
        }
        None
    }

    fn poll_woken<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(usize, &mut Context<'_>) -> Option<R>,
    ) -> Option<R> {
        let start = self.advance_start();
        let members = self.members;
        let MemberWakers { set, wakers } =
            self.many.get_or_insert_with(|| MemberWakers::new(members));
        set.register(cx.waker());
        // The word of the first member comes twice: from that member on, and at
        // the end up to it.
        let (first_word, before_first) = (start / WORD, (1 << (start % WORD)) - 1);
        for step in 0..=set.words() {
            let word = (first_word + step) % set.words();
            let mut woken = match step {
                0 => WokenWord::take(set, word, !before_first),
                last if last == set.words() => WokenWord::take(set, word, before_first),
                _ => WokenWord::take(set, word, u64::MAX),
            };
            while let Some(member) = woken.first() {
                if coop::poll_budget_available(cx).is_pending() {
                    drop(woken);
                    self.resume_at(member);
                    return None;
                }
                woken.mark_polled(member);
                let waker = wakers[member].get_or_insert_with(|| set.waker(member));
                if let Some(found) = poll(member, &mut Context::from_waker(waker)) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn advance_start(&mut self) -> usize {
        let start = self.first;
        if self.order == PollOrder::Rotating {
            self.first = (start + 1) % self.members.max(1);
        }
        start
    }

    fn resume_at(&mut self, member: usize) {
        if self.order == PollOrder::Rotating {
            self.first = member;
        }
    }
}

impl MemberWakers {
    #[cold]
    fn new(members: usize) -> Self {
        Self {
            set: WakeSet::new(members),
            wakers: (0..members).map(|_| None).collect(),
        }
    }
}

/// The woken members of one word. Those that were not polled go back, also if a poll
/// panics.
struct WokenWord<'a> {
    set: &'a WakeSet,
    word: usize,
    bits: u64,
}

impl<'a> WokenWord<'a> {
    /// Takes the woken members that are in `wanted`.
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

    /// Removes `member`, which is polled now.
    fn mark_polled(&mut self, member: usize) {
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

impl Drop for WokenWord<'_> {
    fn drop(&mut self) {
        self.put_back(u64::MAX);
    }
}

impl fmt::Debug for PollGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollGroup")
            .field("members", &self.members)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;
    use std::task::Poll;

    fn seen(group: &mut PollGroup) -> Vec<usize> {
        let mut seen = Vec::new();
        group.poll_members(&mut Context::from_waker(Waker::noop()), |member, _| {
            seen.push(member);
            None::<()>
        });
        seen
    }

    #[test]
    fn a_few_are_all_seen_and_take_turns_to_be_first() {
        let mut group = PollGroup::new(3);
        assert_eq!(seen(&mut group), [0, 1, 2]);
        assert_eq!(seen(&mut group), [1, 2, 0]);
        assert_eq!(seen(&mut group), [2, 0, 1]);
        assert_eq!(seen(&mut group), [0, 1, 2]);
        let mut biased = PollGroup::biased(2);
        assert_eq!(seen(&mut biased), [0, 1]);
        assert_eq!(seen(&mut biased), [0, 1]);
    }

    #[test]
    fn nobody_is_seen_in_an_empty_group() {
        assert_eq!(seen(&mut PollGroup::new(0)), [0usize; 0]);
        assert_eq!(seen(&mut PollGroup::random(0)), [0usize; 0]);
    }

    #[test]
    fn of_many_only_those_that_were_woken_are_seen() {
        let mut group = PollGroup::new(200);
        assert_eq!(seen(&mut group), (0..200).collect::<Vec<_>>());
        assert_eq!(seen(&mut group), [0usize; 0]);
        let many = group.many.as_ref().unwrap();
        let wakers = [&many.wakers[3], &many.wakers[150], &many.wakers[150]];
        for waker in wakers {
            waker.as_ref().unwrap().wake_by_ref();
        }
        let mut woken = seen(&mut group);
        woken.sort_unstable();
        assert_eq!(woken, [3, 150]);
    }

    #[test]
    fn a_pass_that_runs_out_of_budget_is_continued() {
        for members in [10, 200] {
            let mut group = PollGroup::new(members);
            let mut polls = vec![0; members];
            let mut passes = 0;
            while polls.contains(&0) {
                passes += 1;
                coop::with_budget(|| {
                    let mut cx = Context::from_waker(Waker::noop());
                    group.poll_members(&mut cx, |member, cx| {
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
        let mut group = PollGroup::new(100);
        let mut cx = Context::from_waker(Waker::noop());
        let found = group.poll_members(&mut cx, |member, _| (member == 40).then_some(member));
        assert_eq!(found, Some(40));
        let mut rest = seen(&mut group);
        rest.sort_unstable();
        assert_eq!(rest, (41..100).collect::<Vec<_>>());
    }
}
