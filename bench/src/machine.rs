//! The machine and the versions behind a run: a figure without them means nothing.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where and with what a run was made.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    /// The day the run began, in UTC.
    pub(crate) date: String,
    /// Name and version of every library that is compared with.
    pub(crate) peers: Vec<(String, String)>,
}

impl Machine {
    /// This machine, today.
    pub(crate) fn this() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Machine {
            processor: field(&cpuinfo, "model name").unwrap_or("unknown").into(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: field(&meminfo, "MemTotal")
                .and_then(|size| size.strip_suffix(" kB")?.parse::<f64>().ok())
                .map_or(0.0, |kib| kib / 1024.0 / 1024.0),
            kernel: kernel.trim().into(),
            rustc: env!("BENCH_RUSTC").into(),
            date: since_epoch.map_or(String::new(), |time| date(time.as_secs() / 86_400)),
            peers: peer_versions(include_str!("../../Cargo.lock")),
        }
    }

    /// One line for the head of a report.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} processors, {:.0} GiB, Linux {}, {}, {}",
            self.processor, self.processors, self.memory_gib, self.kernel, self.rustc, self.date
        )
    }

    /// The libraries and their versions, in a line.
    pub(crate) fn peers_line(&self) -> String {
        let peers = self.peers.iter();
        let peers: Vec<String> = peers
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        peers.join(", ")
    }
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

const PEERS: [&str; 16] = [
    "tokio",
    "async-executor",
    "async-io",
    "async-lock",
    "async-channel",
    "async-broadcast",
    "monoio",
    "compio",
    "glommio",
    "may",
    "kanal",
    "flume",
    "oneshot",
    "parking_lot",
    "hyper",
    "axum",
];

fn peer_versions(lock: &str) -> Vec<(String, String)> {
    let version_of = |name: &str| {
        let package = format!("name = \"{name}\"\nversion = \"");
        // The last of several is the newest; older ones are some peer's own.
        let (_, rest) = lock.rsplit_once(&package)?;
        let (version, _) = rest.split_once('"')?;
        Some((name.to_string(), version.to_string()))
    };
    PEERS.into_iter().filter_map(version_of).collect()
}

/// The date `days` after the first of January 1970, in the Gregorian calendar.
///
/// Counts years from March, so that a leap day is the last of its year, in cycles of 400
/// years, which all have the same number of days.
fn date(days: u64) -> String {
    const DAYS_TO_1970: u64 = 719_468; // from the first of March of the year 0
    let days = days + DAYS_TO_1970;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // 0 is March
    let day = day - (153 * month + 2) / 5 + 1;
    let year = cycle * 400 + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(59), "1970-03-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(11_017), "2000-03-01");
        assert_eq!(date(20_088), "2024-12-31");
        assert_eq!(date(20_089), "2025-01-01");
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 7\nmodel name\t: Some CPU\n";
        assert_eq!(field(text, "model name"), Some("Some CPU"));
        assert_eq!(field(text, "name"), None);
    }

    #[test]
    fn a_version_is_that_of_the_package() {
        let lock = "[[package]]\nname = \"tokio\"\nversion = \"1.2.3\"\nsource = \"x\"\n";
        assert_eq!(peer_versions(lock), [("tokio".into(), "1.2.3".into())]);
    }
}
