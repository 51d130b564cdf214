//! The dispatchers of a scheduler, by route.
//!
//! A slot is taken as long as the dispatcher in it is alive: tasks that were spawned on it,
//! handles and wakers keep it so. A task can be on its way to a dispatcher that nothing else
//! refers to any more: then the scheduler's own queues take it.

use std::fmt;
use std::sync::{Arc, Weak};

use blitzen_task::Route;
use blitzen_util::shim::Mutex;

use super::DispatcherCore;

/// The table.
pub(crate) struct RouteTable(Mutex<RouteSlots>);

struct RouteSlots {
    /// By route; the first one is the default route's, and stays empty.
    slots: Vec<Weak<DispatcherCore>>,
    closed: bool,
}

/// Why a scheduler takes no more dispatchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// It has as many as there are routes.
    Full,
    /// It has shut down.
    Closed,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(
                f,
                "a runtime can have {} dispatchers at a time; drop some of them first",
                Route::COUNT - 1
            ),
            Self::Closed => f.write_str("the runtime was shut down"),
        }
    }
}

impl std::error::Error for RouteError {}

impl RouteTable {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(RouteSlots {
            slots: Vec::new(),
            closed: false,
        }))
    }

    /// Makes a dispatcher for a route that no other one has.
    pub(super) fn register(
        &self,
        make: impl FnOnce(Route) -> Arc<DispatcherCore>,
    ) -> Result<Arc<DispatcherCore>, RouteError> {
        let mut table = self.0.lock();
        if table.closed {
            return Err(RouteError::Closed);
        }
        if table.slots.is_empty() {
            table.slots.push(Weak::new());
        }
        let free = table.slots[1..]
            .iter()
            .position(|slot| slot.strong_count() == 0);
        let index = free.map_or(table.slots.len(), |index| index + 1);
        let route = Route::new(index).ok_or(RouteError::Full)?;
        let core = make(route);
        let slot = Arc::downgrade(&core);
        match table.slots.get_mut(index) {
            Some(free) => *free = slot,
            None => table.slots.push(slot),
        }
        Ok(core)
    }

    /// The dispatcher of a route, if it is alive.
    pub(super) fn get(&self, route: Route) -> Option<Arc<DispatcherCore>> {
        self.0.lock().slots.get(route.index())?.upgrade()
    }

    /// Takes no more dispatchers; returns those that are alive.
    pub(super) fn close(&self) -> Vec<Arc<DispatcherCore>> {
        let mut table = self.0.lock();
        table.closed = true;
        table.slots.iter().filter_map(Weak::upgrade).collect()
    }
}
