//! How busy the rest of the machine was while something was measured.
//!
//! A figure taken beside a compiler is not a figure. The report shows, for each row,
//! how many processors other processes kept busy, so that nobody takes it for one.

use std::fs;
use std::time::Instant;

/// The start of a stretch of time.
pub(crate) struct ForeignLoad {
    began: Instant,
    machine_busy_s: f64,
    own_s: f64,
}

impl ForeignLoad {
    /// `None` where the kernel does not tell.
    pub(crate) fn begin() -> Option<ForeignLoad> {
        Some(ForeignLoad {
            began: Instant::now(),
            machine_busy_s: machine_busy_s()?,
            own_s: own_s(),
        })
    }

    /// Processors that others kept busy since then, on average.
    pub(crate) fn end(self) -> Option<f64> {
        let busy_s = machine_busy_s()? - self.machine_busy_s;
        let own_s = own_s() - self.own_s;
        Some((busy_s - own_s).max(0.0) / self.began.elapsed().as_secs_f64())
    }
}

fn machine_busy_s() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    // SAFETY: no memory is passed.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(busy_ticks(&stat)? as f64 / ticks_per_s as f64)
}

/// All but the idle and waiting time of the line for all processors. Guests are left
/// out: the kernel counts them as users too.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields = line.split_whitespace().map(|field| field.parse().ok());
    let fields: Vec<u64> = fields.collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

/// This process and the ones it started and waited for.
fn own_s() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| {
            // SAFETY: all zeroes is a valid `rusage`: it is plain numbers.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: `usage` is valid to write to.
            let failed = unsafe { libc::getrusage(who, &mut usage) };
            assert_eq!(failed, 0, "a process may ask what it used");
            seconds(usage.ru_utime) + seconds(usage.ru_stime)
        })
        .sum()
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let stat = "cpu  10 1 5 1000 100 2 3 4 7 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(25));
        assert_eq!(busy_ticks("intr 5\n"), None);
    }
}
