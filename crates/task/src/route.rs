//! Which dispatcher resumes a task, as a number in its state word.

/// The bits of the state word that hold a route.
pub(crate) const ROUTE_BITS: u32 = 10;

/// Where a task is queued when it is woken: an index into the table of dispatchers of its
/// scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route(u16);

impl Route {
    /// The queues of the scheduler itself.
    pub const DEFAULT: Self = Self(0);

    /// How many routes there are, the default one included.
    pub const COUNT: usize = 1 << ROUTE_BITS;

    /// The route with this index, if there is one.
    pub fn new(index: usize) -> Option<Self> {
        (index < Self::COUNT).then_some(Self(index as u16))
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits as u16)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// The index in the table of dispatchers.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// Whether it leads to the queues of the scheduler itself.
    #[inline]
    pub fn is_default(self) -> bool {
        self.0 == 0
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_routes_as_the_bits_can_tell_apart() {
        assert_eq!(Route::COUNT, 1024);
        assert_eq!(Route::new(0), Some(Route::DEFAULT));
        assert!(Route::new(1023).is_some_and(|route| !route.is_default()));
        assert_eq!(Route::new(1024), None);
    }
}
