//! `xtask/platform-gaps.txt`: tests that cannot pass under an emulator, and why.
//!
//! A line is `platform package/file::test reason`; `#` starts a comment. A failure outside the list
//! is an error, and so is, in a complete run, a listed test that passes or that does not exist.

use std::collections::{BTreeMap, BTreeSet};

use super::platform::Platform;
use crate::sh::{self, Context, Outcome};

/// Where the package of the published tests is listed.
const PUBLISHED: &str = "tokio/";

/// The gaps of one platform: reasons by name of the test.
pub(crate) struct Gaps(BTreeMap<String, String>);

impl Gaps {
    pub(crate) fn read(platform: &Platform) -> Outcome<Self> {
        let path = sh::root().join("xtask/platform-gaps.txt");
        Self::parse(
            &std::fs::read_to_string(&path).context(path.display())?,
            platform,
        )
    }

    fn parse(text: &str, platform: &Platform) -> Outcome<Self> {
        let mut gaps = BTreeMap::new();
        for line in text.lines() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.splitn(3, ' ');
            let (Some(name), Some(test), Some(reason)) = (words.next(), words.next(), words.next())
            else {
                return Err(format!(
                    "platform-gaps.txt: not `platform package/file::test reason`: {line}"
                )
                .into());
            };
            if Platform::find(name)?.name == platform.name {
                gaps.insert(test.to_owned(), reason.to_owned());
            }
        }
        Ok(Self(gaps))
    }

    pub(crate) fn contains(&self, test: &str) -> bool {
        self.0.contains_key(test)
    }

    /// The published tests among them: file, test and reason.
    pub(crate) fn published(&self) -> Vec<(&str, &str, &str)> {
        let published = self.0.iter().filter_map(|(test, reason)| {
            let (file, test) = test.strip_prefix(PUBLISHED)?.split_once("::")?;
            Some((file, test, reason.as_str()))
        });
        published.collect()
    }

    /// Listed tests of our own crates that are not among `failed`.
    pub(crate) fn without_failure(&self, failed: &BTreeSet<String>) -> Vec<String> {
        let own = self.0.keys().filter(|test| !test.starts_with(PUBLISHED));
        own.filter(|test| !failed.contains(*test))
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platforms::platform::PLATFORMS;

    fn gaps() -> Gaps {
        let text = "# head\n\nmusl blitzen/a::b not there\nmusl tokio/udp::c::d slow\npoll blitzen/e::f no\n";
        Gaps::parse(text, Platform::find("musl").unwrap()).unwrap()
    }

    #[test]
    fn a_platform_has_its_own_lines() {
        assert!(gaps().contains("blitzen/a::b"));
        assert!(!gaps().contains("blitzen/e::f"));
        assert_eq!(gaps().published(), [("udp", "c::d", "slow")]);
    }

    #[test]
    fn a_listed_test_that_has_not_failed_is_stale() {
        assert_eq!(gaps().without_failure(&BTreeSet::new()), ["blitzen/a::b"]);
        let failed = BTreeSet::from(["blitzen/a::b".to_owned()]);
        assert_eq!(gaps().without_failure(&failed), [""; 0]);
    }

    #[test]
    fn a_line_without_a_reason_or_of_no_platform_is_refused() {
        let musl = Platform::find("musl").unwrap();
        assert!(Gaps::parse("musl blitzen/a::b\n", musl).is_err());
        assert!(Gaps::parse("vax blitzen/a::b slow\n", musl).is_err());
    }

    /// The listed tests once more, so that none is added in passing. Remove a line when a gap is
    /// closed.
    const LISTED: &str = "\
poll blitzen/net_handed_out::a_descriptor_closed_while_a_task_waits_on_it_harms_nobody_else
poll tokio/io_async_fd::register_error
poll tokio/io_async_fd::register_with_interest_error
poll tokio/io_async_fd::try_new
poll tokio/io_async_fd::try_with_interest
aarch64 blitzen/calls_refused::a_socket_of_a_worker_that_computes_is_served_without_membarrier
aarch64 blitzen/calls_refused::children_are_awaited_without_pidfds
aarch64 blitzen/calls_refused::timers_fire_without_waits_in_nanoseconds
aarch64 blitzen/completion_refused::a_refused_ring_is_an_error_or_leaves_readiness
aarch64 blitzen/engine_no_threads::blocking_in_place_without_another_thread_cancels_nothing
aarch64 blitzen/fs_refused::each_refusal_leaves_files_that_work
aarch64 blitzen/lint_reports::a_task_that_blocks_in_a_system_call_is_named_with_the_call_and_its_line_once
aarch64 blitzen/lint_reports::a_task_that_waits_for_a_lock_of_std_is_told_from_others
aarch64 blitzen/lint_stacks::a_lock_of_std_is_named_with_its_call
aarch64 blitzen/lint_stacks::a_sleep_is_named_with_its_call_and_lasts_as_long_as_it_should
aarch64 blitzen/lint_stacks::nobody_is_interrupted_unless_asked
aarch64 blitzen/process_faults::a_program_that_is_not_there_or_may_not_be_run_is_an_error
aarch64 blitzen/process_faults::all_of_it_holds_with_sigchld
aarch64 blitzen/process_faults::any_number_of_arguments_and_variables_arrives
aarch64 blitzen/process_faults::no_descriptor_is_left_open
aarch64 driver/ring_refused::each_way_of_refusing_is_recognised
armv7 blitzen/calls_refused::a_socket_of_a_worker_that_computes_is_served_without_membarrier
armv7 blitzen/calls_refused::children_are_awaited_without_pidfds
armv7 blitzen/calls_refused::timers_fire_without_waits_in_nanoseconds
armv7 blitzen/engine_no_threads::blocking_in_place_without_another_thread_cancels_nothing
armv7 blitzen/lint_reports::a_task_that_blocks_in_a_system_call_is_named_with_the_call_and_its_line_once
armv7 blitzen/lint_reports::a_task_that_waits_for_a_lock_of_std_is_told_from_others
armv7 blitzen/process_faults::a_program_that_is_not_there_or_may_not_be_run_is_an_error
armv7 blitzen/process_faults::all_of_it_holds_with_sigchld
armv7 blitzen/process_faults::any_number_of_arguments_and_variables_arrives
armv7 blitzen/process_faults::no_descriptor_is_left_open
windows blitzen/net_resets::a_reset_ends_a_read_that_waits
windows tokio/fs_symlink_dir_windows::symlink_dir_windows
windows tokio/fs_symlink_file_windows::symlink_file_windows
windows tokio/udp::send_to_recv_closed_returns_err
";

    #[test]
    fn the_committed_list_has_these_tests_and_no_others() {
        let mut listed = BTreeSet::new();
        for platform in &PLATFORMS {
            let gaps = Gaps::read(platform).unwrap();
            listed.extend(
                gaps.0
                    .keys()
                    .map(|test| format!("{} {test}", platform.name)),
            );
        }
        let expected: BTreeSet<String> = LISTED.lines().map(str::to_owned).collect();
        assert_eq!(listed, expected);
    }
}
