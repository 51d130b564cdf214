//! Where a task was spawned, and what it is called: one word.

use std::panic::Location;

/// The spawning line, and a name if one was given.
#[derive(Clone, Debug)]
pub struct Origin(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Anonymous(&'static Location<'static>),
    Named(Box<Named>),
}

#[derive(Clone, Debug)]
struct Named {
    location: &'static Location<'static>,
    name: Box<str>,
}

impl Origin {
    /// A task spawned at `location`.
    pub fn new(location: &'static Location<'static>) -> Self {
        Self(Kind::Anonymous(location))
    }

    /// A task spawned by the caller.
    #[track_caller]
    pub fn caller() -> Self {
        Self::new(Location::caller())
    }

    /// The same place, with a name.
    pub fn named(self, name: &str) -> Self {
        Self(Kind::Named(Box::new(Named {
            location: self.location(),
            name: name.into(),
        })))
    }

    /// The line that spawned the task.
    pub fn location(&self) -> &'static Location<'static> {
        match &self.0 {
            Kind::Anonymous(location) => location,
            Kind::Named(named) => named.location,
        }
    }

    /// The task's name, if it was given one.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Kind::Anonymous(_) => None,
            Kind::Named(named) => Some(&named.name),
        }
    }
}

#[cfg(all(test, not(blitzen_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_origin_knows_its_line_and_name() {
        let plain = Origin::caller();
        assert!(plain.location().file().ends_with("origin.rs"));
        assert_eq!(plain.name(), None);
        let named = plain.clone().named("reader");
        assert_eq!(named.name(), Some("reader"));
        assert_eq!(named.location(), plain.location());
    }
}
