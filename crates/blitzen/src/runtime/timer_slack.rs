//! The timer slack of worker threads, set so that they wake on time.
//!
//! Linux lets a thread that sleeps with a timeout sleep up to 50 µs longer, to
//! save power; waking takes some 50 µs more. Workers have batched their timers
//! already, and gain nothing from the slack.

/// A guard: the thread wakes as precisely as the system can, until it is
/// dropped.
pub(crate) struct TimerSlack {
    #[cfg(target_os = "linux")]
    slack_before_ns: Option<libc::c_ulong>,
}

#[cfg(target_os = "linux")]
impl TimerSlack {
    pub(crate) fn begin() -> Self {
        const SLACK_NS: libc::c_ulong = 1_000;
        // SAFETY: reads a figure of the calling thread.
        let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        let slack_before_ns = libc::c_ulong::try_from(before).ok();
        if slack_before_ns.is_some_and(|before| before > SLACK_NS) {
            set_slack(SLACK_NS);
        }
        Self { slack_before_ns }
    }
}

#[cfg(target_os = "linux")]
impl Drop for TimerSlack {
    fn drop(&mut self) {
        if let Some(before) = self.slack_before_ns {
            set_slack(before);
        }
    }
}

#[cfg(target_os = "linux")]
fn set_slack(slack_ns: libc::c_ulong) {
    // SAFETY: writes a figure of the calling thread. A system that refuses
    // wakes it a little later.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
}

#[cfg(not(target_os = "linux"))]
impl TimerSlack {
    pub(crate) fn begin() -> Self {
        Self {}
    }
}
