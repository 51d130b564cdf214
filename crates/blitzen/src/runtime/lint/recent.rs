//! The latest lints, kept for the console.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::Lint;
use crate::runtime::json;

/// How many are kept.
const MAX_LINTS: usize = 256;

/// The latest lints of a runtime, oldest first.
#[derive(Default)]
pub(crate) struct RecentLints(Mutex<VecDeque<(Instant, Lint)>>);

impl RecentLints {
    pub(super) fn push(&self, lint: Lint) {
        let mut lints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lints.len() == MAX_LINTS {
            lints.pop_front();
        }
        lints.push_back((Instant::now(), lint));
    }

    /// An array of objects with the fields `kind`, `task`, `worker`, `age_seconds`, `text` and
    /// `stack`, an array of calls.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(crate) fn to_json(&self) -> String {
        let mut out = String::new();
        let lints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        json::push_array(&mut out, &*lints, |object, (at, lint)| {
            object
                .text("kind", lint.kind())
                .optional("task", lint.task().map(|task| task.id()))
                .optional("worker", lint.worker())
                .literal("age_seconds", at.elapsed().as_secs())
                .text("text", lint)
                .texts("stack", lint.stack().iter().map(String::as_str));
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::lint::LintKind;

    #[test]
    fn the_oldest_make_room_for_the_latest() {
        let recent = RecentLints::default();
        recent.push(Lint::new(LintKind::Starved));
        for _ in 0..MAX_LINTS {
            recent.push(Lint::new(LintKind::PoolFull));
        }
        let json = recent.to_json();
        assert_eq!(json.matches(r#""kind":"pool full""#).count(), MAX_LINTS);
        assert!(!json.contains("starved"));
    }
}
