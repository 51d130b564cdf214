//! `xtask/platform-gaps.txt`: tests that cannot pass under an emulator, and why.
//!
//! A line is `platform package/file::test reason`; `#` starts a comment. The list may only
//! shrink: a failure outside it is an error, and so is a listed test that passes or that does
//! not exist.

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

    #[test]
    fn the_committed_list_has_not_grown() {
        // Lower a number when a gap is closed. None may rise.
        let most = [
            ("poll", 5),
            ("i686", 0),
            ("musl", 0),
            ("aarch64", 16),
            ("armv7", 10),
            ("windows", 4),
        ];
        let names: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name).collect();
        assert_eq!(most.map(|(name, _)| name)[..], names);
        for (name, most) in most {
            let gaps = Gaps::read(Platform::find(name).unwrap()).unwrap();
            assert_eq!(gaps.0.len(), most, "{name}");
        }
    }
}
